"""Read annotated spans from WebAnno TSV 3, as WebAnno and INCEpTION export it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence
from graphattn.builders._text_lines import TextLines, open_text
from graphattn.builders.readers._rows import Skip, read_groups
from graphattn.builders.readers._samples import SAMPLE_LINES
from graphattn.exceptions import DataError, verbatim

_FIRST_FEATURE = 3
"""Before it are the word's number, offsets and text."""
_VALUE = re.compile(r"((?:[^\\|\[\]]|\\.)+)(?:\[(\d+)\])?(?:\||$)")
"""A value and the number of its span; a span of one word may have none."""
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PER_WORD = ("POS", "Lemma")
"""Layers with a value for each word, which is its tag."""


def read_webanno(path: FilePath, *, layer: str | None = "auto", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read sentences from WebAnno TSV 3, one at a time; words get IOB2 tags of the spans of one layer.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    layer : the layer and its feature, such as ``"NamedEntity.value"``, or one of these names; ``"auto"`` for named
        entities or, if there are none, the only feature; None reads words alone. The features of the layers POS and
        Lemma are tags as they are

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tsv"
    >>> header = "#FORMAT=WebAnno TSV 3.3\\n#T_SP=webanno.custom.Place|kind\\n\\n\\n"
    >>> _ = path.write_text(header + "1-1\\t0-3\\tNew\\tCITY[1]\\t\\n1-2\\t4-8\\tYork\\tCITY[1]\\t\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_webanno(path)]
    [(('New', 'York'), ('B-CITY', 'I-CITY'))]
    """
    with open_text(path) as lines:
        features = _read_header(lines)
        if not features:
            next(lines, None)  # raises the error of the first line
        column = None if layer is None else _choose_feature(features, layer, lines.path)

        def make(rows: list[tuple[int, list[str]]]) -> list[Sentence]:
            whole = [fields for _, fields in rows if "." not in fields[0]]  # others are parts of words
            words, origin = [_unescape(fields[2]) for fields in whole], (lines.path, rows[0][0])
            if column is None:
                return [Sentence(words, origin=origin)]
            at = _FIRST_FEATURE + column
            if features[column].partition(".")[0] in _PER_WORD:
                return [Sentence(words, tags=[_unescape(fields[at]) for fields in whole], origin=origin)]
            values = [(line, fields[0], fields[at]) for line, fields in rows]
            return [Sentence(words, tags=_read_tags(values, features[column]), origin=origin)]

        def parse(content: str) -> list[str] | None:
            if content.startswith("#FORMAT=") and _read_header(lines) != features:
                raise DataError("the layers differ from those at the top", hint="Read joined files one by one.")
            fields = content.rstrip("\r\n").split("\t")
            if content.startswith("#") or fields == [""]:
                return None if content.startswith("#") else []
            if len(fields) < _FIRST_FEATURE + len(features):
                problem = f"{len(fields)} fields, but the header announces {_FIRST_FEATURE + len(features)}"
                raise DataError(problem, hint="Export the file again.")
            return fields

        yield from read_groups(lines, parse, make, skip)


def _read_header(lines: TextLines) -> list[str]:
    """The feature of each column, as ``Layer.feature``; a layer without features has a column, too."""
    features: list[str] = []
    for line in takewhile(lambda line: line.startswith("#") or not line.strip(), lines.sample(SAMPLE_LINES)):
        key, _, value = line.strip().partition("=")
        if key in ("#T_SP", "#T_RL", "#T_CH"):
            layer, *names = value.split("|")
            short = layer.rpartition(".")[2]
            prefix = "" if key == "#T_SP" else "relation "
            features += [f"{prefix}{short}.{name}".rstrip(".") for name in names or [""]]
    return features


def _choose_feature(features: Sequence[str], layer: str, path: str) -> int:
    """The column of the feature that a name, or ``auto``, means."""
    spans = [name for name in features if not name.startswith("relation ") and not name.endswith(".identifier")]
    matching = [name for name in spans if layer in (name, *name.split("."))]
    if layer == "auto":
        matching = [name for name in spans if name == "NamedEntity.value"] or spans
    if len(matching) != 1:
        problem = f"there is no layer {layer!r}" if not matching and layer != "auto" else "several layers have spans"
        problem = "no layer has spans" if not spans else problem
        hint = f"Set {{layer}} to one of: {verbatim(', '.join(spans))}." if spans else "Export a layer of spans."
        raise DataError(problem, path=path, hint=hint, options=("layer",))
    return features.index(matching[0])


def _read_tags(values: list[tuple[int, str, str]], feature: str) -> list[str]:
    """The IOB2 tags of words: of their lines, their numbers (with a point if it is a part of a word), and values."""
    tags: list[str] = []
    before: tuple[str, str] | None = None
    for line, word, value in values:
        spans = [] if value == "_" else _VALUE.findall(value)
        names = " and ".join(repr(_unescape(name)) for name, _ in spans)
        if spans and "." in word:
            hint = "Extend it to the whole word."
            raise DataError(f"the span {names} cuts a word", line=line, field=feature, hint=hint)
        if len(spans) > 1:
            hint = "Keep one of them: a word has one tag."
            raise DataError(f"the spans {names} overlap", line=line, field=feature, hint=hint)
        if spans:
            name, number = spans[0]
            if name == "*" and "." in feature:
                raise DataError("the span has no value", line=line, field=feature, hint="Give it one.")
            name = feature if name == "*" else _unescape(name)
            tags.append(f"I-{name}" if number and (name, number) == before else f"B-{name}")
            before = (name, number)
        elif "." not in word:
            tags.append("O")
            before = None
    return tags


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: _CONTROLS.get(match[1], match[1]), value)

"""Read files and stores of labelled texts, or of sources and targets, for a task."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.builders import Example, Sentence
from graphattn.builders._foreign import reject_markup
from graphattn.builders._paths import display_name, is_store
from graphattn.builders._sentence import TableRow
from graphattn.builders._text_lines import TextLines, open_text, split_suffix
from graphattn.builders.readers import read_corpus, read_labelled_lines, read_parallel, read_table
from graphattn.builders.readers._formats import UnknownFormatError, resolve_like_training
from graphattn.builders.readers._read_corpus import describe_corpus
from graphattn.builders.readers._rows import KeepRow, Skip, raise_or_skip
from graphattn.builders.readers._samples import SAMPLE_LINES, find_parallel_separator
from graphattn.builders.readers._two_files import read_two_files, split_two_files
from graphattn.builders.readers._unlabelled import drop_labels
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, verbatim, warn_caller
from graphattn.models._estimators.tasks.labels import Labels

if TYPE_CHECKING:
    from graphattn.builders.store import Store

_TABLES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_NAMED_COLUMNS = (".csv", ".jsonl", ".ndjson")
_OF_ANY_FORMAT = frozenset({"split", "multilabel", "drop_label", "encoding", "feature_columns", "skip", "keep_row"})
"""Options of :func:`~graphattn.builders.readers.read_corpus` that say nothing about the format of a corpus."""


@dataclass(frozen=True)
class CorpusFiles:
    """Files of a corpus, and how to read them.

    ``training`` says how the training corpus was read, which decides where ``format`` and ``options`` leave it open. If
    it is empty or to be renewed, these files are the training corpus. ``split`` is the rule for raw texts.
    """

    paths: Sequence[str | Path]
    format: str
    options: dict[str, Any]
    training: Mapping[str, Any]
    renew: bool
    split: str


def read_labelled(labels: Labels, kind: str, corpus: CorpusFiles) -> tuple[Any, Mapping[str, Any]]:
    """The examples of files, or a store, with labels; and how the training corpus of this kind was read."""
    options, training = corpus.options, corpus.training
    files = [Path(path) for path in corpus.paths]
    if options.get("drop_label") and any(map(is_store, files)):
        raise ConfigError("{drop_label} is for files; give it to graphattn build", options=("drop_label",))
    corpora: list[Any] = []
    for file in files:
        if is_store(file):
            corpora.append(_open_store(labels, file))
        else:
            items, reading = _read_file(labels, kind, file, corpus.format, options, training)
            corpora.append(items)
            if reading and (corpus.renew or not training):
                training = reading
    if len(corpora) == 1:
        return corpora[0], training
    store = next((file for file, corpus in zip(files, corpora, strict=True) if not isinstance(corpus, list)), None)
    if store is not None:
        hint = "Append them to the store: graphattn build --append."
        raise DataError("a store cannot be combined with other corpora", path=store, hint=hint)
    return list(chain.from_iterable(corpora)), training


def _open_store(labels: Labels, path: Path) -> Store:
    from graphattn.builders.store._store import open_store

    store = open_store(path)
    labels.check_stored(store, path)
    return store


def _read_file(
    labels: Labels, kind: str, path: Path, format: str, options: dict[str, Any], training: Mapping[str, Any]
) -> tuple[list[Example | Sentence], Mapping[str, Any]]:
    skip: Skip | None = options.get("skip")
    keep_row: KeepRow | None = options.get("keep_row")
    items, errors, rows = [], list[DataError](), list[TableRow]()
    receivers = {"skip": errors.append if skip else None, "keep_row": rows.append if keep_row else None}
    reading = {**options, **{name: receive for name, receive in receivers.items() if receive}}
    description: Mapping[str, Any] = {}
    two_files = split_two_files(path) if kind in ("classify", "tag") else None
    if two_files is not None and kind == "tag":
        hint = r"Write it: paste <(sed G WORDS | tr ' ' '\n') <(sed G TAGS | tr ' ' '\n') > NEW.conll."
        raise DataError("are two files; a tagger reads one, a word and its tag on each line", path=path, hint=hint)
    try:
        is_one_text_file = two_files is None and not os.path.isdir(path)
        with open_text(path, options.get("encoding")) if is_one_text_file else nullcontext(path) as source:
            if isinstance(source, TextLines):
                format, reading, description = _resolve_reading(kind, source, format, reading, training)
            items_of_file: Iterator[Example | Sentence]
            if two_files is None:
                items_of_file = read_corpus(source, format=format, task=kind, **reading)
            else:
                items_of_file = _read_texts_and_labels(*two_files, format, reading)
            for number, item in enumerate(items_of_file, 1):
                _, line = getattr(item, "origin", None) or ("", getattr(source, "line", number))
                try:
                    labels.check_item(item, display_name(path), line)
                    if skip and getattr(item, labels.field, None) is None:
                        raise DataError(f"there is no {labels.field}", path=display_name(path), line=line)
                except DataError as error:
                    raise_or_skip(error, errors.append if skip else None)
                else:
                    items.append(item)
                    if keep_row and rows:
                        keep_row(rows[-1])  # those before it are of examples that were left out
                rows.clear()
    except DataError as error:
        error.alternative = None  # it reads texts without labels
        if isinstance(error, UnknownFormatError) and kind == "classify" and os.path.exists(path):
            both = verbatim(f"{path},LABELS")
            error.alternative = f"If another file has a label on each line, give both with a comma: {both}."
        raise
    if errors and not items:
        raise errors[0]
    if skip:
        for each in errors:
            skip(each)
    labels.check_file([getattr(item, labels.field, None) for item in items], path)
    return items, description


def _read_texts_and_labels(
    texts: str, labels: str, format: str, options: Mapping[str, Any]
) -> Iterator[Example | Sentence]:
    """The examples of a file of texts and one of labels; an error for options of columns, which they do not have."""
    known = inspect.signature(read_two_files).parameters.keys() | {"drop_label", "split"}
    unused = [name for name in options if name not in known] + (["format"] if format != "auto" else [])
    if unused:
        problem = f"{verbatim(texts)} and {verbatim(labels)} have a text and a label on each line"
        raise ConfigError(f"{problem}, so leave {{{unused[0]}}} out", options=(unused[0],))
    reading = {name: value for name, value in options.items() if name not in ("drop_label", "split")}
    items = read_two_files(texts, labels, **reading)
    if not options.get("drop_label"):
        return items
    return drop_labels(items, options["drop_label"], labels, options.get("skip"))


def _resolve_reading(
    kind: str, lines: TextLines, format: str, options: dict[str, Any], training: Mapping[str, Any]
) -> tuple[str, dict[str, Any], Mapping[str, Any]]:
    """Format and options of a corpus; where the user leaves them open, those of the training corpus."""
    of_any_format = {name: value for name, value in options.items() if name in _OF_ANY_FORMAT}
    others = {name: value for name, value in options.items() if name not in _OF_ANY_FORMAT}
    format, others = resolve_like_training(lines, training, kind, format, others)
    return format, others | of_any_format, describe_corpus(lines, format=format, task=kind, **others)


def read_pairs(corpus: CorpusFiles) -> tuple[list[Any], list[str]]:
    """Sources and targets of two files, or of a store and a file, or of one table."""
    paths, options = corpus.paths, corpus.options
    if len(paths) == 1 and not os.path.exists(paths[0]):
        paths = str(paths[0]).split(",")
    files = [Path(path) for path in paths]
    if len(files) == 2:
        return _read_two_files(files[0], files[1], options.get("skip"), options.get("encoding"))
    if len(files) != 1:
        hint = "Give sources and targets, or one table of both."
        raise DataError(f"{len(files)} paths are given: {', '.join(map(str, files))}", hint=hint)
    return _read_table(files[0], options, corpus.training)


def describe_pairs(corpus: CorpusFiles) -> dict[str, Any]:
    """How the training corpus was read, if it is a table with names of columns; empty otherwise."""
    names = {role: corpus.options[role] for role in ("text", "second") if corpus.options.get(role)}
    suffix = split_suffix(corpus.paths[0])[0]
    return {"format": _TABLES.get(suffix, "tsv"), "suffix": suffix, **names} if names else {}


def _read_two_files(source: Path, target: Path, skip: Skip | None, encoding: str | None) -> tuple[list[Any], list[str]]:
    from graphattn.builders.store import Store

    is_stored = is_store(source)
    paths = [target if is_stored else source, target]
    files = [open_text(file, encoding) for file in paths] if encoding else paths
    if not is_stored:
        return _split_pairs(list(read_parallel(*files, skip=skip)), source)
    sentences, lines = list(Store(source)), [line for _, line in read_parallel(*files)]
    if len(sentences) != len(lines):
        raise DataError(
            f"has {len(sentences)} texts, {target} has {len(lines)} lines",
            path=source,
            hint="Give one target per source.",
        )
    return sentences, lines


def _split_pairs(pairs: list[tuple[Any, str]], path: Path) -> tuple[list[Any], list[str]]:
    if not pairs:
        raise DataError("no pair can be used", path=path, hint="Give at least one.")
    return [source for source, _ in pairs], [target for _, target in pairs]


def _read_table(path: Path, options: Mapping[str, Any], training: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    pairs, blank, skip = [], [], options.get("skip")
    keep_row: KeepRow | None = options.get("keep_row")
    rows: list[TableRow] = []
    given = {role: options[role] for role in ("text", "second") if options.get(role)}
    with open_text(path, options.get("encoding")) as lines:
        names = resolve_like_training(lines, training, "pair", "auto", given)[1]
        columns = names.get("text", "text"), names.get("second", "second")
        for example in _read_rows(lines, *columns, skip, header=options.get("header"), keep_row=rows.append):
            sides = {"source": example.text, "target": example.second or ""}
            side = next((name for name, content in sides.items() if not content.strip()), None)
            if side is None:
                pairs.append((example.text, example.second or ""))
                if keep_row is not None and rows:
                    keep_row(rows[-1])
                continue
            hint = "Delete the row, or complete it."
            blank.append(DataError(f"the {side} is empty", path=lines.path, line=lines.line, hint=hint))
    if blank and skip is None and len(blank) > 1:
        blank[0].message += f", and {len(blank) - 1:,} more row{'s have' if len(blank) > 2 else ' has'} such a field"
    for error in blank:
        raise_or_skip(error, skip)
    return _split_pairs(pairs, path)


def _warn_of_numbers(rows: Sequence[Sequence[str]], path: str) -> None:
    """Warn of texts that are probably the numbers of the others."""
    for side, texts in zip(("sources", "targets"), zip(*rows, strict=True), strict=True):
        if all(text.strip().isdecimal() for text in texts[1:] or texts):  # the first may be a header
            warn_caller(GraphAttnWarning(f"{path}: the {side} are numbers; are they line numbers instead of texts?"))


def _read_rows(
    lines: TextLines, text: str, second: str, skip: Skip | None, *, header: bool | None, keep_row: KeepRow
) -> Iterator[Example]:
    sample, extension = lines.sample(SAMPLE_LINES), split_suffix(lines)[0]
    reject_markup(sample, lines.path)
    if extension not in _TABLES and "".join(sample[:1]).startswith("{"):
        extension = ".jsonl"
    names = [name.strip() for line in sample[:1] for name in line.split("\t")]
    if extension not in _NAMED_COLUMNS and (header is False or not {text, second} <= {*names}):
        separator = find_parallel_separator(sample)
        if separator is not None and (text, second) == ("text", "second"):  # other names require a header
            columns = ("text", "second")
            _warn_of_numbers([line.split(separator) for line in sample if line.count(separator) == 1], lines.path)
            return read_labelled_lines(lines, columns=columns, separator=separator, header=header, skip=skip)
        if len(names) > 2 and separator is None:
            hint = "Name them in a header, or keep two: cut -f1,2 OLD > NEW.tsv."
            problem = f"{len(names)} fields, of which none is named {text!r} or {second!r}"
            raise DataError(problem, path=lines.path, line=1, hint=hint)
        if extension != ".tsv":
            hint = "Give sources and targets, or a CSV, TSV or JSON Lines of both."
            raise DataError("not a table of sources and targets", path=lines.path, hint=hint)
    format = _TABLES.get(extension, "tsv")
    rows = read_table(lines, text=text, second=second, label=None, format=format, skip=skip, keep_row=keep_row)
    return (row for row in rows if isinstance(row, Example))  # all are, since they have two texts

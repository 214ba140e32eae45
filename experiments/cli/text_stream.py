"""Texts to predict or encode, one at a time: plain lines, words, or the columns of a corpus, which needs no labels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphattn.builders.files import display_name, numbered_lines, open_text, split_suffix
from graphattn.builders.readers import FORMATS, read_labelled_lines
from graphattn.builders.readers.formats import detect_labels, detect_lines, detect_markup, guess_columns, is_stream
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.experiments.cli.corpus_options import (
    CLASSIFY,
    PAIR,
    TAG,
    TRANSLATE,
    CorpusOptions,
    flag_of,
    is_store,
    naming_corpus_flags,
    opened,
    refuse_for_store,
)

_BY_SUFFIX = {
    **{".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"},
    **{".conll": "conll", ".conllu": "conllu"},
}
_PAIR_HEADER = {"text", "second"}
_LOOKED_AT = 8  # lines of a stream that are looked at for another format
_JSON_LINE = re.compile(r'\s*\{\s*"\w+"\s*:')
_WITHOUT_LABELS: dict[str, dict[str, Any]] = {
    **{table: {"label": None} for table in ("csv", "tsv", "jsonl")},
    "fasttext": {"require_label": False, "multilabel": True},
    "conll": {"tag_column": None},
    "conllu": {"tags": None},
}


def read_texts(
    path: str, task: str, options: CorpusOptions, *, split: str | None = None, label_column: str | None = None
) -> Iterator[Any]:
    """Inputs for ``predict`` and ``encode``, in constant memory.

    Labels come along where lines have them anyway, and from a table's column when it is named.

    Parameters
    ----------
    path : a file, a store, or ``-`` for standard input
    task : of the model; a pair's texts stand on one line with a tab between them
    options : format and columns; ``auto`` goes by the file's extension; a ``.tsv`` without header and a file of
        unknown extension are looked into, and hold plain text unless there are labels beside the texts, or the first
        lines are those of a table with its text column, of JSON Lines, or, for a tagger, of columns of words
    split : the model's rule for raw texts, by which a store's must have been cut; None for any
    label_column : the column of a table whose labels come along; what ``options`` say of it has no say

    Returns
    -------
    An iterator over texts, lists of words, examples or sentences; an empty line is an empty text.

    Raises
    ------
    ConfigError
        when the format is unknown or options do not fit it, or a store's texts were cut by another rule
    DataError
        when a line cannot be read
    """
    if path != "-" and is_store(Path(path)):
        refuse_for_store([*options.changed(), *(["label_column"] if label_column else [])], Path(path))
        return _stored(Path(path), task, split)
    wanted = {**options.reader_options(), **({"label": label_column} if label_column else {})}
    format = options.format if options.format != "auto" else _seen(path, task, wanted)
    if format in ("text", "words"):
        if format == "words" and task == PAIR:
            raise ConfigError("--format words is for texts that stand alone; a pair's texts have a tab between them")
        if wanted:
            raise ConfigError(f"{flag_of(next(iter(wanted)))} is of no use for plain text; give --format too")
        return _plain_lines(path, task, words=format == "words", guessed=options.format == "auto")
    if format not in FORMATS:
        raise ConfigError(f"there is no format {format!r}; choose one of: auto, text, words, {', '.join(FORMATS)}")
    return _columns(path, task, format, wanted)


def _seen(path: str, task: str, wanted: dict[str, Any]) -> str:
    """The format of a file, by what is asked of it, its extension and its first lines."""
    found = _BY_SUFFIX.get(split_suffix(path)[0], "text")
    if "columns" in wanted and found in ("csv", "tsv", "text"):
        return "labelled"
    if "token_column" in wanted and found == "text":
        return "conll"
    text_column = wanted.get("text", "text")
    if found == "jsonl" and detect_markup(path, text_column=text_column) == "sentences":
        return "sentences"
    if found not in ("tsv", "text"):
        return found
    named = found
    if found == "tsv" and task == TRANSLATE and not {"text", "quoted"} & wanted.keys() and not is_stream(path):
        with open_text(path) as lines:
            first = [name.strip() for name in next(lines, "").split("\t")]
        if len(first) == 2 and not {*first} >= _PAIR_HEADER:  # as ``train`` and ``evaluate`` read it
            wanted["columns"] = ("text", "second")
            return "labelled"
    if found == "text" or (found == "tsv" and task == TAG):  # neither labels nor markup may become words of the texts
        found = detect_markup(path, text_column=text_column, for_tagging=task == TAG) or found
    if found in ("tsv", "text") and task in (CLASSIFY, PAIR):
        found = detect_labels(path, pair=task == PAIR, text_column=text_column) or found
    if named == "text" and found in ("csv", "tsv", "conll", "word/tag"):  # what plain texts might look like by chance
        _warn(f"{path} looks like the format {found} and is read so; give --format text if its lines are plain texts")
    return found


def _stored(path: Path, task: str, split: str | None) -> Iterator[Any]:
    from graphattn.models.estimators.inputs import check_same_tokenization

    store = opened(path)
    if split is not None:
        check_same_tokenization([store.texts()], split)
    yield from zip(*store.pairs(), strict=True) if task == PAIR else store.texts()


def _plain_lines(path: str, task: str, *, words: bool, guessed: bool) -> Iterator[Any]:
    if task == PAIR:
        with naming_corpus_flags():
            yield from read_labelled_lines(path, columns=("text", "second"))
        return
    begin: list[str] | None = [] if guessed and is_stream(path) else None
    for _, line in numbered_lines(path):
        if begin is not None:
            begin.append(line)
            look = "jsonl" if _JSON_LINE.match(begin[0]) else detect_lines(begin, task=task)
            if look:
                _warn(
                    f"{display_name(path)} is read as plain text, and looks like the format {look}; give --format "
                    f"{look} if it is, --format text if not"
                )
            begin = None if look or len(begin) == _LOOKED_AT else begin
        yield line.split() if words else line


def _warn(message: str) -> None:
    warnings.warn(message, GraphAttnWarning, stacklevel=3)


def _columns(path: str, task: str, format: str, wanted: dict[str, Any]) -> Iterator[Any]:
    with naming_corpus_flags():
        if task == PAIR and format in ("csv", "tsv", "jsonl"):
            wanted.setdefault("second", "second")
        unknown = wanted.keys() - FORMATS[format].options
        if unknown:
            raise ConfigError(f"format {format!r} has no use for {flag_of(min(unknown))}; leave it out")
        if format == "labelled" and "columns" not in wanted:
            wanted["columns"] = guess_columns(path, pair=task == PAIR)
        items = FORMATS[format].read(path, **{**_WITHOUT_LABELS.get(format, {}), **wanted})
        yield from map(_with_few_labels, items) if format == "fasttext" else items


def _with_few_labels(item: Any) -> Any:
    """An example of fastText's format, where the number of labels tells whether there may be several."""
    return replace(item, label=item.label if len(item.label) > 1 else next(iter(item.label), None))

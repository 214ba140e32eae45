"""Texts to predict or encode, one at a time: plain lines, words, or a corpus, which needs no labels."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from graphattn.builders._paths import FilePath, display_name, is_store
from graphattn.builders._sentence import TableRow
from graphattn.builders._text_lines import TextLines, open_text
from graphattn.builders.readers import detect
from graphattn.builders.readers._cells import rename_cell_columns
from graphattn.builders.readers._formats import (
    FORMATS,
    PLAIN,
    corpus_kind,
    require_feature_columns,
    resolve_like_training,
)
from graphattn.builders.readers._rows import iterate_with_errors, split_at_blanks
from graphattn.builders.readers._samples import SAMPLE_LINES
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.corpus_options import CorpusOptions, reject_for_store

_WITHOUT_LABELS: dict[str, dict[str, Any]] = {
    **{table: {"label": None, "require_label": False} for table in ("csv", "tsv", "jsonl")},
    "labelled": {"require_label": False},
    "fasttext": {"require_label": False, "multilabel": True},
    **{columns: {"tag_column": None} for columns in ("conll", "word-table")},
    **{parsed: {"tags": None} for parsed in ("conllu", "conllup", "sentences")},
    "webanno": {"layer": None},
    "folder": {"require_label": False},
}

_PATH = re.compile(
    r"(\.{0,2}|~)/.*|\S*/\S*|\S*\.\w{1,8}|.*\.([ct]sv|txt|jsonl?|conllu?|parquet|gz|xz|bz2)", re.IGNORECASE
)


class NumberedText(NamedTuple):
    """A text (words, an example, a sentence), or the error of one that cannot be read.

    ``line`` counts from 1; a row of a table has the line where it ends, a text of a store its number. ``number`` is the
    place among all texts, from 1.
    """

    line: int
    content: Any
    error: DataError | None = None
    row: TableRow | None = None  # all fields of its row, if they are kept and it has one
    number: int = 1


def is_corpus(text: str) -> bool:
    """Whether an argument names a file, a store or standard input, or looks like a path, and is no text itself."""
    return text == "-" or (bool(text) and os.path.exists(text)) or _PATH.fullmatch(text) is not None


def read_texts(path: str, task: str, options: CorpusOptions, **settings: Any) -> Iterator[Any]:
    """The contents of :func:`read_numbered_texts`; the first error is raised."""
    return map(_content, read_numbered_texts(path, task, options, **settings))


def _content(text: NumberedText) -> Any:
    if text.error is not None:
        raise text.error
    return text.content


def read_numbered_texts(
    path: str,
    task: str,
    options: CorpusOptions,
    *,
    split: str | None = None,
    label_column: str | None = None,
    training: Mapping[str, Any] | None = None,
    labels: Collection[str] = (),
    feature_columns: Sequence[str] = (),
    sample_lines: int = SAMPLE_LINES,
    keep_rows: bool = False,
) -> Iterator[NumberedText]:
    """Read inputs for ``predict`` and ``encode`` in constant memory.

    ``path`` is a file, a store, or ``-`` for standard input; or a text, if it does not look like a path. Labels are
    kept where every line has one anyway, and from a table's ``label_column``. ``split`` is the model's rule for raw
    texts, by which a store's must be tokenized. ``training`` is how the training corpus was read, ``labels`` are those
    that the model knows, and ``feature_columns`` those that it needs, unless the options name others. An empty line is
    an empty text. A text that cannot be read has an error; errors after which reading cannot continue are raised.
    """
    pairs = corpus_kind(task).second is True
    chosen = {**options.reader_options(training or ()), **({"label": label_column} if label_column else {})}
    if "feature_columns" in chosen:
        feature_columns = rename_cell_columns(chosen.pop("feature_columns"), feature_columns)
    if not is_corpus(path):
        if feature_columns:
            require_feature_columns(feature_columns, "text", None)
        return iter([NumberedText(1, _parse_text(path, pairs=pairs, words=options.format == "words"))])
    if path != "-" and is_store(path):
        if feature_columns:
            require_feature_columns(feature_columns, "store", path)
        reject_for_store([*options.non_default, *(["label_column"] if label_column else [])], Path(path))
        stored = _read_store(Path(path), split, pairs=pairs)
        return (NumberedText(number, content) for number, content in enumerate(stored, 1))
    if options.format == "words" and pairs:
        raise ConfigError(
            "{format=words} is for single texts; the texts of a pair have a tab between them", options=("format",)
        )
    encoding, is_folder, format = chosen.pop("encoding", None), os.path.isdir(path), options.format
    source: FilePath = path if encoding is None or is_folder else open_text(path, encoding)
    if training and not is_folder:
        source = open_text(source)
        if format in FORMATS:
            source.sample(sample_lines)  # readers look at no more lines than were read ahead
        format, chosen = resolve_like_training(
            source, training, task, format, chosen, labels=labels, sample_lines=sample_lines
        )
        for name in _WITHOUT_LABELS.get(format, {}):
            # with roles, a sentence is repeated for each predicate
            if not str(chosen.get(name)).endswith("+") and not (name == "label" and label_column):
                chosen.pop(name, None)
        if label_column and label_column != training.get("label"):
            chosen.pop("label_separator", None)
    detected = detect(source, task, "optional", format=format, sample_lines=sample_lines, **chosen)
    if detected.columns is not None:
        chosen["columns"] = detected.columns
    if detected.separator is not None:
        chosen["separator"] = detected.separator
    if is_folder and encoding is not None:
        chosen["encoding"] = encoding
    if feature_columns:
        require_feature_columns(feature_columns, detected.name, source)
        chosen["feature_columns"] = feature_columns
    if detected.name == "text" and pairs:
        return _read_corpus(
            detected.source, "labelled", {"columns": ("text", "second")}, pairs=True, keep_rows=keep_rows
        )
    if detected.name in PLAIN:
        return _read_lines(detected.source, words=detected.name == "words")
    return _read_corpus(detected.source, detected.name, chosen, pairs=pairs, keep_rows=keep_rows)


def _parse_text(text: str, *, pairs: bool, words: bool) -> Any:
    """A text itself as an input."""
    if not pairs:
        return split_at_blanks(text.replace("\n", " ")) if words else text
    pair = text.split("\t")
    if len(pair) != 2:
        hint = "Put a tab between the two texts, $'first\\tsecond' in a shell; or check the path."
        raise DataError(f"{text!r} is not a pair of texts, and no file", hint=hint)
    return tuple(pair)


def _read_store(path: Path, split: str | None, *, pairs: bool) -> Iterator[Any]:
    from graphattn.builders.store._store import open_store
    from graphattn.models._estimators.texts import Texts

    store = open_store(path)
    if split is not None:
        Texts.of(store).check_tokenization(split)
    yield from zip(*store.pairs(), strict=True) if pairs else store.texts()


def _read_lines(source: FilePath, *, words: bool) -> Iterator[NumberedText]:
    with open_text(source) as lines:
        for line in iterate_with_errors(lines):
            if isinstance(line, DataError):
                yield NumberedText(lines.line, None, line)
            else:
                content = line.removesuffix("\n")
                yield NumberedText(lines.line, split_at_blanks(content) if words else content)


def _read_corpus(
    source: FilePath, format: str, options: dict[str, Any], *, pairs: bool, keep_rows: bool
) -> Iterator[NumberedText]:
    entry = FORMATS[format]
    parameters = inspect.signature(entry.read).parameters
    rows: list[TableRow] = []
    if keep_rows and entry.keeps_rows:
        options = {**options, "keep_row": rows.append}
    if pairs and "second" in entry.options:
        options.setdefault("second", "second")
    errors: list[DataError] = []
    if "skip" in parameters:
        options = {**options, "skip": errors.append}
    items = entry.read(source, **{**_WITHOUT_LABELS.get(format, {}), **options})
    return _number(map(_unpack_label, items) if format == "fasttext" else items, source, errors, rows)


def _number(
    items: Iterator[Any], source: FilePath, errors: list[DataError], rows: list[TableRow]
) -> Iterator[NumberedText]:
    """Yield items with their lines and rows, after the errors that were found before them."""
    count = 0
    for item in chain(items, [None]):
        for error in errors:
            count += 1
            in_source = error.path == display_name(source)  # and not in a file of a folder
            yield NumberedText(error.line if in_source and error.line else count, None, error, error.row)
        errors.clear()
        if item is not None:
            count += 1
            origin = getattr(item, "origin", None)
            line = origin[1] if origin else source.line if isinstance(source, TextLines) else count
            yield NumberedText(line, item, row=rows.pop() if rows else None)


def _unpack_label(item: Any) -> Any:
    """A fastText example whose label is no tuple if it has at most one."""
    return replace(item, label=item.label if len(item.label) > 1 else next(iter(item.label), None))

"""Texts to predict or encode, one at a time: plain lines, words, or a corpus, which needs no labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphattn.builders.files import FilePath, is_store, numbered_lines
from graphattn.builders.readers import FORMATS, corpus_kind, detect
from graphattn.builders.readers.formats import PLAIN
from graphattn.builders.readers.samples import SAMPLE_LINES
from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.corpus_options import CorpusOptions, open_store, reject_for_store

_WITHOUT_LABELS: dict[str, dict[str, Any]] = {
    **{table: {"label": None} for table in ("csv", "tsv", "jsonl")},
    "fasttext": {"require_label": False, "multilabel": True},
    "conll": {"tag_column": None},
    "conllu": {"tags": None},
}


def read_texts(
    path: str,
    task: str,
    options: CorpusOptions,
    *,
    split: str | None = None,
    label_column: str | None = None,
    sample_lines: int = SAMPLE_LINES,
) -> Iterator[Any]:
    """Read inputs for ``predict`` and ``encode`` in constant memory.

    Labels are kept where every line has one anyway, and from a table's column that is named.

    Parameters
    ----------
    path : a file, a store, or ``-`` for standard input
    task : of the model; a line has the two texts of a pair with a tab between them
    options : format and columns
    split : the model's rule for raw texts, by which a store's must be tokenized; None for any
    label_column : the column of a table whose labels are kept
    sample_lines : how many lines to read ahead in order to detect the format

    Returns
    -------
    An iterator over texts, lists of words, examples or sentences; an empty line is an empty text.
    """
    pairs = corpus_kind(task).second is True
    if path != "-" and is_store(path):
        reject_for_store([*options.non_default, *(["label_column"] if label_column else [])], Path(path))
        return _read_store(Path(path), split, pairs=pairs)
    if options.format == "words" and pairs:
        raise ConfigError(
            "{format=words} is for single texts; the texts of a pair have a tab between them", options=("format",)
        )
    chosen = {**options.reader_options(), **({"label": label_column} if label_column else {})}
    detected = detect(path, task, "optional", format=options.format, sample_lines=sample_lines, **chosen)
    if detected.columns is not None:
        chosen["columns"] = detected.columns
    if detected.name == "text" and pairs:
        return _read_corpus(detected.source, "labelled", {"columns": ("text", "second")}, pairs=True)
    if detected.name in PLAIN:
        return _read_lines(detected.source, words=detected.name == "words")
    return _read_corpus(detected.source, detected.name, chosen, pairs=pairs)


def _read_store(path: Path, split: str | None, *, pairs: bool) -> Iterator[Any]:
    from graphattn.models.estimators.inputs import check_same_tokenization

    store = open_store(path)
    if split is not None:
        check_same_tokenization([store.texts()], split)
    yield from zip(*store.pairs(), strict=True) if pairs else store.texts()


def _read_lines(source: FilePath, *, words: bool) -> Iterator[str | list[str]]:
    for _, line in numbered_lines(source):
        yield line.split() if words else line


def _read_corpus(source: FilePath, format: str, options: dict[str, Any], *, pairs: bool) -> Iterator[Any]:
    entry = FORMATS[format]
    if pairs and "second" in entry.options:
        options.setdefault("second", "second")
    items = entry.read(source, **{**_WITHOUT_LABELS.get(format, {}), **options})
    return map(_unpack_label, items) if format == "fasttext" else items


def _unpack_label(item: Any) -> Any:
    """A fastText example whose label is no tuple if it has at most one."""
    return replace(item, label=item.label if len(item.label) > 1 else next(iter(item.label), None))

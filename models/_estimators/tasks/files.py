"""Read files and stores of labelled texts for a task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.builders import Example, Sentence
from graphattn.builders._files import TextLines, display_name, is_store, open_text
from graphattn.builders.readers._corpus import describe_corpus
from graphattn.builders.readers._formats import resolve_like_training
from graphattn.builders.readers._rows import Skip, raise_or_skip
from graphattn.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from graphattn.builders.store import Store
    from graphattn.models._estimators.tasks.task import Task

_OF_ANY_FORMAT = frozenset({"split", "multilabel", "drop_label", "skip"})
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


def read_labelled(task: Task, corpus: CorpusFiles) -> tuple[Any, Mapping[str, Any]]:
    """The examples of files, or a store; and how the training corpus was read."""
    options, training = corpus.options, corpus.training
    files = [Path(path) for path in corpus.paths]
    if options.get("drop_label") and any(map(is_store, files)):
        raise ConfigError("{drop_label} is for files; give it to graphattn build", options=("drop_label",))
    corpora: list[Any] = []
    for file in files:
        if is_store(file):
            corpora.append(_open_store(task, file))
        else:
            items, reading = _read_file(task, file, corpus.format, options, training)
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


def _open_store(task: Task, path: Path) -> Store:
    from graphattn.builders.store._store import open_store

    store = open_store(path)
    task.check_stored(store, path)
    return store


def _read_file(
    task: Task, path: Path, format: str, options: dict[str, Any], training: Mapping[str, Any]
) -> tuple[list[Example | Sentence], Mapping[str, Any]]:
    from graphattn.builders.readers import read_corpus

    skip: Skip | None = options.get("skip")
    items, errors = [], list[DataError]()
    reading = {**options, "skip": errors.append} if skip else options
    description: Mapping[str, Any] = {}
    try:
        with nullcontext(path) if os.path.isdir(path) else open_text(path) as source:
            if isinstance(source, TextLines):
                format, reading, description = _resolve_reading(task, source, format, reading, training)
            items_of_file = read_corpus(source, format=format, task=task.corpus_kind, **reading)
            for number, item in enumerate(items_of_file, 1):
                _, line = getattr(item, "origin", None) or ("", getattr(source, "line", number))
                try:
                    task.check_item(item, display_name(path), line)
                    if skip and getattr(item, task.label_field, None) is None:
                        raise DataError(f"there is no {task.label_field}", path=display_name(path), line=line)
                except DataError as error:
                    raise_or_skip(error, errors.append if skip else None)
                else:
                    items.append(item)
    except DataError as error:
        error.alternative = None  # it reads texts without labels
        raise
    if errors and not items:
        raise errors[0]
    if skip:
        for each in errors:
            skip(each)
    task.check_file([getattr(item, task.label_field, None) for item in items], path)
    return items, description


def _resolve_reading(
    task: Task, lines: TextLines, format: str, options: dict[str, Any], training: Mapping[str, Any]
) -> tuple[str, dict[str, Any], Mapping[str, Any]]:
    """Format and options of a corpus; where the user leaves them open, those of the training corpus."""
    of_any_format = {name: value for name, value in options.items() if name in _OF_ANY_FORMAT}
    others = {name: value for name, value in options.items() if name not in _OF_ANY_FORMAT}
    format, others = resolve_like_training(lines, training, task.corpus_kind, format, others)
    return format, others | of_any_format, describe_corpus(lines, format=format, task=task.corpus_kind, **others)

"""Read a corpus in any of the formats, named or detected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from graphattn.builders.files import FilePath, display_name
from graphattn.builders.readers.conll import read_conll
from graphattn.builders.readers.conllu import read_conllu
from graphattn.builders.readers.fasttext import read_fasttext
from graphattn.builders.readers.formats import detect_format, guess_columns, is_stream
from graphattn.builders.readers.labelled_lines import read_labelled_lines
from graphattn.builders.readers.sentences import read_sentences
from graphattn.builders.readers.skipping import Skip
from graphattn.builders.readers.table import read_table
from graphattn.builders.readers.word_tag import read_word_tag
from graphattn.builders.sentence import Example, Sentence
from graphattn.exceptions import ConfigError, DataError, UnusedOptionError


@dataclass(frozen=True)
class CorpusFormat:
    """A way to read a corpus.

    Parameters
    ----------
    read : the reader; its first argument is the path, its keywords are the format's options
    tasks : what its corpora can train
    """

    read: Callable[..., Iterator[Example | Sentence]]
    tasks: frozenset[str]

    @property
    def options(self) -> frozenset[str]:
        """Names of the reader's options."""
        return frozenset(inspect.signature(self.read).parameters) - {"path", "format", "skip"}


_TEXTS = frozenset({"classify", "pair"})
_TAGGED = frozenset({"tag"})

FORMATS: dict[str, CorpusFormat] = {
    "csv": CorpusFormat(partial(read_table, format="csv"), _TEXTS),
    "tsv": CorpusFormat(partial(read_table, format="tsv"), _TEXTS),
    "jsonl": CorpusFormat(partial(read_table, format="jsonl"), _TEXTS),
    "labelled": CorpusFormat(read_labelled_lines, _TEXTS),
    "fasttext": CorpusFormat(read_fasttext, frozenset({"classify"})),
    "conll": CorpusFormat(read_conll, _TAGGED),
    "word/tag": CorpusFormat(read_word_tag, _TAGGED),
    "conllu": CorpusFormat(read_conllu, _TAGGED),
    "sentences": CorpusFormat(read_sentences, frozenset({"classify", "tag"})),
}

_TASKS = ("classify", "pair", "tag")


def read_corpus(
    path: FilePath, *, format: str = "auto", task: str | None = None, skip: Skip | None = None, **options: Any
) -> Iterator[Example | Sentence]:
    """Read the examples or sentences of a corpus, one at a time.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input, which needs a ``format``
    format : a key of ``FORMATS``, or ``"auto"`` to tell it by the extension and the first lines as
        :func:`~graphattn.builders.readers.detect_format` describes
    task : ``"classify"``, ``"pair"`` or ``"tag"`` when it is known; only formats that serve it come into question
    skip : is handed the error of each line or sentence that is left out; None stops at the first. Not for ``conllu``
        and ``sentences``, which a store reads in blocks
    options : options of the format's reader, such as ``text`` and ``label`` (csv, tsv, jsonl), ``columns`` (labelled)
        or ``tag_column`` (conll); only formats that have them come into question, so pass those that matter. For
        pairs ``second`` is ``"second"`` unless given; the ``columns`` of a labelled file are guessed unless given.

    Returns
    -------
    An iterator over :class:`~graphattn.builders.sentence.Example` (csv, tsv, jsonl, labelled, fasttext) or
    :class:`~graphattn.builders.sentence.Sentence` (conll, word/tag, conllu, sentences).

    Raises
    ------
    ConfigError
        when the format, the task or an option is unknown, or they do not go together
    DataError
        when the file cannot be read, its format cannot be told, or it holds no example

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("1\\ta fine film\\n0\\tdull\\n")
    >>> [example.label for example in read_corpus(path)]
    ['1', '0']
    """
    format = corpus_format(path, format=format, task=task, **options)
    options = {**_defaults(path, format, task, options), **options}
    if skip is not None:
        return FORMATS[format].read(path, skip=skip, **options)
    return _at_least_one(FORMATS[format].read(path, **options), display_name(path))


def corpus_format(path: FilePath, *, format: str = "auto", task: str | None = None, **options: Any) -> str:
    """The name of the format as which :func:`read_corpus` reads a corpus, given the same arguments.

    Raises
    ------
    ConfigError
        when the format, the task or an option is unknown, or they do not go together
    DataError
        when the file cannot be read, or its format cannot be told
    """
    _refuse_unknown(options)
    candidates = _formats_with(options) & _formats_for(task)
    if task == "classify" and "second" in (options.get("columns") or ()):
        raise ConfigError("columns name 'second', but a classifier takes one text. Set columns to None for that field.")
    if format == "auto":
        if not candidates:
            raise ConfigError(
                f"no format{'' if task is None else f' for task {task!r}'} has all of the options {_listed(options)}."
                " Set format and only its options."
            )
        look = {"text_column": options.get("text", "text"), "for_tagging": task == "tag"}
        try:
            format = detect_format(
                path, among=candidates, texts_alone=task is None and "labelled" in candidates, **look
            )
        except DataError:
            seen = _format_or_none(path, among=_formats_for(task), **look)
            if seen is None or seen in candidates:
                raise
            raise _misfit(seen, task, options) from None
    elif format not in FORMATS:
        raise ConfigError(f"there is no format {format!r}. Set format to one of {_listed(FORMATS)}, or 'auto'.")
    elif format not in candidates:
        raise _misfit(format, task, options)
    return format


def _format_or_none(path: FilePath, **look: Any) -> str | None:
    try:
        return detect_format(path, **look)
    except DataError:
        return None


def _refuse_unknown(options: dict[str, Any]) -> None:
    known = {name for entry in FORMATS.values() for name in entry.options}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        short = unknown.removesuffix("_column")
        close = [short] if short in known else get_close_matches(unknown, known, n=1)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"no format has an option {unknown!r}. {guess}There are: {_listed(known)}.")


def _formats_with(options: dict[str, Any]) -> set[str]:
    return {name for name, entry in FORMATS.items() if entry.options.issuperset(options)}


def _formats_for(task: str | None) -> set[str]:
    if task is not None and task not in _TASKS:
        raise ConfigError(f"there is no task {task!r}. Set task to one of {_listed(_TASKS)}, or None.")
    return {name for name, entry in FORMATS.items() if task is None or task in entry.tasks}


def _misfit(format: str, task: str | None, options: dict[str, Any]) -> ConfigError:
    if format not in _formats_for(task):
        return ConfigError(
            f"format {format!r} does not serve task {task!r}. Set format to one of {_listed(_formats_for(task))}."
        )
    known = FORMATS[format].options
    return UnusedOptionError(format, options.keys() - known, known)


def _defaults(path: FilePath, format: str, task: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options that follow from the task or the file."""
    # Of a stream nothing can be guessed: label<TAB>text is all but universal, but a pair's label comes first or last.
    if format == "labelled" and "columns" not in options and (task == "pair" or not is_stream(path)):
        return {"columns": guess_columns(path, pair=None if task is None else task == "pair")}
    if task == "pair" and format in ("csv", "tsv", "jsonl") and "second" not in options:
        return {"second": "second"}
    return {}


def _at_least_one(items: Iterator[Example | Sentence], path: str) -> Iterator[Example | Sentence]:
    first = next(iter(items), None)
    if first is None:
        raise DataError("holds no example", path=path, hint="Give a file with at least one.")
    yield first
    yield from items


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"

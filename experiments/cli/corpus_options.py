"""How commands read corpora: the flags that name formats and columns, and errors that speak of those flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, DataError, UnusedOptionError
from graphattn.experiments.cli.flags import as_flag

if TYPE_CHECKING:
    from graphattn.builders import Example, Sentence
    from graphattn.builders.store import Store

CLASSIFY, PAIR, TAG, TRANSLATE = "classify", "pair", "tag", "translate"
TASKS = (CLASSIFY, PAIR, TAG)


def _option(default: Any, help: str, *tasks: str, reader: str | None = None, choices: Any = None) -> Any:
    """A field with its help, the tasks that need it (all by default), and the reader's name for it."""
    metadata = {"help": help, "tasks": tasks or TASKS, "reader": reader, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class CorpusOptions:
    """Where a corpus has its texts, labels and tags.

    This module loads no PyTorch, so that the flags of a command can be listed quickly.
    """

    format: str = _option(
        "auto", "csv, tsv, jsonl, labelled, fasttext, conll, conllu, word/tag or sentences; auto: tell by looking"
    )
    text_column: str = _option("text", "column of the text (csv, tsv, jsonl)", CLASSIFY, PAIR, reader="text")
    second_column: str = _option("second", "column of the other text (csv, tsv, jsonl)", PAIR, reader="second")
    label_column: str = _option("label", "column of the label (csv, tsv, jsonl)", CLASSIFY, PAIR, reader="label")
    label_separator: str | None = _option(None, "what stands between several labels of one text", CLASSIFY)
    columns: tuple[str, ...] = _option(
        (), "what the fields of a file without header hold: label, text, second, none", CLASSIFY, PAIR
    )
    delimiter: str | None = _option(None, "what stands between two fields (csv, tsv)", CLASSIFY, PAIR)
    quoted: bool | None = _option(None, "whether fields may stand in double quotes (csv, tsv)", CLASSIFY, PAIR)
    separator: str | None = _option(None, "what stands between fields (labelled, conll) or word and tag (word/tag)")
    token_column: int = _option(0, "column of the token, from 0; -1 is the last (conll)", TAG)
    tag_column: int = _option(-1, "column of the tag, from 0; -1 is the last (conll)", TAG)
    tags: str = _option("upos", "which tags to read (conllu)", TAG, choices=("upos", "xpos"))
    comment: str | None = _option(None, "what a line to skip begins with (conll)", TAG)

    def changed(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]

    def reader_options(self) -> dict[str, Any]:
        """What differs from the defaults, by the readers' names; only that narrows down the formats."""
        changed = {
            item.metadata["reader"] or item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name != "format" and item.name in self.changed()
        }
        if str(changed.get("label", "")).lower() == "none":
            changed["label"] = None
        for name in {"separator", "delimiter"} & changed.keys():
            changed[name] = changed[name].replace("\\t", "\t")
        if "columns" in changed:
            changed["columns"] = tuple(None if role.lower() in ("none", "") else role for role in changed["columns"])
        return changed


_READER_NAMES = {item.metadata["reader"] or item.name: item.name for item in fields(CorpusOptions)}
_READER_NAMES["multilabel"] = "multilabel"


def flag_of(reader_option: str) -> str:
    """The flag behind a reader's option.

    Examples
    --------
    >>> flag_of("text")
    '--text-column'
    """
    return as_flag(_READER_NAMES[reader_option])


def irrelevant_options(task: str) -> set[str]:
    """Names of the options that a task has no use for."""
    return {item.name for item in fields(CorpusOptions) if task not in item.metadata["tasks"]}


def stream_items(path: Path, options: CorpusOptions) -> Iterator[Example | Sentence]:
    """A corpus of any kind, one example or sentence at a time.

    Raises
    ------
    DataError
        when the corpus is not as it must be
    ConfigError
        when options do not fit each other
    """
    from graphattn.builders.readers import read_corpus

    if is_store(path):
        yield from opened(path)
        return
    with naming_corpus_flags():
        yield from read_corpus(path, format=options.format, **options.reader_options())


def read_items(
    path: Path, task: str, options: CorpusOptions, *, multilabel: bool = False
) -> list[Example | Sentence] | Store:
    """A corpus for an estimator: in memory, or as the store that it is.

    Raises
    ------
    DataError
        when the corpus is not as it must be
    ConfigError
        when options do not fit each other
    """
    if is_store(path):
        refuse_for_store(options.changed(), path)
        store = opened(path)
        if task == TAG and not store.manifest.tags:
            raise DataError("has no tags", path=path, hint="Build it from a corpus of tagged words.")
        if task != TAG:
            _check_labels(store.texts().column("label"), path, task, multilabel=multilabel)
        return store
    from graphattn.builders.readers import read_corpus

    with naming_corpus_flags(labelled=True):
        format, arguments = reader_arguments(path, options, multilabel=multilabel)
        items = list(read_corpus(path, format=format, task=task, **arguments))
    if task == TAG:
        _refuse_missing((getattr(item, "tags", None) for item in items), path, "tags", "tags")
        return items
    labels = [item.label for item in items]
    _check_labels(labels, path, task, multilabel=multilabel)
    if multilabel and labels and all(isinstance(label, str) for label in labels):
        raise DataError(
            f"the label {labels[0]!r} is no list of labels",
            path=path,
            hint="Say what stands between several: --label-separator ',' for instance.",
        )
    return items


def reader_arguments(path: Path, options: CorpusOptions, *, multilabel: bool = False) -> tuple[str, dict[str, Any]]:
    """Format and options for the readers.

    Parameters
    ----------
    path : the corpus
    options : as given
    multilabel : whether a line of a fastText file may have several labels
    """
    arguments = options.reader_options()
    if multilabel and not arguments and _format_of(path, options) == "fasttext":
        return "fasttext", {"multilabel": True}
    return options.format, arguments


def count_texts(items: list[Example | Sentence] | Store) -> int:
    """How many texts or pairs an estimator sees."""
    return len(items) if isinstance(items, list) else len(items.texts())


def _check_labels(labels: Sequence[Any], path: Path, task: str, *, multilabel: bool) -> None:
    """Refuse missing ones, and lists of them where there must be one."""
    _refuse_missing(labels, path, "label", "a label")
    several = next((i for i, label in enumerate(labels) if isinstance(label, tuple)), None)
    if several is not None and not multilabel:
        hint = "Give --multilabel if a text may have several." if task == CLASSIFY else "A pair has one."
        raise DataError(f"text {several + 1} has a list of labels", path=path, hint=hint)


def _refuse_missing(values: Iterable[Any], path: Path, what: str, wanted: str) -> None:
    missing = next((i for i, value in enumerate(values) if value is None), None)
    if missing is not None:
        hint = f"Give each text {wanted}, or leave it out of the file."
        raise DataError(f"text {missing + 1} has no {what}", path=path, hint=hint)


def refuse_for_store(given: Iterable[str], path: Path) -> None:
    """Refuse flags that say how a corpus is to be read where a store is read.

    Parameters
    ----------
    given : names of the options that were changed
    path : the store

    Raises
    ------
    ConfigError
        naming the first
    """
    for name in given:
        raise ConfigError(f"{path} is a store, whose texts are read already; leave {as_flag(name)} out")


def is_store(path: Path) -> bool:
    """Whether this is a folder that ``graphattn build`` wrote."""
    return path_test((path / "store.json").is_file)


def path_test(asked: Callable[[], bool]) -> bool:
    """What a question about a path is answered with; no for a text, which may be too long for a path."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def opened(path: Path) -> Store:
    """A store with something in it.

    Raises
    ------
    DataError
        when it holds no sentence
    """
    from graphattn.builders.store import Store

    store = Store(path)
    if not len(store):
        raise DataError("holds no sentence", path=path, hint="Build it from a corpus with at least one.")
    return store


def _format_of(path: Path, options: CorpusOptions) -> str:
    from graphattn.builders.readers import FORMATS, detect_format

    return detect_format(path, among=FORMATS) if options.format == "auto" else options.format


@contextmanager
def naming_corpus_flags(*, labelled: bool = False) -> Iterator[None]:
    """Let the errors of readers speak of flags where they speak of arguments.

    Parameters
    ----------
    labelled : whether texts without labels will not do, so that to read such is no way out
    """
    try:
        yield
    except DataError as error:
        hint = None if error.hint is None else in_corpus_flags(error.hint)
        if labelled and hint is not None:
            hint = _WITHOUT_LABELS.sub("", hint) or None
        raise DataError(error.message, path=error.path, line=error.line, field=error.field, hint=hint) from error
    except UnusedOptionError as error:
        flags = " and ".join(map(flag_of, error.names))
        raise ConfigError(
            f"format {error.format!r} has no use for {flags}; leave that out, or choose another --format"
        ) from error
    except ConfigError as error:
        raise ConfigError(in_corpus_flags(str(error))) from error


_WITHOUT_LABELS = re.compile(r"[,;] (or|set --label-column) to None to read texts alone")
"""What readers advise where labels are not there."""


def in_corpus_flags(text: str) -> str:
    """Advice to set an argument of a reader as advice to give a flag.

    Examples
    --------
    >>> in_corpus_flags("Set text to one of them.")
    'Set --text-column to one of them.'
    >>> in_corpus_flags("Set multilabel to True.")
    'Give --multilabel.'

    What is no flag is no advice either.

    >>> in_corpus_flags("Add the label, or set require_label to False.")
    'Add the label.'
    """
    text = re.sub(r", or set (\w+_\w+) to \w+", lambda match: match[0] if match[1] in _READER_NAMES else "", text)

    def replaced(match: re.Match[str]) -> str:
        if match["name"] not in _READER_NAMES:
            return match[0]
        flag = flag_of(match["name"])
        if match["truth"]:
            verb = "Give" if match["verb"] == "Set" else "give"
            return f"{verb} {flag if match['truth'] == 'True' else flag.replace('--', '--no-', 1)}"
        return f"{match['verb']} {flag}"

    return re.sub(r"\b(?P<verb>[Ss]et) (?P<name>\w+)\b(?: to (?P<truth>True|False)\b)?", replaced, text)

"""How commands read corpora: the flags that name formats and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from graphattn.builders import Example, Sentence
    from graphattn.builders.store import Store

CLASSIFY, PAIR, TAG, TRANSLATE = "classify", "pair", "tag", "translate"
TASKS = (CLASSIFY, PAIR, TAG)


def _option(default: Any, help: str, *tasks: str, reader: str | None = None, choices: Any = None) -> Any:
    """A field with its help, the tasks that use it (all by default), and the reader's name for it."""
    metadata = {"help": help, "tasks": tasks or TASKS, "reader": reader, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class CorpusOptions:
    """Where a corpus has its texts, labels and tags.

    This module does not import PyTorch, so that ``--help`` is quick.
    """

    format: str = _option(
        "auto", "csv, tsv, jsonl, labelled, fasttext, conll, conllu, word/tag, sentences or your own; auto: detect"
    )
    text_column: str = _option("text", "column of the text (csv, tsv, jsonl)", CLASSIFY, PAIR, TRANSLATE, reader="text")
    second_column: str = _option(
        "second", "column of the other text (csv, tsv, jsonl)", PAIR, TRANSLATE, reader="second"
    )
    label_column: str = _option("label", "column of the label (csv, tsv, jsonl)", CLASSIFY, PAIR, reader="label")
    label_separator: str | None = _option(None, "characters between several labels of one text", CLASSIFY)
    columns: tuple[str, ...] = _option((), "fields of a file without header: label, text, second, none", CLASSIFY, PAIR)
    delimiter: str | None = _option(None, "character between two fields (csv, tsv)", CLASSIFY, PAIR)
    quoted: bool | None = _option(None, "whether fields may be in double quotes (csv, tsv)", CLASSIFY, PAIR)
    separator: str | None = _option(None, "characters between fields (labelled, conll) or word and tag (word/tag)")
    token_column: int = _option(0, "column of the token, from 0; -1 is the last (conll)", TAG)
    tag_column: int = _option(-1, "column of the tag, from 0; -1 is the last (conll)", TAG)
    tags: str = _option("upos", "which tags to read (conllu)", TAG, choices=("upos", "xpos"))
    comment: str | None = _option(None, "first characters of a line to skip (conll)", TAG)

    def changed(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]

    def reader_options(self) -> dict[str, Any]:
        """The changed options by the readers' names; defaults must not narrow down the formats."""
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


def irrelevant_options(task: str) -> set[str]:
    """Names of the options that a task does not use."""
    return {item.name for item in fields(CorpusOptions) if task not in item.metadata["tasks"]}


def stream_items(path: Path, options: CorpusOptions) -> Iterator[Example | Sentence]:
    """Read a corpus or store, one example or sentence at a time."""
    from graphattn.builders.readers import read_corpus

    if is_store(path):
        return iter(open_store(path))
    return read_corpus(path, format=options.format, **options.reader_options())


def count_texts(items: list[Example | Sentence] | Store) -> int:
    """The number of texts or pairs that an estimator sees."""
    return len(items) if isinstance(items, list) else len(items.texts())


def reject_for_store(given: Iterable[str], path: Path) -> None:
    """Reject options of reading where a store is read."""
    for name in given:
        raise ConfigError(f"{path} is a store, whose texts are read already; leave {{{name}}} out", options=(name,))


def is_store(path: Path) -> bool:
    """Whether this is a folder that ``graphattn build`` wrote."""
    return path_test((path / "store.json").is_file)


def path_test(test: Callable[[], bool]) -> bool:
    """The result of a test of a path; False for a text that cannot be one."""
    try:
        return test()
    except (OSError, ValueError):
        return False


def open_store(path: Path) -> Store:
    """Open a store that is not empty."""
    from graphattn.builders.store import Store

    store = Store(path)
    if not len(store):
        raise DataError("has no sentence", path=path, hint="Build it from a corpus with at least one.")
    return store

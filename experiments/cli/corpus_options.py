"""How commands read corpora: the flags that name formats, columns and the parser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, verbatim
from graphattn.experiments.cli.flags import Flag, Values, flags_of

if TYPE_CHECKING:
    from graphattn.builders import Example, Sentence
    from graphattn.builders.parsers import Parser
    from graphattn.builders.readers import CorpusKind
    from graphattn.builders.store import Store

CLASSIFY, PAIR, TAG, TRANSLATE = "classify", "pair", "tag", "translate"
NONE = "none"


def _option(
    default: Any,
    help: str,
    applies: Callable[[CorpusKind], bool] = lambda kind: not kind.target,
    *,
    reader: str | None = None,
    choices: tuple[str, ...] | None = None,
    common: bool = False,
) -> Any:
    """A field with its help, the kinds of corpora it applies to, the reader's name, and whether ``--help`` lists it."""
    metadata = {"help": help, "applies": applies, "reader": reader, "choices": choices, "common": common}
    return field(default=default, metadata=metadata)


def _has_text(kind: CorpusKind) -> bool:
    return kind.label or kind.target


def _has_second_text(kind: CorpusKind) -> bool:
    return kind.second is not False or kind.target


def _has_label(kind: CorpusKind) -> bool:
    return kind.label


def _has_label_or_tags(kind: CorpusKind) -> bool:
    return kind.label or kind.tags


def _may_have_several_labels(kind: CorpusKind) -> bool:
    return kind.label and not kind.second


def _has_tags(kind: CorpusKind) -> bool:
    return kind.tags


@dataclass(frozen=True)
class CorpusOptions:
    """Where a corpus has its texts, labels and tags.

    This module does not import PyTorch, so that ``--help`` is quick.
    """

    format: str = _option(
        "auto",
        "csv, tsv, jsonl, labelled, fasttext, conll, conllu, conllup, word/tag, sentences, spans, webanno, folder or "
        "your own; auto: detect",
        common=True,
    )
    text_column: str = _option(
        "text",
        "column of the text, or several to join: title,body (csv, tsv, jsonl)",
        _has_text,
        reader="text",
        common=True,
    )
    second_column: str = _option(
        "second", "column of the other text (csv, tsv, jsonl)", _has_second_text, reader="second", common=True
    )
    label_column: str = _option(
        "label",
        "column of the label, or none, or several of 0 and 1: joy,anger (csv, tsv, jsonl)",
        _has_label,
        reader="label",
        common=True,
    )
    label_separator: str | None = _option(
        None, "characters between several labels of one text", _may_have_several_labels
    )
    text_separator: str | None = _option(
        None, "characters between the two texts of a pair in one column", lambda kind: kind.second is not False
    )
    columns: tuple[str, ...] = _option(
        (),
        "what each field holds: label, text, second, none; ... skips the rest (labelled); of trees: index, token, tag, "
        "head, deprel, none",
        _has_label_or_tags,
    )
    drop_label: Sequence[str] = _option(
        (), "label that stands for none, such as -: leave its texts, or words, out; may be repeated", _has_label_or_tags
    )
    header: bool | None = _option(
        None, "whether the first line names columns (labelled, conll; default: decide by the lines)"
    )
    delimiter: str | None = _option(None, "character between two fields (csv, tsv)", _has_label)
    quoted: bool | None = _option(None, "whether fields may be in double quotes (csv, tsv)", _has_label)
    separator: str | None = _option(None, "characters between fields (labelled, conll) or word and tag (word/tag)")
    token_column: int | None = _option(
        None, "column of the token, from 0; -1 is the last (conll; default: the first that does not count)", _has_tags
    )
    tag_column: int | str = _option(
        -1,
        "column of the tag, from 0; -1 is the last; 11+ for columns of semantic roles (conll)",
        _has_tags,
        common=True,
    )
    predicate_column: int | None = _option(
        None,
        "column that marks the predicate whose roles are tagged, from 0; others have 0, -, _ or O (conll)",
        _has_tags,
    )
    tags: str = _option(
        "upos",
        "column of the tags, such as xpos or parseme:mwe, or the values of a key: misc:KEY (conllu, conllup), or the "
        "field (sentences)",
        _has_tags,
        common=True,
    )
    layer: str = _option("auto", "layer or feature whose spans are the tags, such as NamedEntity (webanno)", _has_tags)
    comment: str | None = _option(None, "first characters of a line to skip (conll)", _has_tags)

    @property
    def non_default(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]

    def reader_options(self) -> dict[str, Any]:
        """The options to pass to a reader, by its names; defaults must not narrow down the formats."""
        options = {
            item.metadata["reader"] or item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name != "format" and item.name in self.non_default
        }
        for name in {"text", "second", "label"} & options.keys():
            if "," in (options[name] or ""):
                options[name] = tuple(map(str.strip, options[name].split(",")))
        for name in {"separator", "delimiter"} & options.keys():
            options[name] = options[name].replace("\\t", "\t")
        if "columns" in options:
            options["columns"] = tuple(None if role.lower() in (NONE, "") else role for role in options["columns"])
        return options


def irrelevant_options(kind: CorpusKind) -> set[str]:
    """Names of the options that do not apply to a kind of corpus."""
    return {item.name for item in fields(CorpusOptions) if not item.metadata["applies"](kind)}


@dataclass(frozen=True)
class ParserOptions:
    """:class:`~graphattn.models.ParsingOptions` for commands, whose ``--help`` must not load PyTorch."""

    parser: str = _option(NONE, "parser of texts without heads", choices=(NONE, "stanza"), common=True)
    parser_model: str | None = _option(None, "folder of the parser's models (default: its own folder)")
    parser_language: str = _option("en", "language of the parser's models")
    parser_device: str | None = _option(None, "cpu, cuda or cuda:1 (default: a GPU if there is one)")
    parser_cuts: bool = _option(False, "let the parser split raw texts into sentences and words")
    parse_cache: str | None = _option("auto", "file that caches parses, or none; auto: one in the user's cache folder")
    parser_package: str = _option("default", "name of the parser's models")

    @property
    def device(self) -> str | None:
        """Where the parser works: None for a GPU if there is one; ``"cpu"`` without a parser."""
        return "cpu" if self.parser == NONE else self.parser_device

    def create_parser(self) -> Parser | None:
        """The parser, which loads its models when it is used; None for no parser."""
        if self.parser == NONE:
            return None
        from graphattn.builders.parsers import StanzaParser
        from graphattn.builders.parsers.cache import with_cache

        parser = StanzaParser(self.parser_language, self.parser_model, self.parser_package, self.parser_device)
        return with_cache(parser, self.parse_cache)


def parser_flags() -> list[Flag]:
    """The flags that change the parser of a trained model."""
    flags = flags_of(ParserOptions(), "Parser (default: that of the training)", without={"parser_cuts"})
    return [replace(flag, default=None) for flag in flags]


def split_parser_flags(given: Values) -> tuple[Values, Values]:
    """The given flags of the parser, and all others."""
    names = {flag.name for flag in parser_flags()}
    parser = {name: value for name, value in given.items() if name in names}
    return parser, {name: value for name, value in given.items() if name not in names}


def stream_items(path: Path, options: CorpusOptions) -> Iterator[Example | Sentence]:
    """Read a corpus or store, one example or sentence at a time."""
    from graphattn.builders.files import is_store
    from graphattn.builders.readers import read_corpus

    if is_store(path):
        from graphattn.builders.store.store import open_store

        return iter(open_store(path))
    return read_corpus(path, format=options.format, **options.reader_options())


def count_texts(items: list[Example | Sentence] | Store) -> int:
    """The number of texts or pairs that an estimator sees."""
    return len(items) if isinstance(items, list) else len(items.texts())


def reject_for_store(options: Iterable[str], path: Path) -> None:
    """Reject options of readers, since a store needs none."""
    for name in options:
        raise ConfigError(
            f"{verbatim(path)} is a store, whose texts are read already; leave {{{name}}} out", options=(name,)
        )

"""Flags for reading corpora: formats, columns and the parser."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, verbatim
from graphattn.options import Option, Options, ParsingOptions, list_options, option

if TYPE_CHECKING:
    from graphattn.builders.readers._formats import CorpusKind
    from graphattn.models import Task

CLASSIFY, PAIR, TAG, TRANSLATE = "classify", "pair", "tag", "translate"
NONE = "none"


@dataclass
class CorpusOptions(Options):
    """Location of the texts, labels and tags in a corpus.

    An option is one ``of`` corpora that have one of these: a label, several labels, tags, a second or a target text.
    """

    format: str = option(
        "auto",
        "csv, tsv, jsonl, labelled, fasttext, conll, conllu, conllup, word/tag, word-table, sentences, spans, webanno, "
        "folder or your own; auto: detect",
        common=True,
    )
    text_column: str = option(
        "text",
        "column of the text, or several to join: title,body (csv, tsv, jsonl)",
        of=("label", "target"),
        reader="text",
        common=True,
    )
    second_column: str = option(
        "second", "column of the other text (csv, tsv, jsonl)", of=("second", "target"), reader="second", common=True
    )
    label_column: str = option(
        "label",
        "column of the label, or none, or several of 0 and 1: joy,anger (csv, tsv, jsonl)",
        of=("label",),
        reader="label",
        common=True,
    )
    label_separator: str | None = option(None, "characters between several labels of one text", of=("labels",))
    text_separator: str | None = option(
        None, "characters between the two texts of a pair in one column", of=("second",)
    )
    columns: tuple[str, ...] = option(
        (),
        "what each field holds: label, text, second, none; ... skips the rest (labelled); of trees: index, token, tag, "
        "head, deprel, none",
    )
    drop_label: Sequence[str] = option(
        (),
        "label that stands for none, such as -: leave its texts, or words, out; may be repeated",
    )
    header: bool | None = option(
        None, "whether the first line names columns (labelled, conll; default: decide by the lines)"
    )
    delimiter: str | None = option(None, "character between two fields (csv, tsv, word-table)")
    quoted: bool | None = option(None, "whether fields may be in double quotes (csv, tsv, labelled, word-table)")
    separator: str | None = option(None, "characters between fields (labelled, conll) or word and tag (word/tag)")
    sentence_column: int | str | None = option(
        None,
        "column that numbers the sentences, or several: doc_id,sentence_id (word-table, conll; default: by its name)",
        of=("tags",),
    )
    token_column: int | str | None = option(
        None,
        "column of the token, from 0; -1 is the last (conll; default: the first that does not count), or its name "
        "(word-table)",
        of=("tags",),
    )
    tag_column: int | str = option(
        -1,
        "column of the tag, from 0; -1 is the last; 11+: columns of semantic roles (conll); or its name (word-table)",
        of=("tags",),
        common=True,
    )
    predicate_column: int | None = option(
        None,
        "column that marks the predicate whose roles are tagged, from 0; others have 0, -, _ or O (conll)",
        of=("tags",),
    )
    feature_columns: tuple[str, ...] = option(
        (),
        "further columns that are features: of texts, when a model has them, NAME=COLUMN if the file has another name "
        "(csv, tsv, jsonl); of words, 1 or pos=1 (conll), upos,feats:Number (conllu, conllup), a field (sentences)",
        of=("label", "tags"),
        common=True,
    )
    tags: str = option(
        "upos",
        "column of the tags, such as xpos or parseme:mwe, or the values of a key: misc:KEY (conllu, conllup), or the "
        "field (sentences)",
        of=("tags",),
        common=True,
    )
    layer: str = option(
        "auto", "layer or feature whose spans are the tags, such as NamedEntity (webanno)", of=("tags",)
    )
    comment: str | None = option(None, "first characters of a line to skip (conll)", of=("tags",))
    encoding: str | None = option(
        None, "encoding of the file, such as cp1252 (default: UTF-8)", of=("label", "tags", "target")
    )

    @property
    def non_default(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]

    def reading(self, training: Collection[str] = ()) -> dict[str, Any]:
        """The arguments of :func:`~graphattn.builders.readers.read_corpus`; ``training`` as below."""
        return {"format": self.format, **self.reader_options(training)}

    def reader_options(self, training: Collection[str] = ()) -> dict[str, Any]:
        """The options to pass to a reader, by its names; defaults must not narrow down the formats.

        A default value that was set is passed, too, where it replaces an option that the ``training`` corpus was read
        with.
        """
        options = {
            name: getattr(self, item.name)
            for item in fields(self)
            for name in [item.metadata.get("reader", item.name)]
            if getattr(self, item.name) != item.default or (item.name in vars(self) and name in training)
        }
        options.pop("format", None)
        for name in {"text", "second", "label", "sentence_column"} & options.keys():
            if "," in str(options[name] or ""):
                options[name] = tuple(map(str.strip, options[name].split(",")))
        for name in {"separator", "delimiter"} & options.keys():
            options[name] = options[name] and options[name].replace("\\t", "\t")
        if "columns" in options:
            options["columns"] = tuple(None if role.lower() in (NONE, "") else role for role in options["columns"])
        return options


def name_corpora(task: type[Task], paths: Sequence[str | Path]) -> dict[str, Sequence[str | Path]]:
    """Name -> paths of each corpus to evaluate; each path is one, except a file of sources and one of targets."""
    joined = task.source_and_target_files and not all("," in str(path) for path in paths)
    corpora = [paths] if joined else [[path] for path in paths]
    return {" ".join(map(str, corpus)): corpus for corpus in corpora if corpus}


def irrelevant_options(kind: CorpusKind) -> set[str]:
    """Names of the options that do not apply to a kind of corpus."""
    has = {
        "label": kind.label,
        "labels": kind.label and not kind.second,
        "tags": kind.tags,
        "second": kind.second is not False,
        "target": kind.target,
    }
    applies = {item.name: item.metadata.get("of", ("label", "tags")) for item in fields(CorpusOptions)}
    return {name for name, any_of in applies.items() if not any(has[fact] for fact in any_of)}


def parser_flags() -> list[Option]:
    """The flags that change the parser of a trained model."""
    return [
        replace(flag, default=None) for flag in list_options(ParsingOptions, "Parser (default: that of the training)")
    ]


def reject_for_store(options: Iterable[str], path: Path) -> None:
    """Reject options of readers, since a store needs none."""
    for name in options:
        raise ConfigError(
            f"{verbatim(path)} is a store, whose texts are read already; leave {{{name}}} out", options=(name,)
        )

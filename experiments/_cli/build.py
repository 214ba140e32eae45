"""``graphattn build``: build a store of corpora."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.corpus_options import PAIR, CorpusOptions
from graphattn.experiments._cli.flags import Address, EngineName, Jobs, Values, with_flags
from graphattn.experiments._cli.output import show_progress
from graphattn.experiments._cli.resumable import make_engine
from graphattn.options import ParsingOptions, list_options, option

if TYPE_CHECKING:
    from graphattn.builders import Vocabulary
    from graphattn.builders._jobs import Engine
    from graphattn.builders.relations import Relation
    from graphattn.builders.store import CorpusFile, Manifest, StoreSettings

EXAMPLES = (
    "graphattn build train.tsv --out store\n\n"
    "graphattn build train.conllu --relations window:3,window:N/4,group,dependency --level bpe --out store\n\n"
    "graphattn build pairs.jsonl --pairs --out store\n\n"
    "graphattn build texts.csv --relations dependency --parser stanza --jobs 4 --out store"
)
_LEARN = {"level": "word", "split": None, "lowercase": True, "min_count": 1, "size": None}
"""Default options of the vocabulary."""
_SKIP = "Or skip and list such lines with --skip-bad."


@dataclass
class StoreParsing(ParsingOptions):
    """Options of the parser for the texts of a store."""

    parser_cuts: bool = option(False, "let the parser split raw texts into sentences and words")

    @property
    def device(self) -> str | None:
        """Device of the parser: None for a GPU if there is one; ``"cpu"`` without a parser."""
        return "cpu" if self.parser == "none" else self.parser_device


@with_flags(
    parser=list_options(StoreParsing, "Parser"),
    flag_values=list_options(CorpusOptions, "Corpus", without={"predicate_column", "feature_columns"}),
)
def build(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS", help="Corpora; several are read as one.")],
    flag_values: Values,
    parser: Values,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the store.")],
    relations: Annotated[
        str,
        typer.Option(
            help="Kinds of edges: window:3, window:N/16, radius:1, group, dependency (or dependency:token), in, "
            "forward, backward, all, and others of graphattn.builders.relations; numbers of heads are ignored."
        ),
    ] = "window:1,window:3,window:N/16,window:N/8,window:N/4",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Keep both texts of each pair; implied by --second-column.")
    ] = False,
    multilabel: Annotated[
        bool, typer.Option("--multilabel", help="A text may have several labels: fastText lines, or lists in cells.")
    ] = False,
    level: Annotated[Literal["word", "bpe"], typer.Option(help="What a token is: a word or a sub-word.")] = "word",
    split: Annotated[
        Literal["web", "words", "whitespace"] | None,
        typer.Option(help="How to split raw texts into words (default: as in the store; web in a new one)."),
    ] = None,
    lowercase: Annotated[bool, typer.Option(help="Ignore case in the vocabulary.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words become \\[UNK].")] = 1,
    vocabulary_size: Annotated[int | None, typer.Option(help="Maximum size of the vocabulary.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json to use instead of a new one.")] = None,
    cls: Annotated[bool, typer.Option(help="Put a \\[CLS] token before each text.")] = True,
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    append: Annotated[bool, typer.Option("--append", help="Add the corpora after those in the store.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip sentences that cannot be used, and list them.")
    ] = False,
    shard_size: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="MiB of text in a shard (default: 1,000 texts or more; 32, or 1 with a parser, at most)."
        ),
    ] = None,
    materialize: Annotated[
        bool, typer.Option("--materialize", help="Also write the graphs, for dgl.load_graphs.")
    ] = False,
) -> None:
    """Build a store of corpora: sentences as columns, from which batches of graphs are built at memory speed.

    Run the same command again to resume after an interruption; the store gets the same bytes. The folder has Parquet
    files, tokenizer.json, skipped.jsonl and store.json with counts.
    """
    from graphattn.builders import TextGraphBuilder
    from graphattn.builders.parsers import make_parser
    from graphattn.builders.store import CorpusFile, StoreSettings

    if materialize:
        from graphattn._dgl_graphs import import_dgl

        import_dgl()  # reports a missing package before the store is built
    parsing, corpus_options = StoreParsing(**parser), CorpusOptions(**flag_values)
    learn = {"level": level, "split": split, "lowercase": lowercase, "min_count": min_count, "size": vocabulary_size}
    vocabulary = None if tokenizer is None else _load_vocabulary(tokenizer, learn)
    if split is None:
        del learn["split"]
    settings = StoreSettings(
        TextGraphBuilder(_parse_relations(relations), cls=cls, vocabulary=vocabulary),
        learn=learn if vocabulary is None else {},
        skip=skip_bad,
        parser=make_parser(parsing),
        raw=parsing.parser_cuts,
        block_bytes=None if shard_size is None else round(shard_size * (1 << 20)),
    )
    task = PAIR if pairs or "second_column" in flag_values else None
    arguments = {**corpus_options.reader_options(), "multilabel": multilabel, "split": split}
    corpora = [CorpusFile(path, corpus_options.format, arguments, task) for path in corpus]
    executor = make_engine(engine, jobs, address, parsing.device, device_flag="--parser-device")
    _build(corpora, out, settings, executor, append=append, materialize=materialize)


def _build(
    corpora: list[CorpusFile], out: Path, settings: StoreSettings, engine: Engine, *, append: bool, materialize: bool
) -> None:
    """Build the store and its graphs, and print what they contain."""
    from graphattn.builders.store import Store, build_store
    from graphattn.builders.store import _datasets as datasets
    from graphattn.builders.store._manifest import GRAPHS

    try:
        manifest = build_store(corpora, out, settings, engine=engine, append=append, watch=show_progress)
        _print_counts(manifest, out)
        if materialize:
            store = Store(out)
            datasets.materialize(store, store.builder(settings.builder))
            print(f"graphs: {out / GRAPHS}")
    except DataError as error:
        if error.skippable:
            error.hint = f"{error.hint} {_SKIP}" if error.hint else _SKIP
        raise
    finally:
        engine.close()


def _load_vocabulary(tokenizer: Path, learn: dict[str, Any]) -> Vocabulary:
    from graphattn.builders import Vocabulary

    if learn != _LEARN:
        raise ConfigError(
            "--tokenizer has its own vocabulary and rule; leave out --level, --split, --no-lowercase, --min-count and "
            "--vocabulary-size"
        )
    return Vocabulary.load(tokenizer)


def _parse_relations(names: str) -> list[Relation]:
    from graphattn.builders.relations import parse_relations

    relations = parse_relations(names)
    for part in (part for relation in relations for part in relation.parts() if part.needs_vectors):
        raise ConfigError(
            f"relation {part.name!r} compares word vectors, which a store does not have; leave it out of --relations, "
            "and give it to graphattn train with --heads and --vectors"
        )
    return relations


def _print_counts(manifest: Manifest, out: Path) -> None:
    shards = len(manifest.shards)
    print(
        f"{manifest.sentences:,} sentences, {manifest.tokens:,} tokens in {shards} shard{'s' * (shards != 1)}: {out}"
        + (f" ({manifest.skipped:,} left out, see {out / 'skipped.jsonl'})" if manifest.skipped else "")
    )
    for relation, edges in manifest.edges.items():
        print(f"{relation}: {edges:,} edge{'s' * (edges != 1)}")

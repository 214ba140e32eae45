"""``graphattn build``: corpora in, a store of sentences on disk out, from which graphs are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.cli.corpus_options import PAIR, CorpusOptions
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.parser_options import ParserOptions
from graphattn.experiments.cli.progress_bars import shown

if TYPE_CHECKING:
    from graphattn.builders.relations import Relation
    from graphattn.builders.store import CorpusFile, Manifest, StoreSettings
    from graphattn.builders.store.executors import Engine

EXAMPLES = (
    "graphattn build train.tsv --out store\n\n"
    "graphattn build train.conllu --relations window:3,window:N/4,group,dependency --level bpe --out store\n\n"
    "graphattn build pairs.jsonl --pairs --out store\n\n"
    "graphattn build texts.csv --relations dependency --parser stanza --jobs 4 --out store"
)
_LEARN = {"level": "word", "split": "words", "lowercase": True, "min_count": 1, "size": None}
"""How a vocabulary is learnt unless told otherwise."""
_PARSED_SHARD = 1.0
"""MiB of text in a shard when a parser works on it for minutes."""
_SKIP = "Or leave such lines out, and have them listed, with --skip-bad."
_Options = TypeVar("_Options", CorpusOptions, ParserOptions)


@with_flags([*flags_of(ParserOptions(), "Parser"), *flags_of(CorpusOptions(), "Corpus")])
def build(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS", help="Corpora; several are read as one.")],
    given: Values,
    out: Annotated[Path, typer.Option(help="Folder of the store.")],
    relations: Annotated[
        str,
        typer.Option(
            help="Kinds of edges: window:3, window:N/16, radius:1, group, dependency (or dependency:token), in, "
            "forward, backward, all, and those of the catalogue in docs/relations.md."
        ),
    ] = "window:1,window:3,window:N/16,window:N/8,window:N/4",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Keep both texts of each pair; --second-column says so too.")
    ] = False,
    multilabel: Annotated[
        bool, typer.Option("--multilabel", help="A text may have several labels (fastText lines).")
    ] = False,
    level: Annotated[Literal["word", "bpe"], typer.Option(help="What a token is: a word or a sub-word.")] = "word",
    split: Annotated[
        Literal["words", "whitespace"], typer.Option(help="How raw texts are cut into words; as for train.")
    ] = "words",
    lowercase: Annotated[bool, typer.Option(help="Ignore case in the vocabulary.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words become \\[UNK].")] = 1,
    vocabulary_size: Annotated[int | None, typer.Option(help="Most entries of the vocabulary.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json to use instead of a new one.")] = None,
    cls: Annotated[bool, typer.Option(help="Put a \\[CLS] token before each text.")] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that work.")] = 1,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Processes of this machine, or a Ray cluster.")] = (
        "local"
    ),
    address: Annotated[str | None, typer.Option(help="Ray cluster to use (default: one on this machine).")] = None,
    append: Annotated[bool, typer.Option("--append", help="Put the corpora behind those in the store.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out sentences that cannot be used, and list them.")
    ] = False,
    shard_size: Annotated[
        float | None, typer.Option(min=0.001, help="MiB of text in a shard (default: 32; 1 with a parser).")
    ] = None,
    materialize: Annotated[
        bool, typer.Option("--materialize", help="Write the complete graphs too, as files for dgl.load_graphs.")
    ] = False,
) -> None:
    """Build a store of corpora: sentences as columns, from which batches of graphs are made at memory speed.

    Run the same command again after an interruption: it goes on, and the store is the same to the byte. The folder
    holds Parquet files, tokenizer.json, skipped.jsonl and store.json with counts; see docs/build.md.
    """
    from graphattn.builders import TextGraphBuilder, Vocabulary
    from graphattn.builders.store import CorpusFile, StoreSettings

    parsing, options = _shared(given, ParserOptions), _shared(given, CorpusOptions)
    learn = {"level": level, "split": split, "lowercase": lowercase, "min_count": min_count, "size": vocabulary_size}
    if tokenizer is not None and learn != _LEARN:
        raise ConfigError(
            "--tokenizer brings its vocabulary and its rule; leave --level, --split, --no-lowercase, --min-count and "
            "--vocabulary-size out"
        )
    vocabulary = None if tokenizer is None else Vocabulary.load(tokenizer)
    parser = parsing.made()
    size = shard_size if shard_size is not None else 32.0 if parser is None else _PARSED_SHARD
    settings = StoreSettings(
        TextGraphBuilder(_relations(relations), cls=cls, vocabulary=vocabulary),
        learn={} if vocabulary is not None else learn,
        skip=skip_bad,
        parser=parser,
        raw=parsing.parser_cuts,
        block_bytes=round(size * (1 << 20)),
    )
    task = PAIR if pairs or "second_column" in given else None
    arguments = {**options.reader_options(), **({"multilabel": True} if multilabel else {})}
    corpora = [CorpusFile(path, options.format, arguments, task) for path in corpus]
    counts = _built(corpora, out, settings, _engine(engine, jobs, address, parsing.device), append=append)
    _tell(counts, out)
    if materialize:
        print(f"graphs: {_materialized(out, settings)}")


def _shared(given: Values, options: type[_Options]) -> _Options:
    """The flags in use that are those of a dataclass."""
    return options(**{item.name: given[item.name] for item in fields(options) if item.name in given})


def _relations(names: str) -> list[Relation]:
    from graphattn.experiments.cli.relation_names import relations_from

    wanted = relations_from([name.strip() for name in names.split(",")])
    comparing = next((part.name for one in wanted for part in one.parts() if part.needs_vectors), None)
    if comparing:
        raise ConfigError(
            f"relation {comparing!r} compares words by their vectors, which a store does not hold; leave it out of "
            "--relations and give it to --heads when you train, with --vectors"
        )
    return wanted


def _tell(counts: Manifest, out: Path) -> None:
    files = len(counts.shards)
    print(
        f"{counts.sentences:,} sentences, {counts.tokens:,} tokens in {files} shard{'s' * (files != 1)}: {out}"
        + (f" ({counts.skipped:,} left out, see {out / 'skipped.jsonl'})" if counts.skipped else "")
    )
    for relation, edges in counts.edges.items():
        print(f"{relation}: {edges:,} edges")


def _built(
    corpora: Sequence[CorpusFile], out: Path, settings: StoreSettings, engine: Engine, *, append: bool
) -> Manifest:
    from graphattn.builders.store import build_store

    try:
        return build_store(corpora, out, settings, engine=engine, append=append, watch=shown)
    except DataError as error:
        if not error.skippable:
            raise
        error.hint = f"{error.hint} {_SKIP}" if error.hint else _SKIP
        raise
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        engine.close()


def _materialized(out: Path, settings: StoreSettings) -> Path:
    from graphattn.builders.store import Store
    from graphattn.builders.store.datasets import GRAPHS, materialize

    store = Store(out)
    try:
        materialize(store, store.builder(settings.builder))
    except OSError as error:
        raise _unwritable(out, error) from error
    return out / GRAPHS


def _unwritable(out: Path, error: OSError) -> DataError:
    reason = error.strerror or str(error)
    return DataError(f"cannot be written ({reason})", path=out, hint="Check the folder and the space on the disk.")


def _engine(name: str, jobs: int, address: str | None, device: str | None) -> Engine:
    """Who works; ``device`` is the parser's, None for a GPU if there is one."""
    if name == "ray":
        return _ray_engine(jobs, address, device)
    if address is not None:
        raise ConfigError("--address is for --engine ray; give both, or neither")
    from graphattn.builders.store import LocalEngine

    return LocalEngine(jobs)


def _ray_engine(jobs: int, address: str | None, device: str | None) -> Engine:
    from graphattn.builders.store.executors import RayEngine

    shares = {None: None, "cpu": 0.0, "cuda": 1.0}  # of a GPU for each actor, which sees no other
    if device not in shares:
        raise ConfigError(
            f"--parser-device is {device!r}; with --engine ray give cuda, and Ray chooses a GPU for each worker, or cpu"
        )
    return RayEngine(jobs, address=address, gpus=shares[device])

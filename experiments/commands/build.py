"""``graphattn build``: corpora in, a store of sentences on disk out, from which graphs are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.corpus_options import PAIR, CorpusOptions, naming_corpus_flags
from graphattn.experiments.option_flags import Values, flags_of, with_flags
from graphattn.experiments.parse_cache import default_cache
from graphattn.experiments.progress_bars import shown

if TYPE_CHECKING:
    from graphattn.builders.parsers import Parser
    from graphattn.builders.store import StoreSettings
    from graphattn.builders.store.engines import Engine

EXAMPLES = (
    "graphattn build train.tsv --out store\n\n"
    "graphattn build train.conllu --relations window:3,window:N/4,group,dependency --level bpe --out store\n\n"
    "graphattn build pairs.jsonl --pairs --out store\n\n"
    "graphattn build texts.csv --relations dependency --parser stanza --jobs 4 --out store"
)
_PARSED_SHARD = 1.0
"""MiB of text in a shard when a parser works on it for minutes."""


@with_flags(flags_of(CorpusOptions(), "Corpus"))
def build(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS", help="Corpora; several are read as one.")],
    given: Values,
    out: Annotated[Path, typer.Option(help="Folder of the store.")],
    relations: Annotated[
        str,
        typer.Option(
            help="Kinds of edges: window:3, window:N/16, radius:1, group, dependency (or dependency:token), in, "
            "forward, backward, all, and those of the catalogue in docs/build.md."
        ),
    ] = "window:1,window:3,window:N/16,window:N/8,window:N/4",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Keep both texts of each pair; --second-column says so too.")
    ] = False,
    level: Annotated[Literal["word", "bpe"], typer.Option(help="What a token is: a word or a sub-word.")] = "word",
    lowercase: Annotated[bool, typer.Option(help="Ignore case in the vocabulary.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words become \\[UNK].")] = 1,
    vocabulary_size: Annotated[int | None, typer.Option(help="Most entries of the vocabulary.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json to use instead of a new one.")] = None,
    cls: Annotated[bool, typer.Option(help="Put a \\[CLS] token before each text.")] = True,
    parser: Annotated[Literal["none", "stanza"], typer.Option(help="Who parses sentences without heads.")] = "none",
    parser_model: Annotated[
        Path | None, typer.Option(help="Folder of the parser's models (default: its own folder).")
    ] = None,
    parser_language: Annotated[str, typer.Option(help="Language of the parser's models.")] = "en",
    parser_device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:1 (default: a GPU if there is one).")
    ] = None,
    parser_cuts: Annotated[
        bool, typer.Option("--parser-cuts", help="Let the parser cut raw texts into sentences and words.")
    ] = False,
    parse_cache: Annotated[
        str | None, typer.Option(help="File of parses made before, or none (default: one in the user's cache folder).")
    ] = None,
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
    from graphattn.experiments.relation_names import relations_from

    vocabulary = None if tokenizer is None else Vocabulary.load(tokenizer)
    options = CorpusOptions(**given)
    size = shard_size if shard_size is not None else 32.0 if parser == "none" else _PARSED_SHARD
    learn = {"level": level, "lowercase": lowercase, "min_count": min_count, "size": vocabulary_size}
    settings = StoreSettings(
        TextGraphBuilder(relations_from([name.strip() for name in relations.split(",")]), cls=cls,
                         vocabulary=vocabulary),
        learn={} if vocabulary is not None else learn,
        skip=skip_bad,
        parser=None if parser == "none" else _parser(parser_language, parser_model, parser_device, parse_cache),
        raw=parser_cuts,
        block_bytes=round(size * (1 << 20)),
    )  # fmt: skip
    task = PAIR if pairs or "second_column" in given else None
    corpora = [CorpusFile(path, options.format, options.reader_options(), task) for path in corpus]
    with naming_corpus_flags():
        workers = _engine(engine, jobs, address, on_gpu=(parser_device or "").startswith("cuda"))
        counts = _built(corpora, out, settings, workers, append=append)
    files = len(counts.shards)
    print(
        f"{counts.sentences:,} sentences, {counts.tokens:,} tokens in {files} shard{'s' * (files != 1)}: {out}"
        + (f" ({counts.skipped:,} left out, see {out / 'skipped.jsonl'})" if counts.skipped else "")
    )
    for relation, edges in counts.edges.items():
        print(f"{relation}: {edges:,} edges")
    if materialize:
        print(f"graphs: {_materialized(out, settings)}")


def _built(corpora: Any, out: Path, settings: StoreSettings, engine: Engine, *, append: bool) -> Any:
    from graphattn.builders.store import build_store

    try:
        return build_store(corpora, out, settings, engine=engine, append=append, watch=shown)
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        engine.close()


def _materialized(out: Path, settings: StoreSettings) -> Path:
    from graphattn.builders.store import Store
    from graphattn.builders.store.materializing import GRAPHS, materialize

    store = Store(out)
    try:
        materialize(store, store.builder(settings.builder))
    except OSError as error:
        raise _unwritable(out, error) from error
    return out / GRAPHS


def _unwritable(out: Path, error: OSError) -> DataError:
    reason = error.strerror or str(error)
    return DataError(f"cannot be written ({reason})", path=out, hint="Check the folder and the space on the disk.")


def _engine(name: str, jobs: int, address: str | None, *, on_gpu: bool) -> Engine:
    if name == "ray":
        from graphattn.builders.store.ray_engine import RayEngine

        return RayEngine(jobs, address=address, gpus=float(on_gpu))
    if address is not None:
        raise ConfigError("--address is for --engine ray; give both, or neither")
    from graphattn.builders.store import LocalEngine

    return LocalEngine(jobs)


def _parser(language: str, folder: Path | None, device: str | None, cache: str | None) -> Parser:
    from graphattn.builders.parsers import CachedParser, StanzaParser

    parser = StanzaParser(language, None if folder is None else str(folder), device=device)
    if cache == "none":
        return parser
    return CachedParser(parser, default_cache() if cache is None else Path(cache))

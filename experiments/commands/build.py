"""``graphattn build``: a corpus in, DGL graphs on disk out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments.corpus_options import CorpusOptions, stream_items
from graphattn.experiments.option_flags import Values, flags_of, with_flags
from graphattn.experiments.output_files import new_folder
from graphattn.experiments.progress_bars import shown

if TYPE_CHECKING:
    from graphattn.builders import Vocabulary

EXAMPLES = (
    "graphattn build train.tsv --out graphs\n\n"
    "graphattn build train.conllu --relations window:3,window:N/4,group,dependency --level bpe --out graphs"
)


@with_flags(flags_of(CorpusOptions(), "Corpus"))
def build(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS", help="Corpora; several are read as one.")],
    given: Values,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    relations: Annotated[
        str,
        typer.Option(
            help="Kinds of edges: window:3, window:N/16, radius:1, group, dependency (or dependency:token), in, "
            "forward, backward, all."
        ),
    ] = "window:1,window:3,window:N/16,window:N/8,window:N/4",
    level: Annotated[Literal["word", "bpe"], typer.Option(help="What a token is: a word or a sub-word.")] = "word",
    lowercase: Annotated[bool, typer.Option(help="Ignore case in the vocabulary.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words become \\[UNK].")] = 1,
    vocabulary_size: Annotated[int | None, typer.Option(help="Most entries of the vocabulary.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json to use instead of a new one.")] = None,
    cls: Annotated[bool, typer.Option(help="Put a \\[CLS] token before each text.")] = True,
    shard: Annotated[int, typer.Option(min=1, help="Most graphs in a file.")] = 4096,
) -> None:
    """Build the graphs of a corpus: one DGL graph for each text.

    The folder holds graphs-00000.dgl and so on (dgl.load_graphs reads them), sentences.jsonl with one line for each
    graph, tokenizer.json, and corpus.json with counts.
    """
    learn = {"level": level, "lowercase": lowercase, "min_count": min_count, "size": vocabulary_size}
    vocabulary = _vocabulary(corpus, CorpusOptions(**given), tokenizer, learn)
    counts = build_graphs(
        corpus, CorpusOptions(**given), out, relations.split(","), vocabulary=vocabulary, cls=cls, shard=shard
    )
    files = len(counts["shards"])
    print(f"{counts['sentences']:,} graphs, {counts['tokens']:,} tokens in {files} file{'s' * (files != 1)}: {out}")
    for relation, edges in counts["edges"].items():
        print(f"{relation}: {edges:,} edges")


def build_graphs(
    corpus: Sequence[Path],
    options: CorpusOptions,
    out: Path,
    relations: Sequence[str],
    *,
    vocabulary: Vocabulary,
    cls: bool = True,
    shard: int = 4096,
    replace: bool = False,
) -> dict[str, Any]:
    """Build the graphs of a corpus and write them; the folder appears when all are there.

    Parameters
    ----------
    corpus : its files
    options : how they are read
    out : folder to write
    relations : their names
    vocabulary : cuts texts into tokens and gives these their ids
    cls : put a ``[CLS]`` token before each text
    shard : most graphs in a file
    replace : remove what is at ``out``

    Returns
    -------
    The counts in ``corpus.json``.
    """
    from graphattn.builders import TextGraphBuilder
    from graphattn.experiments.graph_corpus import write_graph_corpus
    from graphattn.experiments.relation_names import relations_from

    builder = TextGraphBuilder(relations_from([name.strip() for name in relations]), cls=cls, vocabulary=vocabulary)
    with new_folder(out, replace=replace) as folder:
        return write_graph_corpus(shown(_items(corpus, options), "building"), builder, folder, shard=shard)


def _items(corpus: Sequence[Path], options: CorpusOptions) -> Iterator[Any]:
    for path in corpus:
        yield from stream_items(path, options)


def _vocabulary(
    corpus: Sequence[Path], options: CorpusOptions, tokenizer: Path | None, learn: dict[str, Any]
) -> Vocabulary:
    """The given vocabulary, or one of the corpus' own words."""
    from graphattn.builders import Vocabulary
    from graphattn.experiments.graph_corpus import texts_of

    if tokenizer is not None:
        return Vocabulary.load(tokenizer)
    if any(str(path) == "-" for path in corpus):
        raise ConfigError("standard input can be read only once; name a file, or give --tokenizer")
    return Vocabulary.train(shown(texts_of(_items(corpus, options)), "reading"), **learn)

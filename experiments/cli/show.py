"""``graphattn show``: the graph of one text, as a picture, for Graphviz, or as GraphML."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.cli.corpus_options import CorpusOptions, path_test, refuse_for_store, stream_items
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output_files import new_file

if TYPE_CHECKING:
    import networkx as nx
    from dgl import DGLGraph

    from graphattn.builders import Sentence, Vocabulary
    from graphattn.builders.relations import Relation
    from graphattn.builders.store import Store
    from graphattn.builders.word_boundaries import Source

EXAMPLES = (
    "graphattn show reviews.tsv --index 7 --png\n\n"
    'graphattn show treebank.conllu --relations "dependency,star,window:3|global:1" --png --svg --out tree\n\n'
    "graphattn show store --index 7 --graphml"
)
_WINDOWS = "window:3,window:N/4"


@with_flags(flags_of(CorpusOptions(), "Corpus"))
def show(
    corpus: Annotated[str, typer.Argument(help="Corpus, or folder that build wrote; - for standard input.")],
    given: Values,
    index: Annotated[int, typer.Option(min=0, help="Which text, from 0; those of a pair count one by one.")] = 0,
    png: Annotated[bool, typer.Option("--png", help="Draw a picture of pixels.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Draw a picture of lines.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Write it for Graphviz.")] = False,
    graphml: Annotated[bool, typer.Option("--graphml", help="Write it as GraphML.")] = False,
    out: Annotated[Path | None, typer.Option(help="Name of the files, without suffix (default: text-INDEX).")] = None,
    relations: Annotated[
        str | None,
        typer.Option(help="Kinds of edges, as build takes them (default: window:3,window:N/4, or those of the store)."),
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json that cuts words into tokens.")] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors, for nearest:COUNT.")] = None,
    cls: Annotated[
        bool | None,
        typer.Option("--cls/--no-cls", help="Put a \\[CLS] token before the text (default: yes, or as in the store)."),
    ] = None,
) -> None:
    """Show the graph of one text of a corpus.

    Without a format, its tokens and the number of its edges are printed.
    """
    from graphattn.builders import TextGraphBuilder, WordVectors
    from graphattn.builders.relations.composition import may_read_ids
    from graphattn.builders.store import Store

    store = Store(corpus) if path_test(Path(corpus).is_dir) else None
    if store is not None:
        refuse_for_store(given, Path(corpus))
    source = _text_of_store(store, index) if store is not None else _text_of_file(corpus, index, CorpusOptions(**given))
    if store is not None and relations is None and tokenizer is None:
        for flag, value in (("--cls or --no-cls", cls is not None), ("--vectors", vectors is not None)):
            if value:
                raise ConfigError(f"the graphs of a store are as it was built; leave {flag} out, or give --relations")
        builder = store.builder()
    else:
        if cls is None:
            cls = True if store is None else bool(store.manifest.settings["cls"])
        kinds = _relations(relations or _WINDOWS, vectors)
        wanted = vectors is not None or any(may_read_ids(part) for kind in kinds for part in kind.parts())
        vocabulary = _vocabulary(source, store, tokenizer, wanted=wanted)
        table = None if vectors is None or vocabulary is None else WordVectors.read(vectors).table(vocabulary, seed=0)
        builder = TextGraphBuilder(kinds, cls=cls, vocabulary=vocabulary, vectors=table)
    sentence = _in_words(source) if builder.vocabulary is None else builder.vocabulary.sentence(source)
    graph = builder.build(sentence)
    chosen = [kind for kind, on in (("png", png), ("svg", svg), ("dot", dot), ("graphml", graphml)) if on]
    for kind in chosen:
        path = Path(f"{out or f'text-{index}'}.{kind}")
        _WRITERS[kind](graph, sentence, path)
        print(path)
    if not chosen:
        print(" ".join(sentence.tokens))
        for name in dict.fromkeys(relation.name for relation in builder.relations):
            edges = sum(graph.num_edges(relation) for relation in graph.canonical_etypes if relation[1] == name)
            print(f"{name}: {edges:,} edges")


def _vocabulary(source: Source, store: Store | None, tokenizer: Path | None, *, wanted: bool) -> Vocabulary | None:
    """The one given, that of the store, or the text's own words if ids are wanted; else tokens stay as they are."""
    from graphattn.builders import Vocabulary

    if tokenizer is not None:
        return Vocabulary.load(tokenizer)
    if store is not None:
        return store.vocabulary
    return Vocabulary.train([source], lowercase=False) if wanted else None


def _in_words(source: Source) -> Sentence:
    from graphattn.builders import Sentence, Vocabulary

    if isinstance(source, Sentence):
        return source
    return Sentence(tuple(Vocabulary.train([]).split(source) if isinstance(source, str) else source))


def _relations(names: str, vectors: Path | None) -> list[Relation]:
    from graphattn.experiments.cli.relation_names import relations_from

    wanted = relations_from([name.strip() for name in names.split(",")])
    comparing = next((part.name for one in wanted for part in one.parts() if part.needs_vectors), None)
    if comparing and vectors is None:
        raise ConfigError(f"relation {comparing!r} compares words by their vectors; give --vectors")
    return wanted


def _text_of_store(store: Store, index: int) -> Sentence:
    if index >= len(store):
        raise _too_few(str(store.folder), len(store), index)
    return store[index]


def _text_of_file(corpus: str, index: int, options: CorpusOptions) -> Source:
    from graphattn.builders import Sentence

    count = 0
    for item in stream_items(Path(corpus), options):
        for text in [item] if isinstance(item, Sentence) else [item.text, item.second]:
            if text is None:
                continue
            if count == index:
                return text
            count += 1
    raise _too_few(corpus, count, index)


def _too_few(corpus: str, count: int, index: int) -> DataError:
    return DataError(f"holds {count:,} texts; there is none with index {index}", path=corpus, hint="They count from 0.")


def _draw(graph: DGLGraph, sentence: Sentence, path: Path) -> None:
    from graphattn.experiments.drawing.graph import draw_graph

    try:
        draw_graph(graph, sentence, path)
    except ConfigError as error:
        raise ConfigError(f"{error}; --dot and --graphml take any number") from error


def _write_dot(graph: DGLGraph, sentence: Sentence, path: Path) -> None:
    from graphattn.experiments.drawing.graph import to_dot

    with new_file(path) as file:
        file.write(to_dot(_exported(graph, sentence)))


def _write_graphml(graph: DGLGraph, sentence: Sentence, path: Path) -> None:
    import networkx as nx

    with new_file(path) as file:
        file.writelines(f"{line}\n" for line in nx.generate_graphml(_exported(graph, sentence)))


def _exported(graph: DGLGraph, sentence: Sentence) -> nx.MultiDiGraph:
    """With texts that any file can hold: signs stand for characters that have no shape."""
    from graphattn.experiments.drawing.canvas import printable
    from graphattn.networkx_graphs import to_networkx

    return to_networkx(graph, tokens=[printable(token, sys.maxsize) for token in sentence.tokens])


_WRITERS: dict[str, Callable[[DGLGraph, Sentence, Path], None]] = {
    "png": _draw,
    "svg": _draw,
    "dot": _write_dot,
    "graphml": _write_graphml,
}

"""``graphattn show``: write the graph of one text as a picture, for Graphviz, or as GraphML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphattn.exceptions import ConfigError, DataError, verbatim
from graphattn.experiments._cli.corpus_options import CorpusOptions, reject_for_store
from graphattn.experiments._cli.flags import Values, with_flags
from graphattn.experiments._cli.output import check_output, open_output
from graphattn.experiments._cli.text_stream import is_corpus
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
    from graphattn.builders._batch import TextBatch
    from graphattn.builders._word_boundaries import Source
    from graphattn.builders.relations import Relation
    from graphattn.builders.store import Store

EXAMPLES = (
    'graphattn show "a lovely film" --relations window:3,star --picture film.png\n\n'
    'graphattn show treebank.conllu --index 7 --relations "dependency,star,window:3|global:1" --picture tree.svg\n\n'
    "graphattn show store --index 7 --out text.graphml"
)
_WINDOWS = "window:3,window:N/4"
_GRAPHS = (".dot", ".graphml")


@with_flags(flag_values=list_options(CorpusOptions, "Corpus", without={"feature_columns"}))
def show(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="A text; or a corpus, or folder that build wrote, of which one text is shown; - for standard input.",
        ),
    ],
    flag_values: Values,
    *,
    index: Annotated[
        int, typer.Option(min=0, help="Which text of a corpus, from 0; those of a pair count one by one.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="File for the graph: .dot for Graphviz, or .graphml.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Picture to draw: .png, .svg or .pdf.")] = None,
    png: Annotated[bool, typer.Option("--png", hidden=True, help="Draw OUT.png.")] = False,
    svg: Annotated[bool, typer.Option("--svg", hidden=True, help="Draw OUT.svg.")] = False,
    dot: Annotated[bool, typer.Option("--dot", hidden=True, help="Write OUT.dot.")] = False,
    graphml: Annotated[bool, typer.Option("--graphml", hidden=True, help="Write OUT.graphml.")] = False,
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
    """Show the graph of a text, or of one of a corpus.

    Without a file to write, its tokens and the number of its edges are printed.
    """
    from graphattn.builders.store import Store

    kinds = [kind for kind, is_set in (("png", png), ("svg", svg), ("dot", dot), ("graphml", graphml)) if is_set]
    files = [Path(f"{out or f'text-{index}'}.{kind}") for kind in kinds] or list(filter(None, (out, picture)))
    if not kinds:
        _check_suffixes(out, picture)
    for file in files:
        check_output(file, corpus)
    store = Store(corpus) if os.path.isdir(corpus) else None
    if store is not None:
        reject_for_store(flag_values, Path(corpus))
        source: Source = _read_store(store, index)
    elif is_corpus(corpus):
        source = _read_file(corpus, index, CorpusOptions(**flag_values))
    else:
        source = corpus
    builder = _make_builder(source, store, relations, tokenizer, vectors, cls)
    sentence = _split_words(source) if builder.vocabulary is None else builder.vocabulary.sentence(source)
    graph = builder.text_batch([sentence])
    for file in files:
        write = _export if file.suffix in _GRAPHS else _draw
        write(graph, sentence, file)
        print(file)
    if not files:
        _print_counts(graph, sentence, dict.fromkeys(relation.name for relation in builder.relations))


def _check_suffixes(out: Path | None, picture: Path | None) -> None:
    """Reject names of files whose format is unknown, before anything is read."""
    if out is not None and out.suffix not in _GRAPHS:
        raise ConfigError(
            f"{{out}} is {verbatim(repr(str(out)))}; the name must end in .dot or .graphml, and {{picture}} draws the "
            "graph",
            options=("out", "picture"),
        )
    if picture is not None:
        from graphattn.experiments.drawing._canvas import check_format

        check_format(picture)


def _print_counts(graph: TextBatch, sentence: Sentence, names: Iterable[str]) -> None:
    print(" ".join(sentence.tokens))
    for name in names:
        edges = sum(edges.num_edges for relation, edges in graph.edges.items() if relation[1] == name)
        print(f"{name}: {edges:,} edge{'s' * (edges != 1)}")


def _make_builder(
    source: Source,
    store: Store | None,
    names: str | None,
    tokenizer: Path | None,
    vectors: Path | None,
    cls: bool | None,
) -> TextGraphBuilder:
    """A builder of the named relations; by default that of the store, or of windows."""
    from graphattn.builders import TextGraphBuilder, WordVectors

    if store is not None and names is None and tokenizer is None:
        builder = store.builder()
        if cls is None:
            return builder
        return TextGraphBuilder(builder.relations, cls=cls, vocabulary=builder.vocabulary, vectors=builder.vectors)
    relations = _parse_relations(names or _WINDOWS, vectors)
    vocabulary = _choose_vocabulary(source, store, tokenizer, relations, vectors)
    table = None if vectors is None or vocabulary is None else WordVectors.read(vectors).table(vocabulary, seed=0)
    if cls is None:
        cls = store is None or bool(store.manifest.settings["cls"])
    return TextGraphBuilder(relations, cls=cls, vocabulary=vocabulary, vectors=table)


def _parse_relations(names: str, vectors: Path | None) -> list[Relation]:
    from graphattn.builders.relations import parse_relations

    relations = parse_relations(names)
    comparing = next((part.name for each in relations for part in each.parts() if part.needs_vectors), None)
    if comparing and vectors is None:
        raise ConfigError(f"relation {comparing!r} compares words by their vectors; give --vectors")
    return relations


def _choose_vocabulary(
    source: Source, store: Store | None, tokenizer: Path | None, relations: list[Relation], vectors: Path | None
) -> Vocabulary | None:
    """The tokenizer of the flag, that of the store, or the words of the text if ids are needed."""
    from graphattn.builders import Vocabulary
    from graphattn.builders.relations._relation_checks import may_read_ids

    if tokenizer is not None:
        return Vocabulary.load(tokenizer)
    if store is not None:
        return store.vocabulary
    needs_ids = vectors is not None or any(may_read_ids(part) for each in relations for part in each.parts())
    return Vocabulary.train([source], lowercase=False) if needs_ids else None


def _split_words(source: Source) -> Sentence:
    from graphattn.builders import Sentence, Vocabulary

    if isinstance(source, Sentence):
        return source
    return Sentence(tuple(Vocabulary.train([]).split(source) if isinstance(source, str) else source))


def _read_store(store: Store, index: int) -> Sentence:
    if index >= len(store):
        raise _missing_text_error(str(store.folder), len(store), index)
    return store[index]


def _read_file(corpus: str, index: int, options: CorpusOptions) -> Source:
    from graphattn.builders import Sentence
    from graphattn.builders.readers import read_corpus

    count = 0
    for item in read_corpus(Path(corpus), **options.reading()):
        for text in [item] if isinstance(item, Sentence) else [item.text, item.second]:
            if text is None:
                continue
            if count == index:
                return text
            count += 1
    raise _missing_text_error(corpus, count, index)


def _missing_text_error(corpus: str, count: int, index: int) -> DataError:
    return DataError(f"holds {count:,} texts; there is none with index {index}", path=corpus, hint="They count from 0.")


def _draw(graph: TextBatch, sentence: Sentence, path: Path) -> None:
    from graphattn.experiments.drawing._graph import draw_graph

    try:
        draw_graph(graph, sentence, path)
    except ConfigError as error:
        raise ConfigError(f"{error}; --out graph.graphml takes any number") from error


def _export(graph: TextBatch, sentence: Sentence, path: Path) -> None:
    """Write a graph for Graphviz or as GraphML, as the suffix says, with printable texts."""
    import networkx as nx

    from graphattn._networkx_graphs import to_networkx
    from graphattn.models.inspection.notebook import printable

    exported = to_networkx(graph, tokens=[printable(token, sys.maxsize) for token in sentence.tokens])
    with open_output(path) as file:
        if path.suffix == ".dot":
            from graphattn.experiments.drawing._graph import to_dot

            file.write(to_dot(exported))
        else:
            file.writelines(f"{line}\n" for line in nx.generate_graphml(exported))

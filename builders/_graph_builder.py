"""From sentences to graphs: one builder for any relations, for one sentence or a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn._edges import Edges
from graphattn._ragged import Ints, count_up
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import TextBatch, range_edges
from graphattn.builders._layout import Layout, concatenate
from graphattn.builders._sentence import Sentence, assign_sentence_ids
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import Source, check_is_batch
from graphattn.builders.relations import Dependency, Membership, RangeRelation, Relation, parse_relations
from graphattn.builders.relations._base import as_relation, iterate_operands
from graphattn.builders.relations._relation_checks import (
    check_nodes,
    count_edges,
    errors_naming,
    is_third_party,
    validate_bounds,
    validate_edges,
)
from graphattn.exceptions import ConfigError, DataError, EdgeCountError

if TYPE_CHECKING:
    from dgl import DGLGraph

CLS_ID = 2
TokenFeature = tuple[Sequence[npt.NDArray[Any]], Any]


class TextGraphBuilder:
    """Builds text batches and DGL graphs from sentences, with one edge type for each relation.

    Token nodes have the features ``position`` (in the sentence), ``word`` (its number in the sentence) and, with
    a vocabulary, ``id``; word nodes have ``position``.

    Parameters
    ----------
    relations : the kinds of edges, or their names: ``[Window(3), "star"]`` or ``"window:3,star"``
    cls : put a ``[CLS]`` token, at position 0, before each sentence
    vocabulary : assigns ids to tokens; with it, raw texts are accepted. That of a pretrained model has its own special
        tokens, which batches get instead of ``[CLS]``
    vectors : (len(vocabulary), D) vector of each id, for relations that compare words
    joins_pairs : with special tokens, make one sequence of both texts of a pair

    Raises
    ------
    ConfigError
        when a relation does not exist, two have the same name and node types, dependency labels differ, or a relation
        needs vectors

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window, Sentence
    >>> batch = TextGraphBuilder([Window(1), Window(3)]).text_batch([Sentence(["time", "flies"])])
    >>> batch.num_nodes(), batch.edges["token", "window:3", "token"].num_edges
    (3, 7)
    """

    def __init__(
        self,
        relations: str | Iterable[Relation | str],
        *,
        cls: bool = True,
        vocabulary: Vocabulary | None = None,
        vectors: npt.NDArray[np.floating] | None = None,
        joins_pairs: bool = True,
    ):
        if isinstance(relations, str):
            relations = parse_relations(relations)
        elif isinstance(relations, type) or not isinstance(relations, Iterable):
            as_relation(relations)  # reports whatever is no relation
            raise ConfigError(f"relations are one relation, {relations!r}; give a list of them")
        parts = [part for relation in relations for part in as_relation(relation).parts()]
        self.relations = _drop_repeated_membership(parts)
        self.special_tokens = None if vocabulary is None else vocabulary.special_tokens
        self.cls, self.vocabulary = cls and self.special_tokens is None, vocabulary
        self.joins_pairs = joins_pairs
        _check_names(self.relations)
        self.vectors = _select_vectors(self.relations, vectors)
        self.needs_heads = any(relation.needs_heads for relation in self.relations)
        """Whether a sentence without heads is an error."""
        self._are_third_party = [is_third_party(relation) for relation in self.relations]
        pairs = zip(self.relations, self._are_third_party, strict=True)
        self._with_nodes = [each for each, is_users in pairs if is_users or type(each).nodes is not Relation.nodes]
        takes_heads = self.needs_heads or any(relation.takes_heads for relation in self.relations)
        self.deprel_id: Callable[[str], int] | None = (
            _find_dependency(self.relations).deprel_id if takes_heads else None
        )
        """Name of a dependency relation -> id; None when no relation uses heads."""
        needs_sentences = any(relation.needs_sentences for relation in self.relations)
        self.divides_texts = needs_sentences or takes_heads
        """Whether blank lines and punctuation divide raw texts, so that their words alone are not enough."""

    def layout(
        self,
        sentences: Sequence[Source],
        *,
        features: Mapping[str, TokenFeature] | Callable[[Sequence[Sentence]], Mapping[str, TokenFeature]] | None = None,
    ) -> Layout:
        """Flatten sentences into columns, once for a corpus; :meth:`text_batch` and :meth:`graph` take them.

        Parameters
        ----------
        sentences : sentences or word lists; with a vocabulary also raw texts
        features : more features of tokens, name -> (one array per sentence, value for ``[CLS]``); or a function of the
            tokenized sentences that returns them

        Raises
        ------
        DataError
            when a relation needs heads and a sentence has none, a raw text comes without a vocabulary, or a
            feature does not fit the tokens
        """
        check_is_batch(sentences)
        columns: dict[str, TokenFeature] = {}
        with_sentences = any(relation.needs_sentences for relation in self.relations)
        if self.vocabulary is not None:
            if with_sentences:  # before subwords split the punctuation
                sentences = list(map(_with_sentence_ids, self.vocabulary.splitter.sentences(sentences)))
            plain, ids = self.vocabulary.encode_batch(sentences)
            columns["id"] = (ids, CLS_ID)
        else:
            plain = [_as_sentence(sentence) for sentence in sentences]
        columns = {**(features(plain) if callable(features) else features or {}), **columns}
        return Layout.of(
            plain,
            with_cls=self.cls,
            deprel_id=self.deprel_id,
            needs_heads=self.needs_heads,
            with_sentences=with_sentences,
            with_links=any(relation.needs_links for relation in self.relations),
            vectors=self.vectors,
            features=columns,
        )

    def join(self, layouts: Sequence[Layout]) -> Layout:
        """One layout of several, the texts of each after those before, with the special tokens of a pretrained model.

        Parameters
        ----------
        layouts : of the texts, or of the first and the second texts of pairs
        """
        if self.special_tokens is None:
            return concatenate(layouts)
        if self.joins_pairs:
            return self.special_tokens.add(layouts)
        return concatenate([self.special_tokens.add([layout]) for layout in layouts])

    def count_special_tokens(self, texts: int) -> int:
        """Special tokens that :meth:`join` adds to an input of one text or two."""
        if self.special_tokens is None:
            return 0
        return self.special_tokens.count(texts) if self.joins_pairs else texts * self.special_tokens.count(1)

    def graph(self, layout: Layout) -> DGLGraph:
        """The batched DGL graph of a layout; :meth:`text_batch` returns the same without DGL.

        Raises
        ------
        ConfigError
            when the builder has no relation
        GraphError
            when a relation has more edges than int32 can number
        """
        if not self.relations:
            raise ConfigError("a DGL graph needs at least one relation, Window(3) for example")
        return self.text_batch(layout).to_dgl()

    @torch.inference_mode(False)
    def text_batch(self, source: Layout | Sequence[Source]) -> TextBatch:
        """The nodes, features and edges of a batch, which models take: :meth:`graph` without DGL.

        Parameters
        ----------
        source : a layout, or texts as for :meth:`layout`
        """
        layout = source if isinstance(source, Layout) else self.join([self.layout(source)])
        nodes, data = self._nodes(layout)
        edges, features = {}, {}
        try:
            for relation, third_party in zip(self.relations, self._are_third_party, strict=True):
                name = relation.canonical
                edges[name], features[name] = _edges(relation, layout, nodes, third_party=third_party)
        except EdgeCountError as error:
            longest = int(layout.lengths.max())
            if len(layout) == 1:
                advice = "Truncate it, cut it into shorter texts, or use narrower relations"
                raise EdgeCountError(f"{error.problem}. The text has {longest:,} tokens", advice) from error
            raise EdgeCountError(f"{error}. Of {len(layout)} texts the longest has {longest:,} tokens") from error
        return TextBatch(
            {node_type: torch.tensor(counts, dtype=torch.int64) for node_type, counts in nodes.items()},
            edges,
            # copies: the columns of a layout are shared by many batches
            {
                node_type: {name: torch.tensor(values) for name, values in data.get(node_type, {}).items()}
                for node_type in nodes
            },
            features,
        )

    def vet(self, layout: Layout) -> None:
        """Validate the edges of users' relations, as :meth:`text_batch` does, without those of the library.

        Raises
        ------
        GraphError
            naming the relation that fails
        """
        nodes, _ = self._nodes(layout)
        for relation in compress(self.relations, self._are_third_party):
            _edges(relation, layout, nodes, third_party=True)

    def _nodes(self, layout: Layout) -> tuple[dict[str, Ints], dict[str, Mapping[str, npt.NDArray[Any]]]]:
        """The number of nodes of each type in each sentence, and node features."""
        nodes: dict[str, Ints] = {TOKEN: layout.lengths}
        data: dict[str, Mapping[str, npt.NDArray[Any]]] = {
            TOKEN: {
                "position": layout.positions.astype(np.int32),
                "word": layout.word_ids.astype(np.int32),
                **layout.features,
            }
        }
        if any(WORD in (relation.source, relation.target) for relation in self.relations):
            nodes[WORD] = layout.word_counts
            data[WORD] = {"position": count_up(layout.word_counts).astype(np.int32)}
        for relation in self._with_nodes:
            with errors_naming(relation):
                added = relation.nodes(layout)
                nodes |= {node_type: new.per_sentence for node_type, new in added.items()}
                data |= {node_type: new.data for node_type, new in added.items()}
        return nodes, data

    def batch(self, sentences: Sequence[Source]) -> DGLGraph:
        """The DGL graph of many sentences; equals ``dgl.batch`` of their single graphs, edge for edge."""
        return self.graph(self.join([self.layout(sentences)]))

    def build(self, sentence: Source) -> DGLGraph:
        """The DGL graph of one sentence."""
        return self.batch([sentence])

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence over all relations, for budgets."""
        counts = (count_edges(relation, layout) for relation in self.relations)
        return sum(counts, start=np.zeros(len(layout), np.int64))

    def __repr__(self) -> str:
        return f"TextGraphBuilder({list(self.relations)}, cls={self.cls})"


def _edges(
    relation: Relation, layout: Layout, nodes: Mapping[str, Ints], *, third_party: bool
) -> tuple[Edges, dict[str, Tensor]]:
    """The edges of a relation and their features; those of a user's relation are validated."""
    if third_party:
        check_nodes(relation, layout, nodes)
    sources, destinations = nodes[relation.source], nodes[relation.target]
    num_sources = int(sources.sum())
    with errors_naming(relation) if third_party else nullcontext():
        if isinstance(relation, RangeRelation) and type(relation).edges is RangeRelation.edges:
            first, stop = relation.bounds(layout)
            if third_party:
                first, stop = validate_bounds(relation.name, (first, stop), sources, destinations)
            return range_edges(first, stop, num_sources, relation.name), {}
        arrays = relation.edges(layout)
        if third_party:
            validate_edges(relation.name, arrays, sources, destinations)
        return arrays.to_edges(num_sources), {name: torch.from_numpy(values) for name, values in arrays.data.items()}


def _check_names(relations: Sequence[Relation]) -> None:
    names = [relation.canonical for relation in relations]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise ConfigError(f"relation {repeated[1]!r} is given twice; each needs a name of its own")


def _select_vectors(
    relations: Sequence[Relation], vectors: npt.NDArray[np.floating] | None
) -> npt.NDArray[np.floating] | None:
    """The vectors, if a relation compares words; an error if it lacks them."""
    comparing = next((relation for relation in relations if relation.needs_vectors), None)
    if comparing and vectors is None:
        raise ConfigError(
            f"relation {comparing.name!r} compares words and needs vectors; give TextGraphBuilder(vectors=...), or "
            "a model word vectors that it does not tune ({vectors}, {tune_vectors=False})",
            options=("vectors", "tune_vectors"),
        )
    return vectors if comparing else None


def _find_dependency(relations: Sequence[Relation]) -> Dependency:
    """The dependency relation whose labels all others share; the default one if there is none."""
    operands = chain.from_iterable(map(iterate_operands, relations))
    first, *others = [operand for operand in operands if isinstance(operand, Dependency)] or [Dependency()]
    if any(other.labels != first.labels for other in others):
        raise ConfigError("relation 'dependency' is given with different labels; words and tokens share them")
    return first


def _drop_repeated_membership(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """Keep only the first of several membership relations that other relations added."""
    first = next((relation for relation in relations if type(relation) is Membership), None)
    return tuple(relation for relation in relations if relation is first or type(relation) is not Membership)


def _with_sentence_ids(sentence: Sentence) -> Sentence:
    """Assign words to sentences by punctuation, unless they are assigned already."""
    if sentence.sentence_ids is not None:
        return sentence
    return replace(sentence, sentence_ids=assign_sentence_ids(sentence.words))


def _as_sentence(source: Source) -> Sentence:
    if isinstance(source, str):
        raise DataError(
            f"{source[:30]!r} is a raw text",
            hint="Give TextGraphBuilder(vocabulary=...) to tokenize it, or give a list of words.",
        )
    return source if isinstance(source, Sentence) else Sentence(source)

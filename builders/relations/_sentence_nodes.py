"""Relations ``sentence`` and ``document``: nodes for the sentences of a text and for the whole text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints
from graphattn._schema import DOCUMENT, SENTENCE, TOKEN
from graphattn.builders._batch import Nodes
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import CompoundRelation, RangeRelation, Relation


class SentenceNodes(CompoundRelation):
    """Tokens attend to their sentence's tokens and node; a sentence's node to its tokens and all sentence nodes.

    The sentences are those of ``Sentence.sentence_ids``, or else end with punctuation. This is the graph of ETC for
    structured inputs: one global token for each sentence, and long-to-long attention only inside the sentence.

    References
    ----------
    Ainslie et al.: ETC: Encoding Long and Structured Inputs in Transformers. EMNLP 2020. arXiv:2004.08483, section 3.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> batch = TextGraphBuilder([SentenceNodes()], cls=False).text_batch([["no", ".", "we", "stay", "."]])
    >>> batch.num_nodes("sentence"), batch.edges["token", "sentence", "token"].num_edges
    (2, 13)
    """

    name = SENTENCE

    @override
    def parts(self) -> tuple[Relation, ...]:
        return (
            _WithinSentence(self.name),
            _SentenceToToken(self.name),
            _TokenToSentence(self.name),
            _BetweenSentences(self.name),
        )


class DocumentTree(CompoundRelation):
    """A tree of tokens, sentences and the document: parents and children attend to each other, and all to themselves.

    The number of edges is linear in the text's length.

    References
    ----------
    Yang, Yang, Dyer, He, Smola, Hovy: Hierarchical Attention Networks for Document Classification. NAACL 2016.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> batch = TextGraphBuilder([DocumentTree()], cls=False).text_batch([["no", ".", "we", "stay", "."]])
    >>> edges = sum(relation.num_edges for relation in batch.edges.values())
    >>> batch.num_nodes("sentence"), batch.num_nodes("document"), edges
    (2, 1, 22)
    """

    name = DOCUMENT

    @override
    def parts(self) -> tuple[Relation, ...]:
        return (
            _SelfLoops(self.name, TOKEN),
            _SentenceToToken(self.name),
            _TokenToSentence(self.name),
            _SelfLoops(self.name, SENTENCE),
            _DocumentToSentence(self.name),
            _SentenceToDocument(self.name),
            _SelfLoops(self.name, DOCUMENT),
        )


class _WithSentences(RangeRelation):
    needs_sentences = True

    def __init__(self, name: str):
        self.name = name

    @override
    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        counts = {SENTENCE: layout.sentence_counts, DOCUMENT: np.ones(len(layout), np.int64)}
        return {node_type: _number_nodes(counts[node_type]) for node_type in {self.source, self.target} - {TOKEN}}


class _SelfLoops(_WithSentences):
    def __init__(self, name: str, node_type: str):
        super().__init__(name)
        self.source = self.target = node_type

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        counts = {TOKEN: layout.lengths, SENTENCE: layout.sentence_counts, DOCUMENT: np.ones(len(layout), np.int64)}
        nodes = np.arange(int(counts[self.target].sum()))
        return nodes, nodes + 1


class _WithinSentence(_WithSentences):
    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = _tokens_of_sentences(layout)
        sentences = layout.inner_sentence_of_token
        return first[sentences], stop[sentences]


class _SentenceToToken(_WithSentences):
    source = SENTENCE

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.inner_sentence_of_token, layout.inner_sentence_of_token + 1


class _TokenToSentence(_WithSentences):
    target = SENTENCE

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return _tokens_of_sentences(layout)


class _BetweenSentences(_WithSentences):
    source = target = SENTENCE

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        counts = layout.sentence_counts
        starts = np.repeat(layout.sentence_starts, counts)
        return starts, starts + np.repeat(counts, counts)


class _DocumentToSentence(_WithSentences):
    source, target = DOCUMENT, SENTENCE

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        texts = np.repeat(np.arange(len(layout)), layout.sentence_counts)
        return texts, texts + 1


class _SentenceToDocument(_WithSentences):
    source, target = SENTENCE, DOCUMENT

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.sentence_starts, layout.sentence_starts + layout.sentence_counts


def _tokens_of_sentences(layout: Layout) -> tuple[Ints, Ints]:
    """First token of each sentence, and one past its last."""
    sizes = np.bincount(layout.inner_sentence_of_token, minlength=int(layout.sentence_counts.sum()))
    ends = np.cumsum(sizes)
    return ends - sizes, ends


def _number_nodes(per_sentence: Ints) -> Nodes:
    starts = np.cumsum(per_sentence) - per_sentence
    position = np.arange(int(per_sentence.sum())) - np.repeat(starts, per_sentence)
    return Nodes(per_sentence, {"position": position.astype(np.int32)})

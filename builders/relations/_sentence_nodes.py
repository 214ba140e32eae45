"""Relations ``sentence`` and ``document``: nodes for the sentences of a text and for the whole text.

Tokens, sentences and the document form a tree; tokens and the relay node of :mod:`.star` form another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints, count_up
from graphattn._schema import DOCUMENT, RELAY, SENTENCE, TOKEN
from graphattn.builders._batch import Nodes
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import CompoundRelation, RangeRelation, Relation

_CHILDREN = {SENTENCE: TOKEN, DOCUMENT: SENTENCE, RELAY: TOKEN}
"""Type of a parent -> type of its children."""


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
            FromSiblings(self.name, SENTENCE),
            FromParent(self.name, SENTENCE),
            FromChildren(self.name, SENTENCE),
            FromSiblings(self.name, DOCUMENT),
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
            FromItself(self.name, TOKEN),
            FromParent(self.name, SENTENCE),
            FromChildren(self.name, SENTENCE),
            FromItself(self.name, SENTENCE),
            FromParent(self.name, DOCUMENT),
            FromChildren(self.name, DOCUMENT),
            FromItself(self.name, DOCUMENT),
        )


class _TreeRelation(RangeRelation):
    """A relation between tree nodes, under the name of a compound relation."""

    def __init__(self, name: str, source: str, target: str):
        self.name, self.source, self.target = name, source, target
        self.needs_sentences = SENTENCE in (source, target)

    @override
    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        counts = {node_type: _count_nodes(layout, node_type) for node_type in {self.source, self.target} - {TOKEN}}
        return {
            node_type: Nodes(count, {"position": count_up(count).astype(np.int32)})
            for node_type, count in counts.items()
        }


class FromItself(_TreeRelation):
    """Self-loops."""

    def __init__(self, name: str, node_type: str):
        super().__init__(name, node_type, node_type)

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        nodes = np.arange(int(_count_nodes(layout, self.target).sum()))
        return nodes, nodes + 1


class FromParent(_TreeRelation):
    """Every child attends to its parent."""

    def __init__(self, name: str, parent: str):
        super().__init__(name, parent, _CHILDREN[parent])

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = _find_children(layout, self.source)
        parents = np.repeat(np.arange(len(first)), stop - first)
        return parents, parents + 1


class FromChildren(_TreeRelation):
    """Every parent attends to its children."""

    def __init__(self, name: str, parent: str):
        super().__init__(name, _CHILDREN[parent], parent)

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return _find_children(layout, self.target)


class FromSiblings(_TreeRelation):
    """Every child attends to all children of its parent."""

    def __init__(self, name: str, parent: str):
        super().__init__(name, _CHILDREN[parent], _CHILDREN[parent])
        self.parent, self.needs_sentences = parent, True

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = _find_children(layout, self.parent)
        return np.repeat(first, stop - first), np.repeat(stop, stop - first)


def _count_nodes(layout: Layout, node_type: str) -> Ints:
    """(B,) number of nodes of a type in each text."""
    if node_type == TOKEN:
        return layout.lengths
    return layout.sentence_counts if node_type == SENTENCE else np.ones(len(layout), np.int64)


def _find_children(layout: Layout, parent: str) -> tuple[Ints, Ints]:
    """First child of each node of a type, and one past its last."""
    sizes: Ints
    if parent == SENTENCE:
        sizes = np.bincount(layout.inner_sentence_of_token, minlength=int(layout.sentence_counts.sum()))
    else:
        sizes = _count_nodes(layout, _CHILDREN[parent])
    ends = np.cumsum(sizes)
    return ends - sizes, ends

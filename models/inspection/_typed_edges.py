"""Edges of one type, of a batch or of one result, for sums over a corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphattn._ragged import Ints
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import TextBatch
from graphattn.models.inspection._attention_map import AttentionMap, Floats
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection._edge_kinds import CLS_TOKEN, OTHER, EdgeKinds
from graphattn.models.inspection._head_sums import HeadSums, shares_of_strongest
from graphattn.models.inspection._word_arcs import WordArcs

CROSS_KINDS = [CLS_TOKEN, OTHER]
"""Kinds of edges from a source to a target text."""
SEQUENTIAL = (TOKEN, WORD)
"""Node types with an order, so that their edges have distances and kinds."""


class TypedEdges:
    """Edges of one type in the order of their targets.

    Parameters
    ----------
    sources, targets : (E,) nodes; targets ascend
    num_targets : number of nodes that can attend
    target_type : name of these nodes
    unit : node type that distances count, or None
    names : of the kinds of edges
    codes : (E,) kind of each edge, an index into ``names``; None for edges without kinds
    arcs : pairs of words of parsed texts that the edges connect
    """

    def __init__(
        self,
        sources: Ints,
        targets: Ints,
        num_targets: int,
        target_type: str,
        unit: str | None,
        names: Sequence[str],
        codes: Ints | None,
        arcs: WordArcs | None = None,
    ):
        self.targets, self.num_targets, self.target_type = targets, num_targets, target_type
        self.unit, self.names, self.codes, self.arcs = unit, names, codes, arcs
        self.offsets = None if unit is None else sources - targets

    @classmethod
    def of_batch(cls, graph: TextBatch, edge_type: tuple[str, str, str], edge_kinds: EdgeKinds) -> TypedEdges:
        """The edges of a type in a batch; ``edge_kinds`` are of its texts."""
        edges = graph.edges[edge_type]
        sources, targets = edges.sources.numpy(), edges.destinations.numpy()
        unit = edge_type[0] if edge_type[0] == edge_type[2] and edge_type[0] in SEQUENTIAL else None
        codes = arcs = None
        if unit is not None:
            codes = edge_kinds.codes(sources, targets, unit)
            arcs = WordArcs(edge_kinds, sources, targets, unit) if edge_kinds.is_parsed else None
        return cls(sources, targets, edges.num_destinations, edge_type[2], unit, edge_kinds.names, codes, arcs)


def typed_edges_of(attention: AttentionWeights, single: AttentionMap) -> tuple[TypedEdges, Floats]:
    """The edges of a map of one result, and their (E, heads) weights in the same order."""
    order = np.argsort(single.targets, kind="stable")
    sources, targets = single.sources[order], single.targets[order]
    source_part, target_part = single.source_part, single.target_part
    kinds, unit = attention.edge_kinds.get(source_part, (None, ""))
    is_cross = source_part != target_part and {source_part, target_part} <= attention.sentences.keys()
    names: Sequence[str] = ()
    codes: Ints | None = None
    arcs = None
    if is_cross:
        names, codes = CROSS_KINDS, ((sources > 0) | (not attention.has_cls(source_part))).astype(np.int64)
    elif kinds is not None and source_part == target_part:
        names, codes = kinds.names, kinds.codes(sources, targets, unit)
        arcs = WordArcs(kinds, sources, targets, unit) if kinds.is_parsed else None
    edges = TypedEdges(
        sources,
        targets,
        len(attention.tokens[target_part]),
        target_part,
        unit if source_part == target_part and kinds is not None else None,
        names,
        codes,
        arcs,
    )
    return edges, single.weights[order].astype(np.float64, copy=False)


def add_relation(sums: Sequence[HeadSums], weights: Floats, types: Sequence[TypedEdges]) -> None:
    """Add the edges of a relation for each of its heads; ``weights`` (E, heads) hold its edge types in order."""
    begin, degrees = 0, {edges.target_type: np.zeros(edges.num_targets, np.int64) for edges in types}
    for edges in types:
        values = weights[begin : begin + len(edges.targets)]
        begin += len(edges.targets)
        degrees[edges.target_type] += np.bincount(edges.targets, minlength=edges.num_targets)
        if edges.offsets is not None:
            strongest = shares_of_strongest(edges.targets, values, edges.num_targets)
            for column, head in enumerate(sums):
                head.add_offsets(edges.offsets, values[:, column], strongest[:, column])
        if edges.codes is not None:
            for column, head in enumerate(sums):
                masses = np.bincount(edges.codes, values[:, column], minlength=len(edges.names))
                head.add_kinds(dict(zip(edges.names, masses.tolist(), strict=True)))
        if edges.arcs is not None:
            for kind, counts in edges.arcs.count_matched_arcs(values).items():
                for head, count in zip(sums, counts.tolist(), strict=True):
                    head.followed[kind] = head.followed.get(kind, 0.0) + count
    positive = np.concatenate([counts[counts > 0] for counts in degrees.values()])
    for column, head in enumerate(sums):
        head.add_entropy(weights[:, column], positive)

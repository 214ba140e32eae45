"""Multi-scale attention: projections around ``attend``, with each head bound to one relation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._attention import attend_layer
from graphattn._backends.call import Rows
from graphattn._edges import Edges, Graph, edges_for_layer
from graphattn._precision import at_least_float32
from graphattn._transforms import OpaqueModule
from graphattn._validation import require_heads, require_range
from graphattn.exceptions import GraphError
from graphattn.layers._linear import Linear, is_plain, linear

MIN_NODES = 256
"""With fewer nodes, skipping unneeded projections takes longer than it saves."""


class MultiScaleAttention(OpaqueModule):
    r"""Multi-head self-attention in which each head sees one relation (MS-Trans, Eq. 9).

    .. math:: [head_1; \ldots; head_{N'}] W_O, \quad head_i = attend(relation_i, H W_Q, H W_K, H W_V)

    Parameters
    ----------
    in_feats : width of the input
    head_feats : features of one head
    heads : relation -> number of heads, in the order in which they are concatenated; zeros are allowed. Or the number
        of heads on a graph's only relation, such as that of ``dgl.graph``
    out_feats : width of the output, ``in_feats`` when None
    scale : factor on the dot products, 1/sqrt(head_feats) when None
    attn_drop : dropout on the attention weights
    bias : whether the four projections have a bias
    backend : passed on to :func:`graphattn.attend`
    distances : relation -> k, for relative positions: the relation's heads share a learned vector a for each of the
        2k + 1 clipped distances, and scores are q·(key + a) (Shaw et al. 2018, Eq. 4)

    Raises
    ------
    ConfigError
        when there is no head at all, or a width, a distance or the dropout is out of range

    Examples
    --------
    >>> MultiScaleAttention(300, 30, {"window:1": 5, "window:3": 3, "dependency": 2})
    MultiScaleAttention(300 -> 300, heads of 30: window:1 x5, window:3 x3, dependency x2)
    """

    def __init__(
        self,
        in_feats: int,
        head_feats: int,
        heads: Mapping[str, int] | int,
        *,
        out_feats: int | None = None,
        scale: float | None = None,
        attn_drop: float = 0.0,
        bias: bool = True,
        backend: str = "auto",
        distances: Mapping[str, int] | None = None,
    ):
        super().__init__()
        out_feats = in_feats if out_feats is None else out_feats
        self.heads = require_heads(heads)
        for name, width in (("in_feats", in_feats), ("head_feats", head_feats), ("out_feats", out_feats)):
            require_range(name, width, min=1)
        require_range("attn_drop", attn_drop, min=0, below=1)
        self.num_heads = sum(self.heads.values())
        self.in_feats, self.head_feats = in_feats, head_feats
        self.scale = 1.0 / math.sqrt(head_feats) if scale is None else scale
        self.attn_drop, self.backend = attn_drop, backend
        width = self.num_heads * head_feats
        self.project = Linear(in_feats, 3 * width, bias=bias)
        self.output = Linear(width, out_feats, bias=bias)
        self.distances = {relation: clip for relation, clip in (distances or {}).items() if relation in self.heads}
        for clip in self.distances.values():
            require_range("distances", clip, min=1)
        self.distance_vectors = nn.ParameterList(
            nn.Parameter(torch.empty(2 * clip + 1, head_feats)) for clip in self.distances.values()
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each of W_Q, W_K, W_V, W_O and the distances; biases zero."""
        for weight in (*self.project.weight.chunk(3), self.output.weight, *self.distance_vectors):
            nn.init.xavier_uniform_(weight)
        for module in (self.project, self.output):
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self,
        graph: Graph | Mapping[str, Edges],
        inputs: Tensor | tuple[Tensor, Tensor],
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Attend along the layer's relations.

        Parameters
        ----------
        graph : a graph with the relations; or their edges from :func:`~graphattn._edges.edges_of`. A layer with heads
            on one relation also takes a graph without names: :class:`~graphattn._edges.Edges`, an ``edge_index`` (a row
            of sources, a row of destinations), or a sparse matrix (rows are destinations, as in PyG's ``adj_t``)
        inputs : (N, in_feats); or for relations between other nodes, such as those of a DGL block, a pair:
            (N_src, in_feats) and (N_dst, in_feats)
        weights : when given, filled with relation -> (E, heads of the relation), in edge-id order; the key is ``only``
            if ``heads`` is a number

        Returns
        -------
        (N, out_feats), or (N_dst, out_feats)

        Raises
        ------
        GraphError
            when the graph lacks a relation that has heads, or the inputs have another width
        """
        for tensor in inputs if isinstance(inputs, tuple) else (inputs,):
            if tensor.dim() != 2 or tensor.shape[1] != self.in_feats:
                raise GraphError(f"inputs has shape {tuple(tensor.shape)}; expected (nodes, {self.in_feats})")
        if isinstance(inputs, tuple):
            if self.distances:
                raise GraphError("relative positions are distances among the same nodes; give one tensor, no pair")
            edges = edges_for_layer(graph, self.heads, *inputs)
            of_sources, of_destinations = (self._by_head(self.project(tensor)) for tensor in inputs)
            keys, values = of_sources[:, self.num_heads :].chunk(2, 1)
            return self.output(
                self.attend_rows(edges, (of_destinations[:, : self.num_heads], keys, values), None, weights)
            )
        edges = edges_for_layer(graph, self.heads, inputs)
        if not self.distances:
            return self.output(self.attend_rows(edges, self._project_needed(edges, inputs), None, weights))
        rows = self._by_head(self.project(inputs))
        queries = rows[:, : self.num_heads].split(list(self.heads.values()), dim=1)
        biases = [self._distance_scores(*each) for each in zip(self.heads, edges, queries, strict=True)]
        return self.output(self.attend_rows(edges, rows, biases, weights))

    def attend_rows(
        self,
        edges: Sequence[Edges],
        rows: Rows,
        biases: Sequence[Tensor | None] | None,
        weights: dict[str, Tensor] | None,
    ) -> Tensor:
        """The (N, H D) input of ``output``, from projected nodes as :func:`~graphattn.attend_heads` takes them.

        ``biases`` are (E, heads) for each relation.
        """
        attended, by_relation = attend_layer(
            edges,
            list(self.heads.values()),
            rows,
            scale=self.scale,
            biases=biases,
            dropout=self.attn_drop if self.training else 0.0,
            backend=self.backend,
            return_weights=weights is not None,
        )
        if weights is not None and by_relation is not None:
            weights.update(zip(self.heads, by_relation, strict=True))
        return attended.flatten(1)

    def _project_needed(self, edges: Sequence[Edges], inputs: Tensor) -> Tensor:
        """(N, P, D) for :func:`~graphattn.attend_heads`, without queries and keys of heads on an identity."""
        scored = [not relation.is_identity for relation in edges]
        if len(inputs) < MIN_NODES or all(scored) or not is_plain(self.project):
            return self._by_head(self.project(inputs))
        width, start, rows = self.num_heads * self.head_feats, 0, []
        for count, needed in zip(self.heads.values(), scored, strict=True):
            if needed:
                rows.append(slice(start, start + count * self.head_feats))
            start += count * self.head_feats
        rows += [slice(each.start + width, each.stop + width) for each in rows] + [slice(2 * width, None)]
        weight, bias = (
            None if parameter is None else torch.cat([parameter[each] for each in rows])
            for parameter in (self.project.weight, self.project.bias)
        )
        assert weight is not None
        return self._by_head(linear(inputs, weight, bias))

    def _by_head(self, projected: Tensor) -> Tensor:
        """(N, P D) -> (N, P, D), on a CPU at least float32: a GPU's attention sums bfloat16 in float32 itself."""
        precise = projected if projected.is_cuda else at_least_float32(projected)
        return precise.unflatten(1, (-1, self.head_feats))

    def _distance_scores(self, relation: str, edges: Edges, query: Tensor) -> Tensor | None:
        """(E, heads of the relation) added to the scores, in edge-id order."""
        if relation not in self.distances:
            return None
        vectors = self.distance_vectors[list(self.distances).index(relation)].to(query.dtype)
        return distance_scores(edges, query, vectors, self.scale)

    @override
    def extra_repr(self) -> str:
        heads = ", ".join(f"{relation} x{count}" for relation, count in self.heads.items())
        return f"{self.in_feats} -> {self.output.out_features}, heads of {self.head_feats}: {heads}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def distance_scores(edges: Edges, query: Tensor, vectors: Tensor, scale: float) -> Tensor:
    """The terms (E, H), by edge id, that relative positions add to the scores (Shaw et al. 2018, Eq. 4).

    ``vectors`` (2k + 1, D) belong to the distances clipped to k, ``query`` is (N, H, D).
    """
    clip = len(vectors) // 2
    ids = (edges.sources - edges.destinations).clamp(-clip, clip) + clip
    with torch.autocast(query.device.type, enabled=False):  # scores have the query's type
        scores = query @ vectors.T * scale
    return edges.by_id(scores[edges.destinations, :, ids])

"""Multi-scale attention: projections around ``attend``, with each head bound to one relation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._attention import attend_layer
from graphattn._backends.call import Rows
from graphattn._backends.torch import sum_by_weights
from graphattn._edges import Edges, Graph, edges_for_layer
from graphattn._precision import at_least_float32
from graphattn._transforms import OpaqueModule
from graphattn._validation import require_heads, require_range
from graphattn.exceptions import GraphError
from graphattn.layers._linear import Linear, has_hooks, is_plain, linear
from graphattn.layers._packed import PackedLinear

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
    edge_feats : relation -> number of kinds of its edges, such as labels of dependencies: each head learns a number for
        each kind, which is added to the scores
    edge_vectors : whether each head also learns a vector for each kind, which is added to the keys and the values of
        such edges, as ``TransformerConv(edge_dim=...)`` of PyTorch Geometric does (Shi et al. 2021, Eq. 3 and 4)

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
        edge_feats: Mapping[str, int] | None = None,
        edge_vectors: bool = False,
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
        self.edge_feats = {
            relation: count for relation, count in (edge_feats or {}).items() if self.heads.get(relation)
        }
        for count in self.edge_feats.values():
            require_range("edge_feats", count, min=1)
        sizes = [(count, self.heads[relation]) for relation, count in self.edge_feats.items()]
        self.kind_biases = nn.ParameterList(nn.Parameter(torch.empty(*size)) for size in sizes)
        """(kinds, heads of the relation) for each relation of ``edge_feats``."""
        self.kind_vectors = nn.ParameterList(
            nn.Parameter(torch.empty(*size, head_feats)) for size in sizes if edge_vectors
        )
        """(kinds, heads of the relation, head_feats), of which each head has its own."""
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each of W_Q, W_K, W_V, W_O, distances and kinds of edges; biases zero."""
        of_heads = (vectors[:, head] for vectors in self.kind_vectors for head in range(vectors.shape[1]))
        for weight in (*self.project.weight.chunk(3), self.output.weight, *self.distance_vectors, *of_heads):
            nn.init.xavier_uniform_(weight)
        for biases in self.kind_biases:
            nn.init.zeros_(biases)
        for module in (self.project, self.output):
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self,
        graph: Graph | Mapping[str, Edges],
        inputs: Tensor | tuple[Tensor, Tensor],
        *,
        edge_feats: Mapping[str, Tensor] | None = None,
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
        edge_feats : relation -> (E,) kinds of its edges, whole numbers from 0 in edge-id order, for each relation of
            the layer's ``edge_feats``
        weights : when given, filled with relation -> (E, heads of the relation), in edge-id order; the key is ``only``
            if ``heads`` is a number

        Returns
        -------
        (N, out_feats), or (N_dst, out_feats)

        Raises
        ------
        GraphError
            when the graph lacks a relation that has heads, the inputs have another width, or the kinds of edges are
            missing or do not fit
        """
        for tensor in inputs if isinstance(inputs, tuple) else (inputs,):
            if tensor.dim() != 2 or tensor.shape[1] != self.in_feats:
                raise GraphError(f"inputs has shape {tuple(tensor.shape)}; expected (nodes, {self.in_feats})")
        if isinstance(inputs, tuple):
            if self.distances:
                raise GraphError("relative positions are distances among the same nodes; give one tensor, no pair")
            edges = edges_for_layer(graph, self.heads, *inputs)
            of_sources, of_destinations = (self._by_head(self.project(tensor)) for tensor in inputs)
            queries = of_destinations[:, : self.num_heads]
            keys, values = of_sources[:, self.num_heads :].chunk(2, 1)
            rows: Rows = (queries, keys, values)
        else:
            edges = edges_for_layer(graph, self.heads, inputs)
            if not self.distances and not self.edge_feats:
                return self.output(self.attend_rows(edges, self._project_needed(edges, inputs), None, weights))
            rows = self._by_head(self.project(inputs))
            queries = rows[:, : self.num_heads]
        kinds = self._check_kinds(dict(zip(self.heads, edges, strict=True)), edge_feats or {})
        if not self.distances and not kinds:
            return self.output(self.attend_rows(edges, rows, None, weights))
        by_relation = zip(self.heads, edges, queries.split(list(self.heads.values()), dim=1), strict=True)
        biases = [self._score_edges(*each, kinds.get(each[0])) for each in by_relation]
        if not self.kind_vectors:
            return self.output(self.attend_rows(edges, rows, biases, weights))
        return self.output(self._attend_with_vectors(edges, rows, biases, kinds, weights))

    def _check_kinds(self, edges: Mapping[str, Edges], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Relation -> (E,) kinds of its edges, for each relation that has some."""
        for relation, count in self.edge_feats.items():
            if relation not in given:
                raise GraphError(f"edge_feats lacks the kinds of the edges of {relation!r}")
            kinds, expected = given[relation], (edges[relation].num_edges,)
            if tuple(kinds.shape) != expected or kinds.is_floating_point():
                shape = tuple(kinds.shape)
                raise GraphError(
                    f"edge_feats[{relation!r}] is {kinds.dtype} {shape}; expected whole numbers {expected}"
                )
            if len(kinds) and kinds.device.type == "cpu" and not 0 <= kinds.min() <= kinds.max() < count:
                raise GraphError(f"edge_feats[{relation!r}] has kinds that are not in 0..{count - 1}")
        device = next(self.parameters()).device
        return {relation: given[relation].to(device, torch.long) for relation in self.edge_feats}

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
        is_packed = isinstance(self.project, PackedLinear) and not has_hooks(self.project)
        if len(inputs) < MIN_NODES or all(scored) or not (is_packed or is_plain(self.project)):
            return self._by_head(self.project(inputs))
        width, start, rows = self.num_heads * self.head_feats, 0, []
        for count, needed in zip(self.heads.values(), scored, strict=True):
            if needed:
                rows.append(slice(start, start + count * self.head_feats))
            start += count * self.head_feats
        rows += [slice(each.start + width, each.stop + width) for each in rows] + [slice(2 * width, None)]
        if isinstance(self.project, PackedLinear):
            return self._by_head(self.project.select(rows)(inputs))
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

    def _score_edges(self, relation: str, edges: Edges, query: Tensor, kinds: Tensor | None) -> Tensor | None:
        """(E, heads of the relation) added to the scores, in edge-id order: of distances and of kinds of edges."""
        scores = None
        if relation in self.distances:
            vectors = self.distance_vectors[list(self.distances).index(relation)].to(query.dtype)
            scores = distance_scores(edges, query, vectors, self.scale)
        if kinds is None:
            return scores
        number = list(self.edge_feats).index(relation)
        of_kinds = self.kind_biases[number].to(query.dtype)[kinds]
        if self.kind_vectors:
            _, destinations = edges.ends_by_id()
            with torch.autocast(query.device.type, enabled=False):  # scores have the query's type
                by_kind = torch.einsum("nhd,khd->nkh", query, self.kind_vectors[number].to(query.dtype))
            of_kinds = of_kinds + self.scale * by_kind[destinations, kinds]
        return of_kinds if scores is None else scores + of_kinds

    def _attend_with_vectors(
        self,
        edges: Sequence[Edges],
        rows: Rows,
        biases: Sequence[Tensor | None],
        kinds: Mapping[str, Tensor],
        weights: dict[str, Tensor] | None,
    ) -> Tensor:
        """As :meth:`attend_rows`, with the vectors of kinds of edges added to the values."""
        counts, rate = list(self.heads.values()), self.attn_drop if self.training else 0.0
        attended, of_relations = attend_layer(
            edges, counts, rows, scale=self.scale, biases=biases, backend=self.backend, return_weights=True
        )
        assert of_relations is not None
        if weights is not None:
            weights.update(zip(self.heads, of_relations, strict=True))
        values = (rows[:, -self.num_heads :] if isinstance(rows, Tensor) else rows[2]).split(counts, dim=1)
        parts = list(attended.split(counts, dim=1))
        for number, (relation, of_edges) in enumerate(zip(self.heads, edges, strict=True)):
            dropped = F.dropout(of_relations[number], rate)
            if rate:
                parts[number] = sum_by_weights(of_edges, of_edges.by_slot(dropped), values[number])
            if relation in kinds:
                vectors = self.kind_vectors[list(self.edge_feats).index(relation)].to(attended.dtype)
                _, destinations = of_edges.ends_by_id()
                cells = destinations * len(vectors) + kinds[relation]
                shares = dropped.new_zeros(of_edges.num_destinations * len(vectors), dropped.shape[1])
                shares = shares.index_add(0, cells, dropped).unflatten(0, (-1, len(vectors)))
                parts[number] = parts[number] + torch.einsum("nkh,khd->nhd", shares.to(attended.dtype), vectors)
        return torch.cat(parts, dim=1).flatten(1)

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

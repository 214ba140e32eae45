"""The attention layer of MTSA: projections around ``tensorized_attend``, with each head bound to one relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._backends.cpu.tensorized.edges import weights_by_feature
from graphattn._backends.cpu.tensorized.scores import SCALE_FUNCTIONS, ScoredRows, ScoreRule
from graphattn._edges import Edges, Graph, edges_for_layer
from graphattn._tensorized import attend_tensorized
from graphattn._transforms import OpaqueModule
from graphattn._validation import require_choice, require_heads, require_range
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear, by_head, linear

_Map = tuple[Tensor, Tensor | None]
"""Weight and bias."""
VARIANTS = ("paper", "gated")
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda inputs: F.elu(inputs, inplace=True),
    "relu": lambda inputs: F.relu(inputs, inplace=True),
    "tanh": torch.tanh_,
}
"""Name -> in-place function: nothing else needs its input, and its gradient uses the result."""

SOURCE_FUNCTIONS = ("identity", "sigmoid", "tanh")


class HeadLinear(nn.Module):
    """A separate linear map for each head, in one batched product."""

    def __init__(self, heads: int, in_feats: int, out_feats: int, *, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, in_feats, out_feats))
        self.bias = nn.Parameter(torch.zeros(heads, 1, out_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each head; biases zero."""
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(H, N, in_feats) -> (H, N, out_feats)."""
        return by_head(inputs, self.weight, self.bias)


class TensorizedAttention(OpaqueModule):
    r"""Multi-mask tensorised self-attention (MTSA): each head sees one relation, each feature has its own weights.

    ``paper`` is exactly Eq. 5-13 and Algorithm 1:

    .. math:: q, k, v = W^{t1} x, W^{t2} x, W^{t3} x, \quad S = W^{s2} \sigma_m(W^{s1} k + b^{s1}) + b^{s2}, \quad
              W^o [H_1; \ldots; H_h]

    ``gated`` is our reading of the parameter counts in the paper's Table 3, which Eq. 5-13 do not give. The counts are
    rounded to 0.1m, and we reach them only by assuming a highway layer in the classifier, which our head does not have.
    Values pass through the activation, q, k and S are computed from them, :math:`\sigma_t` is log-sigmoid, and a fusion
    gate for each head, as in DiSAN, replaces :math:`W^o`:

    .. math:: v = \sigma_m(W x + b), \quad g = sigmoid(W^g [v; H] + b^g), \quad g \odot v + (1 - g) \odot H

    Each relation uses slices of the projections' parameters, so hooks on those modules are not called.

    Parameters
    ----------
    in_feats : width of the input
    head_feats : features of one head
    heads : relation -> number of heads, in the order in which they are concatenated; zeros are allowed
    variant : ``"paper"`` or ``"gated"``
    activation : sigma_m: ``"elu"``, ``"relu"`` or ``"tanh"``
    scale_function : sigma_t, see :func:`graphattn.tensorized_attend`; the variant's own when None
    source_function : sigma_s: ``"identity"``, ``"sigmoid"`` or ``"tanh"``, c tanh(x / c)
    bound : c of the two functions' ``"tanh"``
    token2token, source2token : whether each kind of scores is used; without both, weights are uniform
    source_maps : maps in source2token scores: 2 as in Eq. 9; or 1 without activation, S = W k + b, which fits the
        parameter count of Table 6
    gate : whether ``gated`` has its fusion gate; without it the layer returns the heads
    dropout : on the input of every projection
    attn_drop : on the weighted values that are summed
    backend : passed on to :func:`graphattn.tensorized_attend`

    Raises
    ------
    ConfigError
        when there is no head at all, a name does not exist, or a width or a probability is out of range

    Examples
    --------
    >>> TensorizedAttention(300, 300, {"forward": 1, "backward": 1}, variant="gated")
    TensorizedAttention(300 -> 600, gated, heads of 300: forward x1, backward x1)
    """

    reads_weights = True
    """Takes the weights of its linear layers apart instead of calling them, so that they stay as they are."""

    def __init__(
        self,
        in_feats: int,
        head_feats: int,
        heads: Mapping[str, int] | int,
        *,
        variant: str = "paper",
        activation: str = "elu",
        scale_function: str | None = None,
        source_function: str = "identity",
        bound: float = 5.0,
        token2token: bool = True,
        source2token: bool = True,
        source_maps: int = 2,
        gate: bool = True,
        dropout: float = 0.0,
        attn_drop: float = 0.0,
        backend: str = "auto",
    ):
        super().__init__()
        self.heads = require_heads(heads)
        for name, width in (("in_feats", in_feats), ("head_feats", head_feats)):
            require_range(name, width, min=1)
        for name, probability in (("dropout", dropout), ("attn_drop", attn_drop)):
            require_range(name, probability, min=0, below=1)
        require_choice("variant", variant, VARIANTS)
        require_choice("activation", activation, ACTIVATIONS)
        require_choice("source_function", source_function, SOURCE_FUNCTIONS)
        require_range("bound", bound, above=0)
        require_range("source_maps", source_maps, min=1, max=2)
        scale_function = scale_function or ("log-sigmoid" if variant == "gated" else "identity")
        require_choice("scale_function", scale_function, SCALE_FUNCTIONS)
        self.num_heads = sum(self.heads.values())
        self.in_feats, self.head_feats, self.variant = in_feats, head_feats, variant
        self.activation, self.scale_function, self.source_function = activation, scale_function, source_function
        self.bound = bound
        self.token2token, self.source2token, self.backend = token2token, source2token, backend
        self.dropout, self.attn_drop = Dropout(dropout), Dropout(attn_drop)
        self.out_feats = self.num_heads * head_feats
        self._make_maps(gate, source_maps)
        self.reset_parameters()

    def _make_maps(self, gate: bool, source_maps: int) -> None:
        count, gated, feats = self.num_heads, self.variant == "gated", self.head_feats
        self.value = Linear(self.in_feats, self.out_feats, bias=gated)
        self.query: Linear | HeadLinear | None = None
        self.key: Linear | HeadLinear | None = None
        self.gate = self.output = self.source_inner = self.source_outer = None
        if gated and self.token2token:
            self.query, self.key = (HeadLinear(count, feats, feats, bias=False) for _ in range(2))
        elif self.token2token or (self.source2token and not gated):  # the paper's source scores use the keys
            self.key = Linear(self.in_feats, self.out_feats, bias=False)
            self.query = Linear(self.in_feats, self.out_feats, bias=False) if self.token2token else None
        if self.source2token:
            self.source_inner = HeadLinear(count, feats, feats) if source_maps == 2 else None
            self.source_outer = HeadLinear(count, feats, feats)
        if not gated:
            self.output = Linear(self.out_feats, self.out_feats, bias=False)
        elif gate:
            self.gate = HeadLinear(count, 2 * feats, feats)

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each head's maps; biases zero."""
        for module in self.children():
            if isinstance(module, HeadLinear):
                module.reset_parameters()
        for projection in (self.value, self.query, self.key):
            if isinstance(projection, Linear):
                for weight in projection.weight.chunk(self.num_heads):
                    nn.init.xavier_uniform_(weight)
        if self.value.bias is not None:
            nn.init.zeros_(self.value.bias)
        if self.output is not None:
            nn.init.xavier_uniform_(self.output.weight)

    def forward(
        self,
        graph: Graph | Mapping[str, Edges],
        inputs: Tensor,
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Attend along the layer's relations.

        Parameters
        ----------
        graph : a graph with the relations; or their edges from :func:`~graphattn._edges.edges_of`. A layer with heads
            on one relation also takes a graph without names: :class:`~graphattn._edges.Edges`, an ``edge_index`` (a row
            of sources, a row of destinations), or a sparse matrix (rows are destinations, as in PyG's ``adj_t``)
        inputs : (N, in_feats)
        weights : when given, filled with relation -> (E, heads of the relation), means over the features

        Returns
        -------
        (N, heads times head_feats)

        Raises
        ------
        GraphError
            when the graph lacks a relation that has heads
        """
        edges = dict(zip(self.heads, edges_for_layer(graph, self.heads, inputs), strict=True))
        results = []
        # one relation after the other, so that each frees its memory before the next
        for relation, (query, key, value, scores), gate in self._project(inputs):
            tensors = query, key, self.attn_drop(value), scores
            rows = ScoredRows(*(tensor.to(value.dtype).transpose(0, 1) for tensor in tensors))
            result, edge_weights = attend_tensorized(
                edges[relation], rows, self._rule, backend=self.backend, return_weights=weights is not None
            )
            if weights is not None and edge_weights is not None:
                weights[relation] = edge_weights
            results.append(result if gate is None else self._fuse(value, result.transpose(0, 1), gate).transpose(0, 1))
        out = torch.cat(results, dim=1).flatten(1)
        return out if self.output is None else self.output(self.dropout(out))

    def feature_weights(self, graph: Graph | Mapping[str, Edges], inputs: Tensor) -> dict[str, Tensor]:
        """Relation -> (E, heads of the relation, head_feats), the weights of each feature in edge-id order.

        Parameters
        ----------
        graph, inputs : as for the layer's call
        """
        edges = dict(zip(self.heads, edges_for_layer(graph, self.heads, inputs), strict=True))
        weights = {}
        with torch.no_grad():
            for relation, tensors, _ in self._project(inputs):
                rows = ScoredRows(*(tensor.transpose(0, 1) for tensor in tensors))
                weights[relation] = edges[relation].by_id(weights_by_feature(edges[relation], rows, self._rule))
        return weights

    @property
    def _rule(self) -> ScoreRule:
        return ScoreRule(self.head_feats**-0.5, self.scale_function, self.bound)

    def _project(self, inputs: Tensor) -> Iterator[tuple[str, tuple[Tensor, ...], _Map | None]]:
        """For each relation the query, key, value and source scores (H, N, ...) of its heads, and their gate."""
        rows = self.value(self.dropout(inputs))
        rows = ACTIVATIONS[self.activation](rows) if self.variant == "gated" else rows
        values = self._split(rows, self.num_heads).split(list(self.heads.values()))
        modules = (self.query, self.key, self.source_inner, self.source_outer, self.gate)
        for relation, value, *maps in zip(self.heads, values, *map(self._slice_maps, modules), strict=True):
            query_map, key_map, inner, outer, gate = maps
            key, query = (self._project_pairs(value, inputs, weights) for weights in (key_map, query_map))
            scores = self._score_sources(value if self.variant == "gated" else key, inner, outer)
            if not self.token2token:
                key = query
            yield relation, (query, key, value, torch.zeros_like(value) if scores is None else scores), gate

    def _slice_maps(self, module: Linear | HeadLinear | None) -> Sequence[_Map | None]:
        """Weight and bias of each relation's heads; None for maps that the layer lacks."""
        counts = list(self.heads.values())
        if module is None:
            return [None] * len(counts)
        sizes = counts if isinstance(module, HeadLinear) else [count * self.head_feats for count in counts]
        biases = [None] * len(counts) if module.bias is None else module.bias.split(sizes)
        return list(zip(module.weight.split(sizes), biases, strict=True))

    def _project_pairs(self, value: Tensor, inputs: Tensor, weights: _Map | None) -> Tensor:
        """(H, N, D) queries or keys of some heads; zeros without a map."""
        if weights is None:
            return value.new_zeros(*value.shape[:2], 1)
        if self.variant == "gated":
            return by_head(self.dropout(value), *weights)
        return self._split(linear(self.dropout(inputs), *weights), len(value))

    def _score_sources(self, features: Tensor, inner: _Map | None, outer: _Map | None) -> Tensor | None:
        """(H, N, F) source scores of some heads; None without a map."""
        if outer is None:
            return None
        if inner is not None:
            features = ACTIVATIONS[self.activation](by_head(self.dropout(features), *inner))
        scores = by_head(self.dropout(features), *outer)
        if self.source_function == "sigmoid":
            return scores.sigmoid()
        return self.bound * torch.tanh(scores / self.bound) if self.source_function == "tanh" else scores

    def _split(self, rows: Tensor, count: int) -> Tensor:
        """(N, H F) -> (H, N, F)."""
        return rows.view(-1, count, self.head_feats).transpose(0, 1)

    def _fuse(self, value: Tensor, attended: Tensor, gate: _Map) -> Tensor:
        """Interpolate between values and attention, (H, N, F) each, by the gate."""
        weight, bias = gate
        assert bias is not None
        of_values, of_attended = weight.chunk(2, dim=1)
        share = by_head(self.dropout(value), of_values, bias)
        share = by_head(self.dropout(attended), of_attended, share).sigmoid_()
        return torch.lerp(attended, value, share.to(value.dtype))

    @override
    def extra_repr(self) -> str:
        heads = ", ".join(f"{relation} x{count}" for relation, count in self.heads.items())
        return f"{self.in_feats} -> {self.out_feats}, {self.variant}, heads of {self.head_feats}: {heads}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

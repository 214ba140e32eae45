"""The attention layer of MTSA: projections around ``tensorized_attend``, with every head bound to one relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.edges import Edges, GraphBatch, edges_for_layer
from graphattn.exceptions import ConfigError
from graphattn.layers.dropout import Dropout
from graphattn.layers.linear import Linear, by_head, linear
from graphattn.tensorized import attend_tensorized, tensorized_weights

if TYPE_CHECKING:
    from dgl import DGLGraph

_Map = tuple[Tensor, Tensor | None]
"""Weight and bias."""
VARIANTS = ("paper", "gated")
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda inputs: F.elu(inputs, inplace=True),
    "relu": lambda inputs: F.relu(inputs, inplace=True),
    "tanh": torch.tanh_,
}
"""Name -> in-place function: projections are not needed afterwards, and its gradient uses the result."""

SOURCE_FUNCTIONS = ("identity", "sigmoid", "tanh")


class HeadLinear(nn.Module):
    """A separate linear map for each head, in one batched product.

    Parameters
    ----------
    heads : number of heads
    in_feats, out_feats : widths of one head
    bias : whether each map has one
    """

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


class TensorizedAttention(nn.Module):
    r"""Multi-mask tensorised self-attention: each head sees one relation, each feature has weights of its own (MTSA).

    ``paper`` is Eq. 5-13 and Algorithm 1 to the letter:

    .. math:: q, k, v = W^{t1} x, W^{t2} x, W^{t3} x, \quad S = W^{s2} \sigma_m(W^{s1} k + b^{s1}) + b^{s2}, \quad
              W^o [H_1; \ldots; H_h]

    ``gated`` is the variant that matches the numbers of parameters in the paper's Table 3 (its text does not describe
    it): values pass through the activation, q, k and S are computed from them, :math:`\sigma_t` is log-sigmoid, and a
    fusion gate for each head, as in DiSAN, replaces :math:`W^o`:

    .. math:: v = \sigma_m(W x + b), \quad g = sigmoid(W^g [v; H] + b^g), \quad g \odot v + (1 - g) \odot H

    Each relation uses slices of the projections' parameters, so hooks on those modules are not called.

    Parameters
    ----------
    in_feats : width of the input
    head_feats : features of one head
    heads : relation -> number of heads, in the order in which they are concatenated; zeros are allowed
    variant : ``"paper"`` or ``"gated"``
    activation : sigma_m: ``"elu"``, ``"relu"`` or ``"tanh"``
    scale_function : sigma_t, see :func:`graphattn.tensorized_attend`; None for the variant's own
    source_function : sigma_s: ``"identity"``, ``"sigmoid"`` or ``"tanh"``, c tanh(x / c)
    bound : c of the two functions' ``"tanh"``
    token2token, source2token : whether each kind of scores is used; without both, weights are uniform
    gate : whether ``gated`` has its fusion gate; otherwise it returns the heads
    dropout : on the input of every projection
    attn_drop : on the weighted values that are summed
    backend : passed on to :func:`graphattn.tensorized_attend`

    Raises
    ------
    ConfigError
        when there is no head at all, a name does not exist, or a width or a share is out of range

    Examples
    --------
    >>> TensorizedAttention(300, 300, {"forward": 1, "backward": 1}, variant="gated")
    TensorizedAttention(300 -> 600, gated, heads of 300: forward x1, backward x1)
    """

    def __init__(
        self,
        in_feats: int,
        head_feats: int,
        heads: Mapping[str, int],
        *,
        variant: str = "paper",
        activation: str = "elu",
        scale_function: str | None = None,
        source_function: str = "identity",
        bound: float = 5.0,
        token2token: bool = True,
        source2token: bool = True,
        gate: bool = True,
        dropout: float = 0.0,
        attn_drop: float = 0.0,
        backend: str = "auto",
    ):
        super().__init__()
        self.heads = {relation: count for relation, count in heads.items() if count}
        self.num_heads = sum(self.heads.values())
        if self.num_heads < 1 or min(self.heads.values()) < 0:
            raise ConfigError(f"heads are {dict(heads)}; give at least one relation a positive number of heads")
        for name, width in (("in_feats", in_feats), ("head_feats", head_feats)):
            if width < 1:
                raise ConfigError(f"{name} is {width}; it must be at least 1")
        for name, share in (("dropout", dropout), ("attn_drop", attn_drop)):
            if not 0.0 <= share < 1.0:
                raise ConfigError(f"{name} is {share}; it must be at least 0 and below 1")
        for name, value, known in (
            ("variant", variant, VARIANTS),
            ("activation", activation, tuple(ACTIVATIONS)),
            ("source_function", source_function, SOURCE_FUNCTIONS),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; choose one of: {', '.join(known)}")
        self.in_feats, self.head_feats, self.variant = in_feats, head_feats, variant
        self.activation, self.source_function, self.bound = activation, source_function, bound
        self.scale_function = scale_function or ("log-sigmoid" if variant == "gated" else "identity")
        self.token2token, self.source2token, self.backend = token2token, source2token, backend
        self.dropout, self.attn_drop = Dropout(dropout), Dropout(attn_drop)
        self.out_feats = self.num_heads * head_feats
        count, gated = self.num_heads, variant == "gated"
        self.value = Linear(in_feats, self.out_feats, bias=gated)
        self.query: Linear | HeadLinear | None = None
        self.key: Linear | HeadLinear | None = None
        self.gate = self.output = self.source_inner = self.source_outer = None
        pairs = token2token or (source2token and not gated)  # the paper's source scores are computed from the keys
        if gated and token2token:
            self.query, self.key = (HeadLinear(count, head_feats, head_feats, bias=False) for _ in range(2))
        elif pairs:
            self.key = Linear(in_feats, self.out_feats, bias=False)
            self.query = Linear(in_feats, self.out_feats, bias=False) if token2token else None
        if source2token:
            self.source_inner, self.source_outer = (HeadLinear(count, head_feats, head_feats) for _ in range(2))
        if not gated:
            self.output = Linear(self.out_feats, self.out_feats, bias=False)
        elif gate:
            self.gate = HeadLinear(count, 2 * head_feats, head_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each head's maps; biases zero."""
        for module in self.children():
            if isinstance(module, HeadLinear):
                module.reset_parameters()
        for whole in (self.value, self.query, self.key):
            if isinstance(whole, Linear):
                for weight in whole.weight.chunk(self.num_heads):
                    nn.init.xavier_uniform_(weight)
        if self.value.bias is not None:
            nn.init.zeros_(self.value.bias)
        if self.output is not None:
            nn.init.xavier_uniform_(self.output.weight)

    def forward(
        self,
        graph: DGLGraph | GraphBatch | Mapping[str, Edges],
        inputs: Tensor,
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Attend along the layer's relations.

        Parameters
        ----------
        graph : a DGL graph or a :class:`~graphattn.builders.batch.TextBatch` with the relations, or their edges from
            :func:`~graphattn.edges.edges_of`
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
        for relation, (query, key, value, scores), gate in self._by_relation(inputs):
            result, seen = attend_tensorized(
                edges[relation],
                *(tensor.to(value.dtype).transpose(0, 1) for tensor in (query, key, self.attn_drop(value), scores)),
                **self._rule,
                backend=self.backend,
                return_weights=weights is not None,
            )
            if weights is not None and seen is not None:
                weights[relation] = seen
            results.append(result if gate is None else self._fuse(value, result.transpose(0, 1), gate).transpose(0, 1))
        out = torch.cat(results, dim=1).flatten(1)
        return out if self.output is None else self.output(self.dropout(out))

    def feature_weights(self, graph: DGLGraph | GraphBatch | Mapping[str, Edges], inputs: Tensor) -> dict[str, Tensor]:
        """Relation -> (E, heads of the relation, head_feats), the weights of each feature in edge-id order.

        Parameters
        ----------
        graph, inputs : as for the layer's call
        """
        edges = dict(zip(self.heads, edges_for_layer(graph, self.heads, inputs), strict=True))
        found = {}
        with torch.no_grad():
            for relation, tensors, _ in self._by_relation(inputs):
                rows = (tensor.transpose(0, 1) for tensor in tensors)
                found[relation] = tensorized_weights(edges[relation], *rows, **self._rule)
        return found

    @property
    def _rule(self) -> dict[str, Any]:
        return {"scale": self.head_feats**-0.5, "scale_function": self.scale_function, "bound": self.bound}

    def _by_relation(self, inputs: Tensor) -> Iterator[tuple[str, tuple[Tensor, ...], _Map | None]]:
        """For each relation the query, key, value and source scores (H, N, ...) of its heads, and their gate."""
        rows = self.value(self.dropout(inputs))
        rows = ACTIVATIONS[self.activation](rows) if self.variant == "gated" else rows
        values = self._split(rows, self.num_heads).split(list(self.heads.values()))
        parts = zip(self.heads.items(), values, *map(self._parts, self._maps()), strict=True)
        for (relation, count), value, *maps in parts:
            query, key, scores = self._projected(value, inputs, count, *maps[:-1])
            yield relation, (query, key, value, scores), maps[-1]

    def _maps(self) -> tuple[Linear | HeadLinear | None, ...]:
        """All maps of the heads except the values'; the gate last."""
        return self.query, self.key, self.source_inner, self.source_outer, self.gate

    def _parts(self, module: Linear | HeadLinear | None) -> Sequence[_Map | None]:
        """Weight and bias of each relation's heads; None for maps that the layer lacks."""
        counts = list(self.heads.values())
        if module is None:
            return [None] * len(counts)
        sizes = counts if isinstance(module, HeadLinear) else [count * self.head_feats for count in counts]
        biases = [None] * len(counts) if module.bias is None else module.bias.split(sizes)
        return list(zip(module.weight.split(sizes), biases, strict=True))

    def _projected(
        self,
        value: Tensor,
        inputs: Tensor,
        count: int,
        of_query: _Map | None,
        of_key: _Map | None,
        inner: _Map | None,
        outer: _Map | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key (H, N, D) and source scores (H, N, F) of some heads; zeros for those that the layer lacks."""
        activate = ACTIVATIONS[self.activation]
        gated = self.variant == "gated"
        query = key = none = value.new_zeros(*value.shape[:2], 1)
        if of_key is not None:
            key = by_head(self.dropout(value), *of_key) if gated else self._split(self._mapped(inputs, of_key), count)
        if of_query is not None:
            query = (
                by_head(self.dropout(value), *of_query) if gated else self._split(self._mapped(inputs, of_query), count)
            )
        if inner is None or outer is None:
            return query, key, torch.zeros_like(value)
        hidden = activate(by_head(self.dropout(value if gated else key), *inner))
        scores = by_head(self.dropout(hidden), *outer)
        if self.source_function == "sigmoid":
            scores = scores.sigmoid()
        elif self.source_function == "tanh":
            scores = self.bound * torch.tanh(scores / self.bound)
        return (query, key, scores) if self.token2token else (none, none, scores)

    def _mapped(self, inputs: Tensor, own: _Map) -> Tensor:
        return linear(self.dropout(inputs), *own)

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

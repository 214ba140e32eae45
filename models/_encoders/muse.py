"""MUSE: attention, dynamic convolutions and a feed-forward layer side by side (Zhao et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._attention import attend_layer
from graphattn._backends.torch import sum_by_weights
from graphattn._edges import Edges, edges_of
from graphattn._precision import at_least_float32
from graphattn._schema import ALL
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Relation, Window
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import dropout, make_dropouts
from graphattn.layers._linear import Linear
from graphattn.layers._norm import LayerNorm
from graphattn.models._encoders.base import (
    BlockOptions,
    Encoder,
    LayerWeights,
    position_vectors,
    run_layers,
)
from graphattn.options import option


@dataclass
class MUSEOptions(BlockOptions):
    """Options of MUSE; without kernels it is the paper's MUSE-simple."""

    name = "muse"

    kernels: tuple[str, ...] = option(("3", "15"), "odd widths of the convolutions; empty for none")

    @override
    def check(self) -> None:
        kernels = [str(kernel) for kernel in self.kernels]
        if not all(kernel.isdecimal() and int(kernel) % 2 for kernel in kernels) or len(set(kernels)) < len(kernels):
            raise ConfigError(
                f"{{kernels}} are {','.join(kernels)}; give different odd numbers of tokens, 3,15 for example",
                options=("kernels",),
            )

    def windows(self) -> list[Window]:
        """The relation of each convolution."""
        return [Window(int(kernel)) for kernel in self.kernels]


class DynamicConvolution(nn.Module):
    r"""A convolution along a window whose kernel each token predicts for itself (Wu et al. 2019, section 4).

    .. math:: y_{ic} = \sum_{j=1}^{k} softmax_j(W_h x_i) \, x_{i + j - (k + 1) / 2, \, c}

    for each feature c of head h. Outside its text, x is zero, while the softmax is over all k taps.

    Each of the heads serves width / heads features; ``kernel`` is k, an odd number.
    """

    def __init__(self, width: int, heads: int, kernel: int, *, attn_drop: float = 0.0):
        super().__init__()
        self.heads, self.kernel, self.attn_drop = heads, kernel, attn_drop
        self.predict = Linear(width, heads * kernel, bias=False)
        nn.init.xavier_uniform_(self.predict.weight)

    def forward(self, edges: Edges, values: Tensor) -> Tensor:
        """(N, width) -> (N, width), along the edges of a window of ``kernel`` tokens."""
        taps = self.predict(values).to(values.dtype).unflatten(1, (self.heads, self.kernel)).softmax(2)
        taps = dropout(taps, self.attn_drop, self.training)
        offsets = edges.sources - edges.destinations + self.kernel // 2
        weights = taps[edges.destinations, :, offsets]  # (E, H), in slot order
        return sum_by_weights(edges, weights, values.unflatten(1, (self.heads, -1))).flatten(1)


class MUSELayer(nn.Module):
    """One pre-norm block whose three parts have the same input and a common residual connection."""

    def __init__(self, options: MUSEOptions):
        super().__init__()
        hidden = options.hidden
        self.heads, self.attn_drop = options.heads, options.attn_drop
        self.norm = LayerNorm(hidden)
        self.project = Linear(hidden, 3 * hidden)
        self.convolutions = nn.ModuleDict(
            {
                window.name: DynamicConvolution(hidden, options.heads, int(kernel), attn_drop=options.attn_drop)
                for window, kernel in zip(options.windows(), options.kernels, strict=True)
            }
        )
        self.shares = nn.Parameter(torch.zeros(len(self.convolutions))) if self.convolutions else None
        self.output = Linear((2 if self.convolutions else 1) * hidden, hidden)
        self.widen, self.narrow = Linear(hidden, options.ffn), Linear(options.ffn, hidden)
        self.dropout, self.ffn_dropout = make_dropouts(options.dropout, options.ffn_dropout)
        for weight in (*self.project.weight.chunk(3), *self.output.weight.split(hidden, dim=1)):
            nn.init.xavier_uniform_(weight)
        for module in (self.project, self.output):
            nn.init.zeros_(module.bias)

    def forward(self, edges: Mapping[str, Edges], tokens: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        normed = self.norm(tokens)
        mixed = self.output(self._mix(edges, normed, weights))
        inner = self.narrow(self.ffn_dropout(F.relu(self.widen(normed), inplace=True)))
        return tokens + self.dropout(mixed) + self.dropout(inner)

    def _mix(self, edges: Mapping[str, Edges], normed: Tensor, weights: LayerWeights | None) -> Tensor:
        """(N, hidden) attention and, with convolutions, their weighted sum beside it, all of the same values."""
        projected = at_least_float32(self.project(normed))  # sums in float32 also under autocast
        rows = projected.unflatten(1, (3 * self.heads, -1))
        attended, by_relation = attend_layer(
            [edges[ALL]],
            [self.heads],
            rows,
            scale=rows.shape[2] ** -0.5,
            dropout=self.attn_drop if self.training else 0.0,
            return_weights=weights is not None,
        )
        if weights is not None and by_relation is not None:
            weights[ALL] = by_relation[0]
        if self.shares is None:
            return attended.flatten(1)
        values = projected.chunk(3, dim=1)[2]
        convolved = [convolution(edges[name], values) for name, convolution in self.convolutions.items()]
        mean = torch.stack(convolved, dim=2) @ self.shares.softmax(0).to(values.dtype)
        return torch.cat([attended.flatten(1), mean], dim=1)


class MUSEEncoder(Encoder):
    r"""A stack of MUSE blocks with sinusoidal positions, a baseline in UMST's Table 2.

    .. math:: X' = X + Attention(N) + Conv(N) + FFN(N), \quad N = LayerNorm(X)

    .. math:: Attention(N) = softmax(N W_Q (N W_K)^T / \sqrt{d_k}) N W_V W_O, \quad
              Conv(N) = \sum_k softmax(\alpha)_k \, DynamicConv_k(N W_V) W_C

    Attention and convolutions share the projection :math:`W_V`, and learned numbers :math:`\alpha` weigh the
    convolutions. UMST's paper names this model and its parameters only, and the other papers do not mention it: these
    formulas and the kernels 3 and 15 are those of Zhao et al. and of their published code, the norm before each block
    and the norm at the end are UMST's. Zhao et al. have such blocks in the decoder too, while our decoder is the
    standard Transformer's. Returned weights are those of attention.
    """

    def __init__(self, options: MUSEOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.layers = nn.ModuleList(MUSELayer(options) for _ in range(options.layers))
        self.norm = LayerNorm(options.hidden)

    @override
    def relations(self) -> list[Relation]:
        return [Complete(), *self.options.windows()]

    @override
    def heads_along(self) -> dict[str, int]:
        return {ALL: self.options.layers * self.options.heads}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [relation.name for relation in self.relations()], tokens.device)
        tokens = tokens + position_vectors(graph, self.width, tokens)
        return self.norm(run_layers(self.layers, edges, tokens, weights))

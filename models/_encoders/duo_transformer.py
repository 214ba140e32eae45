"""The Duo Transformer's encoder: one embedding attends, the other provides values (Li et al. 2020, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._attention import attend
from graphattn._edges import Edges, edges_of
from graphattn._precision import at_least_float32
from graphattn._schema import ALL
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Relation
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear, linear
from graphattn.models._encoders.base import Encoder, EncoderOptions, LayerWeights, position_vectors, run_layers
from graphattn.models._encoders.duo import resolve_parts, split_single_part, validate_parts
from graphattn.options import option

STREAMS = 2
"""Embeddings that attend to each other."""


@dataclass
class DuoTransformerOptions(EncoderOptions):
    """Options of the Duo Transformer; the switches are those of the paper's Table 6."""

    name = "duo-transformer"
    takes_parts = True
    streams = STREAMS
    begins_with_cls = False

    hidden: int = option(300, "width of the encoder", min=1, multiple_of="heads")
    heads: int = option(10, "heads of each layer", min=1)
    ffn: int = option(1200, "width of the feed-forward layer", min=1)
    parts: tuple[str, ...] = option(
        (),
        "widths of the sets in a token vector (default: those of the word vectors, or two halves)",
        of_inputs=True,
    )
    share_weights: bool = option(True, "the streams of a layer share their attention projections")
    duo_norm: bool = option(True, "decoder norms add the other stream")
    fusion_layer: bool = option(True, "the decoder fuses the streams before the softmax")

    @override
    def check(self) -> None:
        validate_parts(self.parts, count=STREAMS)

    @override
    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> DuoTransformerOptions:
        if not self.parts:
            widths = split_single_part(widths)
            if len(widths) != STREAMS or min(widths) < 1:
                raise ConfigError(
                    f"token vectors are made of widths {', '.join(map(str, widths))}; the Duo Transformer has two "
                    "streams. Give two sets of {vectors}, or {parts}",
                    options=("vectors", "parts"),
                )
        return replace(self, parts=resolve_parts(self.parts, widths))


class StreamMaps(nn.Module):
    """A linear map for each stream, with shared or separate weights."""

    def __init__(self, in_feats: int, out_feats: int, *, shared: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1 if shared else STREAMS, out_feats, in_feats))
        self.bias = nn.Parameter(torch.zeros(1 if shared else STREAMS, out_feats))
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)

    def forward(self, streams: Tensor) -> Tensor:
        """(..., 2, in_feats) -> (..., 2, out_feats)."""
        if len(self.weight) == 1:
            return linear(streams, self.weight[0], self.bias[0])
        parts = zip(streams.unbind(-2), self.weight, self.bias, strict=True)
        return torch.stack([linear(part, weight, bias) for part, weight, bias in parts], dim=-2)


class DuoNorm(nn.Module):
    r"""Layer norm of a residual connection in which each stream also gets the other (Duo, section 3.4).

    .. math:: LN(x_S + p_S \odot x_P + sublayer_S), \quad LN(x_P + p_P \odot x_S + sublayer_P)

    The paper's text lacks the formula; it mentions a map for streams of different widths and a better flow between the
    streams. Our streams have one width, and our map is a learned factor per feature, initially 1.

    Without ``crossed``, each stream has a plain layer norm.
    """

    def __init__(self, width: int, *, crossed: bool):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(STREAMS, width)), nn.Parameter(torch.zeros(STREAMS, width))
        self.factors = nn.Parameter(torch.ones(STREAMS, width)) if crossed else None

    def forward(self, streams: Tensor, added: Tensor) -> Tensor:
        """(..., 2, width), with the sub-layer's output -> (..., 2, width)."""
        summed = streams + added
        if self.factors is not None:
            summed = summed + self.factors * streams.flip(-2)
        return F.layer_norm(summed, summed.shape[-1:]) * self.weight + self.bias


class DuoTransformerLayer(nn.Module):
    """Duo attention and a shared feed-forward layer, each with residual and post-norm."""

    def __init__(self, options: DuoTransformerOptions):
        super().__init__()
        hidden, shared = options.hidden, options.share_weights
        self.heads = options.heads
        self.query, self.key, self.value, self.output = (StreamMaps(hidden, hidden, shared=shared) for _ in range(4))
        self.widen, self.narrow = Linear(hidden, options.ffn), Linear(options.ffn, hidden)
        self.attention_norm, self.ffn_norm = (DuoNorm(hidden, crossed=False) for _ in range(2))
        self.dropout = Dropout(options.dropout)

    def forward(self, edges: Mapping[str, Edges], streams: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, 2, hidden) -> (N, 2, hidden)."""
        streams = self.attention_norm(streams, self.dropout(self._attend(edges, streams, weights)))
        inner = self.dropout(F.relu(self.widen(streams), inplace=True))
        return self.ffn_norm(streams, self.dropout(self.narrow(inner)))

    def _attend(self, edges: Mapping[str, Edges], streams: Tensor, weights: LayerWeights | None) -> Tensor:
        """Heads for both streams in one pass: the first half for the first stream, scored by the second."""
        query, key = (maps(streams).flip(1) for maps in (self.query, self.key))
        parts = [part.flatten(1).unflatten(1, (STREAMS * self.heads, -1)) for part in (query, key, self.value(streams))]
        parts = [at_least_float32(part) for part in parts]  # sums in float32 also under autocast
        if weights is None:
            heads = attend(edges[ALL], *parts)
        else:
            heads, weights[ALL] = attend(edges[ALL], *parts, return_weights=True)
        return self.output(heads.flatten(1).unflatten(1, (STREAMS, -1)))


class DuoTransformerEncoder(Encoder):
    r"""A stack of Duo layers over complete graphs, with sinusoidal positions; the output concatenates both streams.

    Each stream keeps its values and is mixed by the attention of the other, head by head:

    .. math:: o_S = [softmax(Q x_P (K x_P)^T / \sqrt d) V x_S] W_O, \quad
              o_P = [softmax(Q x_S (K x_S)^T / \sqrt d) V x_P] W_O

    Our reading where the paper's text is silent: its formulas are missing, but its introduction and section 3.1 take
    keys and queries from one embedding and values from the other. The streams of a layer share Q, K, V and W_O (section
    3.2) unless ``share_weights`` is off. We share the feed-forward layer too. Token vectors of another width than the
    encoder's pass a linear map per stream. The parameter counts of Table 6 decide nothing: we found no reading that has
    all of them (see the page on encoders).
    """

    def __init__(self, options: DuoTransformerOptions):
        super().__init__()
        filled = options if options.parts else options.for_parts([STREAMS * options.hidden])
        self.options, self.width = options, STREAMS * options.hidden
        self.parts = [int(width) for width in filled.parts]
        self.enter = nn.ModuleList(
            nn.Identity() if width == options.hidden else Linear(width, options.hidden) for width in self.parts
        )
        self.layers = nn.ModuleList(DuoTransformerLayer(options) for _ in range(options.layers))

    @override
    def relations(self) -> list[Relation]:
        return [Complete()]

    @override
    def heads_along(self) -> dict[str, int]:
        return {ALL: STREAMS * self.options.layers * self.options.heads}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [ALL], tokens.device)
        parts = zip(self.enter, tokens.split(self.parts, dim=1), strict=True)
        streams = torch.stack([enter(part) for enter, part in parts], dim=1)
        streams = streams + position_vectors(graph, self.options.hidden, tokens).unsqueeze(1)
        return run_layers(self.layers, edges, streams, weights).flatten(1)

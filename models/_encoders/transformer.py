"""The plain Transformer encoder (Vaswani et al. 2017): every head on the relation ``all``, positions added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._edges import Edges, edges_of
from graphattn._schema import ALL
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Relation
from graphattn.layers._dropout import make_dropouts
from graphattn.layers._linear import Linear
from graphattn.layers._multi_scale import MultiScaleAttention
from graphattn.layers._norm import LayerNorm
from graphattn.models._encoders.base import (
    FFN_DROPOUT,
    BlockOptions,
    Encoder,
    EncoderOptions,
    LayerWeights,
    position_vectors,
    run_layers,
)
from graphattn.options import option


class LayerOptions(Protocol):
    """Options of an encoder that its layers read."""

    hidden: int
    ffn: int
    dropout: float
    ffn_dropout: float | None
    norm: str


@dataclass
class TransformerOptions(EncoderOptions):
    """Options of the plain Transformer."""

    name = "transformer"

    hidden: int = option(300, "width of the encoder", min=1, multiple_of="heads")
    heads: int = option(10, "heads of each layer", min=1)
    ffn: int = option(1200, "width of the feed-forward layer", min=1)
    ffn_dropout: float | None = option(None, FFN_DROPOUT, min=0, below=1)
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)
    norm: str = option(
        "post",
        "norm after each residual connection (post), or before each sub-layer and at the end (pre)",
        choices=("post", "pre"),
    )

    @override
    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        return super().for_translation({**sizes, "norm": "pre"})  # as UMST's baseline (appendix B)


class TransformerLayer(nn.Module):
    """Attention and a feed-forward layer with residuals, post-norm (MS-Trans, Eq. 4-5) or pre-norm.

    ``attention`` maps edges, (N, hidden) tokens, and ``weights=`` a mapping to fill or None, to (N, hidden); with
    ``ffn_first`` it comes after the feed-forward layer (Tan et al. 2018).
    """

    def __init__(self, options: LayerOptions, attention: nn.Module, *, ffn_first: bool = False):
        super().__init__()
        hidden = options.hidden
        self.attention = attention
        self.widen, self.narrow = Linear(hidden, options.ffn), Linear(options.ffn, hidden)
        self.attention_norm, self.ffn_norm = LayerNorm(hidden), LayerNorm(hidden)
        self.dropout, self.ffn_dropout = make_dropouts(options.dropout, options.ffn_dropout)
        self.norm_first, self.ffn_first = options.norm == "pre", ffn_first

    @classmethod
    def of(cls, options: TransformerOptions, relation: str = ALL) -> TransformerLayer:
        """A layer with multi-head attention along a relation."""
        heads, width = {relation: options.heads}, options.hidden // options.heads
        return cls(options, MultiScaleAttention(options.hidden, width, heads, attn_drop=options.attn_drop))

    def forward(self, edges: Mapping[str, Edges], tokens: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        parts = [
            (self.attention_norm, lambda inputs: self.attention(edges, inputs, weights=weights)),
            (self.ffn_norm, self._feed_forward),
        ]
        for norm, part in reversed(parts) if self.ffn_first else parts:
            if self.norm_first:
                tokens = tokens + self.dropout(part(norm(tokens)))
            else:
                tokens = norm(tokens + self.dropout(part(tokens)))
        return tokens

    def _feed_forward(self, tokens: Tensor) -> Tensor:
        return self.narrow(self.ffn_dropout(F.relu(self.widen(tokens), inplace=True)))


def make_blocks(options: BlockOptions, relation: str = ALL) -> nn.ModuleList:
    """Pre-norm blocks with multi-head attention along a relation, one for each layer of the options."""
    shared = {item.name: getattr(options, item.name) for item in fields(BlockOptions)}
    block = TransformerOptions(**shared, norm="pre")
    return nn.ModuleList(TransformerLayer.of(block, relation) for _ in range(options.layers))


class TransformerEncoder(Encoder):
    """A stack of layers over complete graphs, with sinusoidal positions."""

    def __init__(self, options: TransformerOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.layers = nn.ModuleList(TransformerLayer.of(options) for _ in range(options.layers))
        self.norm = LayerNorm(options.hidden) if options.norm == "pre" else nn.Identity()

    @override
    def relations(self) -> list[Relation]:
        return [Complete()]

    @override
    def heads_along(self) -> dict[str, int]:
        return {ALL: self.options.layers * self.options.heads}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [ALL], tokens.device)
        tokens = tokens + position_vectors(graph, self.width, tokens)
        return self.norm(run_layers(self.layers, edges, tokens, weights))

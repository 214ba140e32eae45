"""Transformer in Transformer on text: one stream inside words, one across the text (UMST, appendix B.1, Figure 7)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from graphattn._edges import edges_of
from graphattn._schema import ALL, GROUP
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Relation, WordGroup
from graphattn.layers._norm import LayerNorm
from graphattn.models._encoders.base import BlockOptions, Encoder, LayerWeights, append_layer, position_vectors
from graphattn.models._encoders.transformer import make_blocks
from graphattn.options import option


@dataclass
class TNTOptions(BlockOptions):
    """Options of Transformer in Transformer."""

    name = "tnt"

    share_blocks: bool = option(False, "share the weights of inner and outer blocks")


class TNTEncoder(Encoder):
    r"""Two stacks of pre-norm blocks, the inner one on `group`, the outer one on `all`.

    .. math:: y_l = Inner_l(y_{l-1}), \quad x_l = Outer_l(x_{l-1} + y_l)

    From UMST's appendix: inner blocks see the smaller units within larger ones, their output is added to the outer
    stream, they have residual connections among themselves, and all blocks together have the parameters of a
    Transformer of twice the depth. Our decisions: the smaller units are the tokens of a word, as in Transformer in
    Transformer (Han et al. 2021), and both streams start from the same vectors.
    """

    def __init__(self, options: TNTOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.outer = make_blocks(options)
        self.inner = None if options.share_blocks else make_blocks(options)
        self.norm = LayerNorm(options.hidden)

    @override
    def relations(self) -> list[Relation]:
        return [WordGroup(), Complete()]

    @override
    def heads_along(self) -> dict[str, int]:
        return dict.fromkeys((GROUP, ALL), self.options.layers * self.options.heads)

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [GROUP, ALL], tokens.device)
        tokens = tokens + position_vectors(graph, self.width, tokens)
        parts = tokens
        for inner, outer in zip(self.inner or self.outer, self.outer, strict=True):
            layer_weights = append_layer(weights)
            parts = inner({ALL: edges[GROUP]}, parts, layer_weights)  # a block calls its relation `all`
            if layer_weights is not None:
                layer_weights[GROUP] = layer_weights.pop(ALL)
            tokens = outer(edges, tokens + parts, layer_weights)
        return self.norm(tokens)

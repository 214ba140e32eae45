"""The multi-stage Transformer: first tokens, then words, then words with their arcs (UMST, appendix B.1, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from typing_extensions import override

from graphattn._aggregation import aggregate, mean_coefficients
from graphattn._edges import edges_of
from graphattn._schema import ALL, ALL_WORDS, DEPENDENCY, MEMBERSHIP, WORD
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Dependency, Relation
from graphattn.layers._dropout import Dropout
from graphattn.layers._graph_convolution import GraphConvolution
from graphattn.layers._norm import LayerNorm
from graphattn.models._encoders.base import (
    BlockOptions,
    Encoder,
    EncoderOptions,
    LayerWeights,
    position_vectors,
    run_layers,
)
from graphattn.models._encoders.transformer import make_blocks
from graphattn.options import option


@dataclass
class MultiStageOptions(BlockOptions):
    """Options of the multi-stage Transformer; the paper has two layers in each stage."""

    name = "multi-stage"

    layers: int = option(1, "depth of each of the three stages", min=1)

    @override
    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        stage = {"layers": max(1, sizes["layers"] // 3)} if "layers" in sizes else {}
        return super().for_translation({**sizes, **stage})


class MultiStageEncoder(Encoder):
    """Pre-norm blocks on tokens, the mean of each word's tokens, blocks on words, a graph convolution, blocks on words.

    UMST's appendix has two blocks in each stage. Taggers and decoders need token vectors, so each token finally gets
    the vector of its word. Norm and residual connection of the convolution are as in UMST.
    """

    def __init__(self, options: MultiStageOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.token_blocks = make_blocks(options)
        self.word_blocks, self.phrase_blocks = (make_blocks(options, ALL_WORDS) for _ in range(2))
        self.arc_norm, self.norm = LayerNorm(options.hidden), LayerNorm(options.hidden)
        self.convolution = GraphConvolution(options.hidden)
        self.dropout = Dropout(options.dropout)

    @override
    def relations(self) -> list[Relation]:
        return [Complete(), Complete(WORD), Dependency(required=False)]

    @override
    def heads_along(self) -> dict[str, int]:
        heads = self.options.layers * self.options.heads
        return {ALL: heads, ALL_WORDS: 2 * heads}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [ALL, ALL_WORDS, MEMBERSHIP, DEPENDENCY], tokens.device)
        members = edges[MEMBERSHIP]
        tokens = tokens + position_vectors(graph, self.width, tokens)
        tokens = run_layers(self.token_blocks, edges, tokens, weights)
        words = aggregate(members, tokens, mean_coefficients(members)).to(tokens.dtype)
        words = run_layers(self.word_blocks, edges, words, weights)
        words = words + self.dropout(self.convolution(edges[DEPENDENCY], self.arc_norm(words)))
        words = run_layers(self.phrase_blocks, edges, words, weights)
        return aggregate(members.reverse[0], self.norm(words)).to(tokens.dtype)

"""The multi-stage Transformer: first tokens, then words, then words with their arcs (UMST, appendix B.1, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from graphattn.aggregation import aggregate, mean_coefficients
from graphattn.builders.relations import Complete, Dependency, Relation
from graphattn.edges import Edges
from graphattn.layers.dropout import Dropout
from graphattn.layers.graph_convolution import GraphConvolution
from graphattn.layers.multi_scale import edges_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.encoders.positions import position_vectors
from graphattn.models.encoders.transformer import TransformerLayer, TransformerOptions
from graphattn.models.options import option
from graphattn.schema import ALL, ALL_WORDS, DEPENDENCY, MEMBERSHIP, WORD

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


@dataclass
class MultiStageOptions(EncoderOptions):
    """Options of the multi-stage Transformer; the paper has two layers in each stage."""

    name = "multi-stage"

    hidden: int = option(256, "width of the encoder", min=1, multiple_of="heads")
    layers: int = option(1, "depth of the encoder; here of each of its three stages", min=1)
    dropout: float = option(0.1, "dropout on what each layer adds", min=0, below=1)
    heads: int = option(4, "heads of each layer", min=1)
    ffn: int = option(1024, "width of the feed-forward part", min=1)
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)

    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        """All stages together are as deep as other encoders, about."""
        each = {"layers": max(1, sizes["layers"] // 3)} if "layers" in sizes else {}
        return super().for_translation({**sizes, **each})


class MultiStageEncoder(Encoder):
    """Pre-norm blocks on tokens, the mean of each word's tokens, blocks on words, a graph convolution, blocks on words.

    So says UMST's appendix, with two blocks in each stage. A tagger or a decoder looks at tokens, so at the end each
    token gets the vector of its word; the norm and the residual connection of the convolution are as in UMST.
    """

    def __init__(self, options: MultiStageOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.token_blocks, self.word_blocks, self.phrase_blocks = (self._stage() for _ in range(3))
        self.arc_norm, self.norm = nn.LayerNorm(options.hidden), nn.LayerNorm(options.hidden)
        self.convolution = GraphConvolution(options.hidden)
        self.dropout = Dropout(options.dropout)

    def _stage(self) -> nn.ModuleList:
        own = {name: getattr(self.options, name) for name in ("hidden", "heads", "ffn", "dropout", "attn_drop")}
        block = TransformerOptions(**own, norm="pre")
        return nn.ModuleList(TransformerLayer(block) for _ in range(self.options.layers))

    def relations(self) -> list[Relation]:
        """All tokens, all words, arcs with membership."""
        return [Complete(), Complete(WORD), Dependency(required=False)]

    def heads_along(self) -> dict[str, int]:
        """One stage on tokens, two on words."""
        heads = self.options.layers * self.options.heads
        return {ALL: heads, ALL_WORDS: 2 * heads}

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        edges = edges_of(graph, [ALL, ALL_WORDS, MEMBERSHIP, DEPENDENCY], tokens.device)
        members = edges[MEMBERSHIP]
        tokens = tokens + position_vectors(graph, self.width, tokens.device)
        tokens = _through(self.token_blocks, ALL, edges[ALL], tokens, weights)
        words = aggregate(members, tokens, mean_coefficients(members))
        words = _through(self.word_blocks, ALL_WORDS, edges[ALL_WORDS], words, weights)
        words = words + self.dropout(self.convolution(edges[DEPENDENCY], self.arc_norm(words)))
        words = _through(self.phrase_blocks, ALL_WORDS, edges[ALL_WORDS], words, weights)
        return aggregate(members.reverse[0], self.norm(words))


def _through(
    blocks: nn.ModuleList, name: str, edges: Edges, nodes: Tensor, weights: list[LayerWeights] | None
) -> Tensor:
    """Nodes after a stage; the weights of each block are appended."""
    for block in blocks:
        seen: LayerWeights | None = None if weights is None else {}
        nodes = block({ALL: edges}, nodes, seen)  # blocks know their relation as `all`
        if weights is not None and seen is not None:
            weights.append({name: seen[ALL]})
    return nodes

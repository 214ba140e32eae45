"""Transformer in Transformer on text: one stream inside words, one across the text (UMST, appendix B.1, Figure 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from graphattn.builders.relations import Complete, Relation, WordGroup
from graphattn.layers.multi_scale import edges_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.encoders.positions import position_vectors
from graphattn.models.encoders.transformer import TransformerLayer, TransformerOptions
from graphattn.models.options import option
from graphattn.schema import ALL, GROUP

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


@dataclass
class TNTOptions(EncoderOptions):
    """Options of Transformer in Transformer."""

    name = "tnt"

    hidden: int = option(256, "width of the encoder", min=1, multiple_of="heads")
    layers: int = option(3, "depth of the encoder", min=1)
    dropout: float = option(0.1, "dropout on what each layer adds", min=0, below=1)
    heads: int = option(4, "heads of each layer", min=1)
    ffn: int = option(1024, "width of the feed-forward part", min=1)
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)
    share_blocks: bool = option(False, "inner and outer blocks are the same")

    def make_block(self) -> TransformerLayer:
        """A new pre-norm block."""
        own = {name: getattr(self, name) for name in ("hidden", "heads", "ffn", "dropout", "attn_drop")}
        return TransformerLayer(TransformerOptions(**own, norm="pre"))


class TNTEncoder(Encoder):
    r"""Two stacks of pre-norm blocks, the inner one on `group`, the outer one on `all`.

    .. math:: y_l = Inner_l(y_{l-1}), \quad x_l = Outer_l(x_{l-1} + y_l)

    UMST's appendix says that the inner blocks see the smaller units within the larger ones, that what they give is
    added to the outer stream, that the inner ones have residual connections among themselves, and that all blocks
    together have the parameters of a Transformer of twice the depth. That the smaller units are the tokens of a word,
    as in Transformer in Transformer (Han et al. 2021), and that both streams begin with the same vectors, is decided
    here.
    """

    def __init__(self, options: TNTOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.outer = nn.ModuleList(options.make_block() for _ in range(options.layers))
        self.inner = (
            None if options.share_blocks else nn.ModuleList(options.make_block() for _ in range(options.layers))
        )
        self.norm = nn.LayerNorm(options.hidden)

    def relations(self) -> list[Relation]:
        """Tokens of a word, and all tokens."""
        return [WordGroup(), Complete()]

    def heads_along(self) -> dict[str, int]:
        """Those of the inner and of the outer blocks."""
        return dict.fromkeys((GROUP, ALL), self.options.layers * self.options.heads)

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        edges = edges_of(graph, [GROUP, ALL], tokens.device)
        tokens = tokens + position_vectors(graph, self.width, tokens.device)
        parts = tokens
        for inner, outer in zip(self.inner or self.outer, self.outer, strict=True):
            inside: LayerWeights | None = None if weights is None else {}
            across: LayerWeights | None = None if weights is None else {}
            parts = inner({ALL: edges[GROUP]}, parts, inside)  # blocks know their relation as `all`
            tokens = outer(edges, tokens + parts, across)
            if weights is not None and inside is not None and across is not None:
                weights.append({GROUP: inside[ALL], **across})
        return self.norm(tokens)

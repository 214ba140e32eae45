"""MTSA: attention with weights per feature, and heads that encode word order (Shen et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from typing_extensions import override

from graphattn._backends.cpu.tensorized.scores import SCALE_FUNCTIONS
from graphattn._edges import Edges, edges_of
from graphattn._schema import TOKEN
from graphattn._validation import require_multiple, require_range
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation, RelativePositions, parse_relation
from graphattn.builders.relations._relative_positions import find_inner_distances
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import dropout
from graphattn.layers._norm import LayerNorm
from graphattn.layers._tensorized import ACTIVATIONS, SOURCE_FUNCTIONS, VARIANTS, TensorizedAttention
from graphattn.models._encoders.base import (
    FFN_DROPOUT,
    Encoder,
    EncoderOptions,
    LayerWeights,
    position_vectors,
    run_layers,
)
from graphattn.models._encoders.relation_heads import parse_heads
from graphattn.models._encoders.transformer import TransformerLayer
from graphattn.options import option


@dataclass
class MTSAOptions(EncoderOptions):
    """Options of MTSA; the defaults are the paper's single layer for sentences: two heads as wide as the input."""

    name = "mtsa"
    pooling = "source2token"
    begins_with_cls = False

    layers: int = option(1, "depth of the encoder", min=1)
    block: str = option(
        "plain",
        "around the attention: only residual and norm, from two layers (plain); a Transformer's feed-forward layer and "
        "positions; or feed-forward before attention, without positions (srl)",
        choices=("plain", "transformer", "srl"),
    )
    ffn: int = option(1200, "width of the feed-forward layer", min=1)
    ffn_dropout: float | None = option(None, FFN_DROPOUT, min=0, below=1)
    norm: str = option("post", "norm after each residual connection, or before each sub-layer", choices=("post", "pre"))
    heads: int | str | Mapping[str, int] = option(
        2, "heads of each layer, shared by the masks, or heads by relation: forward=2,window:3=1", common=True
    )
    head_feats: int | None = option(
        None, "features of a head (default: hidden in a single plain layer, else hidden / heads)", min=1
    )
    variant: str = option("gated", "Eq. 5-13, or gated, our reading of the counts of Table 3", choices=VARIANTS)
    masks: tuple[str, ...] = option(
        ("forward", "backward"), "relations with equal shares of the heads, such as forward,window:3"
    )
    activation: str = option(
        "elu", "activation inside source2token scores, and of gated values", choices=(*ACTIVATIONS,)
    )
    token_function: str | None = option(
        None, "scale function of token2token scores (default: the variant's own)", choices=SCALE_FUNCTIONS
    )
    source_function: str = option("identity", "scale function of source2token scores", choices=SOURCE_FUNCTIONS)
    bound: float = option(5.0, "c of the scale function tanh, c tanh(x / c)", above=0)
    token2token: bool = option(True, "scores between pairs of tokens")
    source2token: bool = option(True, "scores of each token and feature")
    source_maps: int = option(2, "maps in source2token scores: two as in Eq. 9, or one as in Table 6", min=1, max=2)
    gate: bool = option(True, "fusion gate of the gated variant")
    attn_drop: float = option(0.0, "dropout on the weighted values", min=0, below=1)

    @override
    @classmethod
    def for_tagging(cls) -> MTSAOptions:
        return cls(layers=2)  # with residual connections; heads share the width

    @override
    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        """The paper's Table 6: a pre-norm Transformer with tensorized attention."""
        table_6 = {"block": "transformer", "norm": "pre", "variant": "paper", "source_maps": 1}
        return super().for_translation({**sizes, **table_6})

    @override
    def check(self) -> None:
        require_range("heads", self.num_heads, min=1)
        if not self.masks:
            raise ConfigError("{masks} is empty; give at least one relation, forward for example", options=("masks",))
        names = [relation.name for relation in self.relations()]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ConfigError(f"{{masks}} repeats {repeated}; masks get equal shares of the heads", options=("masks",))
        if isinstance(self.heads, int):
            require_multiple("heads", self.heads, len(names), "masks")
        width = self.num_heads * self.width_of_heads()
        if self.has_residuals and width != self.hidden:
            reason = "several {layers} need" if self.block == "plain" else f"{{block}} {self.block} needs"
            raise ConfigError(
                f"{{heads}} times {{head_feats}} is {width}; {reason} {{hidden}}, {self.hidden}",
                options=("heads", "head_feats", "layers" if self.block == "plain" else "block", "hidden"),
            )

    def width_of_heads(self) -> int:
        """Features of a head."""
        return self.head_feats or (self.hidden // self.num_heads if self.has_residuals else self.hidden)

    @property
    def has_residuals(self) -> bool:
        """Whether the heads share the width of the encoder, for residual connections."""
        return self.layers > 1 or self.block != "plain"

    @property
    def num_heads(self) -> int:
        """Heads of a layer."""
        return self.heads if isinstance(self.heads, int) else sum(parse_heads(self.heads).values())

    def layer_heads(self) -> dict[str, int]:
        """Relation -> number of heads of a layer.

        Examples
        --------
        >>> MTSAOptions(heads=4).layer_heads(), MTSAOptions(heads="forward=2,window:3=1").layer_heads()
        ({'forward': 2, 'backward': 2}, {'forward': 2, 'window:3': 1})
        """
        if not isinstance(self.heads, int):
            return parse_heads(self.heads)
        names = [relation.name for relation in self.relations()]
        return dict.fromkeys(names, self.heads // len(names))

    def relations(self) -> list[Relation]:
        """The relations of the heads: those that ``heads`` names, or the masks."""
        relations, option = [], "masks" if isinstance(self.heads, int) else "heads"
        for name in self.masks if option == "masks" else self.layer_heads():
            relation, problem = parse_relation(name, on=TOKEN), ""
            if len(relation.parts()) > 1 or (relation.source, relation.target) != (TOKEN, TOKEN):
                problem = "does not connect tokens with tokens"
            elif isinstance(relation, RelativePositions) or find_inner_distances(relation) is not None:
                problem = "has relative positions, which MTSA does not learn"
            if problem:
                raise ConfigError(f"{{{option}}}: {name} {problem}", options=(option,))
            relations.append(relation)
        return relations


class MTSALayer(nn.Module):
    """One layer; in a stack, with residual connection and norm."""

    def __init__(self, options: MTSAOptions):
        super().__init__()
        self.attention = make_attention(options, options.dropout)
        self.norm = LayerNorm(options.hidden) if options.has_residuals else None
        self.dropout = options.dropout

    def forward(self, edges: Mapping[str, Edges], tokens: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, hidden) -> (N, width)."""
        output: Tensor = self.attention(edges, tokens, weights=weights)
        if self.norm is not None:
            output = self.norm(tokens + dropout(output, self.dropout, self.training))
        return output


def make_attention(options: MTSAOptions, dropout: float) -> TensorizedAttention:
    """The attention of a layer, with ``dropout`` on the input of its projections."""
    return TensorizedAttention(
        options.hidden,
        options.width_of_heads(),
        options.layer_heads(),
        variant=options.variant,
        activation=options.activation,
        scale_function=options.token_function,
        source_function=options.source_function,
        bound=options.bound,
        token2token=options.token2token,
        source2token=options.source2token,
        source_maps=options.source_maps,
        gate=options.gate,
        dropout=dropout,
        attn_drop=options.attn_drop,
    )


def make_layer(options: MTSAOptions) -> nn.Module:
    """A layer of the block that the options name."""
    if options.block == "plain":
        return MTSALayer(options)
    # as in a Transformer, dropout is on what the two parts return
    return TransformerLayer(options, make_attention(options, 0.0), ffn_first=options.block == "srl")


class MTSAEncoder(Encoder):
    """Tensorized attention: one layer, a stack, or in place of self-attention in a Transformer.

    Its relations encode word order; the block ``transformer`` also adds sinusoidal positions, since Table 6 replaces
    nothing but the attention. The block ``srl`` is the stack of Tan et al. (2018), which section 4.2 follows: in each
    layer the feed-forward part first, then attention, both with residual and post-norm.

    Notes
    -----
    Table 6 counts 0.20M parameters more than the Transformer's. That fits one map per head in the source2token scores,
    6 layers x 8 heads x (64 x 64 + 64) = 199,680; the two of Eq. 9 make 399,360. The Transformer of this package has
    biases in its attention, 12,288 in the encoder, which neither that count nor this attention has.
    """

    def __init__(self, options: MTSAOptions):
        super().__init__()
        self.options, self.width = options, options.num_heads * options.width_of_heads()
        self.layers = nn.ModuleList(make_layer(options) for _ in range(options.layers))
        normed_last = options.block != "plain" and options.norm == "pre"
        self.norm = LayerNorm(self.width) if normed_last else nn.Identity()

    @override
    def relations(self) -> list[Relation]:
        return self.options.relations()

    @override
    def heads_along(self) -> dict[str, int]:
        return {name: self.options.layers * heads for name, heads in self.options.layer_heads().items()}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        edges = edges_of(graph, [relation.name for relation in self.relations()], tokens.device)
        if self.options.block == "transformer":
            tokens = tokens + position_vectors(graph, self.options.hidden, tokens)
        return self.norm(run_layers(self.layers, edges, tokens, weights))

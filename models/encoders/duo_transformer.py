"""The Duo Transformer's encoder: one embedding's attention on the values of another (Li et al. 2020, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.attention import attend
from graphattn.builders.relations import Complete, Relation
from graphattn.edges import Edges
from graphattn.exceptions import ConfigError
from graphattn.layers.dropout import Dropout
from graphattn.layers.linear import Linear
from graphattn.layers.multi_scale import edges_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.encoders.duo_streams import STREAMS, DuoNorm, StreamMaps
from graphattn.models.encoders.positions import position_vectors
from graphattn.models.options import option
from graphattn.schema import ALL

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


@dataclass
class DuoTransformerOptions(EncoderOptions):
    """Options of the Duo Transformer; the switches are those of the paper's Table 6."""

    name = "duo-transformer"
    takes_parts = True
    streams = STREAMS

    hidden: int = option(300, "width of the encoder", min=1, multiple_of="heads")
    heads: int = option(10, "heads of each layer", min=1)
    ffn: int = option(1200, "width of the feed-forward part", min=1)
    parts: tuple[str, ...] = option(
        (), "widths of the sets in a token vector (default: those of the word vectors, or two halves)"
    )
    share_weights: bool = option(True, "both streams have the same projections in a layer's attention")
    duo_norm: bool = option(True, "in a decoder, norms add the other stream")
    fusion_layer: bool = option(True, "in a decoder, the streams are fused before the softmax")

    @override
    def check(self) -> None:
        widths = [str(width) for width in self.parts]
        if widths and (len(widths) != STREAMS or not all(width.isdecimal() and int(width) for width in widths)):
            raise ConfigError(
                f"{{parts}} are {','.join(widths)}; give the widths of two sets, 50,300 for example", options=("parts",)
            )

    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> DuoTransformerOptions:
        """The options with the widths of the two sets that token vectors are made of.

        Raises
        ------
        ConfigError
            when token vectors are not made of two sets
        """
        if not self.parts:
            halves = (widths[0] // 2, widths[0] - widths[0] // 2)
            widths = widths if len(widths) > 1 else halves
            if len(widths) != STREAMS or min(widths) < 1:
                raise ConfigError(
                    f"token vectors are made of widths {', '.join(map(str, widths))}; the Duo Transformer has two "
                    "streams. Give two sets of {vectors}, or {parts}",
                    options=("vectors", "parts"),
                )
            return replace(self, parts=tuple(str(width) for width in widths))
        if sum(map(int, self.parts)) != sum(widths):
            raise ConfigError(
                f"{{parts}} {','.join(map(str, self.parts))} do not sum to {sum(widths)}, the width of token vectors",
                options=("parts",),
            )
        return self


class DuoTransformerLayer(nn.Module):
    """Duo attention and a feed-forward part that both streams share, each with residual and post-norm."""

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
        streams = self.attention_norm(streams, self.dropout(self._attended(edges, streams, weights)))
        inner = self.dropout(F.relu(self.widen(streams), inplace=True))
        return self.ffn_norm(streams, self.dropout(self.narrow(inner)))

    def _attended(self, edges: Mapping[str, Edges], streams: Tensor, weights: LayerWeights | None) -> Tensor:
        """Heads for both streams in one pass: the first half for the first stream, scored by the second."""
        query, key = (maps(streams).flip(1) for maps in (self.query, self.key))
        parts = [part.flatten(1).unflatten(1, (STREAMS * self.heads, -1)) for part in (query, key, self.value(streams))]
        parts = [part.float() if part.element_size() < 4 else part for part in parts]  # sums in float32 under autocast
        if weights is None:
            found = attend(edges[ALL], *parts)
        else:
            found, weights[ALL] = attend(edges[ALL], *parts, return_weights=True)
        return self.output(found.flatten(1).unflatten(1, (STREAMS, -1)))


class DuoTransformerEncoder(Encoder):
    r"""A stack of Duo layers over complete graphs, with sinusoidal positions; both streams side by side come out.

    Each stream keeps its values and is mixed by the attention of the other, head by head:

    .. math:: o_S = [softmax(Q x_P (K x_P)^T / \sqrt d) V x_S] W_O, \quad
              o_P = [softmax(Q x_S (K x_S)^T / \sqrt d) V x_P] W_O

    What the paper's text leaves open, and how it is read here: the formulas are missing; that keys and queries come
    from one embedding and values from the other is said in its introduction and, for the classifier, in section 3.1;
    Q, K, V and W_O are shared by the streams of a layer (section 3.2) unless ``share_weights`` is off. That the
    feed-forward part is shared too is ours: two would exceed the parameters of Table 5. Token vectors that are not as
    wide as the encoder go through a linear map for each stream (section 4.2, "feed-forward").
    """

    def __init__(self, options: DuoTransformerOptions):
        super().__init__()
        given = options if options.parts else options.for_parts([STREAMS * options.hidden])
        self.options, self.width = options, STREAMS * options.hidden
        self.parts = [int(width) for width in given.parts]
        self.enter = nn.ModuleList(
            nn.Identity() if width == options.hidden else Linear(width, options.hidden) for width in self.parts
        )
        self.layers = nn.ModuleList(DuoTransformerLayer(options) for _ in range(options.layers))

    def relations(self) -> list[Relation]:
        """The complete graph."""
        return [Complete()]

    def heads_along(self) -> dict[str, int]:
        """Those of both streams."""
        return {ALL: STREAMS * self.options.layers * self.options.heads}

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, both parts) -> (N, 2 hidden)."""
        edges = edges_of(graph, [ALL], tokens.device)
        parts = zip(self.enter, tokens.split(self.parts, dim=1), strict=True)
        streams = torch.stack([enter(part) for enter, part in parts], dim=1)
        streams = streams + position_vectors(graph, self.options.hidden, tokens.device).unsqueeze(1)
        for layer in self.layers:
            seen: LayerWeights | None = None if weights is None else {}
            streams = layer(edges, streams, seen)
            if weights is not None and seen is not None:
                weights.append(seen)
        return streams.flatten(1)

"""MS-Trans: a Transformer whose heads look through windows of several scales (Guo et al. 2020, Eq. 6-12)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.builders.relations import Complete, Dependency, Order, Relation, Window, WordGroup
from graphattn.exceptions import ConfigError
from graphattn.layers import MultiScaleAttention, edges_of
from graphattn.models.dropout import dropout
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.options import at_least, option, share
from graphattn.scales import Scale, allocate_heads

if TYPE_CHECKING:
    from dgl import DGLGraph


@dataclass
class MSTransOptions(EncoderOptions):
    """Options of the multi-scale Transformer; the defaults are the paper's Table 1 for classification."""

    name = "ms-trans"

    heads: int = option(10, "heads of each layer that look through windows")
    head_feats: int | None = option(None, "features of a head (default: hidden / heads)")
    scales: tuple[str, ...] = option(("1", "3", "N/16", "N/8", "N/4"), "window widths, smallest first")
    alpha: float = option(0.5, "> 0 gives shallow layers more small scales, < 0 more large ones")
    relations: tuple[str, ...] = option((), "heads on other relations in every layer, such as dependency:2 or group:1")
    literal_radius: bool = option(False, "read a scale as the reach to each side, as Eq. 7 does literally")
    score_scale: str = option(
        "head",
        "divide scores by the root of a head's features, or of the hidden width (Eq. 6)",
        choices=("head", "hidden"),
    )
    attn_drop: float = option(0.0, "dropout on attention weights")

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        at_least(self, 1, "heads", "head_feats")
        share(self, "attn_drop")
        if not self.scales:
            raise ConfigError("scales is empty; give at least one, 3 for example")
        names = [window.name for window in self.windows()]
        twice = next((scale for scale, name in zip(self.scales, names, strict=True) if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"scales has {twice} twice; give each once, alpha decides how many heads it gets")
        if self.head_feats is None and self.hidden % self.heads:
            raise ConfigError(f"hidden {self.hidden} is no multiple of heads {self.heads}; set head_feats")
        parse_relation_heads(self.relations)

    def layer_heads(self) -> list[dict[str, int]]:
        """For each layer, relation -> number of heads.

        Examples
        --------
        >>> MSTransOptions(layers=2, relations=("dependency:2",)).layer_heads()[0]
        {'window:1': 5, 'window:3': 2, 'window:N/16': 2, 'window:N/8': 1, 'window:N/4': 0, 'dependency': 2}
        """
        names = [window.name for window in self.windows()]
        extra = parse_relation_heads(self.relations)
        rows = allocate_heads(self.heads, self.layers, len(names), self.alpha)
        return [{**dict(zip(names, row, strict=True)), **extra} for row in rows]

    def windows(self) -> list[Window]:
        """The window relation of each scale."""
        return [Window(Scale(scale), as_radius=self.literal_radius) for scale in self.scales]


_OTHER_RELATIONS: Mapping[str, Relation] = {
    "dependency": Dependency("token"),
    "group": WordGroup(),
    "forward": Order("forward"),
    "backward": Order("backward"),
    "all": Complete(),
}


def parse_relation_heads(specs: tuple[str, ...]) -> dict[str, int]:
    """Read ``("dependency:2", "group:1")``.

    Raises
    ------
    ConfigError
        for an unknown relation, one given twice, or a count that is no number
    """
    heads: dict[str, int] = {}
    for spec in specs:
        match = re.fullmatch(r"([\w-]+):([1-9]\d*)", str(spec))
        if not match or match.group(1) not in _OTHER_RELATIONS:
            names = ", ".join(_OTHER_RELATIONS)
            raise ConfigError(f"relations: {spec!r} is not RELATION:HEADS with one of the relations {names}")
        if match.group(1) in heads:
            raise ConfigError(f"relations has {match.group(1)} twice; give it once, with all its heads")
        heads[match.group(1)] = int(match.group(2))
    return heads


class MSTransLayer(nn.Module):
    r"""One layer, post-norm and without feed-forward part (Eq. 10).

    .. math:: H' = LayerNorm(H + ReLU(MSMSA(H)))
    """

    def __init__(self, options: MSTransOptions, heads: Mapping[str, int]):
        super().__init__()
        head_feats = options.head_feats or options.hidden // options.heads
        divisor = options.hidden if options.score_scale == "hidden" else head_feats
        self.attention = MultiScaleAttention(
            options.hidden, head_feats, heads, scale=1 / math.sqrt(divisor), attn_drop=options.attn_drop
        )
        self.norm = nn.LayerNorm(options.hidden)
        self.dropout = options.dropout

    def forward(self, edges: Mapping, tokens: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        added = F.relu(self.attention(edges, tokens, weights=weights))
        return self.norm(tokens + dropout(added, self.dropout, self.training))


class MSTransEncoder(Encoder):
    """A stack of multi-scale layers; no positions, since small windows tell them (section 3.3)."""

    def __init__(self, options: MSTransOptions):
        super().__init__()
        options.check()
        self.options, self.width = options, options.hidden
        self.layers = nn.ModuleList(MSTransLayer(options, heads) for heads in options.layer_heads())

    def relations(self) -> list[Relation]:
        """Windows that at least one head uses, and the other relations."""
        used = {relation for heads in self.options.layer_heads() for relation, count in heads.items() if count}
        windows = [window for window in self.options.windows() if window.name in used]
        return [*windows, *(_OTHER_RELATIONS[name] for name in parse_relation_heads(self.options.relations))]

    def forward(self, graph: DGLGraph, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        edges = edges_of(graph, [relation.name for relation in self.relations()], tokens.device)
        for layer in self.layers:
            seen: LayerWeights | None = None if weights is None else {}
            tokens = layer(edges, tokens, seen)
            if weights is not None and seen is not None:
                weights.append(seen)
        return tokens

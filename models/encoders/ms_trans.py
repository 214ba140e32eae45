"""MS-Trans: a Transformer whose heads look through windows of several scales (Guo et al. 2020, Eq. 6-12)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.builders.relations import Relation, RelativePositions, Window, parse_relation
from graphattn.edges import Edges
from graphattn.exceptions import ConfigError
from graphattn.layers.dropout import dropout
from graphattn.layers.multi_scale import MultiScaleAttention, edges_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.encoders.node_states import NodeStates
from graphattn.models.encoders.positions import position_vectors
from graphattn.models.encoders.relation_heads import count_heads, head_relation, parse_heads
from graphattn.models.options import option, require_multiple
from graphattn.scales import Scale, allocate_heads
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


@dataclass
class MSTransOptions(EncoderOptions):
    """Options of the multi-scale Transformer; the defaults are the paper's Table 1 for classification."""

    name = "ms-trans"

    heads: int | str | Mapping[str, int] = option(
        10, "heads of each layer that look through windows; or all heads by relation: window:3=4,dependency=2,star=2"
    )
    head_feats: int | None = option(None, "features of a head (default: hidden / heads)", min=1)
    scales: tuple[str, ...] = option(("1", "3", "N/16", "N/8", "N/4"), "window widths, smallest first")
    alpha: float = option(0.5, "> 0 gives shallow layers more small scales, < 0 more large ones")
    relations: tuple[str, ...] = option((), "heads on other relations in every layer, such as dependency:2 or group:1")
    literal_radius: bool = option(False, "read a scale as the reach to each side, as Eq. 7 does literally")
    score_scale: str = option(
        "head",
        "divide scores by the root of a head's features, or of the hidden width (Eq. 6)",
        choices=("head", "hidden"),
    )
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)
    positions: bool = option(False, "add the Transformer's position vectors: how far from the beginning a token stands")

    @classmethod
    def for_tagging(cls) -> MSTransOptions:
        """The paper's Table 1 for tagging."""
        return cls(scales=("1", "3", "5", "7", "9"), alpha=1.0)

    @override
    def check(self) -> None:
        if self.num_heads < 1:
            raise ConfigError(f"{{heads}} is {self.heads}; it must be at least 1", options=("heads",))
        if self.head_feats is None:
            require_multiple("hidden", self.hidden, self.num_heads, "heads", fix="head_feats")
        try:
            windows = self.windows()
        except ConfigError as error:
            raise ConfigError(f"{{scales}}: {error}", options=("scales",)) from error
        _validate_scales(windows)
        repeated = parse_relation_heads(self.relations).keys() & {window.name for window in windows}
        if repeated:
            raise ConfigError(
                f"{{relations}} repeats {min(repeated)}, which {{scales}} has", options=("relations", "scales")
            )

    @property
    def num_heads(self) -> int:
        """Heads that share the hidden width unless ``head_feats`` is given: those on windows, or all by relation."""
        return sum(parse_heads(self.heads).values()) if isinstance(self.heads, (str, Mapping)) else self.heads

    def layer_heads(self) -> list[dict[str, int]]:
        """For each layer, relation -> number of heads.

        Examples
        --------
        >>> MSTransOptions(layers=2, relations=("dependency:2",)).layer_heads()[0]
        {'window:1': 5, 'window:3': 2, 'window:N/16': 2, 'window:N/8': 1, 'window:N/4': 0, 'dependency': 2}
        >>> MSTransOptions(layers=2, heads="window:3=4,star=2").layer_heads()
        [{'window:3': 4, 'star': 2}, {'window:3': 4, 'star': 2}]
        """
        if isinstance(self.heads, (str, Mapping)):
            return [parse_heads(self.heads)] * self.layers
        names = [window.name for window in self.windows()]
        extra = parse_relation_heads(self.relations)
        rows = allocate_heads(self.heads, self.layers, len(names), self.alpha)
        return [{**dict(zip(names, row, strict=True)), **extra} for row in rows]

    def head_relations(self) -> list[Relation]:
        """The relations that at least one head looks along."""
        used = dict.fromkeys(name for heads in self.layer_heads() for name, count in heads.items() if count)
        windows = {window.name: window for window in self.windows()}
        return [windows[name] if name in windows else head_relation(name) for name in used]

    def windows(self) -> list[Window]:
        """The window relation of each scale."""
        return [Window(Scale(scale), as_radius=self.literal_radius) for scale in self.scales]


def _validate_scales(windows: Sequence[Window]) -> None:
    """Reject scales that ``alpha`` cannot order: none, repeated ones, or a larger before a smaller."""
    if not windows:
        raise ConfigError("{scales} is empty; give at least one, 3 for example", options=("scales",))
    repeated = next((window for window, count in Counter(w.name for w in windows).items() if count > 1), None)
    if repeated is not None:
        raise ConfigError(f"{{scales}} repeats {repeated}; {{alpha}} sets its heads", options=("scales", "alpha"))
    for fixed in (True, False):  # the order of a fixed and a relative scale depends on the text
        scales = [window.scale for window in windows if (window.scale.tokens is not None) is fixed]
        for scale, following in pairwise(scales):
            if following < scale:
                raise ConfigError(
                    f"{{scales}} has {scale} before {following}; {{alpha}} needs the smallest first",
                    options=("scales", "alpha"),
                )


def parse_relation_heads(specs: tuple[str, ...]) -> dict[str, int]:
    """Read ``("dependency:2", "binary:1:2")``: relations, and their heads behind the last colon.

    Raises
    ------
    ConfigError
        for an unknown relation, one given twice, a count that is no number, or none: what is a relation as it stands,
        ``global:2`` say, is not read as heads on another
    """
    pairs = []
    for spec in map(str, specs):
        name, sign, count = spec.rpartition(":")
        if not sign:
            raise ConfigError(
                f"{{relations}}: {spec!r} is not RELATION:HEADS; write dependency:2 for example", options=("relations",)
            )
        if _is_relation(spec):
            raise ConfigError(
                f"{{relations}}: {spec!r} names a relation and no heads; write {_with_heads(spec)}",
                options=("relations",),
            )
        pairs.append((name, count))
    return count_heads(pairs, "relations")


def _with_heads(spec: str) -> str:
    """What may be meant by a relation whose last number may be meant as its heads."""
    meant = f"{spec}:2 for two heads on it"
    name, _, count = spec.rpartition(":")
    if not count.isdigit() or not _is_relation(name):
        return meant
    plain = parse_relation(name).spec
    other = f"{plain}:{count}"
    return f"{meant}, {f'heads as {plain}={count}' if _is_relation(other) else other} for {count} on {plain}"


def _is_relation(name: str) -> bool:
    try:
        parse_relation(name)
    except ConfigError:
        return False
    return True


class MSTransLayer(nn.Module):
    r"""One layer, post-norm and without feed-forward part (Eq. 10).

    .. math:: H' = LayerNorm(H + ReLU(MSMSA(H)))
    """

    def __init__(self, options: MSTransOptions, heads: Mapping[str, int]):
        super().__init__()
        head_feats = options.head_feats or options.hidden // options.num_heads
        divisor = options.hidden if options.score_scale == "hidden" else head_feats
        distances = {
            relation.name: relation.clip
            for relation in options.head_relations()
            if isinstance(relation, RelativePositions)
        }
        self.attention = MultiScaleAttention(
            options.hidden,
            head_feats,
            heads,
            scale=1 / math.sqrt(divisor),
            attn_drop=options.attn_drop,
            distances=distances,
        )
        self.norm = nn.LayerNorm(options.hidden)
        self.dropout = options.dropout

    def forward(self, edges: Mapping, tokens: Tensor, weights: LayerWeights | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        added = F.relu(self.attention(edges, tokens, weights=weights), inplace=True)
        added = dropout(added, self.dropout, self.training)
        if torch.is_grad_enabled() or added.dtype != tokens.dtype:
            return self.norm(tokens + added)
        return self.norm(added.add_(tokens))  # no new memory


class MSTransEncoder(Encoder):
    """A stack of multi-scale layers; in the paper without positions, since small windows tell them (section 3.3).

    Windows tell what is near, not how far from the beginning a token stands; ``positions`` adds that.

    A head may look along any relation that leads to tokens. A relation may bring nodes of its own (the relay of
    ``star``, the spans of ``binary``, sentences, the document). They have states as tokens have, which go through the
    same layers: a head on ``star`` is one softmax over the neighbours and the relay for a token, and over the relay and
    all tokens for the relay (Star-Transformer, section 3.2), a head on ``binary`` one over near tokens and far spans
    for a token, and over its tokens for a span (BP-Transformer, section 3, where tokens and spans share their
    parameters too). Heads on relations that do not lead to a node add nothing to it. Such a node starts as the mean of
    the tokens that it has edges from (as the relay of Star-Transformer; spans of BP-Transformer start as zeros), or as
    zeros where it has none (the document). All nodes are updated at once, from the states of the layer below.
    """

    def __init__(self, options: MSTransOptions):
        super().__init__()

        self.options, self.width = options, options.hidden
        self.layers = nn.ModuleList(MSTransLayer(options, heads) for heads in options.layer_heads())
        self._relations = options.head_relations()

    def relations(self) -> list[Relation]:
        """Those that at least one head looks along."""
        return self._relations

    def heads_along(self) -> dict[str, int]:
        """Sums over the layers."""
        heads: Counter[str] = Counter()
        for own in self.options.layer_heads():
            heads.update({name: count for name, count in own.items() if count})
        return dict(heads)

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        relations = self.relations()
        if self.options.positions:
            tokens = tokens + position_vectors(graph, self.width, tokens.device)
        if all(part.source == part.target == TOKEN for relation in relations for part in relation.parts()):
            edges = edges_of(graph, [relation.name for relation in relations], tokens.device)
            return self._through_layers(edges, tokens, weights)
        nodes = NodeStates(graph, relations, tokens)
        return self._through_layers(nodes.edges, nodes.start(), weights)[: len(tokens)]

    def _through_layers(self, edges: Mapping[str, Edges], states: Tensor, weights: list[LayerWeights] | None) -> Tensor:
        for layer in self.layers:
            seen: LayerWeights | None = None if weights is None else {}
            states = layer(edges, states, seen)
            if weights is not None and seen is not None:
                weights.append(seen)
        return states

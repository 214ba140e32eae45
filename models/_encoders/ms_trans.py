"""MS-Trans: a Transformer whose heads have windows of several scales (Guo et al. 2020, Eq. 6-12)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._edges import Edges, as_batch, edges_of
from graphattn._homogeneous import JointNodes
from graphattn._scales import Scale, allocate_heads
from graphattn._schema import TOKEN
from graphattn._validation import require_choice, require_multiple, require_range
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation, RelativePositions, Window
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import dropout
from graphattn.layers._multi_scale import MultiScaleAttention
from graphattn.layers._norm import LayerNorm
from graphattn.models._encoders.base import Encoder, EncoderOptions, LayerWeights, position_vectors, run_layers
from graphattn.models._encoders.relation_heads import head_relation, parse_heads, parse_relation_heads
from graphattn.options import option

SETTINGS: dict[str, dict[str, Any]] = {
    "classification": {},
    "tagging": {"scales": ("1", "3", "5", "7", "9"), "alpha": 1.0},
    "snli": {"hidden": 600, "head_feats": 64},
    "table-6": {"hidden": 600, "head_feats": 64, "heads": 5, "layers": 3},
}
"""The paper's settings, as changes to the defaults: those of Table 1, and of Table 6 (SNLI with N' = 5 and L = 3).

Table 1 lacks heads and layers. The best row of Table 6 has the accuracy of Table 5 (85.9), so both may be one model."""

_GROWS = re.compile(r"\b(N|all|forward|backward|causal(?!:))\b")
"""Relations, also those within others, whose edges grow with the square of a text."""


@dataclass
class MSTransOptions(EncoderOptions):
    """Options of the multi-scale Transformer; the defaults are the paper's Table 1 for classification."""

    name = "ms-trans"

    heads: int | str | Mapping[str, int] = option(
        10, "heads of each layer on windows, or all heads by relation: window:3=4,dependency=2,star=2", common=True
    )
    head_feats: int | None = option(None, "features of a head (default: hidden / heads)", min=1)
    scales: tuple[str, ...] = option(("1", "3", "N/16", "N/8", "N/4"), "window widths, smallest first")
    alpha: float = option(0.5, "> 0 gives shallow layers more small scales, < 0 more large ones")
    relations: tuple[str, ...] | str | Mapping[str, int] = option(
        (), "heads on other relations in every layer, besides windows: dependency=2,group=1"
    )
    relation_labels: str = option(
        "none",
        "what heads learn for each label and direction of an edge: a bias of scores, or also vectors of keys, values",
        choices=("none", "bias", "vectors"),
    )
    literal_radius: bool = option(False, "read a scale as the radius, as Eq. 7 literally does")
    score_scale: str = option(
        "head",
        "divide scores by the root of a head's features, or of the hidden width (Eq. 6)",
        choices=("head", "hidden"),
    )
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)
    positions: bool = option(False, "add sinusoidal position vectors")

    @classmethod
    def of_setting(cls, setting: str, **options: Any) -> MSTransOptions:
        """Options of one of the paper's :data:`SETTINGS`, some overridden.

        Raises
        ------
        ConfigError
            for an unknown setting

        Examples
        --------
        >>> [list(heads.values()) for heads in MSTransOptions.of_setting("table-6", alpha=-0.5).layer_heads()]
        [[1, 0, 1, 1, 2], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
        """
        require_choice("setting", setting, SETTINGS)
        return cls(**{**SETTINGS[setting], **options})

    @override
    @classmethod
    def for_tagging(cls) -> MSTransOptions:
        return cls.of_setting("tagging")

    @override
    def check(self) -> None:
        require_range("heads", self.num_heads, min=1)
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

        if self.relation_labels != "none" and not self.labelled_relations():
            raise ConfigError(
                "{relation_labels} needs heads on a relation whose edges have labels; set {relations=dependency=2}",
                options=("relation_labels", "relations"),
            )

    @property
    @override
    def max_tokens(self) -> int | None:
        try:
            relations = self.head_relations()
        except ConfigError:  # check() says of which option
            return None
        return super().max_tokens if any(_GROWS.search(relation.name) for relation in relations) else None

    def labelled_relations(self) -> list[Relation]:
        """The relations of heads whose edges have labels that layers learn from."""
        return [each for each in self.head_relations() if each.num_kinds] if self.relation_labels != "none" else []

    @property
    def num_heads(self) -> int:
        """Heads that split the hidden width unless ``head_feats`` is set: on windows, or all by relation."""
        return sum(parse_heads(self.heads).values()) if isinstance(self.heads, (str, Mapping)) else self.heads

    def layer_heads(self) -> list[dict[str, int]]:
        """For each layer, relation -> number of heads.

        Examples
        --------
        >>> MSTransOptions(layers=2, relations="dependency=2").layer_heads()[0]
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
        """The relations with at least one head."""
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


class MSTransLayer(nn.Module):
    r"""One layer, post-norm and without a feed-forward layer (Eq. 10).

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
            edge_feats={relation.name: relation.num_kinds for relation in options.labelled_relations()},
            edge_vectors=options.relation_labels == "vectors",
        )
        self.norm = LayerNorm(options.hidden)
        self.dropout = options.dropout

    def forward(
        self,
        edges: Mapping[str, Edges],
        tokens: Tensor,
        weights: LayerWeights | None = None,
        **kinds: Mapping[str, Tensor],
    ) -> Tensor:
        """(N, hidden) -> (N, hidden); with labels, ``edge_feats`` are the kinds of edges of each relation."""
        attended = self.attention(edges, tokens, weights=weights, **kinds)
        added = F.relu(attended, inplace=True)
        added = dropout(added, self.dropout, self.training)
        in_place = not torch.is_grad_enabled() and added.dtype == tokens.dtype  # saves memory
        return self.norm(added.add_(tokens) if in_place else tokens + added)


class NodeStates:
    """All nodes that heads reach: (N, hidden) tokens first, then the nodes that relations add."""

    def __init__(self, graph: TextBatch, relations: Sequence[Relation], tokens: Tensor):
        self._parts = {relation.name: [part.canonical for part in relation.parts()] for relation in relations}
        kinds = dict.fromkeys([TOKEN, *(part[2] for parts in self._parts.values() for part in parts)])
        self._tokens, self._nodes = tokens, JointNodes(graph, list(kinds), tokens.device)
        self.edges = {name: self._nodes.edges(parts) for name, parts in self._parts.items()}
        """Relation -> its edges between all nodes."""

    def initial_states(self) -> Tensor:
        """(all nodes, hidden) states before the first layer."""
        states = {TOKEN: self._tokens}
        for relation in (part for parts in self._parts.values() for part in parts):
            if relation[0] == TOKEN and relation[2] not in states:
                states[relation[2]] = self._nodes.average_sources(relation, self._tokens)
        width = self._tokens.shape[1]
        rows = [states.get(node_type, self._tokens.new_zeros(n, width)) for node_type, n in self._nodes.counts.items()]
        return torch.cat(rows)


class MSTransEncoder(Encoder):
    """A stack of multi-scale layers, in the paper without positions (section 3.3); ``positions`` adds them.

    A head may use any relation with edges to tokens. Relations may add nodes (the relay of ``star``, the spans of
    ``binary``, sentences, the document). These nodes have states that pass through the same layers: a head on ``star``
    is one softmax over neighbours and relay for a token, and over the relay and all tokens for the relay
    (Star-Transformer, section 3.2); a head on ``binary`` is one softmax over near tokens and far spans for a token, and
    over its tokens for a span (BP-Transformer, section 3, where tokens and spans share parameters too). Heads on
    relations without edges to a node add nothing to it. A node starts as the mean of the tokens with edges to it (as
    Star-Transformer's relay; BP-Transformer's spans start as zeros), or as zeros without such edges (the document). All
    nodes are updated at once, from the states of the layer below.
    """

    def __init__(self, options: MSTransOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.layers = nn.ModuleList(MSTransLayer(options, heads) for heads in options.layer_heads())
        self._relations = options.head_relations()
        self._labelled = options.labelled_relations()

    @override
    def relations(self) -> list[Relation]:
        return self._relations

    @override
    def heads_along(self) -> dict[str, int]:
        heads: Counter[str] = Counter()
        for layer_heads in self.options.layer_heads():
            heads.update({name: count for name, count in layer_heads.items() if count})
        return dict(heads)

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        relations = self.relations()
        if self.options.positions:
            tokens = tokens + position_vectors(graph, self.width, tokens)
        kinds = {}
        if self._labelled:
            features = as_batch(graph).edge_features
            kinds["edge_feats"] = {each.name: each.edge_kinds(features[each.canonical]) for each in self._labelled}
        if all(part.source == part.target == TOKEN for relation in relations for part in relation.parts()):
            edges = edges_of(graph, [relation.name for relation in relations], tokens.device)
            return run_layers(self.layers, edges, tokens, weights, **kinds)
        nodes = NodeStates(graph, relations, tokens)
        return run_layers(self.layers, nodes.edges, nodes.initial_states(), weights, **kinds)[: len(tokens)]

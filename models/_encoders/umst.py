"""UMST: a Transformer on sub-words, words and phrases (Li et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._aggregation import aggregate, mean_coefficients
from graphattn._devices import to_device
from graphattn._edges import Edges, features_of, lengths_of
from graphattn._schema import ALL, ALL_WORDS, MEMBERSHIP, TOKEN, WORD
from graphattn._validation import require_choice
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import (
    Complete,
    Dependency,
    RandomArcs,
    RandomPairs,
    Relation,
    ShuffledGroup,
    WordGroup,
)
from graphattn.layers._checkpointing import Derived
from graphattn.layers._dropout import make_dropouts
from graphattn.layers._graph_convolution import GraphAttention, GraphConvolution, NeighbourMean
from graphattn.layers._linear import Embedding, Linear
from graphattn.layers._norm import LayerNorm
from graphattn.layers._rectified import FUSIONS, RectifiedAttention
from graphattn.layers._upsampling import METHODS, Upsampling
from graphattn.models._encoders.base import BlockOptions, Encoder, LayerWeights, append_layer, position_vectors
from graphattn.options import option

Mixer = GraphConvolution | GraphAttention | NeighbourMean

PAPER_DROPOUT = {"dropout": 0.1, "ffn_dropout": 0.1, "attn_drop": 0.1}
"""Residual dropout, which is 0.3 in big models, and dropout inside feed-forward layers and on attention weights
(appendix A.2)."""

SIZES: dict[str, dict[str, Any]] = {
    "small": {"hidden": 256, "layers": 3, "heads": 4, "ffn": 1024, "dropout": 0.1},
    "base": {"hidden": 512, "layers": 6, "heads": 8, "ffn": 2048, **PAPER_DROPOUT},
    "deep": {"hidden": 512, "layers": 12, "heads": 8, "ffn": 2048, **PAPER_DROPOUT},
    "big": {"hidden": 1024, "layers": 6, "heads": 16, "ffn": 4096, **PAPER_DROPOUT, "dropout": 0.3},
}
"""The paper's configurations (section 4.2, appendix A.2), and one for a CPU, which is the default."""


@dataclass
class UMSTOptions(BlockOptions):
    """Options of UMST; every row of the paper's Tables 5, 6 and 8 is one of them."""

    name = "umst"

    class_embedding: bool = option(True, "embed whether a token is a whole word or part of a split one")
    scale_classes: bool = option(
        True, "multiply class embeddings by the root of the width, as translators do with token embeddings"
    )
    intra_group: bool = option(True, "mix the tokens of each word")
    inter_group: bool = option(True, "mix words along dependency arcs and add attention between words")
    graph_layer: str = option(
        "gcn", "mixing layer: graph convolution, mean, or graph attention", choices=("gcn", "mean", "gat")
    )
    share_projections: str = option(
        "none",
        "one projection for words and phrases in each block, or one for words and one for phrases in all blocks",
        choices=("none", "block", "blocks"),
    )
    share_scores: bool = option(False, "one projection gives the queries and keys of tokens and of words")
    upsampling: str = option(
        "membership", "how words' attention is copied to tokens: from their own word, or interpolated", choices=METHODS
    )
    normalize: bool = option(False, "divide the words' attention by the number of tokens of the attended word")
    map_fusion: str = option(
        "mean",
        "fuse the maps of tokens and words by their mean, their sum, or a gate per token and head",
        choices=FUSIONS,
    )
    relative_positions: int | None = option(
        None, "learn vectors for distances up to this many tokens, and words (default: sinusoids alone)", min=1
    )
    word_positions: bool = option(True, "relative positions are also those of words, in the attention between them")
    groups: str = option(
        "words",
        "groups of tokens: words, or for comparison shuffled or random ones",
        choices=("words", "shuffled", "random"),
    )
    arcs: str = option(
        "parse", "arcs between words: from a parse, or for comparison random", choices=("parse", "random")
    )
    graph_seed: int = option(0, "seed of shuffled and random groups and arcs", min=0)

    @classmethod
    def of_size(cls, size: str, **options: Any) -> UMSTOptions:
        """Options of a size, some overridden.

        Raises
        ------
        ConfigError
            for an unknown size

        Examples
        --------
        >>> UMSTOptions.of_size("base", share_scores=True).hidden
        512
        """
        require_choice("size", size, SIZES)
        return cls(**{**SIZES[size], **options})

    def group_relation(self) -> Relation:
        """The relation that mixes the tokens of a word."""
        kinds = {"words": WordGroup, "shuffled": ShuffledGroup, "random": RandomPairs}
        return WordGroup() if self.groups == "words" else kinds[self.groups](self.graph_seed)

    def arc_relation(self) -> Relation:
        """The relation that mixes words; it includes membership."""
        return Dependency(required=False) if self.arcs == "parse" else RandomArcs(self.graph_seed)

    def mixing_relations(self) -> list[str]:
        """Names of the relations that layers mix along: within words, between words."""
        within = [self.group_relation().name] if self.intra_group else []
        return [*within, self.arc_relation().name] if self.inter_group else within

    def make_mixer(self) -> Mixer:
        """Create a mixing layer."""
        if self.graph_layer == "mean":
            return NeighbourMean()
        return GraphConvolution(self.hidden) if self.graph_layer == "gcn" else GraphAttention(self.hidden, self.heads)

    def mixers(self) -> list[dict[str, int]]:
        """For each layer, relation -> index of its mixer; shared mixers have one index."""
        names = self.mixing_relations()
        if self.share_projections == "block":
            return [dict.fromkeys(names, layer) for layer in range(self.layers)]
        step = 0 if self.share_projections == "blocks" else len(names)
        return [{name: layer * step + number for number, name in enumerate(names)} for layer in range(self.layers)]


@dataclass(frozen=True, eq=False)
class TextEdges:
    """The edges of a batch that the layers need.

    ``tokens`` and ``words`` are attention; ``groups`` are pairs of tokens to mix, ``arcs`` pairs of words, ``members``
    lead from tokens to their words. Without the interaction they are for, they are None.
    """

    tokens: Edges
    groups: Edges | None = None
    members: Edges | None = None
    arcs: Edges | None = None
    words: Edges | None = None
    upsampling: Upsampling | None = None

    @classmethod
    def of(cls, graph: TextBatch, options: UMSTOptions, device: torch.device) -> TextEdges:
        """Collect the edges from a batch with the encoder's relations."""

        def edges(name: str) -> Edges:
            return Edges.of(graph, name).to(device)

        tokens = edges(ALL)
        groups = edges(options.group_relation().name) if options.intra_group else None
        if not options.inter_group:
            return cls(tokens, groups)
        members = edges(MEMBERSHIP)
        counts = (to_device(lengths_of(graph, node_type), device) for node_type in (TOKEN, WORD))
        upsampling = Upsampling.of(options.upsampling, members, *counts, normalize=options.normalize)
        return cls(tokens, groups, members, edges(options.arc_relation().name), edges(ALL_WORDS), upsampling)


class UMSTLayer(nn.Module):
    """One block (Figure 2): mix the tokens of a word, mix words along arcs, rectified attention, feed-forward layer."""

    def __init__(self, options: UMSTOptions):
        super().__init__()
        names = options.mixing_relations()
        self.group = names[0] if options.intra_group else None
        self.arc = names[-1] if options.inter_group else None
        self.mix_norms = nn.ModuleDict({name: LayerNorm(options.hidden) for name in names})
        self.word_norm = LayerNorm(options.hidden) if options.inter_group else None
        self.attention_norm, self.ffn_norm = LayerNorm(options.hidden), LayerNorm(options.hidden)
        self.widen, self.narrow = Linear(options.hidden, options.ffn), Linear(options.ffn, options.hidden)
        self.attention = RectifiedAttention(
            options.hidden,
            options.heads,
            words=options.inter_group,
            shared_scores=options.share_scores,
            relative_positions=options.relative_positions,
            word_positions=options.relative_positions if options.word_positions else None,
            fusion=options.map_fusion,
            attn_drop=options.attn_drop,
        )
        self.dropout, self.ffn_dropout = make_dropouts(options.dropout, options.ffn_dropout)

    def forward(
        self, text: TextEdges, tokens: Tensor, mixers: Mapping[str, Mixer], weights: LayerWeights | None = None
    ) -> Tensor:
        """(N, hidden) -> (N, hidden).

        ``mixers`` are by relation; ``weights``, when given, is filled with relation -> (E, heads).
        """
        if self.group is not None:
            assert text.groups is not None
            tokens = self._mix(tokens, self.group, text.groups, mixers, weights)
        words = None
        if self.arc is not None and self.word_norm is not None:
            assert text.members is not None and text.arcs is not None
            means = aggregate(text.members, tokens, mean_coefficients(text.members))
            words = Derived.of(self._mix(means, self.arc, text.arcs, mixers, weights)).normalize(self.word_norm)
        attention_weights: list[Tensor] | None = None if weights is None else []
        normed = Derived.of(tokens).normalize(self.attention_norm)
        attended = self.attention(text.tokens, normed, text.words, words, text.upsampling, weights=attention_weights)
        _store_weights(weights, [ALL, ALL_WORDS], attention_weights)
        tokens = tokens + self.dropout(attended)
        wide = Derived.of(tokens).normalize(self.ffn_norm).project(self.widen)
        return tokens + self.dropout(self.narrow(self.ffn_dropout(F.relu(wide, inplace=True))))

    def _mix(
        self, nodes: Tensor, relation: str, edges: Edges, mixers: Mapping[str, Mixer], weights: LayerWeights | None
    ) -> Tensor:
        """Add to the nodes what a relation's mixer returns."""
        mixer_weights: list[Tensor] | None = None if weights is None else []
        norm = cast(LayerNorm, self.mix_norms[relation])
        added: Tensor = mixers[relation](edges, Derived.of(nodes).normalize(norm), mixer_weights)
        _store_weights(weights, [relation], mixer_weights)
        return nodes + self.dropout(added)


def _store_weights(weights: LayerWeights | None, names: list[str], collected: list[Tensor] | None) -> None:
    """Store collected weights under the names of their relations."""
    if weights is not None and collected is not None:
        weights.update(zip(names, collected, strict=False))


class UMSTEncoder(Encoder):
    r"""A stack of blocks on tokens and words, pre-norm, with sinusoidal positions and a norm at the end.

    Our decisions where the paper is silent: both branches of attention have their own norm. Without inter-group
    interaction there are no words, and attention is over tokens alone; without intra-group interaction too it is the
    pre-norm Transformer that the paper compares with. There are two token classes, whole words (including ``[CLS]``)
    and parts of split words; the authors' third class, padding, does not exist here. Class embeddings have the standard
    deviation :math:`1/\sqrt d` of section 3.1, like a translator's token embeddings, and are multiplied by
    :math:`\sqrt d` like those. With relative positions both maps have them, each with
    vectors of its own. In a text without a parse, words have self-loops only, and still attend to each other.
    """

    def __init__(self, options: UMSTOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.classes: Embedding | None = None
        if options.class_embedding:
            self.classes = Embedding(2, options.hidden)
            nn.init.normal_(self.classes.weight, std=1 / math.sqrt(options.hidden))  # section 3.1
        self._mixers = options.mixers()
        numbers = {number for mixers in self._mixers for number in mixers.values()}
        self.mixers = nn.ModuleList(options.make_mixer() for _ in numbers)
        self.layers = nn.ModuleList(UMSTLayer(options) for _ in range(options.layers))
        self.norm = LayerNorm(options.hidden)

    @override
    def relations(self) -> list[Relation]:
        inside = [self.options.group_relation()] if self.options.intra_group else []
        between = [self.options.arc_relation(), Complete(WORD)] if self.options.inter_group else []
        return [Complete(), *inside, *between]

    @override
    def heads_along(self) -> dict[str, int]:
        words = [ALL_WORDS] if self.options.inter_group else []
        mixed = self.options.mixing_relations() if self.options.graph_layer == "gat" else []
        return dict.fromkeys([ALL, *words, *mixed], self.options.layers * self.options.heads)

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        text = TextEdges.of(graph, self.options, tokens.device)
        tokens = tokens + position_vectors(graph, self.width, tokens)
        if self.classes is not None:
            factor = math.sqrt(self.width) if self.options.scale_classes else 1.0
            tokens = tokens + factor * self.classes(word_classes(graph, tokens.device))
        for layer, numbers in zip(self.layers, self._mixers, strict=True):
            mixers = {name: self.mixers[number] for name, number in numbers.items()}
            tokens = layer(text, tokens, mixers, append_layer(weights))
        return self.norm(tokens)


def word_classes(graph: TextBatch, device: torch.device) -> Tensor:
    """(N,) 0 for a token that is a whole word, 1 for a part of a split one (section 3.1)."""
    features = features_of(graph, TOKEN)
    word, position = (to_device(features[name], device) for name in ("word", "position"))
    continues = (word[1:] == word[:-1]) & (position[1:] > 0)
    classes = torch.zeros_like(word, dtype=torch.long)
    classes[1:] |= continues
    classes[:-1] |= continues
    return classes

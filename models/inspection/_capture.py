"""Capture the attention weights of a forward pass, and convert them to maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor

from graphattn._devices import to_device
from graphattn._precision import at_least_float32
from graphattn._ragged import Ints
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.layers._tensorized import TensorizedAttention
from graphattn.models._corpus import Batch
from graphattn.models._decoders.model import TranslationModel, shift_right
from graphattn.models._encoders.base import Encoder, LayerWeights
from graphattn.models._text_model import TextModel, in_evaluation
from graphattn.models.inspection._attention_map import SOURCE, TARGET, AttentionMap
from graphattn.models.inspection.limits import check_num_weights

CROSS = "cross"
"""The relation of a decoder's heads: from tokens of the source to tokens of the target."""


@dataclass(frozen=True, eq=False)
class ForwardCapture:
    """Scores and attention weights of one forward pass.

    ``scores`` are (items, classes), of a translator (T, V), one row for each target token. ``layers`` map relations to
    (E, heads) weights; a decoder's layers follow those of the encoder, and their only relation is ``cross``, with (B,
    heads, T, S) weights. ``features`` map relations to (E, heads, F) weights by feature on request.
    """

    scores: Tensor
    layers: list[LayerWeights]
    features: list[dict[str, Tensor]] = field(default_factory=list)

    @property
    def weights(self) -> list[Tensor]:
        """The weights of all layers and relations."""
        return [weights for layer in self.layers for weights in layer.values()]

    def with_weights(self, values: Iterable[Tensor]) -> ForwardCapture:
        """The same capture with other values in place of :attr:`weights`."""
        remaining = iter(values)
        return replace(self, layers=[{relation: next(remaining) for relation in layer} for layer in self.layers])


def capture_scores(model: TextModel, batch: Batch, *, features: bool = False) -> ForwardCapture:
    """Run a model with a head in evaluation mode, and reject a batch with too many weights."""
    layers: list[LayerWeights] = []
    by_feature: list[dict[str, Tensor]] = []
    every = model.encoder.modules() if features else ()
    modules = [module for module in every if isinstance(module, TensorizedAttention)]
    per_head = 1 + max((module.head_feats for module in modules), default=0)
    check_num_weights(count_weights(model.encoder, batch.graph) * per_head, batch.graph)
    with in_evaluation(model), _recording_features(modules, by_feature):
        return ForwardCapture(model(batch, weights=layers), layers, by_feature)


def capture_decoding(model: TranslationModel, batch: Batch) -> ForwardCapture:
    """Run a translator in evaluation mode on sources and given targets (teacher forcing)."""
    assert batch.targets is not None and batch.target_counts is not None
    cross_edges = int((batch.graph.batch_num_nodes(TOKEN) * batch.target_counts).sum())
    check_num_weights(count_weights(model.encoder, batch.graph) + model.cross_heads * cross_edges, batch.graph)
    layers: list[LayerWeights] = []
    cross: list[Tensor] = []
    with in_evaluation(model):
        state = model.decoder.start(model.encode(batch, weights=layers))
        inputs = shift_right(to_device(batch.targets, model.device), batch.target_counts)
        scores = model.advance(inputs, state, weights=cross)
    return ForwardCapture(scores[0], [*layers, *({CROSS: weights} for weights in cross)])


@contextmanager
def _recording_features(modules: Iterable[TensorizedAttention], layers: list[dict[str, Tensor]]) -> Iterator[None]:
    """Append each module's weights by feature to ``layers``."""

    def record(module: TensorizedAttention, inputs: tuple[Any, ...], _: Tensor) -> None:
        layers.append(module.feature_weights(*inputs))

    hooks = [module.register_forward_hook(record) for module in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def count_weights(encoder: Encoder, graph: TextBatch) -> int:
    """The number of weights of the encoder's attention on a batch, without computing them."""
    types = edge_types(encoder.relations())
    return sum(
        heads * sum(graph.edges[edge_type].num_edges for edge_type in types[relation])
        for relation, heads in encoder.heads_along().items()
    )


@dataclass(frozen=True, eq=False)
class EdgePositions:
    """Sources and targets of the edges of one type, numbered within their text, in the order of edge ids.

    ``sources`` and ``targets`` are (E,) positions among the nodes of their type in their text; ``starts`` (B + 1,) the
    first edge of each text, and the number of edges.
    """

    edge_type: CanonicalRelation
    sources: Ints
    targets: Ints
    starts: Ints

    @classmethod
    def of(cls, graph: TextBatch, edge_type: CanonicalRelation) -> EdgePositions:
        """Read the edges of a batch."""
        edges = graph.edges[edge_type]
        indptr, sources = edges.indptr.numpy(), edges.indices.numpy()
        targets = np.repeat(np.arange(len(indptr) - 1, dtype=sources.dtype), np.diff(indptr))
        first_source, first_target = (_first_nodes(graph, node_type) for node_type in (edge_type[0], edge_type[2]))
        starts = indptr[first_target]
        counts = np.diff(starts)
        sources = sources - np.repeat(first_source[:-1], counts).astype(sources.dtype)
        targets = targets - np.repeat(first_target[:-1], counts).astype(targets.dtype)
        return cls(edge_type, sources, targets, starts)


def _first_nodes(graph: TextBatch, node_type: str) -> Ints:
    """(B + 1,) first node of each text, and the number of nodes."""
    return np.concatenate([[0], np.cumsum(graph.batch_num_nodes(node_type).numpy())])


def edge_types(relations: Iterable[Relation]) -> dict[str, list[CanonicalRelation]]:
    """Name of a relation -> its edge types, in the order of a head's weights."""
    types: dict[str, list[CanonicalRelation]] = {}
    for relation in relations:
        for part in relation.parts():
            types.setdefault(part.name, []).append(part.canonical)
    return types


def attention_maps(
    capture: ForwardCapture, graph: TextBatch, relations: Iterable[Relation], texts: Sequence[str]
) -> list[AttentionMap]:
    """The weights of a capture, one map for each layer, relation, edge type and text.

    ``texts`` are the names of the batch's texts; with layers of a decoder there is one.
    """
    types = edge_types(relations)
    positions = {edge_type: EdgePositions.of(graph, edge_type) for edge_type in chain.from_iterable(types.values())}
    maps: list[AttentionMap] = []
    for layer, weights in enumerate(capture.layers):
        features = capture.features[layer] if capture.features else {}
        first_head = 0
        for relation, values in weights.items():
            if relation == CROSS:
                maps.append(_cross_map(layer, values))
                continue
            begin = 0
            for edge_type in types[relation]:
                edges = slice(begin, begin + len(positions[edge_type].sources))
                by_feature = features[relation][edges] if relation in features else None
                heads = (layer, first_head, relation)
                maps += _maps_by_text(heads, positions[edge_type], values[edges], by_feature, texts)
                begin = edges.stop
            first_head += values.shape[1]
    return maps


def _maps_by_text(
    heads: tuple[int, int, str],
    positions: EdgePositions,
    weights: Tensor,
    features: Tensor | None,
    texts: Sequence[str],
) -> Iterator[AttentionMap]:
    """One map for each text; ``heads`` are layer, first head and relation."""
    values = at_least_float32(weights.detach()).cpu().numpy()
    by_feature = None if features is None else at_least_float32(features.detach()).cpu().numpy()
    for number, text in enumerate(texts):
        edges = slice(int(positions.starts[number]), int(positions.starts[number + 1]))
        yield AttentionMap(
            *heads,
            part_name(text, positions.edge_type[0]),
            part_name(text, positions.edge_type[2]),
            positions.sources[edges],
            positions.targets[edges],
            values[edges],
            None if by_feature is None else by_feature[edges],
        )


def _cross_map(layer: int, weights: Tensor) -> AttentionMap:
    """(1, H, T, S) weights of a decoder's layer as a map; the last target token, which ends the text, is position 0."""
    values = weights[0].detach().roll(1, dims=1).float().cpu().numpy()  # (H, T, S)
    targets, sources = np.indices(values.shape[1:]).reshape(2, -1)
    return AttentionMap(layer, 0, CROSS, SOURCE, TARGET, sources, targets, values.reshape(len(values), -1).T)


def part_name(text: str, node_type: str) -> str:
    """The name of a text's nodes of a type: the text's own name for tokens, else text and type."""
    return text if node_type == TOKEN else f"{text} {node_type}"


def node_texts(graph: TextBatch, tokens: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Part -> the text of each node: tokens as they are, other nodes as ``[type number]``."""
    parts = dict(tokens)
    for node_type in dict.fromkeys(end for edge_type in graph.edges for end in (edge_type[0], edge_type[2])):
        if node_type != TOKEN:
            for text, count in zip(tokens, graph.batch_num_nodes(node_type).tolist(), strict=True):
                parts[part_name(text, node_type)] = tuple(f"[{node_type} {number}]" for number in range(count))
    return parts

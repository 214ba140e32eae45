"""Running a model once and keeping the weights of its attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from graphattn.builders.batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.layers.tensorized import TensorizedAttention
from graphattn.models.corpus import Batch
from graphattn.models.encoders.base import Encoder, LayerWeights
from graphattn.models.inspection.attention_map import AttentionMap, Ints
from graphattn.models.inspection.limits import refuse_many_weights
from graphattn.models.text_model import TextModel
from graphattn.schema import TOKEN, CanonicalRelation

CROSS = "cross"
"""What the heads of a decoder on the source are called, in the place of a relation."""


@dataclass(frozen=True, eq=False)
class ForwardCapture:
    """What one pass of a model over a batch gave.

    Parameters
    ----------
    scores : (items, classes)
    layers : the weights of each layer
    features : for each layer relation -> (E, heads, F) weights by feature; empty when they were not asked for
    """

    scores: Tensor
    layers: list[LayerWeights]
    features: list[dict[str, Tensor]]


def run_once(model: TextModel, batch: Batch, *, features: bool = False) -> ForwardCapture:
    """One pass in evaluation mode, with its weights.

    Parameters
    ----------
    model : left in the mode it was in
    batch : what it takes
    features : also keep the weights by feature of layers that have them

    Raises
    ------
    DataError
        when there are more weights than :data:`graphattn.models.inspection.limits.MOST_WEIGHTS`
    """
    layers: list[LayerWeights] = []
    found: list[dict[str, Tensor]] = []
    by_feature = _features_of(model) if features else 0
    refuse_many_weights(count_weights(model.encoder, batch.graph) * (1 + by_feature), batch.graph)
    with in_evaluation(model), _feature_weights(model, found if features else None):
        return ForwardCapture(model(batch, weights=layers), layers, found)


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards the model is in the mode it was in."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


@contextmanager
def _feature_weights(model: TextModel, found: list[dict[str, Tensor]] | None) -> Iterator[None]:
    """Let layers with weights by feature add these, from what they are given in a pass."""

    def keep(layer: TensorizedAttention, given: tuple[Any, ...], _: Tensor) -> None:
        assert found is not None
        found.append(layer.feature_weights(*given))

    layers = [] if found is None else _tensorized(model)
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tensorized(model: TextModel) -> list[TensorizedAttention]:
    return [module for module in model.encoder.modules() if isinstance(module, TensorizedAttention)]


def _features_of(model: TextModel) -> int:
    """Weights by feature that an edge has for each head."""
    return max((layer.head_feats for layer in _tensorized(model)), default=0)


def count_weights(encoder: Encoder, graph: TextBatch) -> int:
    """How many weights a pass over a batch gives, without one.

    Parameters
    ----------
    encoder : whose heads look
    graph : of the batch
    """
    kinds = kinds_of(encoder.relations())
    return sum(
        heads * sum(graph.edges[kind].num_edges for kind in kinds[relation])
        for relation, heads in encoder.heads_along().items()
    )


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the edges of one kind lead, in the order of their ids.

    Parameters
    ----------
    kind : canonical edge type
    sources, targets : (E,) positions among the nodes of their type in their text
    begins : (B + 1,) first edge of each text of the batch, and their number
    """

    kind: CanonicalRelation
    sources: Ints
    targets: Ints
    begins: Ints

    @classmethod
    def of(cls, graph: TextBatch, kind: CanonicalRelation) -> Ends:
        """Those of a batch."""
        edges = graph.edges[kind]
        indptr = edges.indptr.numpy()
        sources = edges.indices.numpy()
        targets = np.repeat(np.arange(len(indptr) - 1, dtype=sources.dtype), np.diff(indptr))
        if len(graph.batch_num_nodes(kind[2])) == 1:
            begins = indptr[[0, -1]]
        else:  # of several texts, each counts for itself
            source_starts, target_starts = (_starts(graph, end) for end in (kind[0], kind[2]))
            begins = indptr[target_starts]
            per_text = np.diff(begins)
            sources = sources - np.repeat(source_starts[:-1], per_text).astype(sources.dtype)
            targets = targets - np.repeat(target_starts[:-1], per_text).astype(targets.dtype)
        return cls(kind, sources, targets, begins)


def _starts(graph: TextBatch, kind: str) -> Ints:
    """(B + 1,) where the nodes of a type begin in each text, and their number."""
    return np.concatenate([[0], np.cumsum(graph.batch_num_nodes(kind).numpy())])


def kinds_of(relations: Iterable[Relation]) -> dict[str, list[CanonicalRelation]]:
    """Name of a relation -> its kinds of edges, in the order in which a head sees them."""
    kinds: dict[str, list[CanonicalRelation]] = {}
    for relation in relations:
        for part in relation.parts():
            kinds.setdefault(part.name, []).append(part.canonical)
    return kinds


def attention_maps(
    found: ForwardCapture, graph: TextBatch, relations: Iterable[Relation], texts: Sequence[str]
) -> list[AttentionMap]:
    """The weights of a pass as maps, text by text.

    Parameters
    ----------
    found : of a batch
    graph : the batch's
    relations : of the encoder
    texts : what to call the texts of the batch
    """
    kinds = kinds_of(relations)
    ends = {kind: Ends.of(graph, kind) for own in kinds.values() for kind in own}
    maps: list[AttentionMap] = []
    for layer, weights in enumerate(found.layers):
        features = found.features[layer] if found.features else {}
        first_head = 0
        for relation, own in weights.items():
            begin = 0
            for kind in kinds[relation]:
                edges = slice(begin, begin + len(ends[kind].sources))
                by_feature = features[relation][edges] if relation in features else None
                maps += _by_text(layer, first_head, relation, ends[kind], own[edges], by_feature, texts)
                begin = edges.stop
            first_head += own.shape[1]
    return maps


def _by_text(
    layer: int,
    first_head: int,
    relation: str,
    ends: Ends,
    weights: Tensor,
    features: Tensor | None,
    texts: Sequence[str],
) -> Iterator[AttentionMap]:
    plain = weights.detach().cpu().numpy()
    by_feature = None if features is None else features.detach().cpu().numpy()
    for number, text in enumerate(texts):
        own = slice(int(ends.begins[number]), int(ends.begins[number + 1]))
        yield AttentionMap(
            layer,
            first_head,
            relation,
            part_name(text, ends.kind[0]),
            part_name(text, ends.kind[2]),
            ends.sources[own],
            ends.targets[own],
            plain[own],
            None if by_feature is None else by_feature[own],
        )


def part_name(text: str, kind: str) -> str:
    """What the nodes of a type are called: tokens as their text, others as their text and type."""
    return text if kind == TOKEN else f"{text} {kind}"


def kinds_joined(batch: Batch) -> list[str]:
    """The types of nodes that edges join."""
    return list(dict.fromkeys(end for kind in batch.graph.edges for end in (kind[0], kind[2])))


def nodes_of(
    graph: TextBatch, kinds: Iterable[str], tokens: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """What the nodes of all parts say: tokens, and of other types the type and the number.

    Parameters
    ----------
    graph : of the texts
    kinds : node types
    tokens : text -> its tokens
    """
    parts = dict(tokens)
    for kind in kinds:
        if kind != TOKEN:
            for text, count in zip(tokens, graph.batch_num_nodes(kind).tolist(), strict=True):
                parts[part_name(text, kind)] = tuple(f"[{kind} {number}]" for number in range(count))
    return parts

"""From a source to the :class:`~graphattn.models.inspection.Attention` of what a translator writes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import DataError
from graphattn.models.encoders.base import LayerWeights
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attention_map import AttentionMap
from graphattn.models.inspection.capture import CROSS, Pass, in_evaluation, kinds_joined, maps_of, nodes_of
from graphattn.models.translation.model import TranslationModel, shifted
from graphattn.networkx_export import CLS

if TYPE_CHECKING:
    from graphattn.models.batches import Batch
    from graphattn.models.estimators.translator import Translator

SOURCE, TARGET = "source", "target"
"""Names of the parts."""


def look_at_writing(translator: Translator, x: Source, target: str | None = None) -> Attention:
    """The work behind ``translator.attention``; parameters and errors are as there."""
    written = translator.predict([x])[0] if target is None else target
    source, output = (
        translator.subwords_.vocabulary.sentence(own) for own in translator.subwords_.sources([x, written])
    )
    if not source.tokens:
        raise DataError("a source without words shows no attention", hint="Give a text.")
    batch = translator._corpus([x], [written])[[0]]
    with torch.inference_mode(), in_evaluation(translator.model_):
        found, cross = reading_pass(translator.model_, batch)
        relations = translator.model_.encoder.relations()
        nodes = nodes_of(batch.graph, kinds_joined(batch), {SOURCE: (CLS, *source.tokens)})
        return Attention(
            prediction=written,
            probabilities={written: _probability(found.scores, batch)},
            tokens={**nodes, TARGET: (CLS, *output.tokens)},
            sentences={SOURCE: source, TARGET: output},
            maps=(*maps_of(found, batch.graph, relations, (SOURCE,)), *_cross_maps(cross, len(found.layers))),
        )


def reading_pass(model: TranslationModel, batch: Batch) -> tuple[Pass, list[Tensor]]:
    """One pass in which the decoder reads the text that is written: the encoder's weights and its own on the source."""
    assert batch.targets is not None and batch.target_counts is not None
    layers: list[LayerWeights] = []
    cross: list[Tensor] = []
    state = model.decoder.start(model.encode(batch, weights=layers))
    read = shifted(batch.targets.to(model.device), batch.target_counts.to(model.device))
    return Pass(model.advance(read, state, weights=cross)[0], layers, []), cross


def _probability(scores: Tensor, batch: Batch) -> float:
    """Of the whole text and its end."""
    assert batch.targets is not None
    targets = batch.targets.to(scores.device).unsqueeze(1)
    return float(scores.log_softmax(1).gather(1, targets).sum().exp())


def _cross_maps(layers: Sequence[Tensor], first: int) -> list[AttentionMap]:
    """(1, H, T, S) weights of the decoder's layers as maps from the source's tokens to those written.

    The last token written is the border, which stands at position 0.
    """
    maps = []
    for number, weights in enumerate(layers):
        own = weights[0].roll(1, dims=1).float().cpu().numpy()  # (H, T, S)
        targets, sources = np.indices(own.shape[1:]).reshape(2, -1)
        rows = own.reshape(len(own), -1).T
        maps.append(AttentionMap(first + number, 0, CROSS, SOURCE, TARGET, sources, targets, rows))
    return maps

"""From a source to the :class:`~graphattn.models.inspection.Attention` of what a translator writes for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphattn.builders import Sentence
from graphattn.builders.subwords import join_pieces
from graphattn.models.decoders.model import TranslationModel, shift_right
from graphattn.models.encoders.base import LayerWeights
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attention_map import SOURCE, TARGET, AttentionMap
from graphattn.models.inspection.capture import (
    CROSS,
    ForwardCapture,
    attention_maps,
    count_weights,
    in_evaluation,
    kinds_joined,
    nodes_of,
)
from graphattn.models.inspection.limits import refuse_many_weights
from graphattn.networkx_graphs import CLS
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.models.corpus import Batch, Corpus
    from graphattn.models.estimators.translator import Translator


@dataclass(frozen=True, eq=False)
class ForcedDecoding:
    """A source and a text that is written for it, for the decoder to read.

    Parameters
    ----------
    translator : who writes
    written : the text
    sentences : source and text by the names of their parts
    corpus : of this pair alone
    """

    translator: Translator
    written: str
    sentences: dict[str, Sentence]
    corpus: Corpus

    @classmethod
    def of(cls, translator: Translator, x: Any, target: str | None = None) -> ForcedDecoding:
        """For one source and a text, that which the search finds when None.

        Raises
        ------
        DataError
            when the source has no words
        """
        written = translator.predict([x])[0] if target is None else target
        encoded = translator.encode_input(x, target=written)
        return cls(translator, written, encoded.sentences, encoded.corpus)

    def attention(self, found: ForwardCapture, cross: Sequence[Tensor]) -> Attention:
        """What a pass shows.

        Parameters
        ----------
        found : scores of the text's tokens and the encoder's weights
        cross : for each layer of the decoder (1, H, T, S) its weights on the source
        """
        batch = self.corpus[[0]]
        relations = self.translator.model_.encoder.relations()
        source, target = ((CLS, *self.sentences[part].tokens) for part in (SOURCE, TARGET))
        return Attention(
            title=join_pieces(self.sentences[SOURCE].words),
            prediction=self.written,
            probabilities={self.written: _probability(found.scores.detach(), batch)},
            tokens={**nodes_of(batch.graph, kinds_joined(batch), {SOURCE: source}), TARGET: target},
            sentences=self.sentences,
            maps=(*attention_maps(found, batch.graph, relations, (SOURCE,)), *_cross_maps(cross, len(found.layers))),
        )


def look_at_writing(translator: Translator, x: Any, target: str | None = None) -> Attention:
    """The work behind ``translator.attention``; parameters and errors are as there."""
    reading = ForcedDecoding.of(translator, x, target)
    with torch.inference_mode(), in_evaluation(translator.model_):
        return reading.attention(*reading_pass(translator.model_, reading.corpus[[0]]))


def reading_pass(model: TranslationModel, batch: Batch) -> tuple[ForwardCapture, list[Tensor]]:
    """One pass in which the decoder reads the text that is written: the encoder's weights and its own on the source.

    Raises
    ------
    DataError
        when there are more weights than :data:`graphattn.models.inspection.limits.MOST_WEIGHTS`
    """
    assert batch.targets is not None and batch.target_counts is not None
    refuse_many_weights(count_weights(model.encoder, batch.graph) + _count_cross(model, batch), batch.graph)
    layers: list[LayerWeights] = []
    cross: list[Tensor] = []
    state = model.decoder.start(model.encode(batch, weights=layers))
    read = shift_right(batch.targets.to(model.device), batch.target_counts.to(model.device))
    return ForwardCapture(model.advance(read, state, weights=cross)[0], layers, []), cross


def forced_pass(model: TranslationModel, batch: Batch) -> ForwardCapture:
    """The pass with the decoder's attention to the source as further layers.

    Their weights are (E, heads), an edge for each target token and source token of a text, target after target.
    """
    assert batch.target_counts is not None
    found, cross = reading_pass(model, batch)
    sizes = list(zip(batch.target_counts.tolist(), batch.graph.batch_num_nodes(TOKEN).tolist(), strict=True))
    layers = [
        {CROSS: torch.cat([layer[b, :, :t, :s].flatten(1).T for b, (t, s) in enumerate(sizes)])} for layer in cross
    ]
    return ForwardCapture(found.scores, [*found.layers, *layers], [])


def _count_cross(model: TranslationModel, batch: Batch) -> int:
    """How many weights the decoder gives to the sources."""
    assert batch.target_counts is not None
    return cross_heads(model) * int((batch.graph.batch_num_nodes(TOKEN) * batch.target_counts).sum())


def cross_heads(model: TranslationModel) -> int:
    """Heads of the decoder on the source, of all layers together."""
    layers: list[Any] = list(model.decoder.layers)
    return sum(layer.source.heads for layer in layers)


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
        own = weights[0].detach().roll(1, dims=1).float().cpu().numpy()  # (H, T, S)
        targets, sources = np.indices(own.shape[1:]).reshape(2, -1)
        rows = own.reshape(len(own), -1).T
        maps.append(AttentionMap(first + number, 0, CROSS, SOURCE, TARGET, sources, targets, rows))
    return maps

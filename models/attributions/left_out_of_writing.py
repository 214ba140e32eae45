"""Leaving one edge out of a translator: what the log-probability of a text that it reads as it stands loses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphattn.builders.word_boundaries import Source
from graphattn.models.attributions.edges_left_out import chosen_edges, copies_that_fit, without_edges
from graphattn.models.batches import Batch
from graphattn.models.inspection.capture import CROSS, in_evaluation
from graphattn.models.inspection.written import SOURCE, look_at_writing
from graphattn.models.translation.model import TranslationModel, shifted

if TYPE_CHECKING:
    from graphattn.models.estimators.translator import Translator


def leave_out_of_writing(
    translator: Translator, x: Source, target: str | None, edges: pd.DataFrame | None, k: int
) -> pd.DataFrame:
    """:func:`~graphattn.models.attributions.leave_one_edge_out` for a translator; errors are as there."""
    attention = look_at_writing(translator, x, target)
    chosen = chosen_edges(attention, edges, k)
    corpus = translator._corpus([x], [attention.prediction])
    model = translator.model_
    with torch.inference_mode(), in_evaluation(model):
        whole = float(_log_probabilities(model, corpus[[0]])[0])
        without: list[float] = []
        for start in range(0, len(chosen), step := copies_that_fit(corpus)):
            own = chosen.iloc[start : start + step]
            batch, counts = corpus[[0] * len(own)], own.assign(copy=np.arange(len(own)))
            crossing = counts[counts.relation == CROSS]
            graph = without_edges(batch.graph, model.encoder.relations(), [SOURCE], counts.drop(crossing.index))
            found = _log_probabilities(model, replace(batch, graph=graph), crossing)
            without += found.tolist()
    chosen["log_probability"] = without
    chosen["effect"] = whole - chosen["log_probability"]
    return chosen.sort_values("effect", ascending=False, kind="stable", ignore_index=True)


def _log_probabilities(model: TranslationModel, batch: Batch, hidden: pd.DataFrame | None = None) -> Tensor:
    """(B,) of each text and its end; ``hidden`` are edges of the decoder on the source that copies do without."""
    assert batch.targets is not None and batch.target_counts is not None
    targets, counts = batch.targets.to(model.device), batch.target_counts.to(model.device)
    state = model.decoder.start(model.encode(batch))
    if hidden is not None and len(hidden):
        length = int(counts[0])
        state.mask = state.mask.repeat(1, 1, length, 1)  # (B, 1, T, S)
        # the border, at position 0 of the text, is the last token written
        written = (torch.as_tensor(hidden.target.to_numpy()) - 1) % length
        copies, sources = (torch.as_tensor(hidden[name].to_numpy()) for name in ("copy", "source"))
        state.mask[copies, 0, written, sources] = False
    scores = model.advance(shifted(targets, counts), state)  # (B, T, V): the texts are all the same
    return scores.log_softmax(2).gather(2, targets.view(len(scores), -1, 1)).sum((1, 2))

"""Leaving one edge out of a translator: what the log-probability of a text that it reads as it stands loses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphattn.models.corpus import Batch
from graphattn.models.decoders.model import TranslationModel, shift_right
from graphattn.models.inspection.attention_map import SOURCE
from graphattn.models.inspection.attributions.edges_left_out import chosen_edges, copies_that_fit, without_edges
from graphattn.models.inspection.attributions.explained_text import explained_text
from graphattn.models.inspection.capture import CROSS, in_evaluation
from graphattn.models.inspection.written import ForcedDecoding, reading_pass

if TYPE_CHECKING:
    from graphattn.models.estimators.translator import Translator


def leave_out_of_writing(
    translator: Translator, x: Any, target: str | None, edges: pd.DataFrame | None, k: int, word: int | None
) -> pd.DataFrame:
    """:func:`~graphattn.models.inspection.attributions.leave_one_edge_out` for a translator; errors are as there."""
    reading, model = ForcedDecoding.of(translator, x, target), translator.model_
    corpus, what = reading.corpus, explained_text(reading, word)
    with torch.inference_mode(), in_evaluation(model):
        found, cross = reading_pass(model, corpus[[0]])
        chosen = chosen_edges(reading.attention(found, cross), edges, k)
        whole = float(what.log_probability(found.scores.unsqueeze(0)))
        without: list[float] = []
        for start in range(0, len(chosen), step := copies_that_fit(corpus)):
            own = chosen.iloc[start : start + step]
            batch, counts = corpus[[0] * len(own)], own.assign(copy=np.arange(len(own)))
            crossing = counts[counts.relation == CROSS]
            graph = without_edges(batch.graph, model.encoder.relations(), [SOURCE], counts.drop(crossing.index))
            scores = _scores_without(model, replace(batch, graph=graph), crossing)
            without += what.log_probability(scores).tolist()
    chosen["log_probability"] = without
    chosen["effect"] = whole - chosen["log_probability"]
    return chosen.sort_values("effect", ascending=False, kind="stable", ignore_index=True)


def _scores_without(model: TranslationModel, batch: Batch, hidden: pd.DataFrame) -> Tensor:
    """(B, T, V) of copies of a text; ``hidden`` are edges of the decoder on the source that they do without."""
    assert batch.targets is not None and batch.target_counts is not None
    targets, counts = batch.targets.to(model.device), batch.target_counts.to(model.device)
    state = model.decoder.start(model.encode(batch))
    if len(hidden):
        length = int(counts[0])
        state.mask = state.mask.repeat(1, 1, length, 1)  # (B, 1, T, S)
        # the border, at position 0 of the text, is the last token written
        written = (torch.tensor(hidden.target.to_numpy()) - 1) % length
        copies, sources = (torch.tensor(hidden[name].to_numpy()) for name in ("copy", "source"))
        state.mask[copies, 0, written, sources] = False
    return model.advance(shift_right(targets, counts), state)

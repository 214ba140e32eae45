"""Decisions and probabilities for a whole corpus, in the corpus' order, whatever the batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn.builders import BudgetBatches
from graphattn.models.corpus import Corpus
from graphattn.models.heads import ClassificationHead
from graphattn.models.text_model import TextModel

MAX_TOKENS = 8192
MAX_EDGES = 20_000_000
"""Size of batches when predicting; a longer text gets a batch of its own."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of each sentence, in order.

    Parameters
    ----------
    decisions : for each sentence a class id, zeros and ones for each class, or (words,) tag ids
    probabilities : for each sentence (C,) or (words, C); None when not asked for
    """

    decisions: list[Any]
    probabilities: list[npt.NDArray[np.float32]] | None = None


def predict_corpus(model: TextModel, corpus: Corpus, *, probabilities: bool = False) -> Predictions:
    """Run a model over a corpus without gradients and in evaluation mode.

    Parameters
    ----------
    model : left in the mode it was in
    corpus : targets are not looked at
    probabilities : also return the probabilities of all classes
    """
    decisions: list[Any] = [None] * len(corpus)
    chances: list[Any] = [None] * len(corpus)
    was_training = model.training
    if was_training:
        model.eval()
    try:
        with torch.inference_mode():
            for numbers in _batches(corpus):
                batch = corpus[numbers]
                scores = model(batch)
                items = model.head.items(batch.graph).tolist() if model.head.per_word else None
                _spread(decisions, numbers, model.head.decide(scores, batch.graph), items)
                if probabilities:
                    _spread(chances, numbers, model.head.probabilities(scores, batch.graph), items)
    finally:
        if was_training:
            model.train()
    return Predictions(decisions, chances if probabilities else None)


def predicted_decisions(model: TextModel, corpus: Corpus) -> list[Any]:
    """The decisions alone, as training measures them."""
    return predict_corpus(model, corpus).decisions


def encode_corpus(model: TextModel, corpus: Corpus) -> npt.NDArray[np.float32]:
    """(S, F) sentence vectors of a classifier, before its last layers; those of a pair one after the other.

    Parameters
    ----------
    model : with a head for sentences; left in the mode it was in
    corpus : targets are not looked at
    """
    head = model.head
    assert isinstance(head, ClassificationHead)
    columns = len(corpus.layouts)
    vectors: list[Any] = [None] * len(corpus)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for numbers in _batches(corpus):
                batch = corpus[numbers]
                rows = head.sentences(model.encode(batch), batch.graph).float()
                _spread(vectors, numbers, rows.unflatten(0, (columns, len(numbers))).transpose(0, 1), None)
    finally:
        model.train(was_training)
    return np.concatenate(vectors) if vectors else np.empty((0, head.pooled), np.float32)


def _batches(corpus: Corpus) -> Iterable[list[int]]:
    """Batches within the budgets; one sentence is one batch, without counting its edges."""
    if len(corpus) == 1:
        return [[0]]
    return BudgetBatches(
        corpus.lengths, max_tokens=MAX_TOKENS, max_edges=MAX_EDGES, edges=corpus.num_edges(), shuffle=False
    )


def _spread(into: list[Any], numbers: list[int], values: torch.Tensor, items: list[int] | None) -> None:
    """Put the rows of a batch where their sentences stand; several rows for a sentence when items are words."""
    rows = values.cpu().numpy()
    for number, row in zip(numbers, rows if items is None else np.split(rows, np.cumsum(items)[:-1]), strict=True):
        into[number] = row

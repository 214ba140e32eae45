"""Predict a whole corpus, in its order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn.builders import BudgetBatches
from graphattn.exceptions import DivergenceError, TruncationWarning
from graphattn.models.corpus import Corpus
from graphattn.models.heads import ClassificationHead, TaggingHead
from graphattn.models.text_model import TextModel, in_evaluation
from graphattn.precision import at_least_float32

MAX_TOKENS = 8192
MAX_EDGES = 20_000_000
"""Maximum size of a batch in prediction; a longer text is a batch of its own."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's results for each sentence, in order.

    Parameters
    ----------
    decisions : for each sentence a class id, zeros and ones for each class, or (words,) tag ids
    probabilities : for each sentence (C,) or (words, C); None unless requested
    log_probabilities : for each sentence (words, 2), see :meth:`TaggingHead.log_probabilities`; None unless requested
    scores : for each sentence (C,) or (words, C), before the softmax or sigmoid; None unless requested
    """

    decisions: list[Any]
    probabilities: list[npt.NDArray[np.float32]] | None = None
    log_probabilities: list[npt.NDArray[np.floating]] | None = None
    scores: list[npt.NDArray[np.floating]] | None = None


def predict_corpus(
    model: TextModel,
    corpus: Corpus,
    *,
    probabilities: bool = False,
    scores: bool = False,
    rate: Callable[[npt.NDArray[np.integer]], npt.NDArray[np.integer]] | None = None,
) -> Predictions:
    """Run a model over a corpus in evaluation mode, without gradients.

    Parameters
    ----------
    model : its mode is restored
    corpus : targets are ignored
    probabilities, scores : also return the probabilities or the scores of all classes
    rate : of a tagger: from the decided tag ids of a sentence to those whose log-probabilities are also returned
    """
    decisions: list[Any] = [None] * len(corpus)
    shares: list[Any] = [None] * len(corpus)
    logs: list[Any] = [None] * len(corpus)
    kept: list[Any] = [None] * len(corpus)
    with in_evaluation(model), torch.inference_mode():
        for numbers in prediction_batches(corpus):
            batch = corpus[numbers]
            with model.autocast():
                rows = require_finite(model(batch))
            items = model.head.items(batch.graph).tolist() if model.head.per_word else None
            scatter_rows(decisions, numbers, model.head.decide(rows, batch.graph), items)
            if probabilities:
                scatter_rows(shares, numbers, model.head.probabilities(rows, batch.graph), items)
            if scores:
                scatter_rows(kept, numbers, rows, items)
            if rate is not None:
                assert isinstance(model.head, TaggingHead)
                tags = np.concatenate([rate(decisions[number]) for number in numbers]).astype(np.int64)
                rated = model.head.log_probabilities(rows, torch.from_numpy(tags).to(rows.device), batch.graph)
                scatter_rows(logs, numbers, rated, items)
    return Predictions(
        decisions, shares if probabilities else None, None if rate is None else logs, kept if scores else None
    )


def predict_decisions(model: TextModel, corpus: Corpus) -> list[Any]:
    """The decisions of :func:`predict_corpus`."""
    return predict_corpus(model, corpus).decisions


def encode_corpus(model: TextModel, corpus: Corpus) -> npt.NDArray[np.float32]:
    """(S, F) sentence vectors of a classifier, the inputs of its last layers.

    A pair has two consecutive rows, unless the model reads its texts as one sequence.

    Parameters
    ----------
    model : with a head for sentences; its mode is restored
    corpus : targets are ignored
    """
    head = model.head
    assert isinstance(head, ClassificationHead)
    vectors: list[Any] = [None] * len(corpus)
    with in_evaluation(model), torch.inference_mode():
        for numbers in prediction_batches(corpus):
            batch = corpus[numbers]
            with model.autocast():
                rows = require_finite(head.sentences(model.encode(batch), batch.graph))
            scatter_rows(vectors, numbers, rows.unflatten(0, (-1, len(numbers))).transpose(0, 1), None)
    return np.concatenate(vectors) if vectors else np.empty((0, head.pooled), np.float32)


def require_finite(rows: torch.Tensor) -> torch.Tensor:
    """Outputs of a model in at least float32.

    Raises
    ------
    DivergenceError
        when they are not finite, although its weights are
    """
    if not rows.isfinite().all():
        raise DivergenceError("the model gives numbers that are not finite. Train it again, or get another copy")
    return at_least_float32(rows)


@contextmanager
def count_truncation() -> Iterator[list[int]]:
    """Count truncated texts and the tokens that this leaves out, instead of a warning for each chunk of a file."""
    counts = [0, 0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruncationWarning)
        yield counts
    for warning in caught:
        if isinstance(warning.message, TruncationWarning):
            counts[0] += warning.message.count
            counts[1] += warning.message.tokens
        else:
            warnings.warn(warning.message, stacklevel=3)


def prediction_batches(corpus: Corpus) -> Iterable[list[int]]:
    """Batches within the budgets; for a single sentence, edges are not counted."""
    if len(corpus) == 1:
        return [[0]]
    return BudgetBatches(
        corpus.lengths, max_tokens=MAX_TOKENS, max_edges=MAX_EDGES, edges=corpus.num_edges(), shuffle=False
    )


def scatter_rows(into: list[Any], numbers: list[int], values: torch.Tensor, items: list[int] | None) -> None:
    """Copy the rows of a batch to the positions of their sentences; ``items`` are rows per sentence, one when None."""
    rows = values.cpu().numpy()
    for number, row in zip(numbers, rows if items is None else np.split(rows, np.cumsum(items)[:-1]), strict=True):
        into[number] = row


def segment_probability(log_probabilities: npt.NDArray[np.floating], start: int, end: int) -> float:
    """The probability that the words from ``start`` to before ``end`` of a sentence have their tags.

    Parameters
    ----------
    log_probabilities : (words, 2), see :meth:`TaggingHead.log_probabilities`
    start, end : of the words
    """
    return float(np.exp(log_probabilities[start, 0] + log_probabilities[start + 1 : end, 1].sum()).clip(0, 1))

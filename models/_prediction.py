"""Run a model over a corpus: in batches by tokens, with the results in the order of the corpus."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from graphattn._precision import at_least_float32
from graphattn.builders import BudgetBatches
from graphattn.exceptions import DivergenceError, TruncationWarning, warn_caller
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._text_model import TextModel, in_evaluation
from graphattn.models.heads import ClassificationHead, TaggingHead

MAX_TOKENS = 8192
MAX_EDGES = 20_000_000
"""Maximum size of a batch in prediction; a longer text is a batch of its own."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's results for each sentence, in order; all but the decisions are None unless requested."""

    decisions: list[Any]
    """A class id, zeros and ones for each class, or (words,) tag ids."""
    probabilities: list[npt.NDArray[np.float32]] | None = None
    """(C,) or (words, C)."""
    log_probabilities: list[npt.NDArray[np.floating]] | None = None
    """(words, 2), see :meth:`TaggingHead.log_probabilities`."""
    scores: list[npt.NDArray[np.floating]] | None = None
    """(C,) or (words, C), before the softmax or sigmoid."""


def run_model(
    model: nn.Module,
    corpus: Corpus,
    compute: Callable[[Batch, list[int]], Iterable[Any] | None],
    *,
    batches: Iterable[list[int]] | None = None,
) -> list[Any]:
    """Run a model over a corpus in evaluation mode, without gradients; its mode is restored.

    ``compute`` gets a batch and the numbers of its sentences and returns a result for each of them, or None if it keeps
    its results elsewhere. ``batches`` are those of :func:`prediction_batches` by default. The results are in the order
    of the corpus; a sentence without one has None.
    """
    results: list[Any] = [None] * len(corpus)
    with in_evaluation(model), torch.inference_mode():
        for numbers in prediction_batches(corpus) if batches is None else batches:
            computed = compute(corpus[numbers], numbers)
            if computed is not None:
                for number, result in zip(numbers, computed, strict=True):
                    results[number] = result
    return results


def predict_corpus(
    model: TextModel,
    corpus: Corpus,
    *,
    probabilities: bool = False,
    scores: bool = False,
    rate: Callable[[npt.NDArray[np.integer]], npt.NDArray[np.integer]] | None = None,
) -> Predictions:
    """Decide for each sentence, and return what is requested besides.

    ``rate`` is for a tagger: from the decided tag ids of a sentence to those whose log-probabilities are returned.
    """
    head = model.head
    requested = {"decisions": True, "probabilities": probabilities, "log_probabilities": rate is not None}
    names = [name for name, is_requested in {**requested, "scores": scores}.items() if is_requested]

    def predict_batch(batch: Batch, _: list[int]) -> Iterable[dict[str, Any]]:
        with model.autocast():
            rows = require_finite(model(batch))
        items = head.items(batch.graph).tolist() if head.per_word else None
        columns = {"decisions": split_rows(head.decide(rows, batch.graph), items)}
        if probabilities:
            columns["probabilities"] = split_rows(head.probabilities(rows, batch.graph), items)
        if rate is not None:
            assert isinstance(head, TaggingHead)
            tags = torch.from_numpy(np.concatenate([rate(ids) for ids in columns["decisions"]]).astype(np.int64))
            rated = head.log_probabilities(rows, tags.to(rows.device), batch.graph)
            columns["log_probabilities"] = split_rows(rated, items)
        if scores:
            columns["scores"] = split_rows(rows, items)
        return (dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True))

    results = run_model(model, corpus, predict_batch)
    return Predictions(**{name: [result[name] for result in results] for name in names})


def predict_decisions(model: TextModel, corpus: Corpus) -> list[Any]:
    """The decisions of :func:`predict_corpus`."""
    return predict_corpus(model, corpus).decisions


def encode_corpus(model: TextModel, corpus: Corpus) -> npt.NDArray[np.float32]:
    """(S, F) sentence vectors of a classifier, the inputs of its last layers.

    A pair has two consecutive rows, unless the model reads its texts as one sequence.
    """
    head = model.head
    assert isinstance(head, ClassificationHead)

    def encode_batch(batch: Batch, numbers: list[int]) -> Iterable[Any]:
        with model.autocast():
            rows = require_finite(head.sentences(model.encode(batch), batch.graph))
        return split_rows(rows.unflatten(0, (-1, len(numbers))).transpose(0, 1))

    vectors = run_model(model, corpus, encode_batch)
    return np.concatenate(vectors) if vectors else np.empty((0, head.pooled), np.float32)


def require_finite(rows: torch.Tensor) -> torch.Tensor:
    """Outputs of a model in at least float32; a DivergenceError when they are not finite, although its weights are."""
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
            warn_caller(warning.message)


def prediction_batches(corpus: Corpus) -> Iterable[list[int]]:
    """Batches within the budgets; for a single sentence, edges are not counted."""
    if len(corpus) == 1:
        return [[0]]
    return BudgetBatches(
        corpus.lengths, max_tokens=MAX_TOKENS, max_edges=MAX_EDGES, edges=corpus.num_edges(), shuffle=False
    )


def split_rows(values: torch.Tensor, items: list[int] | None = None) -> Iterable[Any]:
    """The rows of each sentence of a batch: one for each, or as many as ``items`` says."""
    rows = values.cpu().numpy()
    return rows if items is None else np.split(rows, np.cumsum(items)[:-1])


def segment_probability(log_probabilities: npt.NDArray[np.floating], start: int, end: int) -> float:
    """The probability that the words from ``start`` to before ``end`` of a sentence have their tags.

    ``log_probabilities`` are (words, 2), see :meth:`TaggingHead.log_probabilities`.
    """
    return float(np.exp(log_probabilities[start, 0] + log_probabilities[start + 1 : end, 1].sum()).clip(0, 1))

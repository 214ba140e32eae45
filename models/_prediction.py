"""Run a model over a corpus: in batches by tokens, with the results in the order of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from graphattn._devices import explain_memory_errors, fetch, prefetch_map, to_device
from graphattn._precision import at_least_float32
from graphattn.builders import BudgetBatches
from graphattn.exceptions import DivergenceError, TruncationWarning, warn_caller
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._text_model import TextModel, in_evaluation
from graphattn.models.heads import ClassificationHead, TaggingHead

MAX_TOKENS, MAX_GPU_TOKENS = 8192, 32_768
MAX_EDGES = 20_000_000
"""Maximum size of a batch in prediction, on a CPU and on a GPU; a longer text is a batch of its own."""
_TRUNCATION_COUNTS: ContextVar[list[int] | None] = ContextVar("truncation counts", default=None)
BYTES_PER_TOKEN = 2**19
"""Memory of a GPU for each token of a batch: a card of less than 16 GiB gets smaller batches."""


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

    @classmethod
    def join(cls, parts: Sequence[Predictions]) -> Predictions:
        """The results of several corpora, which were requested with the same options."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for item in fields(cls):
            lists = [getattr(part, item.name) for part in parts]
            joined[item.name] = None if lists[0] is None else list(chain(*lists))
        return cls(**joined)


Computed = Iterable[Any] | Callable[[], Iterable[Any]] | None
"""The results of a batch, or a function that waits for them; None if they are kept elsewhere."""


def run_model(
    model: nn.Module,
    corpus: Corpus,
    compute: Callable[[Batch, list[int]], Computed],
    *,
    batches: Iterable[list[int]] | None = None,
) -> list[Any]:
    """Run a model over a corpus in evaluation mode, without gradients; its mode is restored.

    ``compute`` gets a batch and the numbers of its sentences and returns a result for each of them, or a function that
    returns them. On a GPU this function is called after the next batch was started, while a thread collates and copies
    the one after that. ``batches`` are those of :func:`prediction_batches` by default; one that does not fit into a
    GPU's memory is halved. The results are in the order of the corpus; a sentence without one has None.
    """
    results: list[Any] = [None] * len(corpus)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    started: list[tuple[list[int], Computed]] = []

    def load(numbers: list[int]) -> tuple[list[int], Batch]:
        return numbers, corpus.batch(numbers).prefetch(device)

    def finish(number_started: int) -> None:
        while len(started) > number_started:
            numbers, computed = started.pop(0)
            computed = computed() if callable(computed) else computed
            if computed is not None:
                for number, result in zip(numbers, computed, strict=True):
                    results[number] = result

    with in_evaluation(model), torch.inference_mode():
        chosen = prediction_batches(corpus, device) if batches is None else batches
        for numbers, batch in prefetch_map(load, chosen, device):
            for part, computed in _start(corpus, compute, numbers, batch):
                started.append((part, computed))
                finish(0 if device.type == "cpu" else 1)
        finish(0)
    return results


def _start(
    corpus: Corpus, compute: Callable[[Batch, list[int]], Computed], numbers: list[int], batch: Batch
) -> Iterator[tuple[list[int], Computed]]:
    """Compute a batch, or its halves if it does not fit into the memory of a GPU."""
    try:
        computed = compute(batch, numbers)
    except torch.OutOfMemoryError:
        if len(numbers) == 1:
            with explain_memory_errors(
                f"a text of {corpus.lengths[numbers[0]]:,} tokens",
                "Truncate it ({max_tokens_per_text}), or give {precision=bf16} or {device=cpu}",
                options=("max_tokens_per_text", "precision", "device"),
            ):
                raise
    else:
        yield numbers, computed
        return
    batch.free_copies()
    torch.cuda.empty_cache()  # here, where the error and what it refers to are gone
    middle = len(numbers) // 2
    for half in (numbers[:middle], numbers[middle:]):
        yield from _start(corpus, compute, half, corpus.batch(half))


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

    score: nn.Module = model
    if model.is_linear:
        assert model.linear_branch is not None
        corpus, score = corpus.without_edges(), model.linear_branch

    def predict_batch(batch: Batch, _: list[int]) -> Computed:
        with model.autocast():
            rows = to_device(at_least_float32(score(batch)), model.device)
        is_finite = fetch(rows.isfinite().all())
        items = head.items(batch.graph).tolist() if head.per_word else None
        columns = {"decisions": fetch(head.decide(rows, batch.graph))}
        if probabilities:
            columns["probabilities"] = fetch(head.probabilities(rows, batch.graph))
        if rate is not None:
            assert isinstance(head, TaggingHead)
            decided = split_rows(columns["decisions"](), items)
            tags = torch.from_numpy(np.concatenate([rate(ids) for ids in decided]).astype(np.int64))
            columns["log_probabilities"] = fetch(
                head.log_probabilities(rows, to_device(tags, rows.device), batch.graph)
            )
        if scores:
            columns["scores"] = fetch(rows)

        def wait() -> Iterable[dict[str, Any]]:
            require_finite(is_finite)
            fetched = [split_rows(column(), items) for column in columns.values()]
            return (dict(zip(names, values, strict=True)) for values in zip(*fetched, strict=True))

        return wait

    results = run_model(model, corpus, predict_batch)
    return Predictions(**{name: [result[name] for result in results] for name in names})


def encode_corpus(model: TextModel, corpus: Corpus) -> npt.NDArray[np.float32]:
    """(S, F) sentence vectors of a classifier, the inputs of its last layers.

    A pair has two consecutive rows, unless the model reads its texts as one sequence.
    """
    head = model.head
    assert isinstance(head, ClassificationHead)

    def encode_batch(batch: Batch, numbers: list[int]) -> Computed:
        with model.autocast():
            rows = head.sentences(model.encode(batch), batch.graph)
        return fetch_rows(rows.unflatten(0, (-1, len(numbers))).transpose(0, 1))

    vectors = run_model(model, corpus, encode_batch)
    return np.concatenate(vectors) if vectors else np.empty((0, head.pooled), np.float32)


def fetch_rows(rows: torch.Tensor) -> Callable[[], Iterable[Any]]:
    """Begin to copy outputs of a model to the CPU in at least float32; the function waits for them and checks them."""
    is_finite, copy = fetch(rows.isfinite().all()), fetch(at_least_float32(rows))

    def wait() -> Iterable[Any]:
        require_finite(is_finite)
        return split_rows(copy())

    return wait


def require_finite(is_finite: Callable[[], torch.Tensor]) -> None:
    """Raise a DivergenceError when outputs of a model are not finite, although its weights are."""
    if not is_finite():
        raise DivergenceError("the model gives numbers that are not finite. Train it again, or get another copy")


def token_budget(device: torch.device, *, on_cpu: int | None = None, memory: int | None = None) -> int:
    """Tokens of a batch in prediction: ``on_cpu``, or on a GPU as many as its memory has room for.

    Small batches end before Python has started the kernels of the next; :data:`MAX_GPU_TOKENS` keep a GPU busy.

    Examples
    --------
    >>> token_budget(torch.device("cuda"), memory=80 * 2**30), token_budget(torch.device("cuda"), memory=8 * 2**30)
    (32768, 16384)
    """
    if device.type != "cuda":
        return MAX_TOKENS if on_cpu is None else on_cpu
    memory = torch.cuda.get_device_properties(device).total_memory if memory is None else memory
    return max(1024, min(MAX_GPU_TOKENS, memory // BYTES_PER_TOKEN))


@contextmanager
def count_truncation() -> Iterator[list[int]]:
    """Count truncated texts and the tokens that this leaves out, instead of a warning for each chunk of a file.

    Other threads are not affected.
    """
    counts = [0, 0]
    token = _TRUNCATION_COUNTS.set(counts)
    try:
        yield counts
    finally:
        _TRUNCATION_COUNTS.reset(token)


def warn_of_truncation(warning: TruncationWarning) -> None:
    """Warn, or count within :func:`count_truncation`."""
    counts = _TRUNCATION_COUNTS.get()
    if counts is None:
        warn_caller(warning)
    else:
        counts[0] += warning.count
        counts[1] += warning.tokens


def prediction_batches(corpus: Corpus, device: torch.device) -> Iterable[list[int]]:
    """Batches of texts of similar lengths, longest first, within the budgets of a device."""
    if len(corpus) == 1:  # without counting its edges
        return [[0]]
    return BudgetBatches(
        corpus.lengths,
        max_tokens=token_budget(device),
        max_edges=MAX_EDGES,
        edges=corpus.num_edges(),
        shuffle=False,
    )


def split_rows(values: torch.Tensor, items: list[int] | None = None) -> Iterable[Any]:
    """The rows of each sentence of a batch, on the CPU: one for each, or as many as ``items`` says."""
    rows = values.numpy()
    return rows if items is None else np.split(rows, np.cumsum(items)[:-1])


def segment_probability(log_probabilities: npt.NDArray[np.floating], start: int, end: int) -> float:
    """The probability that the words from ``start`` to before ``end`` of a sentence have their tags.

    ``log_probabilities`` are (words, 2), see :meth:`TaggingHead.log_probabilities`.
    """
    return float(np.exp(log_probabilities[start, 0] + log_probabilities[start + 1 : end, 1].sum()).clip(0, 1))

"""Batches of a training set, and how many epochs of them fit into a number of minutes."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphattn.builders import BudgetBatches
from graphattn.builders._atomic import read_sealed
from graphattn.models._corpus import Corpus
from graphattn.models._files.saving import CHECKPOINT
from graphattn.models._files.saving import RUN_SETTINGS as SETTINGS
from graphattn.models._options import TrainingOptions
from graphattn.models._text_model import Trainable
from graphattn.models.training._optimizer import make_optimizer

_STEPS, _SECONDS = 10, 2.0
"""Steps and seconds after which the speed is known; the first step, which compiles kernels, does not count."""


def make_batches(corpus: Corpus, options: TrainingOptions) -> BudgetBatches:
    """The batches of a training set."""
    return BudgetBatches(
        corpus.lengths,
        max_sentences=options.batch_size,
        max_tokens=options.max_tokens,
        max_edges=options.max_edges,
        edges=corpus.num_edges() if options.max_edges else None,
        seed=options.seed,
    )


def measure_epoch(
    model: Trainable, corpus: Corpus, batches: list[list[int]], options: TrainingOptions, most_seconds: float
) -> float:
    """Seconds of an epoch, by the tokens in some of its first steps; they train a copy of the model."""
    model = copy.deepcopy(model).train()
    optimizer = make_optimizer(model, model.learning_rates, options)
    tokens, seconds = 0, 0.0
    for number, batch in enumerate(batches):
        start = time.monotonic()
        loss, _ = model.loss(corpus.batch(batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number:
            seconds += time.monotonic() - start
            tokens += int(corpus.lengths[batch].sum())
        if seconds > most_seconds or (number >= _STEPS and seconds >= _SECONDS):
            break
    return seconds / tokens * int(corpus.lengths.sum()) if tokens else time.monotonic() - start


def count_epochs(seconds: float, epoch: float, measure: Callable[[], Any] | None) -> tuple[int, float]:
    """Epochs that fit into so many seconds, and the seconds of one.

    ``epoch`` are the seconds of an epoch without the dev set, which ``measure`` measures if one fits without it.
    """
    if measure is not None and seconds >= epoch:
        start = time.monotonic()
        measure()
        dev = time.monotonic() - start
        seconds, epoch = seconds - dev, epoch + dev
    return max(0, int(seconds / epoch)), epoch


def read_epochs(folder: Path | None, minutes: float) -> int | None:
    """The epochs of an interrupted run with the same minutes, which goes on with them; None if there is none."""
    if folder is None or not (folder / CHECKPOINT).exists():
        return None
    sealed = read_sealed(folder / SETTINGS)
    settings = {} if sealed is None else json.loads(sealed)
    epochs = settings.get("epochs")
    return epochs if settings.get("minutes") == minutes and isinstance(epochs, int) else None

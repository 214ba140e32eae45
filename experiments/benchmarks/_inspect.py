"""``bench inspect``: the cost of requesting attention weights, and of passes that do not request them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from graphattn.builders import Sentence
from graphattn.experiments.benchmarks._contenders import Job, Settings
from graphattn.experiments.benchmarks._harness import TIMES, column, time_jobs
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._umst import split_layout
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads
from graphattn.models import InputOptions, TextClassifier, TrainingOptions
from graphattn.models._encoders import EncoderOptions, encoder_options
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection._capture import attention_maps, capture_scores

LENGTHS = ("64x22", "16x109", "1x1024", "1x22")
QUICK = ("16x22", "4x109")
ENCODERS = ("ms-trans", "transformer", "mtsa", "duo", "duo-transformer", "umst", "muse", "tnt", "multi-stage")
_WORDS, _VOCABULARY = 500, 2000
PLAIN, AFTER, WEIGHTS = "plain", "plain after weights", "weights"
DESCRIPTION = """\
`plain`: a model's forward pass in inference, after another one. `plain after weights`: the same pass right after a pass
that returned weights. `weights`: a pass that returns the weights (of a single text, as `attention` does), after a plain
one. Ratios are to `plain`. Encoders have their default sizes; one word in seven has two tokens, and every text has a
tree over its words for the encoders that use words and arcs."""
_COLUMNS = {
    "encoder": column("encoder"),
    "workload": column("workload"),
    "what": column("contender"),
    **TIMES,
    "ratio": column("ratio", ".2f"),
}


def measure(settings: Settings, *, encoders: tuple[str | EncoderOptions, ...] = ENCODERS) -> BenchmarkReport:
    """Time passes with and without weights."""
    workloads, missing = parse_workloads(settings.lengths)
    report = BenchmarkReport("inspect", DESCRIPTION, _COLUMNS, settings, left_out=missing)
    for encoder in encoders:
        estimator = train_model(encoder)
        for workload in workloads:
            report.rows += _measure_rows(estimator, workload, settings)
    return report


def train_model(encoder: str | EncoderOptions) -> TextClassifier:
    """Train a classifier with sub-words for one epoch."""
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, logs=False)
    names = tuple(f"word{number}" for number in range(_WORDS))
    texts = [Sentence(names[start : start + 20], heads=tuple(range(20))) for start in range(0, _WORDS, 20)]
    inputs = InputOptions(level="bpe", vocabulary_size=_VOCABULARY)
    model = TextClassifier(encoder_options(encoder), inputs=inputs, training=training)
    return model.fit(texts * 2, ["yes", "no"] * len(texts))


def make_text(length: int, random: np.random.Generator) -> Sentence:
    """Make a random text of ``length`` tokens; a split word consists of two words of the vocabulary."""
    layout = split_layout((length,))
    assert layout.heads is not None
    words = [""] * int(layout.word_counts[0])
    for word, number in zip(layout.word_ids.tolist(), random.integers(_WORDS, size=length).tolist(), strict=True):
        words[word] += f"word{number}"
    return Sentence(tuple(words), heads=tuple((layout.heads + 1).tolist()))


def _measure_rows(estimator: TextClassifier, workload: Workload, settings: Settings) -> list[Record]:
    random = np.random.default_rng(1)
    corpus = make_corpus(estimator, [make_text(length, random) for length in workload.lengths])
    model, numbers = estimator.model_, list(range(len(corpus)))
    relations = model.encoder.relations()

    def run_plain(batch: Any) -> None:
        with torch.inference_mode():
            model(batch)

    def run_with_weights(batch: Any) -> None:
        with torch.inference_mode():
            forward = capture_scores(model, batch)
            if len(corpus) == 1:
                attention_maps(forward, batch.graph, relations, ("text",))

    def prepare_after(run: Callable[[Any], None]) -> Any:
        run(corpus.batch(numbers))
        return corpus.batch(numbers)

    jobs = {
        PLAIN: Job(run_plain, lambda: prepare_after(run_plain)),
        AFTER: Job(run_plain, lambda: prepare_after(run_with_weights)),
        WEIGHTS: Job(run_with_weights, lambda: prepare_after(run_plain)),
    }
    return [
        {"encoder": estimator.encoder_.name, "workload": workload.name, "contender": name} | row
        for name, row in time_jobs(jobs, settings, base=PLAIN).items()
    ]

"""``bench inspect``: what it costs to ask for attention weights, and that it costs nothing when nobody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from graphattn.builders import Sentence
from graphattn.experiments.benchmarks.clock import Job, Spread, interleaved
from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import Target
from graphattn.experiments.benchmarks.umst_contenders import split_layout
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.models import InputOptions, TextClassifier, TrainingOptions
from graphattn.models.encoders import EncoderOptions, encoder_options
from graphattn.models.inspection.capture import attention_maps, run_once

LENGTHS = ("64x22", "16x109", "1x1024", "1x22")
QUICK = ("16x22", "4x109")
ENCODERS = ("ms-trans", "transformer", "mtsa", "duo", "duo-transformer", "umst", "tnt", "multi-stage")
ASKED, NOT_ASKED = Target(1.5, at_least=False), Target(1.05, at_least=False)
_WORDS, _VOCABULARY = 500, 2000

COMPARED = """\
`plain`: a model's forward pass in inference, after another one. `asked before`: the same pass of a model that was asked
for weights just before; asking leaves nothing behind. `asked`: one pass that keeps the weights, of one text as
`attention` gives them, after a plain one. Ratios are to `plain`. Encoders have their default sizes; one word in seven
is split in two, and every text has a tree over its words, which those that know words and arcs use."""

TABLE = {
    "encoder": lambda row: row["encoder"],
    "workload": COLUMNS["workload"],
    "what": lambda row: row["contender"],
    "median, ms": COLUMNS["median, ms"],
    "quartiles, ms": COLUMNS["quartiles, ms"],
    "runs": COLUMNS["runs"],
    "ratio": lambda row: f"{row['ratio']:.2f}" if "ratio" in row else "",
    "target": lambda row: row.get("target") or "",
}


def measure(settings: Settings, *, encoders: tuple[str | EncoderOptions, ...] = ENCODERS) -> Report:
    """Time passes with weights beside passes without.

    Parameters
    ----------
    settings : workloads and repeats; there are no peers
    encoders : names, or options
    """
    workloads, left_out = parse_workloads(settings.lengths)
    rows = []
    for encoder in encoders:
        estimator = _model(encoder)
        for workload in workloads:
            rows += _rows(estimator, workload, settings)
    return Report("inspect", COMPARED, TABLE, rows, settings.as_row(), left_out=left_out)


def _model(encoder: str | EncoderOptions) -> TextClassifier:
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, logs=False)
    names = tuple(f"word{number}" for number in range(_WORDS))
    texts = [Sentence(names[start : start + 20], heads=tuple(range(20))) for start in range(0, _WORDS, 20)]
    inputs = InputOptions(level="bpe", vocabulary_size=_VOCABULARY)
    model = TextClassifier(encoder_options(encoder), inputs=inputs, training=training)
    return model.fit(texts * 2, ["yes", "no"] * len(texts))


def split_text(length: int, random: np.random.Generator) -> Sentence:
    """A random text of so many tokens: a word that is split is two that the vocabulary has, one after the other.

    Parameters
    ----------
    length : tokens
    random : draws the words
    """
    layout = split_layout((length,))
    assert layout.heads is not None
    words = [""] * int(layout.word_counts[0])
    for word, number in zip(layout.word_ids.tolist(), random.integers(_WORDS, size=length).tolist(), strict=True):
        words[word] += f"word{number}"
    return Sentence(tuple(words), heads=tuple((layout.heads + 1).tolist()))


def _rows(estimator: TextClassifier, workload: Workload, settings: Settings) -> list[Row]:
    random = np.random.default_rng(1)
    corpus = estimator._corpus([[split_text(length, random) for length in workload.lengths]])
    model, numbers = estimator.model_, list(range(len(corpus)))
    relations = model.encoder.relations()

    def plain(batch: Any) -> None:
        with torch.inference_mode():
            model(batch)

    def asked(batch: Any) -> None:
        with torch.inference_mode():
            found = run_once(model, batch)
            if len(corpus) == 1:
                attention_maps(found, batch.graph, relations, ("text",))

    def after(once: Callable[[Any], None]) -> Any:
        once(corpus[numbers])
        return corpus[numbers]

    jobs = {
        "plain": Job(plain, lambda: after(plain)),
        "asked before": Job(plain, lambda: after(asked)),
        "asked": Job(asked, lambda: after(plain)),
    }
    spreads = interleaved(jobs, settings.repeats, seconds=settings.seconds)
    rows = [_row(estimator, workload, name, spread) for name, spread in spreads.items()]
    for row, target in zip(rows[1:], (NOT_ASKED, ASKED), strict=True):
        row["ratio"] = row["median_ms"] / rows[0]["median_ms"]
        row["target"] = target.verdict(row["ratio"])
    return rows


def _row(estimator: TextClassifier, workload: Workload, name: str, spread: Spread) -> Row:
    return {
        "encoder": estimator.encoder_.name,
        "workload": workload.name,
        "contender": name,
        "median_ms": spread.median,
        "quartiles_ms": list(spread.quartiles),
        "times_ms": list(spread.times),
    }

"""The runs behind the result tables: a data set, an encoder and a seed give one row of results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.papers.data_sets import DATA_SETS, DataSet, ParallelSet, check_fold, data_folder
from graphattn.experiments.papers.rows import append_row, read_rows
from graphattn.experiments.papers.settings import make_estimator, settings
from graphattn.models import TASKS, TextClassifier
from graphattn.models.encoders import encoder_options
from graphattn.models.estimators.inputs import split_held_out
from graphattn.models.training.loop import count_parameters

TFIDF, LEAD = "tfidf", "lead-1"
"""The baselines: TF-IDF with logistic regression; for summaries, the first sentence."""


def run(
    data_set: str,
    encoder: str,
    seed: int,
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None,
    on_test: bool = True,
    fold: int | None = None,
) -> dict[str, Any]:
    """Train and evaluate one model.

    Parameters
    ----------
    data_set, encoder, seed : what to run; the encoder may be a baseline, ``"tfidf"`` or ``"lead-1"``
    changes : group of options -> changes to :func:`settings`
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    on_test : also evaluate on the test set; not while choosing settings
    fold : hold out this fold (0 to 3) of the training set and evaluate ``held_out`` on it, not the test set; for
        classification

    Returns
    -------
    Scores in percent, number of parameters, seconds
    """
    folder, corpus, started = folder or data_folder(), DATA_SETS[data_set], time.time()
    facts: dict[str, Any] = {"data_set": data_set, "encoder": encoder, "seed": seed}
    if encoder in (TFIDF, LEAD):
        parts = corpus.load_parts(seed, folder, on_test=on_test, fold=fold)
        return {**facts, **_run_baseline(corpus, parts, seed), "seconds": round(time.time() - started)}
    estimator = make_estimator(data_set, encoder, seed, changes or {}, folder)
    parts = corpus.load_parts(seed, folder, on_test=on_test, fold=fold)
    dev = corpus.examples(parts["dev"]) if "dev" in parts else None
    estimator.fit(*corpus.training_examples(parts["train"]), dev=dev)
    return {
        **facts,
        **corpus.measure(estimator, parts),
        "best_epoch": estimator.best_epoch()["epoch"],
        "epochs": len(estimator.history_),
        "parameters": count_parameters(estimator.model_),
        "precision": estimator.training.resolve_precision(),
        "seconds": round(time.time() - started),
        "changes": {group: dict(values) for group, values in (changes or {}).items()},
        "torch": torch.__version__,
    }


def _run_baseline(corpus: DataSet, parts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    if isinstance(corpus, ParallelSet):
        return corpus.measure_first_sentences(parts)
    return _run_tfidf(parts, seed)


def _run_tfidf(parts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Choose the regularisation on the dev set, then train on the whole training set."""
    rest = train = parts["train"]
    dev = parts.get("dev")
    if dev is None:
        classes = np.unique([x.label for x in train], return_inverse=True)[1]
        split = split_held_out(len(train), math.ceil(0.1 * len(train)), classes, seed)
        rest, dev = ([train[number] for number in numbers] for numbers in split)
    scores = {
        strength: _measure_accuracy(_fit_tfidf(rest, strength), dev) for strength in (1.0, 3.0, 10.0, 30.0, 100.0)
    }
    strength = max(scores, key=lambda value: scores[value])
    figures: dict[str, Any] = {"dev": scores[strength], "C": strength}
    for part in ("test", "held_out"):
        if part in parts:
            figures[part] = _measure_accuracy(_fit_tfidf(train, strength), parts[part])
    return figures


def _fit_tfidf(train: Any, strength: float) -> Any:
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True),
        LogisticRegression(C=strength, max_iter=1000),
    )
    return model.fit([x.text for x in train], [x.label for x in train])


def _measure_accuracy(model: Any, examples: Any) -> float:
    return round(100 * float(model.score([x.text for x in examples], [x.label for x in examples])), 2)


def reproduce(
    data_sets: Sequence[str],
    encoders: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    folder: Path | None = None,
    report: Callable[[Mapping[str, Any]], object] = lambda row: None,
) -> list[dict[str, Any]]:
    """Run everything that ``out`` does not contain yet, and append each row as its run ends.

    Parameters
    ----------
    data_sets, encoders, seeds : every combination is one run; the baselines ``"tfidf"`` (of classifiers) and
        ``"lead-1"`` (of summaries) count as encoders
    out : file of JSON lines
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    report : called with each new row

    Returns
    -------
    All rows in ``out``
    """
    for name in data_sets:
        if name not in DATA_SETS:
            raise ConfigError(f"data set {name!r} does not exist; choose among: {', '.join(DATA_SETS)}")
    rows = read_rows(out)
    done = {(row["data_set"], row["encoder"], row["seed"]) for row in rows if not row.get("changes")}
    keys = [key for key in dict.fromkeys(product(data_sets, encoders, seeds)) if _can_run(key[1], key[0])]
    for key in keys:
        _check_run(*key)
    _check_writable(out)
    for key in keys:
        if key not in done:
            row = run(*key, folder=folder)
            append_row(out, row)
            rows.append(row)
            report(row)
    return rows


def _can_run(encoder: str, data_set: str) -> bool:
    """Whether an encoder or baseline can run on a data set."""
    corpus = DATA_SETS[data_set]
    if encoder == LEAD:
        return isinstance(corpus, ParallelSet) and corpus.summary
    return encoder != TFIDF or TASKS[corpus.task] is TextClassifier


def _check_run(data_set: str, encoder: str, seed: int) -> None:
    """Reject an impossible run before the first one starts."""
    if encoder not in (TFIDF, LEAD):
        encoder_options(encoder.partition("=")[0])
        settings(data_set, encoder)
    if DATA_SETS[data_set].test is None:
        check_fold(seed)


def _check_writable(out: Path) -> None:
    try:
        with open(out, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror})", path=out, hint="Name a file in an existing folder."
        ) from error

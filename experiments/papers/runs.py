"""The runs behind the result tables: one is a data set, an encoder and a seed, and its figures are kept as it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from graphattn.builders import Example
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.papers.data_sets import DATA_SETS, check_fold, data_folder
from graphattn.experiments.papers.folds import held_out_fold
from graphattn.experiments.papers.parallel_sets import PARALLEL_SETS
from graphattn.experiments.papers.result_rows import append, read_rows
from graphattn.experiments.papers.settings import settings
from graphattn.experiments.papers.translation_runs import LEAD, run_translation
from graphattn.models import (
    EncoderOptions,
    HeadOptions,
    InputOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TextEstimator,
    TrainingOptions,
)
from graphattn.models.encoders import encoder_options
from graphattn.models.estimators.inputs import held_out_split
from graphattn.models.training.loop import count_parameters
from graphattn.models.training.precision import chosen_precision

ESTIMATORS: dict[str, type[TextEstimator]] = {
    "classify": TextClassifier,
    "pair": PairClassifier,
    "tag": SequenceTagger,
}


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
    """Train once and measure.

    Parameters
    ----------
    data_set, encoder, seed : what to run; the encoder ``"tfidf"`` is TF-IDF with logistic regression
    changes : group of options -> changes to :func:`settings`
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    on_test : also measure on the test set; leave it out while choosing
    fold : leave the test set alone, hold this fold (0 to 3) of the training set out and measure ``held_out`` on it;
        for classification

    Returns
    -------
    Figures in percent, number of parameters, seconds
    """
    folder = folder or data_folder()
    corpus = DATA_SETS[data_set]
    dev = None if corpus.dev is None else corpus.load("dev", folder)
    test: Any = None
    if corpus.test is None or (on_test and fold is None):
        train, test = corpus.training_and_test(seed, folder)
        test = test if on_test and fold is None else None
    else:
        train = corpus.load("train", folder)
    if fold is not None:
        train, test = held_out_fold(cast(list[Example], train), fold)
    started = time.time()
    measured = "test" if fold is None else "held_out"
    facts: dict[str, Any] = {"data_set": data_set, "encoder": encoder, "seed": seed}
    if encoder == "tfidf":
        return {**facts, **_tfidf(train, dev, test, seed, measured), "seconds": round(time.time() - started)}
    groups = settings(data_set, encoder)
    for group, values in (changes or {}).items():
        groups[group].update(values)
    inputs = groups["inputs"]
    options: EncoderOptions = replace(encoder_options(encoder.partition("=")[0]), **groups["encoder"])
    estimator = ESTIMATORS[corpus.task](
        options,
        inputs=InputOptions(**{**inputs, "vectors": [str(folder / file) for file in inputs["vectors"]]}),
        head=HeadOptions(**groups["head"]),
        training=TrainingOptions(seed=seed, progress=False, **groups["training"]),
    )
    estimator.fit(train, dev=dev)
    figure = f"dev_{corpus.metric}"
    best = estimator.best_epoch()
    return {
        **facts,
        **({"dev": round(best[figure], 2)} if figure in best else {}),
        **({} if test is None else {measured: round(estimator.evaluate(test)[corpus.metric], 2)}),
        "best_epoch": best["epoch"] + 1,
        "epochs": len(estimator.history_),
        "parameters": count_parameters(estimator.model_),
        "precision": chosen_precision(estimator.training.precision, estimator.training.accelerator),
        "seconds": round(time.time() - started),
        "changes": {group: dict(values) for group, values in (changes or {}).items()},
        "torch": torch.__version__,
    }


def _tfidf(train: Any, dev: Any, test: Any, seed: int, measured: str) -> dict[str, Any]:
    """Uni- and bigrams; the regularisation is chosen on the dev set, a tenth taken out is given back afterwards."""
    rest = train
    if dev is None:
        classes = np.unique([x.label for x in train], return_inverse=True)[1]
        parts = held_out_split(len(train), math.ceil(0.1 * len(train)), classes, seed)
        rest, dev = ([train[place] for place in part] for part in parts)
    scores = {strength: _accuracy(_tfidf_model(rest, strength), dev) for strength in (1.0, 3.0, 10.0, 30.0, 100.0)}
    strength = max(scores, key=lambda one: scores[one])
    result: dict[str, Any] = {"dev": scores[strength], "C": strength}
    if test is not None:
        result[measured] = _accuracy(_tfidf_model(train, strength), test)
    return result


def _tfidf_model(train: Any, strength: float) -> Any:
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True),
        LogisticRegression(C=strength, max_iter=1000),
    )
    return model.fit([x.text for x in train], [x.label for x in train])


def _accuracy(model: Any, examples: Any) -> float:
    return round(100 * model.score([x.text for x in examples], [x.label for x in examples]), 2)


def reproduce(
    data_sets: Sequence[str],
    encoders: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    folder: Path | None = None,
    told: Callable[[Mapping[str, Any]], object] = lambda row: None,
) -> list[dict[str, Any]]:
    """Make all runs that ``out`` does not hold yet, writing each as it ends; a stopped series goes on where it was.

    Parameters
    ----------
    data_sets, encoders, seeds : every combination is one run; the baselines ``"tfidf"`` (of classifiers) and
        ``"lead-1"`` (of summaries) count as encoders
    out : file of JSON lines
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    told : called with each new row

    Returns
    -------
    All rows in ``out``

    Raises
    ------
    ConfigError
        for a data set, an encoder or a fold that does not exist
    DataError
        when ``out`` cannot be written, or holds something else
    """
    for name in data_sets:
        if name not in DATA_SETS and name not in PARALLEL_SETS:
            raise ConfigError(
                f"data set {name!r} does not exist; choose among: {', '.join([*DATA_SETS, *PARALLEL_SETS])}"
            )
    rows = read_rows(out)
    done = {(row["data_set"], row["encoder"], row["seed"]) for row in rows if not row.get("changes")}
    keys = [key for key in dict.fromkeys(product(data_sets, encoders, seeds)) if _fits(key[1], key[0])]
    for key in keys:
        _check(*key)
    _check_writable(out)
    for key in keys:
        if key not in done:
            row = run(*key, folder=folder) if key[0] in DATA_SETS else run_translation(*key, folder=folder)
            append(out, row)
            rows.append(row)
            told(row)
    return rows


def _fits(encoder: str, data_set: str) -> bool:
    """Whether an encoder, or a baseline that counts as one, can run on a data set."""
    if data_set in PARALLEL_SETS:
        return encoder != "tfidf" and (encoder != LEAD or PARALLEL_SETS[data_set].summary)
    return encoder != LEAD and (encoder != "tfidf" or DATA_SETS[data_set].task == "classify")


def _check(data_set: str, encoder: str, seed: int) -> None:
    """Refuse a run that cannot be, before hours are spent on those before it."""
    if encoder not in ("tfidf", LEAD):
        encoder_options(encoder.partition("=")[0])
        if data_set in DATA_SETS:
            settings(data_set, encoder)
    if data_set in DATA_SETS and DATA_SETS[data_set].test is None:
        check_fold(seed)


def _check_writable(out: Path) -> None:
    try:
        with open(out, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror})", path=out, hint="Name a file in a folder that is there."
        ) from error

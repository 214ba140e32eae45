"""The result tables: one run is a data set, an encoder and a seed; its figures are appended to a file as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from graphattn.experiments.data_sets import DATA_SETS, DataSet, data_folder
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
from graphattn.models.training import count_parameters

ESTIMATORS: dict[str, type[TextEstimator]] = {
    "classify": TextClassifier,
    "pair": PairClassifier,
    "tag": SequenceTagger,
}
VECTORS = "embeddings_trained/w2v_sg_300d.txt.xz"
TAGGING_WINDOWS = {"scales": ("1", "3", "5", "7", "9"), "alpha": 1.0}


def settings(data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
    """Options of a run: the paper's Table 1 where it speaks, else what the dev sets favoured.

    Returns
    -------
    ``encoder``, ``inputs``, ``head`` and ``training`` -> options that differ from the defaults
    """
    task = DATA_SETS[data_set].task
    tagging = task == "tag"
    return {
        "encoder": dict(TAGGING_WINDOWS) if tagging and encoder == "ms-trans" else {},
        "inputs": {"characters": tagging, "split": "whitespace" if not tagging else "words"},
        "head": {"crf": data_set == "conll2003"},
        "training": {},
    }


def run(
    data_set: str,
    encoder: str,
    seed: int,
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None,
    on_test: bool = True,
) -> dict[str, Any]:
    """Train once and measure.

    Parameters
    ----------
    data_set, encoder, seed : what to run; the encoder ``"tfidf"`` is TF-IDF with logistic regression
    changes : group of options -> changes to :func:`settings`
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    on_test : also measure on the test set; leave it out while choosing

    Returns
    -------
    Figures in percent, number of parameters, seconds
    """
    folder = folder or data_folder()
    corpus = DATA_SETS[data_set]
    train, dev = corpus.load("train", folder), corpus.load("dev", folder)
    test = corpus.load("test", folder) if on_test else None
    started = time.time()
    facts: dict[str, Any] = {"data_set": data_set, "encoder": encoder, "seed": seed}
    if encoder == "tfidf":
        return {**facts, **_tfidf(train, dev, test, seed), "seconds": round(time.time() - started)}
    groups = settings(data_set, encoder)
    for group, values in (changes or {}).items():
        groups[group].update(values)
    options: EncoderOptions = replace(encoder_options(encoder), **groups["encoder"])
    estimator = ESTIMATORS[corpus.task](
        options,
        inputs=InputOptions(**{"vectors": str(folder / VECTORS), **groups["inputs"]}),
        head=HeadOptions(**groups["head"]),
        training=TrainingOptions(seed=seed, progress=False, **groups["training"]),
    )
    estimator.fit(train, dev=dev)
    best = max(estimator.history_, key=lambda row: row[f"dev_{corpus.metric}"])
    return {
        **facts,
        "dev": round(best[f"dev_{corpus.metric}"], 2),
        **({} if test is None else {"test": round(estimator.evaluate(test)[corpus.metric], 2)}),
        "best_epoch": best["epoch"] + 1,
        "epochs": len(estimator.history_),
        "parameters": count_parameters(estimator.model_),
        "seconds": round(time.time() - started),
        "changes": {group: dict(values) for group, values in (changes or {}).items()},
        "torch": torch.__version__,
    }


def _tfidf(train: Any, dev: Any, test: Any, seed: int) -> dict[str, Any]:
    """Uni- and bigrams; the regularisation is chosen on the dev set."""
    if dev is None:
        train, dev = train_test_split(train, test_size=0.1, random_state=seed, stratify=[x.label for x in train])
    best: tuple[float, Any, float] | None = None
    for strength in (1.0, 3.0, 10.0, 30.0, 100.0):
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True),
            LogisticRegression(C=strength, max_iter=1000),
        )
        model.fit([x.text for x in train], [x.label for x in train])
        score = 100 * model.score([x.text for x in dev], [x.label for x in dev])
        if best is None or score > best[0]:
            best = (score, model, strength)
    assert best is not None
    result: dict[str, Any] = {"dev": round(best[0], 2), "C": best[2]}
    if test is not None:
        result["test"] = round(100 * best[1].score([x.text for x in test], [x.label for x in test]), 2)
    return result


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Write one run's figures as a line of JSON; lines of other runs, also simultaneous ones, stay whole."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


__all__ = ["DataSet", "append", "run", "settings"]

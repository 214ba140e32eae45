"""Runs without GraphAttn's training on few labels: logistic regression on sentence vectors, and SetFit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn._optional_packages import import_optional
from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._data_sets import DataSet
from graphattn.experiments.papers._settings import SETFIT, Changes
from graphattn.models import Estimator
from graphattn.models.pretrained import SentenceEncoder

STEPS = 200
"""Of SetFit, with 16 pairs each."""


def check_few_labels(name: str, corpus: DataSet, changes: Changes) -> None:
    """Reject a corpus without classes of texts, and options; SetFit has to be installed."""
    if corpus.task not in ("classify", "pair"):
        raise ConfigError(f"the run {name} is for the tasks classify and pair, not {corpus.task}")
    for group, values in changes.items():
        for option in values:
            raise ConfigError(f"the run {name} has no option {{{option}}}; leave {group}.{option} out")
    if name == SETFIT:
        import_optional("setfit", "the comparison needs", "bench")


def fit_sentence_vectors(estimator: Estimator, corpus: DataSet, splits: Mapping[str, Any]) -> dict[str, Any]:
    """Logistic regression on the vectors of the pretrained model."""
    from sklearn.linear_model import LogisticRegression

    encoder = SentenceEncoder(estimator.pretrained.pretrained or "").fit()
    start = time.process_time()
    model = LogisticRegression(max_iter=1000).fit(_encode(encoder, splits["train"]), _list_labels(splits["train"]))
    seconds = time.process_time() - start
    decided = {name: model.predict(_encode(encoder, splits[name])) for name in corpus.list_measured_splits(splits)}
    return _measure(decided, splits, seconds)


def fit_setfit(estimator: Estimator, corpus: DataSet, splits: Mapping[str, Any]) -> dict[str, Any]:
    """SetFit with its defaults (Tunstall et al. 2022) for :data:`STEPS` steps."""
    setfit = import_optional("setfit", "the comparison needs", "bench")
    datasets, transformers = import_module("datasets"), import_module("transformers")  # which SetFit needs
    transformers.set_seed(estimator.training.seed)
    names = sorted({*_list_labels(splits["train"])})
    texts, labels = _list_texts(splits["train"]), [names.index(label) for label in _list_labels(splits["train"])]
    with TemporaryDirectory() as folder, torch.random.fork_rng():
        model = setfit.SetFitModel.from_pretrained(estimator.pretrained.pretrained)
        options = {"batch_size": 16, "max_steps": STEPS, "seed": estimator.training.seed}
        arguments = setfit.TrainingArguments(
            output_dir=folder, save_strategy="no", report_to="none", show_progress_bar=False, **options
        )
        trainer = setfit.Trainer(
            model=model, args=arguments, train_dataset=datasets.Dataset.from_dict({"text": texts, "label": labels})
        )
        start = time.process_time()
        trainer.train()
        seconds = time.process_time() - start
        decided = {
            name: np.array(names)[np.asarray(model.predict(_list_texts(splits[name])), int)]
            for name in corpus.list_measured_splits(splits)
        }
    return _measure(decided, splits, seconds)


def _encode(encoder: SentenceEncoder, items: Sequence[Any]) -> npt.NDArray[np.float32]:
    """(S, F) vectors of texts; of a pair, both vectors, their absolute difference and their product."""
    first: npt.NDArray[np.float32] = encoder.encode([item.text for item in items])
    if items[0].second is None:
        return first
    second = encoder.encode([item.second for item in items])
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def _list_texts(items: Sequence[Any]) -> list[str]:
    return [str(item.text) if item.second is None else f"{item.text} [SEP] {item.second}" for item in items]


def _list_labels(items: Sequence[Any]) -> list[str]:
    return [str(item.label) for item in items]


def _measure(decided: Mapping[str, Any], splits: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Accuracy in percent, with the seconds of one core that training took."""
    scores = {}
    for name, labels in decided.items():
        scores[name] = round(100 * float(np.mean(np.array(_list_labels(splits[name])) == labels)), 2)
    return {**scores, "training_seconds": round(seconds, 1)}

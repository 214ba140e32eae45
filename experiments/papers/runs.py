"""The runs behind the result tables: a data set, an encoder and a seed give one row of results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from graphattn.exceptions import DataError
from graphattn.experiments.papers.baselines import BASELINES, can_run, run_baseline
from graphattn.experiments.papers.data_sets import check_fold, data_folder, find_data_set
from graphattn.experiments.papers.rows import append_row, read_rows
from graphattn.experiments.papers.settings import make_estimator, settings, uses_defaults
from graphattn.models.training.loop import count_parameters


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
    data_set, encoder, seed : what to run; the encoder may be one of :data:`BASELINES`
    changes : group of options -> changes to :func:`settings`
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    on_test : also evaluate on the test set; not while choosing settings
    fold : hold out this fold (0 to 3) of the training set and evaluate ``held_out`` on it, not the test set; for
        classification

    Returns
    -------
    Scores in percent, number of parameters, seconds
    """
    folder, corpus, started = folder or data_folder(), find_data_set(data_set), time.time()
    facts: dict[str, Any] = {"data_set": data_set, "encoder": encoder, "seed": seed}
    if encoder in BASELINES:
        parts = corpus.load_parts(seed, folder, on_test=on_test, fold=fold)
        return {**facts, **run_baseline(encoder, corpus, parts, seed), "seconds": round(time.time() - started)}
    estimator = make_estimator(data_set, encoder, seed, changes or {}, folder)
    parts = corpus.load_parts(seed, folder, on_test=on_test, fold=fold)
    dev = corpus.examples(parts["dev"]) if "dev" in parts and not uses_defaults(encoder) else None
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
    data_sets, encoders, seeds : every combination is one run; baselines count as encoders
    out : file of JSON lines
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    report : called with each new row

    Returns
    -------
    All rows in ``out``
    """
    for name in data_sets:
        find_data_set(name)
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
    return encoder not in BASELINES or can_run(encoder, find_data_set(data_set))


def _check_run(data_set: str, encoder: str, seed: int) -> None:
    """Reject an impossible run before the first one starts."""
    if encoder not in BASELINES:
        settings(data_set, encoder)
    if find_data_set(data_set).test is None:
        check_fold(seed)


def _check_writable(out: Path) -> None:
    try:
        with open(out, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror})", path=out, hint="Name a file in an existing folder."
        ) from error

"""The runs behind the result tables: a data set, an encoder and a seed give one row of results."""

from __future__ import annotations

import json
import multiprocessing
import platform
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch

import graphattn
from graphattn._validation import suggest
from graphattn.builders._jobs import LocalEngine
from graphattn.exceptions import ConfigError, DataError, DivergenceError, RunFolderError, verbatim
from graphattn.experiments._commit import current_commit
from graphattn.experiments.papers._baselines import BASELINES, can_run, run_baseline
from graphattn.experiments.papers._data_sets import (
    DataSet,
    ParallelSet,
    check_fold,
    data_folder,
    find_data_set,
    require_files,
)
from graphattn.experiments.papers._few_labels import check_few_labels, fit_sentence_vectors, fit_setfit
from graphattn.experiments.papers._measurements import MEASUREMENTS
from graphattn.experiments.papers._observations import OBSERVATIONS, EpochFigures
from graphattn.experiments.papers._result_rows import append_row, read_rows
from graphattn.experiments.papers._settings import (
    SENTENCE_VECTORS,
    SETFIT,
    TRANSFORMERS,
    Changes,
    data_files,
    make_estimator,
    merge_changes,
    task_groups,
    uses_defaults,
)
from graphattn.experiments.papers._transformers_loop import check_fine_tuning, fine_tune
from graphattn.models import Estimator
from graphattn.models.training._optimizer import count_parameters
from graphattn.options import Options


@dataclass(frozen=True)
class Run:
    """One run to make."""

    data_set: str
    encoder: str
    seed: int
    changes: Changes = field(default_factory=dict)  # group of options -> changes to :func:`settings`
    fold: int | None = None  # of the training set (0 to 3): is evaluated as ``held_out``, and the test set is not read
    on_test: bool = True  # also evaluate on the test set; not while choosing settings
    observe: tuple[str, ...] = ()  # names of :data:`OBSERVATIONS` of the trained model to add
    name: str = ""  # in errors, and of the folder of its checkpoints
    timed: bool = False  # whether the run must have been alone on the machine

    def key(self) -> str:
        """The key of the run; :func:`row_key` gives the same for its row of results."""
        return row_key({**vars(self), "dev_only": not self.on_test})

    def folder(self, out: Path) -> Path:
        """The folder of its checkpoints, which does not depend on ``changes``."""
        fold = "" if self.fold is None else f"-fold-{self.fold}"
        slug = re.sub(r"[^\w.+=-]+", "-", f"{self.name or f'{self.data_set} {self.encoder}'}-seed-{self.seed}{fold}")
        return out.with_name(f"{out.name}.runs") / slug

    def has_made(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with its key has everything that this run would write."""
        return all(name in row for name in self.observe) and (not self.timed or row.get("jobs") == 1)


def row_key(row: Mapping[str, Any]) -> str:
    """The key of the run of a row: data set, encoder, seed, fold, whether the test set was left out, changes.

    Examples
    --------
    >>> row = {"data_set": "sst2", "encoder": "duo", "seed": 0, "changes": {"encoder": {}}}
    >>> row_key(row) == Run("sst2", "duo", 0).key()
    True
    """
    changes = {group: dict(values) for group, values in (row.get("changes") or {}).items() if values}
    parts = [row["data_set"], row["encoder"], row["seed"], row.get("fold"), bool(row.get("dev_only")), changes]
    return json.dumps(parts, sort_keys=True)


def run(data_set: str, encoder: str, seed: int, *, folder: Path | None = None, **options: Any) -> dict[str, Any]:
    """Train and evaluate one model; ``options`` as for :class:`Run`, the rest as for :func:`execute_run`."""
    return execute_run(Run(data_set, encoder, seed, **options), folder)


def execute_run(item: Run, folder: Path | None = None, run_dir: Path | None = None) -> dict[str, Any]:
    """Train and evaluate one model; ``run_dir`` has the checkpoints, from which a stopped run resumes.

    Scores are in percent; a row has ``failed`` instead of scores if training diverges.
    """
    check_changes(item.data_set, item.encoder, item.changes)
    started = time.time()
    if item.data_set in MEASUREMENTS:
        figures = MEASUREMENTS[item.data_set][0](item.encoder, item.seed, item.changes)
    else:
        figures = _run_on_corpus(item, folder or data_folder(), run_dir)
    facts: dict[str, Any] = {"data_set": item.data_set, "encoder": item.encoder, "seed": item.seed}
    facts |= {"fold": item.fold} if item.fold is not None else {}
    facts |= {"dev_only": True} if not item.on_test else {}
    return {
        **facts,
        **figures,
        "seconds": round(time.time() - started),
        "changes": {group: dict(values) for group, values in item.changes.items() if values},
        "commit": current_commit(),
        "torch": torch.__version__,
        "versions": {
            "graphattn": graphattn.__version__,
            "lightning": version("lightning"),
            "python": platform.python_version(),
        },
    }


def _run_on_corpus(item: Run, folder: Path, run_dir: Path | None) -> dict[str, Any]:
    """Train an encoder or a baseline on a corpus, and return its figures."""
    corpus = find_data_set(item.data_set)
    if item.encoder in BASELINES:
        splits = corpus.load_splits(item.seed, folder, on_test=item.on_test, fold=item.fold)
        return run_baseline(item.encoder, corpus, splits, item.seed)
    require_files(folder, data_files(item.data_set, item.encoder, item.changes))
    values = {"training": {"run_dir": None if run_dir is None else str(run_dir), "logs": False}}
    changes = merge_changes(item.changes, values)
    estimator = make_estimator(item.data_set, item.encoder, item.seed, changes, folder)
    splits = corpus.load_splits(item.seed, folder, on_test=item.on_test, fold=item.fold)
    if peer := _find_peer(item.encoder):
        return peer.run(estimator, corpus, splits)
    figures = _train_and_measure(estimator, corpus, splits, dev=not uses_defaults(item.encoder))
    return figures | {
        name: OBSERVATIONS[name](estimator, corpus, splits) for name in item.observe if "failed" not in figures
    }


@dataclass(frozen=True)
class _Peer:
    """A system that is trained without GraphAttn."""

    run: Callable[[Any, DataSet, Mapping[str, Any]], dict[str, Any]]
    check: Callable[[DataSet, Changes], None]  # rejects what it cannot run


_PEERS = {
    TRANSFORMERS: _Peer(fine_tune, check_fine_tuning),
    SENTENCE_VECTORS: _Peer(fit_sentence_vectors, partial(check_few_labels, SENTENCE_VECTORS)),
    SETFIT: _Peer(fit_setfit, partial(check_few_labels, SETFIT)),
}


def _find_peer(encoder: str) -> _Peer | None:
    return _PEERS.get(encoder.partition("=")[0])


def option_groups(data_set: str, encoder: str) -> dict[str, Options]:
    """Group of options of a run -> an instance with the defaults; empty for a baseline."""
    if data_set in MEASUREMENTS:
        return MEASUREMENTS[data_set][1](encoder)
    return {} if encoder in BASELINES else task_groups(data_set, encoder)


def check_changes(data_set: str, encoder: str, changes: Changes) -> None:
    """Raise a ConfigError for a group or an option that does not exist, with those that do."""
    groups = option_groups(data_set, encoder) if changes else {}
    for group, values in changes.items():
        if values and group not in groups:
            choice = f"{suggest(group, groups)}choose among: {', '.join(groups)}" if groups else "it has none"
            raise ConfigError(f"{encoder} on {data_set} has no options {group!r}; {choice}")
        known = [item.name for item in fields(groups[group])] if values else []
        for name in values:
            if name not in known:
                raise ConfigError(
                    f"{group} of {encoder} on {data_set} has no option {name!r}; {suggest(name, known)}"
                    f"choose among: {', '.join(known)}"
                )


def _train_and_measure(
    estimator: Estimator, corpus: DataSet, splits: Mapping[str, Any], *, dev: bool
) -> dict[str, Any]:
    held_out = corpus.examples(splits["dev"]) if "dev" in splits and dev else None
    perplexity = corpus.training_examples(splits["dev"]) if isinstance(corpus, ParallelSet) else None
    epochs = EpochFigures(estimator, perplexity)
    precision = {"precision": estimator.resolve_options()["training"].resolve_precision()}
    start = time.process_time()
    try:
        estimator.fit(*corpus.training_examples(splits["train"]), dev=held_out, callbacks=[epochs])
    except DivergenceError as error:
        return {"failed": str(error), **precision}
    training_seconds = time.process_time() - start
    start = time.perf_counter()
    figures = corpus.measure(estimator, splits)
    seconds = time.perf_counter() - start
    texts = sum(len(splits[split]) for split in corpus.list_measured_splits(splits))
    model = estimator.model_
    return {
        **figures,
        "best_epoch": estimator.best_epoch()["epoch"],
        "epochs": estimator.history_[-1]["epoch"],
        **({"training_seconds": round(training_seconds, 1), "tunings": estimator.mixture_} if corpus.each else {}),
        "parameters": count_parameters(model),
        "parameters_besides_words": count_parameters(model)
        - sum(weights.numel() for weights in model.embedding.parameters(recurse=False) if weights.requires_grad),
        **precision,
        **epochs.figures(),
        **({"inference_seconds": round(seconds, 3), "inference_texts": texts} if texts else {}),
    }


def combine(data_sets: Sequence[str], encoders: Sequence[str], seeds: Sequence[int], **options: Any) -> list[Run]:
    """A run for each combination, without baselines on data sets that they are not for; ``options`` as for `Run`."""
    for name in data_sets:
        find_data_set(name)
    return [
        Run(data_set, encoder, seed, **options)
        for data_set, encoder, seed in product(data_sets, encoders, seeds)
        if encoder not in BASELINES or can_run(encoder, find_data_set(data_set))
    ]


def execute(
    runs: Iterable[Run],
    out: Path,
    *,
    folder: Path | None = None,
    jobs: int = 1,
    report: Callable[[Mapping[str, Any]], object] = lambda row: None,
) -> list[dict[str, Any]]:
    """Make the runs that ``out`` does not contain yet, and append each row as its run ends.

    Errors of impossible runs and missing files come before the first run. A stopped run resumes from its last
    checkpoint, which is in a folder beside ``out``. ``report`` gets each new row; all rows in ``out`` are returned.
    """
    rows = read_rows(out)
    unique = list({item.key(): item for item in runs}.values())
    for item in unique:
        _check_run(item)
    _check_writable(out)
    missing = _select_missing(unique, rows)
    if any(_needs_data(item) for item in missing):
        folder = folder or data_folder()
        require_files(folder, dict.fromkeys(file for item in missing for file in _list_files(item)))
    engine = LocalEngine(jobs)
    try:
        for row in engine.run(partial(_make, out=out, folder=folder, jobs=jobs), missing):
            append_row(out, row)
            rows.append(row)
            report(row)
    finally:  # after an error or Ctrl-C, the other runs stop at once; they resume from their last checkpoints
        engine.kill()
    return rows


def _select_missing(runs: Iterable[Run], rows: Iterable[Mapping[str, Any]]) -> list[Run]:
    """The runs without a row that has everything."""
    made = {row_key(row): row for row in rows}
    return [item for item in runs if item.key() not in made or not item.has_made(made[item.key()])]


def _make(item: Run, *, out: Path, folder: Path | None, jobs: int) -> dict[str, Any]:
    """Make a run in this process or another."""
    if multiprocessing.parent_process() is not None:
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process kills this one
    run_dir = None if item.encoder in BASELINES or not _needs_data(item) else item.folder(out)
    try:
        row = execute_run(item, folder, run_dir)
    except RunFolderError as error:
        hint = "Repeat the stopped command to resume it, delete the folder to start again"
        hint = "Wait for it" if error.is_busy else hint
        raise ConfigError(f"{verbatim(error.problem)}. {hint}, or give another {{out}}", options=("out",)) from error
    if run_dir is not None:
        shutil.rmtree(run_dir, ignore_errors=True)
    return {**row, "jobs": jobs}


def _needs_data(item: Run) -> bool:
    return item.data_set not in MEASUREMENTS


def _list_files(item: Run) -> list[str]:
    if not _needs_data(item):
        return []
    files = find_data_set(item.data_set).files(on_test=item.on_test and item.fold is None)
    return files if item.encoder in BASELINES else [*files, *data_files(item.data_set, item.encoder, item.changes)]


def _check_run(item: Run) -> None:
    """Reject an impossible run before the first one starts."""
    check_changes(item.data_set, item.encoder, item.changes)
    if not _needs_data(item):
        return
    if item.encoder not in BASELINES:
        make_estimator(item.data_set, item.encoder, item.seed, item.changes, Path()).validate()
    if peer := _find_peer(item.encoder):
        peer.check(find_data_set(item.data_set), item.changes)
    if find_data_set(item.data_set).test is None:
        check_fold(item.seed)


def _check_writable(out: Path) -> None:
    try:
        with open(out, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror})", path=out, hint="Name a file in an existing folder."
        ) from error


def with_changes(item: Run, changes: Changes) -> Run:
    """The run with further changes."""
    return replace(item, changes=merge_changes(item.changes, changes))

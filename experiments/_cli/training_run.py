"""One run of ``graphattn train``: fit, measure, save the model directory, and keep the folder of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from graphattn import __version__
from graphattn.exceptions import (
    ConfigError,
    DataError,
    DivergenceError,
    GraphAttnError,
    GraphAttnWarning,
    verbatim,
    warn_caller,
)
from graphattn.experiments._cli.corpus_options import name_corpora
from graphattn.experiments._cli.flags import Values
from graphattn.experiments._cli.output import name_files, print_metrics, unpack_single

if TYPE_CHECKING:
    from graphattn.experiments._cli.training_plan import TrainingPlan
    from graphattn.models import Estimator
    from graphattn.models._results.reports import Report
    from graphattn.models.training.callbacks import Tracker

METRICS_FILE, CONFIG_FILE = "metrics.json", "train.yaml"
_FORGOTTEN = 2.0
"""Points that the metric of old examples may fall without a warning."""
BEST_MODEL = "best-model"
"""Folder in that of a run: the model of the best epoch, when training diverged after it."""


def fit_and_save(
    estimator: Estimator,
    plan: TrainingPlan,
    corpora: Mapping[str, tuple[Any, Any]],
    out: Path,
    *,
    tests: Mapping[str, tuple[Any, Any]],
    files: Mapping[str, Sequence[Any]],
    report: bool,
    loggers: Sequence[str],
) -> dict[str, Any]:
    """Train, measure and save; an interrupted run resumes. Returns the content of ``metrics.json``.

    Only the first process of a run measures and saves; in the others the result is empty. The model is saved before an
    error in a test set is raised, and the model of the best epoch, in the run's folder, before one of divergence.
    ``corpora`` are ``training`` and perhaps ``dev`` and ``keep_dev``, read from ``files``; labels are None if inputs
    carry them.
    """
    from graphattn.models.training._processes import is_first_process
    from graphattn.models.training.callbacks import EpochLines

    run_dir = estimator.training.run_dir
    examples: dict[str, Any] = {name: count_texts(inputs) for name, (inputs, _) in corpora.items()}
    if report:
        _hint_at_vectors(estimator, examples["training"])
    is_first = is_first_process(estimator.training)
    trackers = [_start_tracker(name, plan, out, run_dir) for name in dict.fromkeys(loggers) if is_first]
    callbacks = [
        *([EpochLines(estimator.task.dev_search, _find_faster_way(estimator))] if report else []),
        *trackers,
    ]
    old = corpora.get("keep_dev") if is_first else None
    before = None if old is None else estimator.evaluate(*old)
    try:
        estimator.fit(*corpora["training"], dev=corpora.get("dev"), callbacks=callbacks)
    except DivergenceError as error:
        if run_dir is None or not is_first or not getattr(estimator, "history_", None):
            raise
        outcome = verbatim(_save_best_model(estimator, plan, Path(run_dir, BEST_MODEL)))
        message = f"{error.template}. The best epoch's model {outcome}"
        raise DivergenceError(message, options=error.options) from error
    if not is_first:
        return {}
    if tests:
        examples["test"] = unpack_single({name: count_texts(inputs) for name, (inputs, _) in tests.items()})
    figures = collect_metrics(estimator, examples)
    if old is not None and before is not None:
        figures["old_dev"] = {"before": before, "after": estimator.evaluate(*old)}
        _warn_of_forgetting(estimator, figures["old_dev"], plan)
    reports: dict[str, Report] = {}
    unmeasured = None
    for name, test in tests.items():
        try:
            reports[name] = estimator.report(*test)
        except DataError as error:  # the training must not be lost
            unmeasured = unmeasured or _test_set_error(error, name, out)
    if reports:
        measured = {name: report.metrics for name, report in reports.items()}
        figures["test"] = measured if len(tests) > 1 else unpack_single(measured)
    notes = {METRICS_FILE: json.dumps(figures, indent=1, ensure_ascii=False) + "\n", CONFIG_FILE: format_plan(plan)}
    test_files = name_corpora(estimator.task, plan.values["test"] or ()) if reports else {}
    results = {name_files(test_files[name]): report for name, report in reports.items()}
    estimator.save(out, notes=notes, results=results, corpora=files)
    if trackers:
        if not tests and "dev" in corpora:
            reports["dev"] = estimator.report(*corpora["dev"], unknown="wrong")
        for tracker in trackers:
            _log_results(tracker, reports, notes)
    if not estimator.was_stopped_:  # with its checkpoint, training can go on
        finish_run(run_dir, out)
    if unmeasured is not None:
        print_run(figures, out)
        raise unmeasured
    return figures


def _warn_of_forgetting(estimator: Estimator, measured: Mapping[str, Mapping[str, float]], plan: TrainingPlan) -> None:
    """Warn if the model to continue from was better on old examples."""
    metric = estimator.main_metric
    before, after = (measured[name][metric] for name in ("before", "after"))
    if before - after <= _FORGOTTEN:
        return
    remedy = "lower {learning_rate} or {epochs}" if plan.values["keep_from"] else "mix old examples in: {keep_from}"
    options = ("keep_dev", *(("learning_rate", "epochs") if plan.values["keep_from"] else ("keep_from",)))
    shown = metric.replace("_", " ")
    problem = f"{shown} on {{keep_dev}} fell from {before:.2f} to {after:.2f}: the model forgets what it knew"
    warn_caller(GraphAttnWarning(f"{problem}; {remedy}", options=options))


def _find_faster_way(estimator: Estimator) -> str | None:
    """A way to train in less time, if the task has one that was not chosen."""
    if not estimator.task.can_be_frozen or estimator.pretrained.pretrained:
        return None
    return "--pretrained MODEL --frozen, which only fits a linear layer on the vectors of a pretrained model"


def _start_tracker(logger: str, plan: TrainingPlan, out: Path, run_dir: str | None) -> Tracker:
    """Start a run of an experiment tracker."""
    from graphattn.models.training.callbacks import Tracker

    options = {**plan.values, "task": plan.task.task.name, "graphattn": __version__}
    return Tracker(logger, options, folder=Path(run_dir or out.parent, "logs"), name=out.name)


def _log_results(tracker: Tracker, reports: Mapping[str, Report], notes: Mapping[str, str]) -> None:
    """Log reports and confusion matrices of the test sets, or of the dev set, and the texts of the model directory."""
    for name, text in notes.items():
        tracker.log_text(name, text)
    for name, report in reports.items():
        label = name if name == "dev" else "test" if len(reports) == 1 else f"test_{Path(name).name}"
        tracker.log_report(report, label)
        if report.outcomes is not None and find_spec("matplotlib"):
            from graphattn.experiments.drawing import draw_confusion

            with suppress(ConfigError):  # too many classes for a picture
                tracker.log_picture(f"{label}_confusion.png", draw_confusion(report.outcomes))
    tracker.finish()


def count_texts(items: Any) -> int:
    """The number of texts or pairs that an estimator sees in a list or a store."""
    return len(items) if isinstance(items, list) else len(items.texts())


def _hint_at_vectors(estimator: Estimator, examples: int) -> None:
    from graphattn.models import InputOptions
    from graphattn.models.training._hints import hint_at_vectors

    parameters = estimator.get_params(deep=False)
    inputs = parameters["inputs"]
    if estimator.warm_start or getattr(parameters.get("pretrained"), "pretrained", None):
        return
    if isinstance(inputs, InputOptions) and inputs.level == "word" and not inputs.vectors:
        hint = hint_at_vectors(examples)
        if hint is not None:
            warn_caller(hint)


def _save_best_model(estimator: Estimator, plan: TrainingPlan, folder: Path) -> str:
    """Save the model of a training that diverged; return the end of the error's sentence."""
    try:
        estimator.save(folder, notes={CONFIG_FILE: format_plan(plan)})
    except (GraphAttnError, OSError) as error:
        return f"could not be saved ({error})"
    return f"is {folder}; to train with other options, start again with --no-resume"


def _test_set_error(error: DataError, corpus: str, out: Path) -> DataError:
    saved = f"The model is saved in {verbatim(out)}; measure it with graphattn evaluate."
    path = corpus if error.path is None else error.path
    hint = f"{error.hint} {saved}" if error.hint else saved
    return DataError(error.message, path=path, line=error.line, field=error.field, hint=hint, options=error.options)


def print_run(figures: Mapping[str, Any], out: Path) -> None:
    """Print the metrics of a model and its directory; nothing in a process that has not saved it."""
    if not figures:
        return
    columns = {name: figures[name] for name in ("dev", "test") if name in figures}
    for when, metrics in figures.get("old_dev", {}).items():
        columns[f"keep dev {when}"] = metrics
    if "dev_search" in figures:  # other than that of the test set
        columns = {f"{name} ({figures['dev_search']})" if name == "dev" else name: columns[name] for name in columns}
    if any(isinstance(value, Mapping) for value in columns.get("test", {}).values()):
        columns |= {f"test {name}": metrics for name, metrics in columns.pop("test").items()}
    print_metrics(columns)
    print(f"model: {out}")


def check_overwrite(out: Path, *, overwrite: bool) -> None:
    """Reject a path that exists or cannot be written, before hours of training."""
    from graphattn.builders._atomic import is_vacant
    from graphattn.models._files.saving import is_model_directory

    if is_model_directory(out):
        if not overwrite:
            raise ConfigError(f"{out} already has a model; give --overwrite to replace it, or another --out")
    elif out.exists() and not (out.is_dir() and is_vacant(out)):
        raise ConfigError(f"{out} exists and is no model directory; choose another --out")
    try:
        if not out.parent.exists():
            out.parent.mkdir(parents=True)
        with TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); choose another --out") from error


def choose_run_folder(values: Values, out: Path) -> str | None:
    """The folder of a run's checkpoints and logs, if any; by default it is next to the model directory."""
    from graphattn.experiments._cli.training_plan import RUN_DIR

    run_dir: str | None = values["run_dir"]
    if run_dir != RUN_DIR:
        return run_dir
    return f"{out if out.name else out.absolute()}.run"  # "." has no name


def finish_run(run_dir: str | None, out: Path) -> None:
    """Remove the checkpoints of a run whose model is saved, and the model of an earlier divergence."""
    from graphattn.models._files.saving import CHECKPOINT, LINEAR, is_model_directory
    from graphattn.models.training._checkpoints import BEST

    if not run_dir:
        return
    for name in (CHECKPOINT, LINEAR, BEST):
        Path(run_dir, name).unlink(missing_ok=True)
    kept = Path(run_dir, BEST_MODEL)
    if is_model_directory(kept) and kept.resolve() != out.resolve():
        shutil.rmtree(kept, ignore_errors=True)


def collect_metrics(estimator: Estimator, examples: dict[str, int]) -> dict[str, Any]:
    """Metrics of the best epoch on the dev set, and what was trained on how many examples of each corpus."""
    from graphattn.models.training._optimizer import count_parameters

    best = estimator.best_epoch()
    facts: dict[str, Any] = {
        "graphattn": __version__,
        "task": estimator.task.name,
        "encoder": estimator.encoder_.name,
        "parameters": count_parameters(estimator.model_),
        "examples": examples,
        "epochs": estimator.history_[-1]["epoch"],
        "best_epoch": best["epoch"],
    }
    dev = estimator.dev_metrics()
    search = {} if estimator.task.dev_search is None else {"dev_search": estimator.task.dev_search}
    return {**facts, **search, "dev": dev} if dev else facts


def format_plan(plan: TrainingPlan) -> str:
    """Write the options of a run as YAML for ``--config``."""
    from graphattn.experiments._cli.config import config_text
    from graphattn.experiments._cli.training_plan import RUN_DIR
    from graphattn.models._estimators.tuning import list_open_options

    is_open = list_open_options(plan.task.task, plan.values.get("pretrained")) - plan.set_names
    kept = {
        name: value
        for name, value in plan.values.items()
        if name not in is_open and (name != "run_dir" or value != RUN_DIR)
    }
    return config_text(
        kept, f"GraphAttn {__version__}: graphattn train {plan.task.task.name} TRAIN --config {CONFIG_FILE}"
    )

"""What a training command leaves: a model directory with notes of how it was made, and a folder of its run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from graphattn import __version__
from graphattn.exceptions import ConfigError, DataError, DivergenceError, GraphAttnError
from graphattn.experiments.cli.corpus_options import count_texts, path_test
from graphattn.experiments.cli.flags import Values
from graphattn.experiments.cli.metric_tables import print_metrics

if TYPE_CHECKING:
    from graphattn.experiments.cli.training_plan import TrainingPlan
    from graphattn.experiments.cli.translation_plan import TranslationPlan
    from graphattn.models import TextEstimator, Translator

METRICS_FILE, CONFIG_FILE = "metrics.json", "train.yaml"
BEST_MODEL = "best-model"
"""Folder in that of a run: the model of the best epoch, where training diverged behind it."""
MEASURED = ("dev", "test")
"""Parts of a corpus of which there are metrics."""


def fit_and_save(
    plan: TrainingPlan | TranslationPlan, parts: Mapping[str, tuple[Any, Any]], out: Path
) -> dict[str, Any]:
    """Train, measure and save; a run that was interrupted goes on.

    Parameters
    ----------
    plan : the options
    parts : ``training`` and, where there are such, ``dev`` and ``test`` -> inputs, and labels or targets; None for
        those that inputs carry
    out : the model directory; checkpoints and logs go to ``OUT.run`` unless the plan says otherwise

    Returns
    -------
    What ``metrics.json`` holds; nothing in the processes of a run but the first, which alone measures and saves.

    Raises
    ------
    DataError
        when a part is not as it must be; where it is the test set that cannot be measured, the model is saved before
    DivergenceError
        when loss or weights are no numbers; the model of the best epoch is saved in the run's folder before
    """
    from graphattn.models.training.checkpoints import is_first_process

    run_dir = run_folder_of(plan.values, out)
    estimator: Any = plan.estimator(run_dir=run_dir)
    try:
        estimator.fit(*parts["training"], dev=parts.get("dev"))
    except DivergenceError as error:
        if run_dir is None or not is_first_process() or not getattr(estimator, "history_", None):
            raise
        fate = _save_best_model(estimator, plan, Path(run_dir, BEST_MODEL))
        raise DivergenceError(f"{error}. The best epoch's model {fate}") from error
    if not is_first_process():
        return {}
    figures = run_facts(estimator, {part: count_texts(inputs) for part, (inputs, _) in parts.items()})
    unmeasured = None
    if "test" in parts:
        try:
            figures["test"] = estimator.evaluate(*parts["test"])
        except DataError as error:  # the training is not lost for it
            unmeasured = error
    measured = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    estimator.save(out, notes={METRICS_FILE: measured, CONFIG_FILE: plan_text(plan.task, plan.values)})
    finish_run(run_dir, out)
    if unmeasured is not None:
        raise _of_test_set(unmeasured, plan.values.get("test"), out)
    return figures


def _save_best_model(estimator: TextEstimator | Translator, plan: TrainingPlan | TranslationPlan, place: Path) -> str:
    """Save the model of a training that diverged, and say what has become of it."""
    try:
        estimator.save(place, notes={CONFIG_FILE: plan_text(plan.task, plan.values)})
    except (GraphAttnError, OSError) as error:
        return f"could not be saved ({error})"
    return f"is {place}; with other options train anew, with --no-resume"


def _of_test_set(error: DataError, corpus: object, out: Path) -> DataError:
    hint = f"The model is saved in {out}; measure it with graphattn evaluate."
    told = f"{error.hint} {hint}" if error.hint else hint
    place = str(corpus) if error.path is None and isinstance(corpus, (str, Path)) else error.path
    return DataError(error.message, path=place, line=error.line, field=error.field, hint=told, options=error.options)


def print_run(figures: Mapping[str, Any], out: Path) -> None:
    """Tell how good a model is, and where it stands; nothing where other processes of the run have saved it."""
    if not figures:
        return
    print_metrics({part: figures[part] for part in MEASURED if part in figures})
    print(f"model: {out}")


def is_model(path: Path) -> bool:
    """Whether this may be a folder that ``graphattn train`` wrote; loading it tells."""
    return path_test((path / "config.json").is_file)


def refuse_to_overwrite(out: Path, *, overwrite: bool) -> None:
    """Refuse a place where something stands or nothing can be written, before hours are spent on what is not saved.

    Raises
    ------
    ConfigError
        naming the way out
    """
    from graphattn.models.saving import is_model_directory

    if is_model_directory(out):
        if not overwrite:
            raise ConfigError(f"{out} holds a model already; give --overwrite to replace it, or another --out")
    elif out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(f"{out} exists and is no model directory; choose another --out")
    try:
        if not out.parent.exists():
            out.parent.mkdir(parents=True)
        with TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); choose another --out") from error


def run_folder_of(values: Values, out: Path) -> str | None:
    """The folder of a run's checkpoints and logs, if it has one: beside the model directory unless another is given."""
    from graphattn.experiments.cli.training_plan import RUN_DIR

    if values["run_dir"] != RUN_DIR:
        return values["run_dir"]
    return f"{out if out.name else out.absolute()}.run"  # "." has no name


def finish_run(run_dir: str | None, out: Path) -> None:
    """Remove the checkpoints of a run whose model is saved, and the model of one that diverged before."""
    from graphattn.models.saving import is_model_directory
    from graphattn.models.training.checkpoints import BEST, CHECKPOINT

    if not run_dir:
        return
    for name in (CHECKPOINT, BEST):
        Path(run_dir, name).unlink(missing_ok=True)
    kept = Path(run_dir, BEST_MODEL)
    if is_model_directory(kept) and kept.resolve() != out.resolve():
        shutil.rmtree(kept, ignore_errors=True)


def run_facts(estimator: TextEstimator | Translator, examples: dict[str, int]) -> dict[str, Any]:
    """Metrics of the best epoch on the dev set, and what they belong to.

    Parameters
    ----------
    estimator : a fitted one
    examples : part of the corpus -> how many it has
    """
    from graphattn.models.training.loop import count_parameters

    best = best_epoch(estimator)
    facts: dict[str, Any] = {
        "graphattn": __version__,
        "task": estimator.task,
        "encoder": estimator.encoder_.name,
        "parameters": count_parameters(estimator.model_),
        "examples": examples,
        "epochs": len(estimator.history_),
        "best_epoch": int(best["epoch"]) + 1,
    }
    dev = {name.removeprefix("dev_"): value for name, value in best.items() if name.startswith("dev_")}
    return {**facts, "dev": dev} if dev else facts


def best_epoch(estimator: TextEstimator | Translator) -> dict[str, float]:
    """The epoch whose weights were kept: the last with the highest dev metric; without a dev set the last."""
    metric = f"dev_{estimator.training.metric or estimator.main_metric}"
    if metric not in estimator.history_[-1]:
        return estimator.history_[-1]
    return max(reversed(estimator.history_), key=lambda row: row[metric])


def plan_text(task: str, values: Values) -> str:
    """The options of a command as the text of a file for ``--config``."""
    from graphattn.experiments.cli.config import config_text
    from graphattn.experiments.cli.training_plan import RUN_DIR

    kept = {name: value for name, value in values.items() if name != "run_dir" or value != RUN_DIR}
    return config_text(kept, f"GraphAttn {__version__}: graphattn train {task} TRAIN --config {CONFIG_FILE}")

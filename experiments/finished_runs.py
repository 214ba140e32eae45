"""What a training command leaves: a model directory with notes of how it was made, and a folder of its run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn import __version__
from graphattn.exceptions import ConfigError
from graphattn.experiments.option_flags import Values

if TYPE_CHECKING:
    from graphattn.models import TextEstimator, Translator

METRICS_FILE, CONFIG_FILE = "metrics.json", "train.yaml"


def refuse_to_overwrite(out: Path, *, overwrite: bool) -> None:
    """Refuse a place where something stands, before hours are spent on what could not be saved.

    Raises
    ------
    ConfigError
        naming the way out
    """
    if out.is_dir() and (out / "config.json").exists():
        if not overwrite:
            raise ConfigError(f"{out} holds a model already; give --overwrite to replace it, or another --out")
    elif out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(f"{out} exists and is no model directory; choose another --out")


def run_folder_of(values: Values, out: Path) -> str | None:
    """The folder of a run's checkpoints and logs, if it has one: beside the model directory unless another is given."""
    from graphattn.experiments.training_plan import RUN_DIR

    if values["run_dir"] != RUN_DIR:
        return values["run_dir"]
    return f"{out if out.name else out.absolute()}.run"  # "." has no name


def finish_run(run_dir: str | None) -> None:
    """Remove the checkpoints of a run whose model is saved."""
    from graphattn.models.run_folder import BEST, CHECKPOINT

    for name in (CHECKPOINT, BEST) if run_dir else ():
        Path(str(run_dir), name).unlink(missing_ok=True)


def run_facts(estimator: TextEstimator | Translator, examples: dict[str, int]) -> dict[str, Any]:
    """Metrics of the best epoch on the dev set, and what they belong to.

    Parameters
    ----------
    estimator : a fitted one
    examples : part of the corpus -> how many it has
    """
    from graphattn.models.training import count_parameters

    best = _best_epoch(estimator)
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


def _best_epoch(estimator: TextEstimator | Translator) -> dict[str, float]:
    """The epoch whose weights were kept: the last with the highest dev metric; without a dev set the last."""
    metric = f"dev_{estimator.training.metric or estimator.main_metric}"
    if metric not in estimator.history_[-1]:
        return estimator.history_[-1]
    return max(reversed(estimator.history_), key=lambda row: row[metric])


def plan_text(task: str, values: Values) -> str:
    """The options of a command as the text of a file for ``--config``."""
    from graphattn.experiments.config_files import config_text
    from graphattn.experiments.training_plan import RUN_DIR

    kept = {name: value for name, value in values.items() if name != "run_dir" or value != RUN_DIR}
    return config_text(kept, f"GraphAttn {__version__}: graphattn train {task} TRAIN --config {CONFIG_FILE}")

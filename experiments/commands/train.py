"""``graphattn train``: a corpus in, a model directory with its metrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphattn import __version__
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.commands import train_translate
from graphattn.experiments.corpus_options import CLASSIFY, PAIR, TAG, TRANSLATE, count_texts, read_items
from graphattn.experiments.metric_tables import print_metrics
from graphattn.experiments.option_flags import Values, naming_flags, with_flags

if TYPE_CHECKING:
    from graphattn.experiments.training_plan import TrainingPlan
    from graphattn.models import TextEstimator, Translator

METRICS_FILE, CONFIG_FILE = "metrics.json", "train.yaml"
_MEASURED = ("dev", "test")

_TASKS = {
    CLASSIFY: (
        "Train a classifier of texts.",
        "graphattn train classify train.tsv --dev dev.tsv --out model\n\n"
        "graphattn train classify reviews.csv --text-column review --label-column stars --encoder bilstm --out model",
    ),
    PAIR: (
        "Train a classifier of pairs of texts.",
        "graphattn train pair train.jsonl --text-column premise --second-column hypothesis --out model",
    ),
    TAG: (
        "Train a tagger of words.",
        "graphattn train tag train.conll --dev dev.conll --characters --crf --out model\n\n"
        "graphattn train tag train.conllu --tags xpos --config settings.yaml --out model",
    ),
    TRANSLATE: (train_translate.SUMMARY, train_translate.EXAMPLES),
}


class TrainCommands(TyperGroup):
    """One command for each task, made when it is called: its flags come from modules that load PyTorch."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The tasks."""
        return list(_TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What is listed of a task; None when there is no such task."""
        return TyperCommand(cmd_name, help=_TASKS[cmd_name][0]) if cmd_name in _TASKS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, made when it is called."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, _command(str(name)), rest


app = typer.Typer(
    cls=TrainCommands,
    help="Train a model on a corpus and save it with its metrics.",
    epilog="graphattn train classify --help lists the options of a task.",
    no_args_is_help=True,
)


@app.callback()
def tasks() -> None:
    """Train a model on a corpus and save it with its metrics."""


def _command(task: str) -> Any:
    summary, examples = _TASKS[task]
    single = typer.Typer(add_completion=False)
    single.command(task, help=f"{summary}\n\n{_ABOUT}", short_help=summary, epilog=examples)(_function(task))
    return typer.main.get_command(single)


_ABOUT = (
    "Run the same command again after an interruption to go on from the last epoch. A YAML file given with --config "
    "sets the same options by the same names; the settings of a run are in its model directory, in train.yaml."
)


def _function(task: str) -> Callable[..., None]:
    """The function behind ``graphattn train TASK``; the options of the task are its flags."""
    if task == TRANSLATE:
        return train_translate.translate_command()
    from graphattn.experiments.training_plan import TrainingPlan, training_flags

    @with_flags(training_flags(task))
    def command(
        train: Annotated[
            list[Path], typer.Argument(metavar="TRAIN", help="Corpora to train on; several are read as one.")
        ],
        given: Values,
        out: Annotated[Path, typer.Option(help="Model directory to write.")],
        config: Annotated[Path | None, typer.Option(help="YAML file of options; flags win over it.")] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    ) -> None:
        refuse_to_overwrite(out, overwrite=overwrite)
        plan = TrainingPlan.of(task, given, config)
        with naming_flags(plan.values):
            figures = train_model(plan, train, out)
        print_metrics({part: figures[part] for part in _MEASURED if part in figures})
        print(f"model: {out}")

    return command


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


def train_model(plan: TrainingPlan, train: Iterable[Path], out: Path) -> dict[str, Any]:
    """Read, train, measure and save; a run that was interrupted goes on.

    Parameters
    ----------
    plan : the options
    train : corpora to train on
    out : the model directory; checkpoints and logs go to ``OUT.run`` unless the plan says otherwise

    Returns
    -------
    What ``metrics.json`` holds.
    """
    plan.check()
    files = {"training": list(train), **{part: [Path(plan.values[part])] for part in _MEASURED if plan.values[part]}}
    items = {part: _items(paths, plan) for part, paths in files.items()}
    run_dir = run_folder_of(plan.values, out)
    estimator = plan.estimator(run_dir=run_dir).fit(items["training"], dev=items.get("dev"))
    figures = _figures(estimator, items)
    measured = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    notes = {METRICS_FILE: measured, CONFIG_FILE: plan_text(plan.task, plan.values)}
    estimator.save(out, notes=notes)
    finish_run(run_dir)
    return figures


def _items(paths: list[Path], plan: TrainingPlan) -> Any:
    """Corpora as one; a store on its own is not read into memory."""
    read = [read_items(path, plan.task, plan.corpus, multilabel=plan.multilabel) for path in paths]
    if len(read) == 1:
        return read[0]
    stored = next((path for path, items in zip(paths, read, strict=True) if not isinstance(items, list)), None)
    if stored is not None:
        raise DataError(
            "a store is trained on alone",
            path=stored,
            hint="Put other corpora behind those it holds: graphattn build --append.",
        )
    return list(chain.from_iterable(read))


def _figures(estimator: TextEstimator, items: dict[str, Any]) -> dict[str, Any]:
    figures = run_facts(estimator, {part: count_texts(own) for part, own in items.items()})
    if "test" in items:
        figures["test"] = estimator.evaluate(items["test"])
    return figures


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

"""``graphattn train``: a corpus in, a model directory with its metrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphattn.exceptions import DataError
from graphattn.experiments.commands import train_translate
from graphattn.experiments.corpus_options import CLASSIFY, PAIR, TAG, TRANSLATE, count_texts, read_items
from graphattn.experiments.finished_runs import (
    CONFIG_FILE,
    METRICS_FILE,
    finish_run,
    plan_text,
    refuse_to_overwrite,
    run_facts,
    run_folder_of,
)
from graphattn.experiments.metric_tables import print_metrics
from graphattn.experiments.option_flags import Values, naming_flags, with_flags

if TYPE_CHECKING:
    from graphattn.experiments.training_plan import TrainingPlan
    from graphattn.models import TextEstimator

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

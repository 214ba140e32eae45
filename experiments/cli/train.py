"""``graphattn train``: a corpus in, a model directory with its metrics out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphattn.exceptions import DataError
from graphattn.experiments.cli import train_translate
from graphattn.experiments.cli.corpus_options import CLASSIFY, PAIR, TAG, TRANSLATE, read_items
from graphattn.experiments.cli.flags import Values, with_flags
from graphattn.experiments.cli.training_run import MEASURED, fit_and_save, print_run, refuse_to_overwrite

if TYPE_CHECKING:
    from graphattn.experiments.cli.training_plan import TrainingPlan

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
    from graphattn.experiments.cli.training_plan import TrainingPlan, training_flags

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
        print_run(train_model(plan, train, out), out)

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
    files = {"training": list(train), **{part: [Path(plan.values[part])] for part in MEASURED if plan.values[part]}}
    return fit_and_save(plan, {part: (_items(paths, plan), None) for part, paths in files.items()}, out)


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

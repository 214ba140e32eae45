"""``graphattn train``: train a model on a corpus and save it with its metrics."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from graphattn.exceptions import DataError, Hint
from graphattn.experiments.cli.corpus_options import CLASSIFY, PAIR, TAG, TRANSLATE
from graphattn.experiments.cli.flags import Flag, Values, as_flag, with_flags
from graphattn.experiments.cli.training_run import check_overwrite, choose_run_folder, fit_and_save, print_run
from graphattn.experiments.cli.user_modules import find_values
from graphattn.validation import suggest

if TYPE_CHECKING:
    from graphattn.experiments.cli.training_plan import TrainingPlan
    from graphattn.models import Estimator

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
    "regress": (
        "Train a regressor: texts to numbers.",
        "graphattn train regress reviews.csv --text-column review --label-column stars --out model",
    ),
    "regress-pair": (
        "Train a regressor of pairs: how similar are two texts?",
        "graphattn train regress-pair sick.csv --text-column sentence_A --second-column sentence_B --label-column "
        "relatedness_score --out model",
    ),
    TAG: (
        "Train a tagger of words.",
        "graphattn train tag train.conll --dev dev.conll --characters --crf --out model\n\n"
        "graphattn train tag train.conllu --tags xpos --config settings.yaml --out model",
    ),
    TRANSLATE: (
        "Train a translator, or a summariser: from texts to texts.",
        "graphattn train translate train.en,train.de --dev val.en,val.de --out model\n\n"
        "graphattn train translate abstracts.jsonl --text-column abstract --second-column tldr --encoder ms-trans "
        "--out model",
    ),
}
"""Task -> summary and examples of its command, for ``--help`` without loading PyTorch."""
_SKIP_BAD = Flag(
    "skip_bad", bool, False, False, "leave out lines that cannot be used (not of test sets)", None, "Corpus"
)
_SHOWN = 5
"""Lines left out that are listed."""
_ABOUT = (
    "After an interruption, run the same command again to resume from the last epoch. A YAML file (--config) sets the "
    "same options by the same names; the model directory has the settings of its run in train.yaml.\n\n"
    "This is a selection: --help-all lists all options, --encoder NAME --help those of an encoder."
)


def _find_registered() -> dict[str, type[Estimator]]:
    """The tasks; only the user's modules, imported before, can have registered others than the built-in ones."""
    loading = sys.modules.get("graphattn.models.estimators.loading")
    return {} if loading is None else loading.TASKS


def _describe(task: str) -> tuple[str, str]:
    """Summary and examples of a task."""
    if task in _TASKS:
        return _TASKS[task]
    summary = (getdoc(_find_registered()[task]) or task).partition("\n")[0]
    return summary, f"graphattn --import MODULE train {task} train.tsv --out model"


class TrainCommands(TyperGroup):
    """One command for each task, built when it is called: its flags come from modules that load PyTorch."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*_TASKS, *_find_registered()]))

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=_describe(cmd_name)[0]) if cmd_name in self.list_commands(ctx) else None

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.list_commands(ctx):
            tasks = self.list_commands(ctx)
            ctx.fail(f"There is no task {args[0]!r}; {suggest(args[0], tasks)}choose one of: {', '.join(tasks)}")
        name, _, rest = super().resolve_command(ctx, args)
        encoders = find_values("--encoder", rest)[0] if {"-h", "--help"} & set(rest) else []
        return name, _command(str(name), encoders[-1] if encoders else None), rest


app = typer.Typer(
    cls=TrainCommands,
    help="Train a model on a corpus and save it with its metrics.",
    epilog="graphattn train classify --help lists the options of a task.",
    no_args_is_help=True,
)


@app.callback()
def tasks() -> None:
    """Train a model on a corpus and save it with its metrics."""


def _command(task: str, encoder: str | None = None) -> Any:
    """The command of a task; its ``--help`` lists the options of ``encoder`` instead of the usual ones, if given."""
    summary, examples = _describe(task)
    single = typer.Typer(add_completion=False)
    single.command(task, help=f"{summary}\n\n{_ABOUT}", short_help=summary, epilog=examples)(_function(task, encoder))
    return typer.main.get_command(single)


def _function(task: str, encoder: str | None) -> Callable[..., None]:
    """The function behind ``graphattn train TASK``; the options of the task are its flags."""
    from graphattn.experiments.cli.training_plan import TrainingPlan, training_flags, training_flags_of_encoder
    from graphattn.models import TASKS

    estimator = TASKS[task]
    corpora = typer.Argument(metavar="TRAIN", help="Corpora to train on; several are read as one.")
    if estimator.task.source_and_target_files:
        about = "Sources and targets, line by line, also SOURCE,TARGET; or one table of both."
        corpora = typer.Argument(metavar="SOURCE [TARGET]", help=about)

    def command(
        train: list[Path],
        given: Values,
        out: Annotated[Path, typer.Option(help="Model directory to write.")],
        config: Annotated[Path | None, typer.Option(help="YAML file of options; flags win over it.")] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
        quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar, lines of epochs, or hints.")] = False,
    ) -> None:
        check_overwrite(out, overwrite=overwrite)
        skip_bad = given.pop(_SKIP_BAD.name, False)
        plan = TrainingPlan.of(estimator, given, config)
        changes = {"progress": False} if quiet else {}
        print_run(train_model(plan, train, out, skip_bad=skip_bad, report=not quiet, **changes), out)

    command.__annotations__["train"] = Annotated[list[Path], corpora]
    flags = training_flags(estimator) if encoder is None else training_flags_of_encoder(estimator, encoder)
    return with_flags([*flags, _SKIP_BAD])(command)


def train_model(
    plan: TrainingPlan,
    train: Sequence[Path],
    out: Path,
    *,
    skip_bad: bool = False,
    report: bool = False,
    **training: Any,
) -> dict[str, Any]:
    """Read, train, measure and save; an interrupted run resumes.

    Parameters
    ----------
    plan : the options
    train : corpora to train on
    out : the model directory; checkpoints and logs go to ``OUT.run`` unless the plan says otherwise
    skip_bad : leave out lines of the training and dev sets that cannot be used
    report : print hints, and a line for each epoch where there is no progress bar
    training : options of the training to override

    Returns
    -------
    The content of ``metrics.json``
    """
    from graphattn.models import load

    estimator = plan.estimator(run_dir=choose_run_folder(plan.values, out), **training)
    if init_from := plan.values.get("init_from"):
        arguments = estimator.get_params(deep=False)
        estimator = load(init_from).set_params(**{**arguments, "warm_start": True})
    estimator.validate()
    files: dict[str, Sequence[Any]] = {"training": train}
    if dev := plan.values["dev"]:
        files["dev"] = [dev] if isinstance(dev, str) else dev
    corpus = plan.corpus
    options = {"format": corpus.format, **corpus.reader_options()}
    skipped: list[DataError] = []
    skip: dict[str, Any] = {"skip": skipped.append} if skip_bad else {}
    with warnings.catch_warnings():
        if not report:
            warnings.simplefilter("ignore", Hint)
        try:
            parts = {part: estimator.read(paths, **options, **skip) for part, paths in files.items()}
        except DataError as error:
            if error.skippable:
                error.alternative = "Or leave out such lines with --skip-bad."
            raise
        if skipped and report:
            _list_skipped(skipped)
        tests = {
            name: estimator.read(paths, **options)
            for name, paths in estimator.name_corpora(plan.values["test"] or ()).items()
        }
    return fit_and_save(estimator, plan, parts, out, tests=tests, report=report)


def _list_skipped(errors: Sequence[DataError]) -> None:
    """Print how many lines were left out, and why the first of them."""
    print(f"hint: {len(errors):,} line{'s' * (len(errors) != 1)} left out", file=sys.stderr)
    for error in errors[:_SHOWN]:
        short = DataError(error.message, path=error.path, line=error.line, field=error.field, options=error.options)
        print(f"  {' '.join(short.render(as_flag).split())}", file=sys.stderr)
    if len(errors) > _SHOWN:
        print(f"  and {len(errors) - _SHOWN:,} more", file=sys.stderr)

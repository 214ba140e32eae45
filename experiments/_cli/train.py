"""``graphattn train``: train a model on a corpus and save it with its metrics."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typing_extensions import override

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError, DataError, Hint, RunFolderError, verbatim
from graphattn.experiments._cli.corpus_options import CLASSIFY, PAIR, TAG, TRANSLATE, name_corpora
from graphattn.experiments._cli.docstrings import read_docstring
from graphattn.experiments._cli.flags import LazyGroup, Values, as_flag, make_command, with_flags
from graphattn.experiments._cli.training_run import (
    check_overwrite,
    choose_run_folder,
    count_texts,
    fit_and_save,
    print_run,
)
from graphattn.experiments._cli.user_modules import find_values
from graphattn.options import Option

if TYPE_CHECKING:
    from graphattn.experiments._cli.training_plan import TrainingPlan
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
_SKIP_BAD = Option(
    "skip_bad", bool, False, False, "leave out lines that cannot be used (not of test sets)", None, "Corpus"
)
_LOGGER = Option(
    "logger",
    Sequence,
    True,
    None,
    "also send options, metrics of each epoch and reports to this tracker; may be repeated",
    ("csv", "tensorboard", "wandb", "mlflow", "trackio"),
    "Training",
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
    loading = sys.modules.get("graphattn.models._estimators.loading")
    return {} if loading is None else loading.TASKS


def _describe(task: str) -> tuple[str, str]:
    """Summary and examples of a task."""
    if task in _TASKS:
        return _TASKS[task]
    summary = (read_docstring(_find_registered()[task]) or task).partition("\n")[0]
    return summary, f"graphattn --import MODULE train {task} train.tsv --out model"


class TrainCommands(LazyGroup):
    """One command for each task, whose flags come from modules that load PyTorch."""

    @override
    def list_summaries(self) -> dict[str, str]:
        return {name: _describe(name)[0] for name in [*_TASKS, *_find_registered()]}

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        tasks = self.list_commands(ctx)
        if args[0] not in tasks:
            ctx.fail(f"There is no task {args[0]!r}; {suggest(args[0], tasks)}choose one of: {', '.join(tasks)}")
        return super().resolve_command(ctx, args)

    @override
    def build_command(self, name: str, arguments: Sequence[str]) -> Any:
        # the command of a task; its ``--help`` lists the options of ``--encoder`` instead of the usual ones
        encoders = find_values("--encoder", arguments)[0] if {"-h", "--help"} & set(arguments) else []
        summary, examples = _describe(name)
        function = _make_function(name, encoders[-1] if encoders else None)
        return make_command(function, f"{summary}\n\n{_ABOUT}", examples)


group = TrainCommands(
    name="train",
    help="Train a model on a corpus and save it with its metrics.",
    epilog="graphattn train classify --help lists the options of a task.",
    no_args_is_help=True,
)


def _make_function(task: str, encoder: str | None) -> Callable[..., None]:
    """The function behind ``graphattn train TASK``; the options of the task are its flags."""
    from graphattn.experiments._cli.training_plan import TrainingPlan, training_flags, training_flags_of_encoder
    from graphattn.models import TASKS

    estimator = TASKS[task]
    corpora = typer.Argument(metavar="TRAIN", help="Corpora to train on; several are read as one.")
    if estimator.task.source_and_target_files:
        about = "Sources and targets, line by line, also SOURCE,TARGET; or one table of both."
        corpora = typer.Argument(metavar="SOURCE [TARGET]", help=about)

    def command(
        train: list[Path],
        flag_values: Values,
        out: Annotated[Path, typer.Option(help="Model directory to write.")],
        config: Annotated[Path | None, typer.Option(help="YAML file of options; flags win over it.")] = None,
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="Replace a model that is there, and an unfinished run of another.")
        ] = False,
        quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar, lines of epochs, or hints.")] = False,
        explain: Annotated[bool, typer.Option("--explain", help="Print every option and what decided it.")] = False,
    ) -> None:
        check_overwrite(out, overwrite=overwrite)
        skip_bad, loggers = flag_values.pop(_SKIP_BAD.name, False), flag_values.pop(_LOGGER.name, None) or []
        plan = TrainingPlan.of(estimator, flag_values, config)
        changes: dict[str, Any] = {"progress": False} if quiet else {}
        if {"csv", "tensorboard"} & {*loggers}:  # else there would be two of them
            changes["logs"] = False
        options: dict[str, Any] = {"skip_bad": skip_bad, "report": not quiet, "loggers": loggers, **changes}
        try:
            figures = train_model(plan, train, out, **options, explain=explain)
        except RunFolderError as error:
            if not (overwrite and error.is_other):
                raise
            figures = train_model(plan, train, out, **options, resume=False)
        print_run(figures, out)

    command.__annotations__["train"] = Annotated[list[Path], corpora]
    flags = training_flags(estimator) if encoder is None else training_flags_of_encoder(estimator, encoder)
    return with_flags(flag_values=[*flags, _SKIP_BAD, _LOGGER])(command)


def train_model(
    plan: TrainingPlan,
    train: Sequence[Path],
    out: Path,
    *,
    skip_bad: bool = False,
    report: bool = False,
    loggers: Sequence[str] = (),
    explain: bool = False,
    **training: Any,
) -> dict[str, Any]:
    """Read, train, measure and save; an interrupted run resumes. Returns the content of ``metrics.json``.

    ``skip_bad`` leaves out lines of the training and dev sets that cannot be used; ``report`` prints hints, and a line
    for each epoch where there is no progress bar; ``loggers`` are trackers of the run; ``explain`` prints the options;
    ``training`` overrides some.
    """
    from graphattn._devices import find_device
    from graphattn.experiments._cli.option_table import format_options
    from graphattn.models import load
    from graphattn.models.defaults import Facts
    from graphattn.models.training._processes import ignore_launcher_rank

    estimator = plan.estimator(run_dir=choose_run_folder(plan.values, out), **training)
    if init_from := plan.values.get("init_from"):
        arguments = estimator.get_params(deep=False)
        estimator = load(init_from, device="cpu").set_params(**{**arguments, "warm_start": True})
    estimator.validate()
    find_device(estimator.training.device)
    files: dict[str, Sequence[Any]] = {"training": train}
    for name in ("dev", "keep_from", "keep_dev"):
        if paths := plan.values[name]:
            files[name] = [paths] if isinstance(paths, str) else paths
    if lacking := [name for name in ("keep_from", "keep_dev") if name in files and not init_from]:
        raise ConfigError(
            f"{{{lacking[0]}}} needs a model to continue from: {{init_from}}", options=(lacking[0], "init_from")
        )
    if not estimator.task.source_and_target_files or len(train) != 2:
        _reject_repetitions(train)
    options = plan.corpus.reading(estimator.corpus_)
    skipped: list[DataError] = []
    skip: dict[str, Any] = {"skip": skipped.append} if skip_bad else {}
    with warnings.catch_warnings():
        if not report:
            warnings.simplefilter("ignore", Hint)
        try:
            corpora = {name: estimator.read(paths, **options, **skip) for name, paths in files.items()}
        except DataError as error:
            if error.skippable and error.line != 1:  # another first line means that the whole file is another
                error.alternative = "Or leave out such lines with --skip-bad."
            raise
        if skipped and report:
            _list_skipped(skipped)
        if (old := corpora.pop("keep_from", None)) is not None:
            corpora["training"] = _add_old_examples(estimator, corpora["training"], old, report=report)
        tests = {
            name: estimator.read(paths, **options)
            for name, paths in name_corpora(estimator.task, plan.values["test"] or ()).items()
        }
        if explain:
            resolved = estimator.resolve_options(Facts(examples=count_texts(corpora["training"][0])))
            names: dict[str, Any] = {"set_names": plan.set_names, "trained_names": plan.trained_names}
            print(format_options(resolved, **names, unused=estimator.unused_options), flush=True)
        with ignore_launcher_rank(estimator.training) if loggers else nullcontext():
            return fit_and_save(estimator, plan, corpora, out, tests=tests, files=files, report=report, loggers=loggers)


def _add_old_examples(
    estimator: Estimator, new: tuple[Any, Any], old: tuple[Any, Any], *, report: bool
) -> tuple[list[Any], list[Any]]:
    """Mix a sample of old examples into new ones, and say how many."""
    from graphattn.models import add_old_examples

    mixed = add_old_examples(estimator, new, old, seed=estimator.training.seed)
    if report:
        kept = len(mixed[0]) - count_texts(new[0])
        print(f"{kept:,} of {count_texts(old[0]):,} old examples mixed in", file=sys.stderr, flush=True)
    return mixed


def _reject_repetitions(files: Sequence[Path]) -> None:
    """A corpus given twice would have the same texts in the training set and in the share that is held out."""
    resolved = [os.path.realpath(file) for file in files]
    repeated = next((file for file, path in zip(files, resolved, strict=True) if resolved.count(path) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{verbatim(str(repeated))} is given twice to train on; give each file once")


def _list_skipped(errors: Sequence[DataError]) -> None:
    """Print how many lines were left out, and why the first of them."""
    print(f"hint: {len(errors):,} line{'s' * (len(errors) != 1)} left out", file=sys.stderr)
    for error in errors[:_SHOWN]:
        short = DataError(error.message, path=error.path, line=error.line, field=error.field, options=error.options)
        print(f"  {' '.join(short.render(as_flag).split())}", file=sys.stderr)
    if len(errors) > _SHOWN:
        print(f"  and {len(errors) - _SHOWN:,} more", file=sys.stderr)

"""``graphattn tune``: search training settings on a dev set, with one space and budget for all encoders."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn._optional_packages import import_optional
from graphattn._validation import require_choice, suggest
from graphattn.exceptions import ConfigError, DataError, DivergenceError, GraphAttnWarning, verbatim
from graphattn.experiments._cli.corpus_options import CorpusOptions
from graphattn.experiments._cli.flags import Device, Values, as_flag, with_flags
from graphattn.options import Options, list_options

if TYPE_CHECKING:
    from graphattn.experiments._cli.training_plan import TrainingPlan
    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn tune classify train.tsv --dev dev.tsv --encoder ms-trans --encoder bilstm --trials 20 --out best.yaml"
    "\n\n"
    "graphattn train classify train.tsv --dev dev.tsv --config best.yaml --out model"
)


@dataclass(frozen=True)
class Range:
    """Values of an option to try, with inclusive bounds; without a step any number, on a logarithmic scale."""

    low: float
    high: float
    step: float | None = None

    def within(self, bounds: Mapping[str, Any]) -> Range:
        """The part that an option's metadata allows."""
        return Range(
            max(self.low, bounds.get("min", self.low)), min(self.high, bounds.get("max", self.high)), self.step
        )

    def suggest(self, trial: Any, name: str) -> float:
        """A value, chosen by Optuna; whole numbers for a whole step."""
        if self.step is None:
            value = trial.suggest_float(name, self.low, self.high, log=True)
            return float(f"{value:.3g}")
        if isinstance(self.step, int):
            return int(trial.suggest_int(name, int(self.low), int(self.high), step=self.step))
        return float(f"{trial.suggest_float(name, self.low, self.high, step=self.step):.9g}")


SPACE = {
    "learning_rate": Range(1e-4, 3e-3),
    "layers": Range(1, 4, 1),
    "dropout": Range(0.0, 0.5, 0.1),
    "embedding_dropout": Range(0.0, 0.5, 0.1),
    "word_dropout": Range(0.0, 0.3, 0.1),
    "weight_decay": Range(1e-6, 1e-2),
    "tuning_rate": Range(2e-5, 3e-4),
}
"""Option -> values to try, for each task and encoder that has the option."""


_FIRST_BYTES = b'{"op_code"'
"""Of a file of trials."""


@dataclass(frozen=True)
class Search:
    """Input of all trials: flags for reading corpora, the file of options that are not searched, and the corpora."""

    task: type[Estimator]
    flag_values: Values
    config: Path | None
    training: tuple[Any, Any]
    dev: tuple[Any, Any] | None

    def plan(self, encoder: str, values: Values) -> TrainingPlan:
        """The options of a trial."""
        from graphattn.experiments._cli.training_plan import TrainingPlan

        return TrainingPlan.of(self.task, {**self.flag_values, **values, "encoder": encoder}, self.config)

    def space(self, encoder: str) -> dict[str, Range]:
        """The options of an encoder that are searched."""
        from graphattn.models._encoders import NoEncoderOptions, options_class

        pretrained = bool(self.plan(encoder, {}).values.get("pretrained"))
        groups = {name: group for name, group in self.task.option_groups.items() if name not in ("files", "task")}
        groups["encoder"] = Options if encoder == NoEncoderOptions.name else options_class(encoder)
        options = {item.name: item.metadata for group in groups.values() for item in fields(group)}
        unused = set() if pretrained else {"tuning_rate"}
        if pretrained and "word_dropout" in options:  # else of a translator, whose targets have their own embedding
            unused = {"embedding_dropout", "word_dropout"}
        known = options.keys() - unused
        return {name: values.within(options[name]) for name, values in SPACE.items() if name in known}

    def measure(self, encoder: str, values: Values) -> float:
        """Train once and return the model's dev metric."""
        estimator = self.plan(encoder, values).estimator(progress=False, run_dir=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphAttnWarning)
            estimator.fit(*self.training, dev=self.dev)
            if estimator.was_stopped_:
                raise KeyboardInterrupt
        metrics, name = estimator.dev_metrics(), estimator.training_.metric or estimator.main_metric
        if name not in metrics:
            hint = "Give {dev}, or more examples."
            raise DataError("no part could be held out to compare trials on", hint=hint, options=("dev",))
        return metrics[name]

    def collect_fixed_options(self, encoder: str) -> dict[str, Any]:
        """Everything that trials in one file must share."""
        space = self.space(encoder)
        values = {name: value for name, value in self.plan(encoder, {}).values.items() if name not in space}
        sizes = {"training examples": len(self.training[0]), "dev examples": self.dev and len(self.dev[0])}
        return dict(json.loads(json.dumps({**values, **sizes}, default=str)))


@with_flags(flag_values=list_options(CorpusOptions, "Corpus"))
def tune(
    task: Annotated[str, typer.Argument(help="Task, as of graphattn train.")],
    train: Annotated[list[Path], typer.Argument(help="Corpora to train on; for translate SOURCE,TARGET.")],
    flag_values: Values,
    *,
    out: Annotated[Path, typer.Option(help="YAML file of the best settings to write.")],
    dev: Annotated[
        str | None, typer.Option(help="Dev set (default: a tenth of the training set); for translate SOURCE,TARGET.")
    ] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Encoder; may be given several times.")] = None,
    trials: Annotated[int, typer.Option(help="Trials of each encoder.", min=1)] = 20,
    trials_file: Annotated[
        Path | None, typer.Option(help="File of all trials, for the same command to resume (default: OUT.trials).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of options that are not searched.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.", min=0)] = 0,
    device: Device = "auto",
) -> None:
    """Search learning rate, depth, dropout and weight decay on a dev set, and write the best settings as YAML.

    All encoders get the same space and number of trials. No test set is read.
    """
    import_optional("optuna", "graphattn tune needs", "tune")
    from graphattn._devices import find_device
    from graphattn.builders._atomic import atomic_file
    from graphattn.builders._paths import write_error
    from graphattn.experiments._cli.config import config_text, read_config
    from graphattn.experiments._cli.training_plan import list_encoders, training_flags
    from graphattn.models import TASKS

    if task not in TASKS:
        raise ConfigError(f"{task!r} is not a task; {suggest(task, TASKS)}choose one of: {', '.join(TASKS)}")
    estimator_class = TASKS[task]
    find_device(device)
    log = trials_file or out.with_name(f"{out.name}.trials")
    _check_files(out, log)
    flag_values |= {"device": device} if device != "auto" else {}
    for name in encoder or ():
        require_choice("encoder", name, list_encoders(estimator_class))
    from_file = {} if config is None else read_config(config, training_flags(estimator_class))
    encoders = encoder or [from_file.get("encoder", estimator_class.task.default_encoder)]
    search = _read_corpora(estimator_class, train, dev, flag_values, config)
    try:
        best = {name: run_trials(search, name, trials, log, seed) for name in dict.fromkeys(encoders)}
    except OSError as error:
        raise write_error(log, error) from error
    scores = [
        " ".join(
            [f"dev {score:.2f}: --encoder {name}", *(f"{as_flag(option)} {value}" for option, value in chosen.items())]
        )
        for name, (score, chosen) in best.items()
    ]
    winner = max(best, key=lambda name: best[name][0])
    known = search.plan(winner, {}).values  # the file may have options of another encoder
    kept = {name: value for name, value in {**from_file, **flag_values}.items() if name in known}
    text = config_text({**kept, **best[winner][1], "encoder": winner}, "\n# ".join([*scores, "the best of these"]))
    try:
        with atomic_file(out) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise write_error(out, error) from error
    print(*scores, out, sep="\n")


def _check_files(out: Path, log: Path) -> None:
    """Reject a file of trials, or a folder, as the file of the best settings."""
    if out.is_dir():
        raise ConfigError("{out} is a folder; name a file", options=("out",))
    if out.resolve() == log.resolve():
        raise ConfigError("{out} and {trials_file} are one file; name two", options=("out", "trials_file"))
    if out.is_file() and is_trial_file(out):
        raise ConfigError(
            f"{verbatim(out)} is a file of trials; give it as {{trials_file}}, and {{out}} a file of settings to write",
            options=("trials_file", "out"),
        )


def _read_corpora(
    task: type[Estimator], train: Sequence[Path], dev: str | None, flag_values: Values, config: Path | None
) -> Search:
    from graphattn.experiments._cli.training_plan import TrainingPlan

    plan = TrainingPlan.of(task, flag_values, config)
    estimator, options = plan.estimator(), plan.corpus.reading()
    training = estimator.read(train, **options)
    dev = dev or plan.values.get("dev")
    if not dev and not estimator.training.dev_fraction:
        raise ConfigError(
            "a search needs a dev set; give {dev}, or a dev_fraction above 0 in {config}", options=("dev", "config")
        )
    dev_set = estimator.read([dev] if isinstance(dev, str) else dev, **options) if dev else None
    return Search(task, flag_values, config, training, dev_set)


def run_trials(search: Search, encoder: str, trials: int, out: Path, seed: int) -> tuple[float, Values]:
    """Run the trials of an encoder that the file lacks; return the best dev metric and its options."""
    from optuna.trial import TrialState

    study = _open_study(out, encoder)
    _check_options(study, encoder, search.collect_fixed_options(encoder), out)
    space, ended = search.space(encoder), (TrialState.COMPLETE, TrialState.PRUNED)
    for number in range(len(study.get_trials(states=ended)), trials):
        study.sampler = type(study.sampler)(seed=seed + number)  # a resumed search goes on like an uninterrupted one
        trial = study.ask()
        values = {name: bounds.suggest(trial, name) for name, bounds in space.items()}
        trial.set_user_attr("values", values)
        try:
            score = search.measure(encoder, values)
        except DivergenceError:
            score = math.nan
        state = TrialState.COMPLETE if math.isfinite(score) else TrialState.PRUNED
        study.tell(trial, None if math.isnan(score) else score, state=state)
        print(f"{encoder}, trial {number + 1} of {trials}: dev {score:.2f}", file=sys.stderr, flush=True)
    scored = [trial for trial in study.get_trials(states=ended) if trial.value is not None]
    if not scored:
        rates = [trial.user_attrs["values"]["learning_rate"] for trial in study.get_trials(states=ended)]
        raise DataError(
            f"all trials of {encoder} diverged, with learning_rate from {min(rates):g} to {max(rates):g}",
            path=out,
            hint="Set a lower clip, or precision: 32, in {config}; or choose another {encoder}, or more {trials}.",
            options=("config", "encoder", "trials"),
        )
    best = max(scored, key=lambda trial: trial.value)
    return float(best.value), dict(best.user_attrs["values"])


def _check_options(study: Any, encoder: str, fixed: dict[str, Any], out: Path) -> None:
    """Reject trials with other options than those of the file."""
    earlier = study.user_attrs.get("options")
    if earlier is None:
        study.set_user_attr("options", fixed)
    elif earlier != fixed:
        name = next(name for name in {**fixed, **earlier} if fixed.get(name) != earlier.get(name))
        raise ConfigError(
            f"{verbatim(out)} has trials of {encoder} with other options ({name}: {earlier.get(name)!r}, now "
            f"{fixed.get(name)!r}); give the same options and corpora to resume, or another {{trials_file}}",
            options=("trials_file",),
        )


def _open_study(out: Path, encoder: str) -> Any:
    """The trials of an encoder in a file of JSON lines."""
    import optuna
    from optuna.storages import JournalStorage

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        backend: Any = TrialFile(out)
        return optuna.create_study(
            storage=JournalStorage(backend),
            sampler=optuna.samplers.TPESampler(),
            study_name=encoder,
            direction="maximize",
            load_if_exists=True,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"is not a file of trials ({reason})",
            path=out,
            hint="Name a new file in an existing folder.",
        ) from error


def is_trial_file(path: Path) -> bool:
    """Whether a file begins with a trial."""
    with open(path, "rb") as file:
        return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES


class TrialFile:
    """A backend of Optuna's journal: lines of JSON with checksums, each flushed to the disk.

    A last line that was not written completely is overwritten; another one that is damaged is an error.
    """

    def __init__(self, path: Path):
        self._path = path

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """The lines from a 0-based number on."""
        from graphattn.builders._regular_files import NAMES, read_bytes  # loads PyTorch

        if not self._path.exists():  # it is written with the first line, so that a failed command leaves no empty file
            return []
        *lines, rest = read_bytes(self._path, NAMES).split(b"\n")
        lines = lines or [rest] * bool(rest)  # perhaps the user's file of something else
        return [self._parse(line, number) for number, line in enumerate(lines, 1)][log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write lines."""
        from graphattn._json_types import json_checksum
        from graphattn.builders._locks import file_lock  # loads PyTorch

        lines = [json.dumps({**log, "checksum": json_checksum(log)}) + "\n" for log in logs]
        # without the lock, a search that runs at the same time could be cut off
        lock = self._path.with_name(f".{self._path.name}.lock")
        with file_lock(lock, timeout=-1), open(self._path, "a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        from graphattn._json_types import json_checksum

        try:
            log: dict[str, Any] = json.loads(line)
            checksum = log.pop("checksum")
        except (ValueError, AttributeError, KeyError, TypeError):
            checksum = None
        if checksum is None or json_checksum(log) != checksum:
            hint = "Remove the line and all after it to repeat their trials, or name a new file."
            raise DataError("is not a file of trials, or damaged", path=self._path, line=number, hint=hint)
        return log

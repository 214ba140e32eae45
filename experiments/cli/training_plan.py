"""The options of one ``graphattn train`` run: flags and a YAML file become an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from graphattn.builders.readers import corpus_kind
from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.config import read_config
from graphattn.experiments.cli.corpus_options import CorpusOptions, irrelevant_options
from graphattn.experiments.cli.flags import Flag, Values, flags_of, merge_flags, option_group
from graphattn.models import Estimator, InputOptions, ParsingOptions, SubwordOptions
from graphattn.models.encoders import ENCODERS, NoEncoderOptions, options_class
from graphattn.models.estimators.warm_start import check_same_options
from graphattn.models.pretrained.options import PretrainedOptions
from graphattn.models.saving import read_config as read_model_config
from graphattn.validation import require_choice

RUN_DIR = "OUT.run"
"""The default folder of a run, next to the model directory."""
PANELS: dict[type, str] = {InputOptions: "Words", SubwordOptions: "Sub-words", ParsingOptions: "Parser"}
"""Heading of a group in ``--help`` where it is not the group's name."""


def training_flags(task: type[Estimator], **arguments: Any) -> list[Flag]:
    """All flags of ``graphattn train TASK``.

    Parameters
    ----------
    task : the estimator
    arguments : of its constructor; they change the defaults of other options, as a translator's ``preset`` does
    """
    defaults = task(**arguments)
    options = defaults.resolved_options()
    flags: list[Flag] = []
    for name, kind in task.option_groups.items():
        panel = PANELS.get(kind, name.capitalize())
        if name == "files":
            flags += flags_of(kind(), "Task")
            what = "what turns words into vectors"
            name = defaults.resolved_encoder().name
            flags.append(Flag("encoder", str, False, name, what, tuple(list_encoders(task)), "Task", common=True))
        elif name == "task":
            task_defaults = {item.name: getattr(defaults, item.name) for item in fields(kind)}
            flags += flags_of(kind(**task_defaults), panel)
            flags += flags_of(CorpusOptions(), "Corpus", without=irrelevant_options(corpus_kind(task.task.corpus_kind)))
        elif name == "encoder":
            by_encoder = _encoder_flags(task, arguments)
            flags += merge_flags(
                {encoder: list(flags_by_name.values()) for encoder, flags_by_name in by_encoder.items()}, panel
            )
        else:
            flags += flags_of(options[name], panel, without=task.unused_options)
    return [replace(flag, default=RUN_DIR) if flag.name == "run_dir" else flag for flag in flags]


def training_flags_of_encoder(task: type[Estimator], encoder: str) -> list[Flag]:
    """The flags of ``graphattn train TASK``, of which ``--help`` lists those of one encoder, with its defaults.

    Raises
    ------
    ConfigError
        for an unknown encoder
    """
    require_choice("encoder", encoder, list_encoders(task))
    of_encoder = _encoder_flags(task, {})[encoder]
    if encoder == NoEncoderOptions.name:
        of_encoder = {flag.name: flag for flag in flags_of(PretrainedOptions())}
    return [
        replace(of_encoder[flag.name], panel=f"Encoder {encoder}", common=True)
        if flag.name in of_encoder
        else replace(flag, common=False)
        for flag in training_flags(task)
    ]


def list_encoders(task: type[Estimator]) -> list[str]:
    """The encoders of a task; ``pretrained`` stands for none on top of the pretrained model."""
    return [*ENCODERS, *([NoEncoderOptions.name] if "pretrained" in task.option_groups else [])]


def _encoder_flags(task: type[Estimator], arguments: Mapping[str, Any]) -> dict[str, dict[str, Flag]]:
    """Encoder -> name of an option -> its flag, with this task's default."""
    options = {name: task(name, **arguments).resolved_encoder() for name in list_encoders(task)}
    return {name: {flag.name: flag for flag in flags_of(encoder)} for name, encoder in options.items()}


def _check_encoder(encoder: str, values: Values, of_encoders: Mapping[str, Mapping[str, Flag]], place: str) -> None:
    """Reject options that only other encoders have."""
    for name in values:
        owners = [other for other, flags in of_encoders.items() if name in flags]
        if owners and encoder not in owners:
            shown = name.replace("_", "-") if place == "--" else name
            known = " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            raise ConfigError(
                f"{place}{shown} is no option of the encoder {encoder}; "
                f"{known} {'has' if len(owners) == 1 else 'have'} it. "
                "Leave it out, or choose another --encoder"
            )


def resolve_options(task: type[Estimator], given: Values, config: Path | None = None) -> Values:
    """The value of each option of a task and its encoder: flags win over the file, the file over the defaults.

    When a flag chooses another encoder than the file, the options of the file's encoder are dropped.

    Parameters
    ----------
    task : the estimator
    given : the flags that were used
    config : a YAML file

    Raises
    ------
    ConfigError
        when an option does not exist, or is not one of the encoder's
    """
    from_file = {} if config is None else read_config(config, training_flags(task))
    both = {**from_file, **given}
    trained = read_options(task, Path(both["init_from"]), both) if both.get("init_from") else {}
    start = {**trained, **both}
    arguments = {item.name: start[item.name] for item in fields(task.option_groups["task"]) if item.name in start}
    if start.get("pretrained"):
        arguments["pretrained"] = start["pretrained"]  # other options have other defaults
    arguments["training"] = option_group(start, task.option_groups["training"])  # one option can turn off another
    flags, of_encoders = training_flags(task, **arguments), _encoder_flags(task, arguments)
    default = trained.get("encoder", next(flag.default for flag in flags if flag.name == "encoder"))
    encoder_of_file = from_file.get("encoder", default)
    _check_encoder(encoder_of_file, from_file, of_encoders, f"{config}: ")
    encoder = given.get("encoder", encoder_of_file)
    _check_encoder(encoder, given, of_encoders, "--")
    of_any, of_encoder = {name for flags in of_encoders.values() for name in flags}, of_encoders[encoder]
    start |= {name: of_encoder[name].parse(start[name]) for name in both if name in of_encoder}
    relevant = [of_encoder.get(flag.name, flag) for flag in flags if flag.name in of_encoder or flag.name not in of_any]
    return {flag.name: start.get(flag.name, flag.default) for flag in relevant}


def read_options(task: type[Estimator], model: Path, given: Values) -> Values:
    """The options of a model to continue from, without those of its training.

    Parameters
    ----------
    task : the estimator
    model : the model directory
    given : options of the next training

    Raises
    ------
    ConfigError
        when the model has another task, or ``given`` another value of an option that describes the model
    """
    config = read_model_config(model)
    if config["task"] != task.task.name:
        raise ConfigError(f"{model} is a model of another task; use graphattn train {config['task']}")
    names = [item.name for item in fields(task.option_groups["task"]) if item.name != "class_weight"]
    values = {name: config[name] for name in names if name in config}
    late: Values = {}
    for name in task.option_groups:
        if name not in ("files", "task", "training"):
            (late if name in task.late_options else values).update(config.get(name, {}))
    values["encoder"] = values.pop("name")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    check_same_options(values, given)
    return {**late, **values}


@dataclass(frozen=True)
class TrainingPlan:
    """Resolved options of one ``graphattn train`` run.

    Parameters
    ----------
    task : the estimator
    values : name -> value of each option of the task and its encoder
    """

    task: type[Estimator]
    values: Values

    @classmethod
    def of(cls, task: type[Estimator], given: Values, config: Path | None = None) -> TrainingPlan:
        """Resolve the options, see :func:`resolve_options`."""
        return cls(task, resolve_options(task, given, config))

    @property
    def corpus(self) -> CorpusOptions:
        """How corpora are read."""
        return option_group(self.values, CorpusOptions)

    def estimator(self, **training: Any) -> Estimator:
        """An estimator with these options.

        Parameters
        ----------
        training : options of the training to override
        """
        groups = {
            name: option_group(self.values, kind, **(training if name == "training" else {}))
            for name, kind in self.task.option_groups.items()
            if name not in ("files", "task", "encoder")
        }
        arguments = {item.name: self.values[item.name] for item in fields(self.task.option_groups["task"])}
        several = self.values.get("label_separator") or "," in self.values.get("label_column", "")
        if several and "multilabel" in arguments:
            arguments["multilabel"] = True
        return self.task(option_group(self.values, options_class(self.values["encoder"])), **arguments, **groups)

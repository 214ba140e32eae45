"""The options of one ``graphattn train`` run: defaults < YAML file < flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from graphattn._validation import require_choice
from graphattn.builders.readers._formats import corpus_kind
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.config import read_config
from graphattn.experiments._cli.corpus_options import CorpusOptions, irrelevant_options
from graphattn.experiments._cli.flags import Values, merge_flags
from graphattn.models import Estimator, InputOptions, SubwordOptions
from graphattn.models._encoders import ENCODERS, NoEncoderOptions, options_class
from graphattn.models._estimators.warm_start import check_same_options
from graphattn.models._files.saving import read_config as read_model_config
from graphattn.models.defaults import Resolved, choose_encoder, resolve
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import Option, ParsingOptions, list_options

RUN_DIR = "OUT.run"
"""The default folder of a run, next to the model directory."""
PANELS: dict[type, str] = {InputOptions: "Words", SubwordOptions: "Sub-words", ParsingOptions: "Parser"}
"""Heading of a group in ``--help`` where it is not the group's name."""


def training_flags(task: type[Estimator], values: Mapping[str, Any] | None = None) -> list[Option]:
    """All flags of ``graphattn train TASK``; ``values``, such as a preset, change the defaults of other options."""
    values = values or {}
    default = choose_encoder(task.task, values.get("pretrained"))
    options = _resolve_defaults(task, values, default)
    flags: list[Option] = []
    for name, group in task.option_groups.items():
        panel = PANELS.get(group, name.capitalize())
        if name == "files":
            about, encoders = "what turns words into vectors", tuple(list_encoders(task))
            flags += list_options(group, "Task")
            flags.append(Option("encoder", str, False, default, about, encoders, "Task", common=True))
        elif name == "task":
            flags += list_options(group, panel)
            unused = irrelevant_options(corpus_kind(task.task.corpus_kind))
            shared = {item.name for item in fields(group)}
            flags += list_options(CorpusOptions, "Corpus", without=unused | shared)
        elif name == "encoder":
            by_encoder = _encoder_flags(task, values)
            flags += merge_flags({encoder: list(by_name.values()) for encoder, by_name in by_encoder.items()}, panel)
        else:
            flags += list_options(options[name], panel, without=task.unused_options)
    return [replace(flag, default=RUN_DIR) if flag.name == "run_dir" else flag for flag in flags]


def training_flags_of_encoder(task: type[Estimator], encoder: str) -> list[Option]:
    """The flags of ``graphattn train TASK``, of which ``--help`` lists those of one encoder, with its defaults."""
    require_choice("encoder", encoder, list_encoders(task))
    of_encoder = _encoder_flags(task, {})[encoder]
    if encoder == NoEncoderOptions.name:
        of_encoder = {flag.name: flag for flag in list_options(PretrainedOptions)}
    return [
        replace(of_encoder[flag.name], panel=f"Encoder {encoder}", common=True)
        if flag.name in of_encoder
        else replace(flag, common=False)
        for flag in training_flags(task)
    ]


def list_encoders(task: type[Estimator]) -> list[str]:
    """The encoders of a task; ``pretrained`` stands for none on top of the pretrained model."""
    return [*ENCODERS, *([NoEncoderOptions.name] if "pretrained" in task.option_groups else [])]


def _resolve_defaults(task: type[Estimator], values: Mapping[str, Any], encoder: str) -> Resolved:
    """The options of a task with these values, those of the encoder without; what is open stays None."""
    groups = {name: group.from_values(values) for name, group in task.option_groups.items() if name != "files"}
    return resolve(task.task, {**groups, "encoder": options_class(encoder)()}, derive=False)


def _encoder_flags(task: type[Estimator], values: Mapping[str, Any]) -> dict[str, dict[str, Option]]:
    """Encoder -> name of an option -> its flag, with this task's default."""
    options = {name: _resolve_defaults(task, values, name)["encoder"] for name in list_encoders(task)}
    return {name: {flag.name: flag for flag in list_options(encoder)} for name, encoder in options.items()}


def _check_encoder(encoder: str, values: Values, of_encoders: Mapping[str, Mapping[str, Option]], prefix: str) -> None:
    """Reject options that only other encoders have."""
    for name in values:
        owners = [other for other, flags in of_encoders.items() if name in flags]
        if owners and encoder not in owners:
            shown = name.replace("_", "-") if prefix == "--" else name
            known = " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            raise ConfigError(
                f"{prefix}{shown} is not an option of the encoder {encoder}; "
                f"{known} {'has' if len(owners) == 1 else 'have'} it. "
                "Leave it out, or choose another --encoder"
            )


def _read_options(task: type[Estimator], model: Path, flag_values: Values) -> Values:
    """The options of a model to continue from, without those of its training.

    Raises an error when the model has another task, or another value of an option of ``flag_values`` that describes it.
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
    check_same_options(values, flag_values)
    if flag_values.get("tuned_layers") == 0:
        values.pop("contrastive", None)  # which leaves nothing to train; fit says so
    return {**late, **values}


@dataclass(frozen=True)
class TrainingPlan:
    """The value of each option of a task and its encoder, and the names of those that were set.

    ``trained_names`` are those that only a model to continue from has set.
    """

    task: type[Estimator]
    values: Values
    set_names: frozenset[str]
    trained_names: frozenset[str]

    @classmethod
    def of(cls, task: type[Estimator], flag_values: Values, config: Path | None = None) -> TrainingPlan:
        """Resolve the options: defaults < model to continue from < file < flags.

        When a flag chooses another encoder than the file, the options of the file's encoder are dropped.
        """
        from_file = {} if config is None else read_config(config, training_flags(task))
        both = {**from_file, **flag_values}
        trained = _read_options(task, Path(both["init_from"]), both) if both.get("init_from") else {}
        values = {**trained, **both}
        flags, of_encoders = training_flags(task, values), _encoder_flags(task, values)
        default: str = trained.get("encoder", choose_encoder(task.task, values.get("pretrained")))
        encoder_of_file: str = from_file.get("encoder", default)
        _check_encoder(encoder_of_file, from_file, of_encoders, f"{config}: ")
        encoder: str = flag_values.get("encoder", encoder_of_file)
        _check_encoder(encoder, flag_values, of_encoders, "--")
        of_any, of_encoder = {name for options in of_encoders.values() for name in options}, of_encoders[encoder]
        values |= {name: of_encoder[name].parse(values[name]) for name in both if name in of_encoder}
        relevant = [
            of_encoder.get(flag.name, flag) for flag in flags if flag.name in of_encoder or flag.name not in of_any
        ]
        return cls(
            task,
            {flag.name: values.get(flag.name, flag.default) for flag in relevant},
            frozenset(values),
            frozenset(trained.keys() - both.keys()),
        )

    @property
    def corpus(self) -> CorpusOptions:
        """Options for reading corpora, of which those that were set are stored."""
        return CorpusOptions.from_values({name: self.values[name] for name in self.values.keys() & self.set_names})

    def estimator(self, **training: Any) -> Estimator:
        """An estimator with these options, of which ``training`` overrides some; the others keep their defaults."""
        values = {**self.values, **training}
        set_values = {name: value for name, value in values.items() if name in self.set_names or name in training}
        groups = {
            name: group.from_values(set_values)
            for name, group in self.task.option_groups.items()
            if name not in ("files", "task", "encoder")
        }
        arguments = {item.name: values[item.name] for item in fields(self.task.option_groups["task"])}
        several = values.get("label_separator") or "," in values.get("label_column", "")
        if several and "multilabel" in arguments:
            arguments["multilabel"] = True
        encoder = options_class(values["encoder"]).from_values(set_values)
        return self.task(encoder, **arguments, **groups)

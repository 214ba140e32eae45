"""Everything a training command is asked to do: flags and a YAML file become options, options an estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.config import read_config
from graphattn.experiments.cli.corpus_options import CLASSIFY, PAIR, TAG, CorpusOptions, irrelevant_options
from graphattn.experiments.cli.flags import Flag, Values, as_flag, flags_of, merged_flags
from graphattn.models import (
    EncoderOptions,
    HeadOptions,
    InputOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TextEstimator,
    TrainingOptions,
)
from graphattn.models.encoders import ENCODERS
from graphattn.models.options import Options, option

ESTIMATORS: dict[str, type[TextEstimator]] = {CLASSIFY: TextClassifier, PAIR: PairClassifier, TAG: SequenceTagger}
RUN_DIR = "OUT.run"
"""The folder of a run unless another is given: beside the model directory."""
OptionsT = TypeVar("OptionsT")


@dataclass
class TaskOptions(Options):
    """What the estimators take beside their groups of options, and the files to measure on."""

    dev: str | None = option(None, "dev set that chooses the best epoch (default: a tenth of the training set)")
    test: str | None = option(None, "test set, measured once at the end")
    encoder: str = option("ms-trans", "what turns words into vectors", choices=tuple(ENCODERS))
    class_weight: str | None = option(None, "weigh rare classes up in the loss", choices=("balanced",))
    multilabel: bool = option(False, "a text may have several labels, or none")
    scheme: str = option("auto", "scheme of entity tags", choices=("auto", "IOB1", "IOB2", "BIOES", "none"))
    repair_tags: bool = option(False, "read tags that break their scheme as conlleval does, instead of refusing them")


# Options of the groups that a task has no use for.
_IRRELEVANT: dict[str, set[str]] = {
    CLASSIFY: {"scheme", "repair_tags", "crf", "pair_features"},
    PAIR: {"scheme", "repair_tags", "multilabel", "crf"},
    TAG: {"multilabel", "pooling", "head_hidden", "pair_features"},
}


def training_flags(task: str) -> list[Flag]:
    """All flags of ``graphattn train TASK``; defaults are those of the task."""
    groups = {"Task": TaskOptions(), "Words": InputOptions(), "Head": HeadOptions(), "Training": TrainingOptions()}
    corpus = flags_of(CorpusOptions(), "Corpus", without=irrelevant_options(task))
    flags = {name: flags_of(group, name, without=_IRRELEVANT[task]) for name, group in groups.items()}
    training = [replace(flag, default=RUN_DIR) if flag.name == "run_dir" else flag for flag in flags["Training"]]
    encoder = merged_flags({name: list(own.values()) for name, own in _encoder_flags(task).items()}, "Encoder")
    return [*flags["Task"], *corpus, *flags["Words"], *encoder, *flags["Head"], *training]


def _encoder_flags(task: str) -> dict[str, dict[str, Flag]]:
    """Encoder -> name of an option -> its flag, with this task's default."""
    options = {name: ESTIMATORS[task](encoder=name).resolved_encoder() for name in ENCODERS}
    return {encoder: {flag.name: flag for flag in flags_of(own)} for encoder, own in options.items()}


def _refuse_foreign(encoder: str, values: Values, of_encoders: Mapping[str, Mapping[str, Flag]], place: str) -> None:
    """Refuse options that only other encoders have."""
    for name in values:
        owners = [other for other, own in of_encoders.items() if name in own]
        if owners and encoder not in owners:
            shown = name.replace("_", "-") if place == "--" else name
            known = " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            raise ConfigError(
                f"{place}{shown} is no option of the encoder {encoder}; "
                f"{known} {'has' if len(owners) == 1 else 'have'} it. "
                "Leave it out, or choose another --encoder"
            )


def settled(
    flags: Sequence[Flag],
    of_encoders: Mapping[str, Mapping[str, Flag]],
    given: Values,
    from_file: Values,
    config: Path | None,
) -> Values:
    """The value of every option that has a say: flags before the file, the file before the defaults.

    When a flag chooses another encoder than the file, what only the file's encoder has is left out.

    Parameters
    ----------
    flags : of the command, those of all encoders merged
    of_encoders : encoder -> name of an option -> its flag
    given : the flags that were used
    from_file : what the file says
    config : the file, for errors

    Raises
    ------
    ConfigError
        when an option is not one of the chosen encoder
    """
    of_any = {name for own in of_encoders.values() for name in own}
    default = next(flag.default for flag in flags if flag.name == "encoder")
    encoder_of_file = from_file.get("encoder", default)
    _refuse_foreign(encoder_of_file, from_file, of_encoders, f"{config}: ")
    encoder = given.get("encoder", encoder_of_file)
    _refuse_foreign(encoder, given, of_encoders, "--")
    wanted, own = {**from_file, **given}, of_encoders[encoder]
    of_it = [own.get(flag.name, flag) for flag in flags if flag.name in own or flag.name not in of_any]
    return {flag.name: wanted.get(flag.name, flag.default) for flag in of_it}


def option_group(values: Values, kind: type[OptionsT], **changes: Any) -> OptionsT:
    """One group of options out of all."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    return kind(**{**{name: values[name] for name in names if name in values}, **changes})


_OF_NO_USE_WITHOUT = {
    "vectors": ("vectors_words", "tune_vectors", "normalize_vectors", "combine"),
    "characters": ("character_embedding", "character_filters"),
}
"""Option -> those that are about it."""


@dataclass(frozen=True)
class TrainingPlan:
    """A training command, settled.

    Parameters
    ----------
    task : ``classify``, ``pair`` or ``tag``
    values : every option that has a say -> its value
    """

    task: str
    values: Values

    @classmethod
    def of(cls, task: str, given: Values, config: Path | None = None) -> TrainingPlan:
        """Settle the options, see :func:`settled`.

        Parameters
        ----------
        task : what is trained
        given : the flags that were used
        config : a YAML file

        Raises
        ------
        ConfigError
            when an option does not exist, is impossible, or is not one of the chosen encoder
        """
        flags = training_flags(task)
        from_file = {} if config is None else read_config(config, flags)
        return cls(task, settled(flags, _encoder_flags(task), given, from_file, config))

    @property
    def corpus(self) -> CorpusOptions:
        """How corpora are read."""
        return self._part(CorpusOptions)

    @property
    def multilabel(self) -> bool:
        """Whether a text may have several labels; a separator between them says so too."""
        return bool(self.values.get("multilabel") or self.values.get("label_separator"))

    def estimator(self, **training: Any) -> TextEstimator:
        """An estimator with these options.

        Parameters
        ----------
        training : options of the training to override
        """
        arguments: dict[str, Any] = {"class_weight": self.values["class_weight"]}
        if self.task == TAG:
            arguments |= {name: self.values[name] for name in ("scheme", "repair_tags")}
        if self.task == CLASSIFY:
            arguments["multilabel"] = self.multilabel
        return ESTIMATORS[self.task](
            self._encoder(),
            inputs=self._part(InputOptions),
            head=self._part(HeadOptions),
            training=self._part(TrainingOptions, **training),
            **arguments,
        )

    def _encoder(self) -> EncoderOptions:
        return self._part(ENCODERS[self.values["encoder"]][0])

    def _part(self, kind: type[OptionsT], **changes: Any) -> OptionsT:
        return option_group(self.values, kind, **changes)

    def check(self) -> None:
        """Refuse impossible options before anything is read.

        Raises
        ------
        ConfigError
            naming the option
        """
        self._refuse_idle()
        estimator = self.estimator()
        for options in (self._encoder(), estimator.inputs, estimator.head, estimator.training):
            options.validate()

    def _refuse_idle(self) -> None:
        """Refuse options of the inputs that say something of what is not there."""
        usual = InputOptions()
        for needed, names in _OF_NO_USE_WITHOUT.items():
            changed = [name for name in names if self.values.get(name, getattr(usual, name)) != getattr(usual, name)]
            if changed and not self.values.get(needed):
                raise ConfigError(
                    f"{as_flag(changed[0])} is of no use without {as_flag(needed)}; give that too, or leave it out"
                )

"""Everything that ``graphattn train translate`` is asked to do, settled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphattn.experiments.cli.config import read_config
from graphattn.experiments.cli.flags import Flag, Values, flags_of, merged_flags
from graphattn.experiments.cli.training_plan import RUN_DIR, option_group, settled
from graphattn.models import (
    DecoderOptions,
    ParsingOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
    Translator,
)
from graphattn.models.decoders.options import PRESETS
from graphattn.models.encoders import ENCODERS
from graphattn.models.options import Options, option


@dataclass
class TranslationTask(Options):
    """What the translator takes beside its groups of options, and the files to measure on."""

    dev: tuple[str, ...] = option((), "dev set that chooses the best epoch, SOURCE,TARGET or one table of both")
    test: tuple[str, ...] = option((), "test set, measured once at the end, SOURCE,TARGET or one table of both")
    text_column: str = option("text", "column of the source (csv, tsv, jsonl)")
    second_column: str = option("second", "column of the target (csv, tsv, jsonl)")
    encoder: str = option("transformer", "what reads the source", choices=tuple(ENCODERS))
    preset: str = option("small", "widths, depths and training settings that go together", choices=tuple(PRESETS))


def translation_flags(preset: str = "small") -> list[Flag]:
    """All flags of ``graphattn train translate``; defaults are the preset's."""
    groups = {
        "Task": TranslationTask(preset=preset),
        "Sub-words": SubwordOptions(),
        "Decoder": DecoderOptions(**PRESETS[preset].decoder),
        "Training": TranslationTraining(**PRESETS[preset].training),
        "Search": SearchOptions(),
        "Parser": ParsingOptions(),
    }
    task, subwords, decoder, training, search, parser = (flags_of(group, name) for name, group in groups.items())
    training = [replace(flag, default=RUN_DIR) if flag.name == "run_dir" else flag for flag in training]
    encoder = merged_flags({name: list(own.values()) for name, own in _encoder_flags(preset).items()}, "Encoder")
    return [*task, *subwords, *encoder, *decoder, *training, *search, *parser]


def _encoder_flags(preset: str) -> dict[str, dict[str, Flag]]:
    """Encoder -> name of an option -> its flag, with the preset's default."""
    sizes = PRESETS[preset].encoder
    options = {name: kind.for_translation(sizes) for name, (kind, _) in ENCODERS.items()}
    return {encoder: {flag.name: flag for flag in flags_of(own)} for encoder, own in options.items()}


@dataclass(frozen=True)
class TranslationPlan:
    """A command ``train translate``, settled.

    Parameters
    ----------
    values : every option that has a say -> its value
    """

    values: Values
    task = "translate"

    @classmethod
    def of(cls, given: Values, config: Path | None = None) -> TranslationPlan:
        """Settle the options; a preset, of the flags or the file, changes the defaults of the others.

        Parameters
        ----------
        given : the flags that were used
        config : a YAML file

        Raises
        ------
        ConfigError
            when an option does not exist, is impossible, or is not one of the chosen encoder
        """
        from_file = {} if config is None else read_config(config, translation_flags())
        preset = {**from_file, **given}.get("preset", TranslationTask().preset)
        return cls(settled(translation_flags(preset), _encoder_flags(preset), given, from_file, config))

    @property
    def files(self) -> TranslationTask:
        """Where pairs are, beside the training set."""
        return option_group(self.values, TranslationTask)

    def estimator(self, **training: Any) -> Translator:
        """A translator with these options.

        Parameters
        ----------
        training : options of the training to override
        """
        return Translator(
            option_group(self.values, ENCODERS[self.values["encoder"]][0]),
            preset=self.values["preset"],
            inputs=option_group(self.values, SubwordOptions),
            decoder=option_group(self.values, DecoderOptions),
            training=option_group(self.values, TranslationTraining, **training),
            search=option_group(self.values, SearchOptions),
            parsing=option_group(self.values, ParsingOptions),
        )

    def check(self) -> None:
        """Refuse impossible options before anything is read.

        Raises
        ------
        ConfigError
            naming the option
        """
        self.estimator().check()

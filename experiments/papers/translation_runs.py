"""Runs of translators for the result tables: one is a corpus, an encoder and a seed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.parse_cache import default_cache
from graphattn.experiments.papers.data_sets import data_folder
from graphattn.experiments.papers.parallel_sets import PARALLEL_SETS, TextPair
from graphattn.models import ParsingOptions, SearchOptions, SubwordOptions, TranslationTraining, Translator
from graphattn.models.decoders.options import PRESETS
from graphattn.models.encoders import EncoderOptions, encoder_options
from graphattn.models.training.loop import count_parameters
from graphattn.models.training.precision import chosen_precision
from graphattn.models.training.text_metrics import text_metrics

LEAD = "lead-1"
"""The baseline of summaries: the first sentence."""


def settings(data_set: str) -> dict[str, dict[str, Any]]:
    """Options of a run, the same for every encoder, as differences from the preset ``small``.

    Parameters
    ----------
    data_set : its name

    Returns
    -------
    ``encoder`` and ``decoder`` (where they have them), ``inputs``, ``training`` and ``search`` -> options
    """
    training = {"precision": "auto", "average": 0.995, "metric": PARALLEL_SETS[data_set].metric}
    if data_set == "scitldr":  # 2,000 pairs
        return {
            "encoder": {"dropout": 0.3},
            "decoder": {"decoder_dropout": 0.3},
            "inputs": {"vocabulary_size": 4000, "embedding_dropout": 0.3},
            "training": {**training, "epochs": 20, "max_tokens": 4000, "warmup_steps": 400},
            "search": {"min_length": 5, "max_length": 60, "no_repeat_ngram": 3},
        }
    return {"encoder": {}, "decoder": {}, "inputs": {}, "training": {**training, "epochs": 6}, "search": {}}


def run_translation(
    data_set: str,
    encoder: str,
    seed: int,
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None,
    on_test: bool = True,
) -> dict[str, Any]:
    """Train once and measure; sources are parsed for encoders that look along arcs.

    Parameters
    ----------
    data_set, encoder, seed : what to run; the encoder ``"lead-1"`` writes the first sentence of the source, and
        ``"umst=without-intra-group"`` is an encoder with one of its options off
    changes : group of options -> changes to :func:`settings`
    folder : data folder; the one ``GRAPHATTN_DATA`` names when None
    on_test : also measure on the test set; leave it out while choosing

    Returns
    -------
    Figures in percent, ``dev`` and ``test`` being the data set's metric and ``all_dev`` and ``all_test`` all of them

    Raises
    ------
    ConfigError
        when there is no such encoder or option, or no data folder
    """
    folder, corpus, started = folder or data_folder(), PARALLEL_SETS[data_set], time.time()
    parts = {part: corpus.load(part, folder) for part in ("dev", *(["test"] if on_test else []))}
    facts: dict[str, Any] = {"data_set": data_set, "encoder": encoder, "seed": seed}
    if encoder == LEAD:
        if not corpus.summary:
            raise ConfigError(f"{LEAD} is a baseline of summaries; {data_set} has none")
        figures = {
            part: text_metrics([pair.targets for pair in own], [pair.sentences[0] for pair in own])
            for part, own in parts.items()
        }
        return {**facts, **_rounded(figures, corpus.metric), "seconds": round(time.time() - started)}
    translator = _translator(data_set, encoder, seed, changes or {}, folder)
    train = corpus.load("train", folder)
    translator.fit([pair.source for pair in train], [pair.targets[0] for pair in train], dev=_columns(parts["dev"]))
    figures = {part: translator.evaluate(*_columns(own)) for part, own in parts.items()}
    best = translator.best_epoch()
    return {
        **facts,
        **_rounded(figures, corpus.metric),
        "best_epoch": best["epoch"] + 1,
        "epochs": len(translator.history_),
        "parameters": count_parameters(translator.model_),
        "precision": chosen_precision(translator.training.precision, translator.training.accelerator),
        "seconds": round(time.time() - started),
        "changes": {group: dict(values) for group, values in (changes or {}).items()},
        "torch": torch.__version__,
    }


def _columns(pairs: list[TextPair]) -> tuple[list[str], list[tuple[str, ...]]]:
    return [pair.source for pair in pairs], [pair.targets for pair in pairs]


def _translator(
    data_set: str, encoder: str, seed: int, changes: Mapping[str, Mapping[str, Any]], folder: Path
) -> Translator:
    groups = settings(data_set)
    kind, off = _options_of(encoder)
    groups["encoder"].update(off)
    for group, values in changes.items():
        groups[group].update(values)
    options = kind.for_translation({**PRESETS["small"].encoder, **groups["encoder"]})
    plain = Translator(kind.name)
    parsing = ParsingOptions(
        "stanza",
        parser_package="ewt_small",
        parser_model=str(folder / "stanza_en_ewt_small"),
        parse_cache=str(default_cache()),
    )
    return Translator(
        options,
        inputs=SubwordOptions(**groups["inputs"]),
        decoder=replace(plain.decoder, **groups["decoder"]),
        training=TranslationTraining(seed=seed, progress=False, **groups["training"]),
        search=SearchOptions(**groups["search"]),
        parsing=parsing,
    )


def _options_of(encoder: str) -> tuple[type[EncoderOptions], dict[str, bool]]:
    """What an encoder's name stands for; behind ``=`` may stand an option that is off."""
    name, _, without = encoder.partition("=")
    options = encoder_options(name)
    switches = [field.name for field in fields(options) if getattr(options, field.name) is True]
    known = {f"without-{switch.replace('_', '-')}": switch for switch in switches}
    if without and without not in known:
        said = f"choose among: {', '.join(known)}" if known else "it has nothing to leave out"
        raise ConfigError(f"there is no {name} {without!r}; {said}")
    return type(options), {known[without]: False} if without else {}


def _rounded(figures: Mapping[str, Mapping[str, float]], metric: str) -> dict[str, Any]:
    """The metric of each part, and all metrics beside it."""
    whole = {f"all_{part}": {name: round(value, 2) for name, value in own.items()} for part, own in figures.items()}
    return {**{part: round(own[metric], 2) for part, own in figures.items()}, **whole}

"""Our numbers of parameters next to the papers'."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._catalogue import PAPERS
from graphattn.models._decoders import make_decoder
from graphattn.models._decoders.options import PRESETS, DecoderOptions
from graphattn.models._encoders import ENCODERS, encoder_options, make_encoder
from graphattn.models.heads._pooling import Source2TokenPooling

VOCABULARY = 37_000
"""Subwords of WMT English-German in Vaswani et al. 2017; the papers do not say theirs, except for Duo's 32,000."""


@dataclass(frozen=True)
class Model:
    """A model whose size a paper states."""

    paper: str  # its name
    label: str  # table and row
    figure: float  # millions of parameters in the paper
    count: Callable[[], int]  # number of parameters of ours


def count_translator(encoder: str, preset: str, changes: Mapping[str, Any] = {}) -> int:
    """Parameters of a translator with :data:`VOCABULARY` subwords, whose vectors sources, targets and scores share."""
    sizes = PRESETS[preset]
    options = replace(ENCODERS[encoder][0].for_translation(sizes.encoder), **changes)
    streams = [options.hidden] * options.streams
    options = options.for_parts(streams)
    with torch.device("meta"):
        module = make_encoder(options)
        decoder, output = make_decoder(module, options, DecoderOptions(**sizes.decoder))
    return VOCABULARY * sum(streams) + _count(module, decoder, output)


def count_sentence_encoder(encoder: str, changes: Mapping[str, Any]) -> int:
    """Parameters of an encoder of 300-dimensional words with MTSA's pooling, and of its head for pairs."""
    options = replace(encoder_options(encoder), **changes)
    with torch.device("meta"):
        module = make_encoder(options)
        parts: list[nn.Module] = [module, Source2TokenPooling(module.width)]
        parts += [nn.Linear(300, options.hidden)] if options.hidden != 300 else []
        parts += [nn.Linear(4 * module.width, 300), nn.Linear(300, 3)]
    return _count(*parts)


def _count(*modules: nn.Module) -> int:
    return sum(weights.numel() for module in modules for weights in module.parameters())


def _collect_models(paper: str, preset: str) -> list[Model]:
    """The rows of a paper that state a number of parameters; one for each encoder and its options."""
    counts: dict[str, Callable[..., int]] = {
        "parameters": partial(count_translator, preset=preset),
        "parameters_besides_words": count_sentence_encoder,
    }
    models: dict[str, Model] = {}
    for experiment in PAPERS[paper]:
        for row in experiment.rows:
            changes = row.changes.get("encoder", {})
            for measure in filter(row.paper.__contains__, counts):
                count = partial(counts[measure], row.encoder, changes=changes)
                model = Model(paper, f"{experiment.name}, {row.label}", row.paper[measure], count)
                models.setdefault(f"{measure} {row.encoder} {changes}", model)
    return list(models.values())


MODELS = (
    *_collect_models("mtsa", "base"),
    *_collect_models("umst", "base"),
    Model("umst", "table 2, Transformer, big", 216, partial(count_translator, "transformer", "big")),
    Model("umst", "table 2, UMST, big", 242, partial(count_translator, "umst", "big")),
    *_collect_models("duo", "big"),
)
"""All models, by paper."""


def parameters_table(papers: Collection[str]) -> str:
    """Millions of parameters in the papers and of ours, as Markdown."""
    lines = [["paper", "model", "paper, M", "ours, M", "ours / paper"]]
    for model in MODELS:
        if model.paper in papers:
            ours = model.count() / 1e6
            numbers = (f"{model.figure:g}", f"{ours:.2f}", f"{ours / model.figure:.2f}")
            lines.append([model.paper, model.label, *numbers])
    note = (
        f"Translators have a vocabulary of {VOCABULARY:,} subwords. MTSA's models are without word vectors; their head "
        "for pairs has no highway layer (0.18 M). MSMSA has no feed-forward layers."
    )
    return f"{format_markdown(lines)}\n\n{note}"

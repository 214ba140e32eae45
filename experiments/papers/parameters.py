"""Our numbers of parameters next to the papers'."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from graphattn.models.decoders import make_decoder
from graphattn.models.decoders.options import PRESETS, DecoderOptions
from graphattn.models.encoders import ENCODERS, encoder_options, make_encoder
from graphattn.models.heads.pooling import Source2TokenPooling

VOCABULARY = 37_000
"""Subwords of WMT English-German in Vaswani et al. 2017; the papers do not say theirs, except for Duo's 32,000."""


@dataclass(frozen=True)
class Model:
    """A model whose size a paper states.

    Parameters
    ----------
    paper : its name
    label : table and row
    figure : millions of parameters in the paper
    count : number of parameters of ours
    """

    paper: str
    label: str
    figure: float
    count: Callable[[], int]


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


def count_sentence_encoder(encoder: str, changes: Mapping[str, Any], *, pooling: bool = True) -> int:
    """Parameters of an encoder of 300-dimensional words with MTSA's pooling, and of its head for pairs."""
    options = replace(encoder_options(encoder), **changes)
    with torch.device("meta"):
        module = make_encoder(options)
        parts: list[nn.Module] = [module, Source2TokenPooling(module.width)]
        parts += [nn.Linear(300, options.hidden)] if options.hidden != 300 else []
        parts += [nn.Linear(4 * module.width, 300), nn.Linear(300, 3)]
    return _count(*parts)


def _count(*parts: nn.Module) -> int:
    return sum(weights.numel() for part in parts for weights in part.parameters())


def _translators(paper: str, preset: str, rows: Collection[tuple[str, float, str, dict[str, Any]]]) -> list[Model]:
    return [
        Model(paper, label, figure, partial(count_translator, encoder, preset, changes))
        for label, figure, encoder, changes in rows
    ]


def _sentence_encoders(rows: Collection[tuple[str, float, str, dict[str, Any]]]) -> list[Model]:
    return [
        Model("mtsa", label, figure, partial(count_sentence_encoder, encoder, changes))
        for label, figure, encoder, changes in rows
    ]


_PLAIN = {"share_weights": False, "duo_norm": False, "fusion_layer": False}
_UNMASKED = {"masks": ("all",)}
_MODULES = ("token2token", "source2token", "gate")
MODELS = [
    *_sentence_encoders(
        (
            ("table 1, Bi-LSTM", 2.9, "bilstm", {"hidden": 600}),
            ("table 1, Multi-head", 2.0, "transformer", {"hidden": 600, "heads": 8, "layers": 1}),
            ("table 3, MTSA", 2.9, "mtsa", {}),
            ("table 3, w/o fw&bw masks", 2.9, "mtsa", _UNMASKED),
            ("table 3, w/o token2token", 2.5, "mtsa", {"token2token": False}),
            ("table 3, w/o source2token", 2.5, "mtsa", {"source2token": False}),
            ("table 3, w/o proposed modules", 1.8, "mtsa", _UNMASKED | dict.fromkeys(_MODULES, False)),
        )
    ),
    *_translators(
        "mtsa", "base", (("table 6, Transformer", 61.38, "transformer", {}), ("table 6, MTSA", 61.58, "mtsa", {}))
    ),
    *_translators(
        "umst",
        "base",
        (
            ("table 6, Transformer", 65, "transformer", {}),
            ("table 2, MUSE", 68, "muse", {}),
            ("table 2, MSMSA", 65, "ms-trans", {}),
            ("table 2, UMST + RPR", 70, "umst", {"relative_positions": 8}),
            ("table 6, UMST", 70, "umst", {}),
            ("table 6, shared across blocks", 66, "umst", {"share_projections": "blocks"}),
            ("table 6, shared within blocks", 69, "umst", {"share_projections": "block"}),
            ("table 6, shared Q, K", 67, "umst", {"share_scores": True}),
            ("table 9, TNT", 83, "tnt", {}),
            ("table 9, TNT (shared)", 65, "tnt", {"share_blocks": True}),
            ("table 9, Multi-stage", 65, "multi-stage", {}),
        ),
    ),
    *_translators(
        "umst", "big", (("table 2, Transformer", 216, "transformer", {}), ("table 2, UMST", 242, "umst", {}))
    ),
    *_translators(
        "duo",
        "big",
        (
            ("table 6, Transformer", 213, "transformer", {}),
            ("table 6, + Meta Embeddings", 246, "duo-transformer", _PLAIN),
            ("table 6, + Weight Sharing", 220, "duo-transformer", {"duo_norm": False, "fusion_layer": False}),
            ("table 6, + Duo Normalization", 220, "duo-transformer", {"fusion_layer": False}),
            ("table 6, + Fusion Layer", 220, "duo-transformer", {}),
        ),
    ),
]
"""All models, by paper."""


def parameters_table(papers: Collection[str]) -> str:
    """Millions of parameters in the papers and of ours, as Markdown.

    Parameters
    ----------
    papers : names of papers
    """
    lines = ["| paper | model | paper, M | ours, M | ours / paper |", "|---|---|---|---|---|"]
    for model in MODELS:
        if model.paper in papers:
            ours = model.count() / 1e6
            cells = (model.paper, model.label, f"{model.figure:g}", f"{ours:.2f}", f"{ours / model.figure:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
    note = (
        f"Translators have a vocabulary of {VOCABULARY:,} subwords. MTSA's models are without word vectors; their head "
        "for pairs has no highway layer (0.18 M). MSMSA has no feed-forward layers."
    )
    return "\n".join([*lines, "", note])

"""Tables and figures of UMST (Li et al. 2022), at half the paper's width and depth on Multi30k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphattn.experiments.papers._experiment import Experiment, Row

DATA_SET = "multi30k"
MERGES = 1000
"""Size of the joint vocabulary; with 8,000, nearly all words are whole and UMST has nothing to mix."""
NOTE = (
    "Multi30k with a vocabulary of 1,000 subwords, 256 wide, 3 + 3 layers instead of 6 + 6. "
    "--set inputs.vocabulary_size=2000 has larger subwords, --set task.preset=base the paper's sizes."
)
_COMPARED = {"Transformer": "transformer", "UMST": "umst"}
_ABLATIONS: dict[str, tuple[str, Mapping[str, Any], float, float | None]] = {
    "Transformer": ("transformer", {}, 27.63, 28.67),
    "UMST": ("umst", {}, 28.51, 29.49),
    "w/o class-embedding": ("umst", {"class_embedding": False}, 28.39, 28.99),
    "w/o intra-group interactions": ("umst", {"intra_group": False}, 27.87, None),
    "w/o inter-group interactions": ("umst", {"inter_group": False}, 28.06, 29.37),
    "replace GCN with pooling": ("umst", {"graph_layer": "mean"}, 27.96, 28.89),
    "replace GCN with GAT": ("umst", {"graph_layer": "gat"}, 28.11, None),
}
"""Row of Table 5 -> encoder, changes, BLEU with 6-6 and 12-6 layers; None where it failed."""


def make_row(
    label: str, encoder: str, options: Mapping[str, Any], *, layers: int = 3, merges: int = MERGES, **paper: float
) -> Row:
    """A translator; ``paper`` as in :class:`Row`."""
    depth = {"layers": layers} if layers != 3 else {}
    changes = {"encoder": {**options, **depth}, "inputs": {"vocabulary_size": merges}}
    return Row(label, DATA_SET, encoder, changes, paper)


def _ablation_rows() -> list[Row]:
    rows = []
    for title, (encoder, options, base, deep) in _ABLATIONS.items():
        rows.append(make_row(f"{title} / 6-6", encoder, options, test=base))
        row = make_row(f"{title} / 12-6", encoder, options, layers=6)
        rows.append(row if deep is None else replace(row, paper={"test": deep}))
    return rows


EXPERIMENTS = (
    Experiment(
        "umst",
        "figure 4",
        "BLEU against the depth of the encoder, and against the size of the vocabulary",
        tuple(
            make_row(f"{title}, depth / {layers}", encoder, {}, layers=layers)
            for title, encoder in _COMPARED.items()
            for layers in (3, 6, 9, 12)
        )
        + tuple(
            make_row(f"{title}, merges / {merges}", encoder, {}, merges=merges)
            for title, encoder in _COMPARED.items()
            for merges in (1000, 2000, 8000)
        ),
        note=NOTE + " The paper has curves only.",
        curves="encoder layers, or subwords of the vocabulary",
    ),
    Experiment(
        "umst",
        "table 2",
        "translation: multiscale encoders",
        (
            make_row("Transformer", "transformer", {}, test=27.63, parameters=65),
            make_row("MUSE", "muse", {}, test=27.97, parameters=68),
            make_row("MSMSA", "ms-trans", {}, test=27.57, parameters=65),
            make_row("TNT", "tnt", {}, test=28.48, parameters=83),
            make_row("UMST", "umst", {}, test=28.51, parameters=70),
            make_row("UMST + RPR", "umst", {"relative_positions": 8}, test=28.90, parameters=70),
        ),
        ("parameters", "test"),
        note=NOTE + " MUSE in the encoder only; MSMSA is MS-Trans, which has no feed-forward layers.",
    ),
    Experiment(
        "umst",
        "table 5",
        "ablation with shallow and deep encoders",
        tuple(_ablation_rows()),
        note=NOTE + " Columns have the paper's names; ours have 3-3 and 6-3 layers.",
    ),
    Experiment(
        "umst",
        "table 6",
        "shared parameters, and maps from words to subwords",
        (
            make_row("0 Transformer", "transformer", {}, test=27.63, parameters=65),
            make_row("1 UMST", "umst", {}, test=28.51, parameters=70),
            make_row("2 shared across blocks", "umst", {"share_projections": "blocks"}, test=28.33, parameters=66),
            make_row("3 shared within blocks", "umst", {"share_projections": "block"}, test=28.39, parameters=69),
            make_row("4 shared Q, K", "umst", {"share_scores": True}, test=28.41, parameters=67),
            make_row("5 nearest interpolation", "umst", {"upsampling": "nearest"}, test=27.96, parameters=70),
            make_row("6 linear interpolation", "umst", {"upsampling": "linear"}, test=27.61, parameters=70),
        ),
        ("parameters", "test"),
        note=NOTE,
    ),
    Experiment(
        "umst",
        "table 7",
        "efficiency",
        (
            make_row("Transformer", "transformer", {}, texts_per_second=142.33),
            make_row("UMST w/o word", "umst", {"intra_group": False}, texts_per_second=147.60),
            make_row("UMST", "umst", {}, texts_per_second=136.67),
        ),
        ("texts_per_second", "seconds_per_epoch"),
        note=NOTE + " Without words we read as without the word GCN. The paper trains 1.18 and 1.25 times as long as "
        "the Transformer, on a GPU.",
        timed=True,
    ),
    Experiment(
        "umst",
        "table 8",
        "random and shuffled groups and arcs",
        (
            make_row("Transformer", "transformer", {}, test=27.63),
            make_row("UMST", "umst", {}, test=28.51),
            make_row("UMST w/o inter-group", "umst", {"inter_group": False}, test=28.06),
            make_row("+ Random", "umst", {"inter_group": False, "groups": "random"}, test=26.98),
            make_row("+ Shuffle", "umst", {"inter_group": False, "groups": "shuffled"}),
            make_row("UMST + Random P", "umst", {"arcs": "random"}, test=28.20),
        ),
        note=NOTE + " BLEU only; the file of results also has chrF.",
    ),
    Experiment(
        "umst",
        "table 9",
        "two other multiscale encoders",
        (
            make_row("Transformer", "transformer", {}, test=27.63, parameters=65),
            make_row("TNT", "tnt", {}, test=28.48, parameters=83),
            make_row("TNT (shared inner and outer)", "tnt", {"share_blocks": True}, test=28.10, parameters=65),
            make_row("Multi-stage Transformer", "multi-stage", {}, test=27.96, parameters=65),
            make_row("UMST", "umst", {}, test=28.51, parameters=70),
        ),
        ("parameters", "test"),
        note=NOTE,
    ),
)
"""Its tables and figures."""

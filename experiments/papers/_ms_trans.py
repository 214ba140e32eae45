"""Tables and figures of MS-Trans (Guo et al. 2020)."""

from __future__ import annotations

from typing import Any

from graphattn.experiments.papers._data_sets import MTL_DOMAINS
from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._measurements import MIRRORED
from graphattn.models._encoders.ms_trans import SETTINGS

_TABLE_1: dict[str, Any] = {"layers": 3, "scales": ("1", "3", "N/16", "N/8", "N/4"), "alpha": 0.5}
"""Its settings for classification; the number of layers is that of Table 6."""
_SNLI: dict[str, Any] = {**_TABLE_1, **SETTINGS["snli"]}
_MTL: dict[str, tuple[float, float, float]] = {
    "apparel": (87.25, 82.25, 86.05),
    "baby": (85.50, 84.50, 84.51),
    "books": (85.25, 81.50, 82.12),
    "camera": (89.00, 86.00, 87.05),
    "dvd": (86.25, 77.75, 83.71),
    "electronics": (86.50, 81.50, 82.51),
    "health": (87.50, 83.50, 85.52),
    "imdb-short": (84.25, 82.50, 86.02),
    "kitchen": (85.50, 83.00, 82.22),
    "magazines": (91.50, 89.50, 92.52),
    "mr-short": (79.25, 77.25, 75.73),
    "music": (82.00, 79.00, 78.74),
    "software": (88.50, 85.25, 86.73),
    "sports": (85.75, 84.75, 84.04),
    "toys": (87.50, 82.00, 85.72),
    "video": (90.00, 84.25, 84.73),
}
"""Domain -> test accuracy of MS-Trans, Transformer and BiLSTM."""
_TITLES = {"imdb-short": "IMDB", "mr-short": "MR", "dvd": "DVD"}
_VARIANTS = ("sides", "relative", "literal", "wide")
"""Named settings that are not in the paper, in the tables with one data set."""
_BEST_VARIANT = "sides"
"""The one in tables with several data sets."""
_NLI_NOTE = "SICK instead of SNLI, whose training set is not in the data folder."


_TIMED = ("MS-Trans", "Transformer", "BiLSTM")


def _variant_rows(data_set: str) -> list[Row]:
    return [Row(f"Multi-Scale Transformer + {name}", data_set, f"ms-trans+{name}") for name in _VARIANTS]


def _domain_rows() -> list[Row]:
    rows = []
    for domain in MTL_DOMAINS:
        ours, transformer, bilstm = ({"test": figure} for figure in _MTL[domain])
        title = _TITLES.get(domain, domain.capitalize())
        rows += [
            Row(f"{title} / MS-Trans", domain, "ms-trans", {}, ours),
            Row(f"{title} / MS-Trans, Table 1", domain, "ms-trans", {"encoder": _TABLE_1}, ours),
            Row(f"{title} / MS-Trans + {_BEST_VARIANT}", domain, f"ms-trans+{_BEST_VARIANT}"),
            Row(f"{title} / Transformer", domain, "transformer", {}, transformer),
            Row(f"{title} / BiLSTM", domain, "bilstm", {}, bilstm),
        ]
    return rows


def _tagging_rows() -> list[Row]:
    rows = []
    for title, encoder, characters, crf, pos, ner in (
        ("Transformer", "transformer", False, False, 96.31, 86.48),
        ("Transformer + Char", "transformer", True, False, 97.04, 88.26),
        ("Multi-Scale Transformer", "ms-trans", False, False, 97.24, 89.38),
        ("Multi-Scale Transformer + Char", "ms-trans", True, False, 97.54, 91.33),
        ("Multi-Scale Transformer + Char + CRF", "ms-trans", True, True, 97.66, 91.59),
        (
            f"Multi-Scale Transformer + Char + CRF + {_BEST_VARIANT}",
            f"ms-trans+{_BEST_VARIANT}",
            True,
            True,
            None,
            None,
        ),
    ):
        changes = {"inputs": {"characters": characters}, "head": {"crf": crf}}
        for name, figure in (("PTB", pos), ("CoNLL2003", ner)):
            paper = {} if figure is None else {"test": figure}
            rows.append(Row(f"{title} / {name}", name.lower(), encoder, changes, paper))
    return rows


def _scale_rows() -> list[Row]:
    base = {**_TABLE_1, **SETTINGS["table-6"]}
    rows = [
        Row(name, "sick", "ms-trans", {"encoder": {**base, "alpha": alpha}}, {"test": figure})
        for name, alpha, figure in (
            ("A", 1.0, 85.5),
            ("B", 0.5, 85.9),
            ("C", 0.0, 84.9),
            ("D", -0.5, 84.7),
            ("E", -1.0, 84.3),
        )
    ]
    rows += [
        Row(name, "sick", "ms-trans", {"encoder": {**base, "scales": (scale,)}}, {"test": figure})
        for name, scale, figure in (("F", "3", 84.3), ("G", "N/16", 83.9), ("H", "N/8", 81.7), ("I", "N/4", 80.7))
    ]
    return rows


def _make_mirrored_rows() -> list[Row]:
    flexible = ("3", "N/16", "N/8", "N/4", "N/2")
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "Trans": ("transformer", {"layers": 2, "ffn": 400}),
        "MS-Trans-Flex": ("ms-trans", {"layers": 2, "scales": flexible, "alpha": 0.0}),
        "MS-Trans-Hier-S": ("ms-trans", {"layers": 2, "scales": ("3",)}),
        "MS-Trans-deepHier-S": ("ms-trans", {"layers": 6, "scales": ("3",)}),
        "BiLSTM": ("bilstm", {}),
    }
    return [
        Row(f"{title} / {terms}", MIRRORED, encoder, {"task": {"terms": terms}, "encoder": changes})
        for title, (encoder, changes) in models.items()
        for terms in (10, 30, 50, 70, 90)
    ]


EXPERIMENTS = (
    Experiment(
        "ms-trans",
        "figure 2",
        "mirrored summation, error against the number of terms K",
        tuple(_make_mirrored_rows()),
        ("mse", "unexplained"),
        note="The paper has curves only: the Transformer is best, MS-Trans-Flex second. Widths, learning rate and the "
        "number of epochs are ours.",
        curves="K",
    ),
    Experiment(
        "ms-trans",
        "figure 3",
        "distances of the strongest attention edges, by head and by layer",
        (
            Row("MiniLM, tags", "ewt", "frozen"),
            Row("MiniLM, sentiment", "sst2", "frozen"),
            Row("Transformer", "conll2003", "transformer"),
            Row("MS-Trans", "conll2003", "ms-trans"),
        ),
        note="On the dev sets, MiniLM instead of BERT, and our models.",
        observe=("attention_distances",),
        curves="distance",
    ),
    Experiment(
        "ms-trans",
        "figure 4",
        "time to classify a batch of 128 texts",
        tuple(row for row in _domain_rows() if row.parts()[-1] in _TIMED),
        ("ms_per_128_texts",),
        note="The paper has bars only: MS-Trans is 6.5 times as fast as the Transformer on average, 10 times on IMDB, "
        "1.8 times on MR, on a GPU.",
        timed=True,
        averages=dict.fromkeys(_TIMED),
        curves="data set",
    ),
    Experiment(
        "ms-trans",
        "table 2",
        "SST-5",
        (
            Row("BiLSTM", "sst5", "bilstm", {}, {"test": 49.8}),
            Row("Transformer", "sst5", "transformer", {}, {"test": 50.4}),
            Row("Multi-Scale Transformer", "sst5", "ms-trans", {}, {"test": 51.9}),
            *_variant_rows("sst5"),
        ),
    ),
    Experiment(
        "ms-trans",
        "table 3",
        "MTL-16",
        tuple(_domain_rows()),
        note="MS-Trans with the settings that were best on folds of the training sets, and with those of Table 1.",
        averages={
            "MS-Trans": 86.34,
            "MS-Trans, Table 1": 86.34,
            f"MS-Trans + {_BEST_VARIANT}": None,
            "Transformer": 82.78,
            "BiLSTM": 84.01,
        },
    ),
    Experiment(
        "ms-trans",
        "table 4",
        "part-of-speech tags and named entities",
        tuple(_tagging_rows()),
        note="A tenth of the Penn Treebank; CoNLL-2012 is not in the data folder.",
    ),
    Experiment(
        "ms-trans",
        "table 5",
        "natural language inference",
        (
            Row("BiLSTM", "sick", "bilstm", {}, {"test": 83.3}),
            Row("Transformer", "sick", "transformer", {}, {"test": 82.2}),
            Row("Multi-Scale Transformer", "sick", "ms-trans", {"encoder": _SNLI}, {"test": 85.9}),
            Row("Multi-Scale Transformer, 300 wide", "sick", "ms-trans"),
            *_variant_rows("sick"),
        ),
        note=_NLI_NOTE,
    ),
    Experiment(
        "ms-trans",
        "table 6",
        "several scales with alpha from 1 to -1 (A to E), and one scale (F to I)",
        tuple(_scale_rows()),
        note=_NLI_NOTE,
        curves="alpha",
    ),
)
"""Its tables and figures."""

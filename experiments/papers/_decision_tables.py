"""Tables of thresholds and temperatures: scores on the test set with what was fitted on the dev set, and without."""

from __future__ import annotations

from typing import Any

from graphattn.experiments.papers._experiment import Experiment, Row

_SMALL: dict[str, Any] = {
    "encoder": {"hidden": 50, "heads": 5, "layers": 2, "scales": ("1", "3", "5")},
    "training": {"epochs": 6},
}
_GRAPH_ALONE: dict[str, Any] = {"head": {"linear_branch": False}}

EXPERIMENTS = (
    Experiment(
        "decisions",
        "table 1",
        "thresholds chosen on the dev set, or by cross-validation",
        (
            Row("several labels", "r52-joined", "default", {**_SMALL, "task": {"multilabel": True}}),
            Row(
                "a rare class",
                "ohsumed-rare",
                "default",
                {**_SMALL, "task": {"tune_threshold": "f1"}, "inputs": {"max_tokens_per_text": 60}},
            ),
        ),
        ("f1_before", "f1_after", "brier_before", "brier_after"),
        note="F1 of all labels (micro), and of the rare class. Several labels: the first 40 words of two texts of R52 "
        "with the labels of both, without its two largest classes. A rare class: the class of Ohsumed that has a "
        "twentieth of the training texts, their first 60 words. MS-Trans, 50 wide, 2 layers, 6 epochs.",
        observe=("decisions",),
    ),
    Experiment(
        "decisions",
        "table 2",
        "temperature fitted on the dev set",
        (
            Row("SST-2 / MS-Trans", "sst2", "default", _GRAPH_ALONE),
            Row("SST-2 / with the linear branch", "sst2", "default"),
            Row("SST-2 / MiniLM", "sst2", "pretrained"),
            Row("R8 / MS-Trans", "r8", "default", _GRAPH_ALONE),
            Row("R8 / with the linear branch", "r8", "default"),
            Row("R8 / MiniLM", "r8", "pretrained"),
        ),
        ("calibration_error_before", "calibration_error_after", "brier_before", "brier_after"),
        note="The defaults; MS-Trans alone has no linear branch, whose weight is fitted to the likelihood of the dev "
        "set anyway.",
        observe=("decisions",),
    ),
)
"""Its tables."""

"""Tables and figures of MTSA (Shen et al. 2019)."""

from __future__ import annotations

from typing import Any

from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._measurements import LAYER_COSTS, LAYERS
from graphattn.experiments.papers._umst import NOTE, make_row

_WITHOUT_CLS: dict[str, dict[str, Any]] = {"inputs": {"cls": False}}
_PAIR: dict[str, dict[str, Any]] = {"head": {"pair_features": "product"}, **_WITHOUT_CLS}
_MULTI_HEAD: dict[str, Any] = {"hidden": 600, "heads": 8, "layers": 1}
_BILSTM: dict[str, Any] = {"hidden": 600, "layers": 1}
_COSTS = ("parameters_besides_words", "seconds_per_epoch", "inference_seconds", "test")


def _paper(parameters: float, inference: float, test: float, epoch: float | None = None) -> dict[str, float]:
    figures = {"parameters_besides_words": parameters, "inference_seconds": inference, "test": test}
    return figures if epoch is None else {**figures, "seconds_per_epoch": epoch}


def _ablation(title: str, figures: tuple[float, float, float], **encoder: Any) -> Row:
    epoch = {"epoch": 180.0} if not encoder else {}
    return Row(title, "sick", "mtsa", {**_PAIR, "encoder": encoder}, _paper(*figures, **epoch))


def _sentence_rows() -> list[Row]:
    rows = []
    for title, encoder, changes, figures in (
        ("Bi-LSTM", "bilstm", _BILSTM, (84.6, 90.2, 49.9)),
        ("Multi-head", "transformer", _MULTI_HEAD, (82.6, 89.8, 48.2)),
        ("MTSA", "mtsa", {}, (84.9, 90.5, 51.3)),
    ):
        for data_set, name, figure in zip(("cr", "mpqa", "sst5"), ("CR", "MPQA", "SST-5"), figures, strict=True):
            rows.append(
                Row(f"{title} / {name}", data_set, encoder, {"encoder": changes, **_WITHOUT_CLS}, {"test": figure})
            )
    return rows


EXPERIMENTS = (
    Experiment(
        "mtsa",
        "figure 1",
        "memory and time of a layer against the length of sentences (forward and backward, batches of 64)",
        tuple(
            Row(f"{title} / {length}", LAYER_COSTS, layer, {"task": {"length": length}})
            for layer, title in LAYERS.items()
            for length in (16, 32, 64, 128, 256, 384)
        ),
        ("milliseconds", "mebibytes"),
        note="Panels (a) and (b); the paper has curves only. Table 1 has the numbers of panel (c).",
        timed=True,
        curves="tokens of a sentence",
    ),
    Experiment(
        "mtsa",
        "table 1",
        "natural language inference: parameters, time and accuracy (also Figure 1c)",
        (
            Row("Bi-LSTM", "sick", "bilstm", {**_PAIR, "encoder": _BILSTM}, _paper(2.9, 9.1, 85.0, 854)),
            Row("Multi-head", "sick", "transformer", {**_PAIR, "encoder": _MULTI_HEAD}, _paper(2.0, 1.5, 84.2, 179)),
            _ablation("MTSA", (2.9, 1.6, 86.3)),
        ),
        _COSTS,
        note="SICK instead of SNLI, and a whole Transformer block for multi-head attention. The paper's times are of "
        "SNLI's 550,000 and 9,842 pairs on a GPU.",
        timed=True,
    ),
    Experiment(
        "mtsa",
        "table 3",
        "ablation",
        (
            _ablation("MTSA", (2.9, 1.6, 86.3)),
            _ablation("MTSA w/o fw&bw masks", (2.9, 1.6, 85.3), masks=("all",)),
            _ablation("MTSA w/o token2token", (2.5, 1.5, 85.8), token2token=False),
            _ablation("MTSA w/o source2token", (2.5, 1.4, 84.9), source2token=False),
            _ablation(
                "MTSA w/o proposed modules",
                (1.8, 1.1, 84.3),
                masks=("all",),
                token2token=False,
                source2token=False,
                gate=False,
            ),
        ),
        _COSTS,
        note="SICK instead of SNLI.",
        timed=True,
    ),
    Experiment(
        "mtsa",
        "table 5",
        "sentence classification",
        tuple(_sentence_rows()),
        note="CR and MPQA have ten folds: give --seeds 10. SUBJ and TREC are not in the data folder.",
    ),
    Experiment(
        "mtsa",
        "table 6",
        "translation: multi-head or tensorized attention in a Transformer",
        (
            make_row("Multi-head (Transformer)", "transformer", {}, test=23.64, parameters=61.38),
            make_row("MTSA", "mtsa", {}, test=24.09, parameters=61.58),
        ),
        ("parameters", "test"),
        note=f"{NOTE} The paper's numbers are those of its first setup.",
    ),
)
"""Its tables and figures."""

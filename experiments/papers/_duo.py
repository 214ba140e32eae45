"""Tables of Duo (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._settings import VECTOR_FILES

_NOTE = (
    "The data folder has other vectors than the paper: glove (100 wide) for GloVe 50d, googlenews for GloVe 300d, "
    "skipgram for CBOW 300d."
)
_VECTORS = {
    "GloVe 50d": "glove",
    "GloVe 300d": "googlenews",
    "fastTEXT 300d": "fasttext",
    "CBOW 50d": "cbow",
    "CBOW 300d": "skipgram",
}
_DOCUMENTS = {"20NG": "gcn-20ng", "R8": "gcn-r8", "R52": "gcn-r52", "Ohsumed": "gcn-ohsumed", "MR": "gcn-mr"}
_TABLE_1 = {
    "TF-IDF + LR": ("tfidf", (83.19, 93.74, 86.95, 54.66, 74.59)),
    "Bi-LSTM": ("bilstm", (73.18, 96.31, 90.54, 49.27, 77.68)),
    "Ours": ("duo", (89.91, 97.02, 93.81, 71.03, 81.02)),
}
_WITHOUT_CLS = {"inputs": {"cls": False}}
_COUPLES = {
    "20NG": "86.39 89.91 82.86 89.38 89.88 88.80 85.32 88.83 89.12 81.21 85.23 82.09 86.69 79.38 78.99",
    "Ohsumed": "65.81 71.03 63.89 67.13 67.73 70.09 65.83 69.45 67.85 63.09 61.77 64.35 62.38 65.49 61.21",
    "MR": "80.33 81.02 78.66 79.67 69.84 76.12 76.42 73.50 73.94 75.85 69.13 72.35 72.19 74.31 73.65",
}
"""Data set -> the upper triangle of its table, row by row."""
_PLAIN: dict[str, Any] = {"share_weights": False, "duo_norm": False, "fusion_layer": False}


def _couples(name: str) -> Iterator[Row]:
    figures, titles = iter(_COUPLES[name].split()), list(_VECTORS)
    for number, first in enumerate(titles):
        for second in titles[number:]:
            encoder = f"duo={_VECTORS[first]}+{_VECTORS[second]}"
            yield Row(f"{first} / {second}", _DOCUMENTS[name], encoder, _WITHOUT_CLS, {"test": float(next(figures))})


def _documents() -> Iterator[Row]:
    for title, (encoder, figures) in _TABLE_1.items():
        for (name, data_set), figure in zip(_DOCUMENTS.items(), figures, strict=True):
            changes = _WITHOUT_CLS if encoder == "duo" else {}
            yield Row(f"{title} / {name}", data_set, encoder, changes, {"test": figure})


def _translation(label: str, parameters: float, encoder: str, **options: Any) -> Row:
    return Row(label, "multi30k", encoder, {"encoder": options}, {"parameters": parameters})


def _epochs(title: str, name: str, measure: str, figures: tuple[float, float]) -> Experiment:
    rows = (
        Row("Transformer", "multi30k", "transformer", _LONG, {measure: figures[0]}),
        Row("Duo", "multi30k", "duo-transformer", _LONG, {measure: figures[1]}),
    )
    note = "Multi30k, preset small, 20 epochs; the paper's numbers are those of its epoch 20."
    return Experiment("duo", name, title, rows, (measure,), note=note, curves="epoch")


_LONG = {"training": {"epochs": 20}}

EXPERIMENTS = (
    Experiment("duo", "table 1", "document classification", tuple(_documents()), note=_NOTE),
    *(
        Experiment("duo", f"table {number}", f"couples of word vectors on {name}", tuple(_couples(name)), note=_NOTE)
        for number, name in ((2, "20NG"), (3, "Ohsumed"), (4, "MR"))
    ),
    Experiment(
        "duo",
        "table 6",
        "ablation of the Duo Transformer; each row includes those before",
        (
            _translation("Transformer", 213, "transformer"),
            _translation("+ Meta Embeddings", 246, "duo-transformer", **_PLAIN),
            _translation(
                "+ Weight Sharing in Duo Multihead", 220, "duo-transformer", duo_norm=False, fusion_layer=False
            ),
            _translation("+ Duo Normalization", 220, "duo-transformer", fusion_layer=False),
            _translation("+ Fusion Layer", 220, "duo-transformer"),
            Row(
                "+ Fusion Layer, with GloVe",
                "multi30k",
                "duo-transformer",
                {"inputs": {"vectors": VECTOR_FILES["glove"]}},
                {"parameters": 220},
            ),
        ),
        ("parameters", "test"),
        note="Multi30k, preset small. The copy of the paper that we have lacks its BLEU figures. One of the paper's "
        "embeddings is from GloVe (300 wide, here 100).",
    ),
    _epochs("dev BLEU of each epoch", "table 7", "last_bleu", (27.21, 29.75)),
    _epochs("dev perplexity of each epoch", "table 8", "last_perplexity", (13.46, 11.13)),
)
"""Its tables."""

"""Tables of pretrained models: fine-tuned, next to ``transformers``, below other layers, and with other edges."""

from __future__ import annotations

from typing import Any

from graphattn.experiments.papers._data_sets import MTL_DOMAINS
from graphattn.experiments.papers._experiment import Experiment, Row

_WHOLE_REVIEWS: dict[str, Any] = {
    "inputs": {"max_tokens_per_text": None},
    "pretrained": {"pretrained_length": 4096, "pretrained_heads": "window:257|global"},
}
"""Whole reviews along windows and ``[CLS]``."""
_LINEAR_TAGGER: dict[str, Any] = {"inputs": {"characters": False}, "head": {"crf": False}}
"""A tagger with a linear layer alone."""
_FROZEN_DATA_SETS = ("sst2", "apparel", "books", "dvd", "kitchen", "conll2003")
_HEADS = {
    "all": "",
    "arcs in the last layer": "5:dependency",
    "arcs in the last two layers": "4-5:dependency",
    "arcs for half of the heads": "4-5:all=6,dependency=6",
    "windows in the last layer": "5:window:5",
    "windows in the last two layers": "4-5:window:5",
    "windows for half of the heads": "4-5:all=6,window:5=6",
}
"""Label -> edges of MiniLM's heads."""


_FEW_LABELS = (
    ("GraphAttn", "few-labels"),
    ("logistic regression", "sentence-vectors"),
    ("SetFit", "setfit"),
)


def _change_heads(heads: str) -> dict[str, Any]:
    return {"pretrained": {"pretrained_heads": heads}} if heads else {}


EXPERIMENTS = (
    Experiment(
        "pretrained",
        "table 1",
        "all-MiniLM-L6-v2, fine-tuned",
        (
            *(Row(name, name, "pretrained") for name in ("sst2", "sst5", "mr", "cr", "r8", "r52", "ohsumed", "20ng")),
            *(Row(f"{domain} / MTL-16", domain, "pretrained") for domain in MTL_DOMAINS),
            *(Row(name, name, "pretrained") for name in ("sick", "ewt", "conll2003")),
            Row("imdb:5000 / first 256 tokens", "imdb:5000", "pretrained"),
            Row("imdb:5000 / whole reviews", "imdb:5000", "pretrained", _WHOLE_REVIEWS),
        ),
        ("test",),
        note="The defaults of `--pretrained`, with the dev file; texts of at most 256 tokens. Named entities also have "
        "character features. `imdb:5000` has 5,000 of the 25,000 training examples.",
        averages={"MTL-16": None},
    ),
    Experiment(
        "pretrained",
        "table 2",
        "the same model fine-tuned with transformers",
        (
            Row("SST-2 / GraphAttn", "sst2", "pretrained"),
            Row("SST-2 / transformers", "sst2", "transformers"),
            Row("CoNLL-2003 / GraphAttn", "conll2003", "pretrained", _LINEAR_TAGGER),
            Row("CoNLL-2003 / transformers", "conll2003", "transformers"),
        ),
        ("test", "seconds_per_epoch"),
        note="A plain loop with the same rates, schedule, epochs, batches, dropout and head; no characters, no CRF.",
    ),
    Experiment(
        "pretrained",
        "table 3",
        "layers on top of the frozen model",
        tuple(
            Row(f"{name} / {label}", name, encoder)
            for name in _FROZEN_DATA_SETS
            for label, encoder in (("linear", "frozen"), ("MS-Trans", "frozen-ms-trans"))
        ),
        ("test",),
    ),
    Experiment(
        "pretrained",
        "table 4",
        "EWT, edges of the last layers",
        tuple(Row(label, "ewt", "pretrained", _change_heads(heads)) for label, heads in _HEADS.items()),
        ("test",),
        note="Arcs are those of the treebank. Choose a row by its dev score.",
    ),
    Experiment(
        "pretrained",
        "table 5",
        "models of table 1 with linear layers in int8",
        tuple(Row(name, name, "pretrained") for name in ("sst2", "r52", "conll2003", "ewt", "sick")),
        ("test", "int8", "int8_kept"),
        note="Each run is trained once and tested twice.",
        observe=("int8",),
    ),
    Experiment(
        "pretrained",
        "table 6",
        "8, 16 and 32 examples of each class",
        tuple(
            Row(f"{name}, {each} / {label}", f"{name}:{each}-each", encoder)
            for name in ("sst2", "sst5", "cr", "r8", "sick")
            for each in (8, 16, 32)
            for label, encoder in _FEW_LABELS
        ),
        ("test", "training_seconds"),
        note="GraphAttn: the defaults. Logistic regression: scikit-learn's defaults on vectors of SentenceEncoder; "
        "of a pair on both vectors, the absolute difference and the product. SetFit: 200 steps of 16 pairs; a pair of "
        "texts is one text. A seed draws the examples, and the fold of a corpus without a test set. At most 1,000 test "
        "examples.",
    ),
)
"""Its tables."""

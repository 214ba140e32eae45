"""Recipes of training, of which presets are made: options whose defaults they change.

A recipe is group of options -> option -> value. The group ``encoder`` is for all encoders, ``encoders`` has further
options of one encoder under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Recipe = Mapping[str, Mapping[str, Any]]

PAPER: Recipe = {
    "inputs": {"embedding_start": "random", "word_dropout": 0.0, "characters": False, "tune_vectors": False},
    "head": {"linear_branch": False, "crf": False},
    "training": {"epochs": 20, "patience": None, "precision": "32"},
}
"""Settings of the papers where the defaults differ."""

BESIDE_LINEAR_MODEL: Recipe = {
    "encoders": {"ms-trans": {"layers": 2, "hidden": 200}},
    "training": {"learning_rate": 2e-3, "patience": 3},
}
"""The graph encoder of a model that has a linear one, too."""

BESIDE_LINEAR_MODEL_WITH_VECTORS: Recipe = {"training": {"patience": 5}}
"""A graph encoder that reads word vectors, which the linear model does not, gains from more epochs."""

_FROZEN_VECTORS = {"tune_vectors": False, "always_project": False, "word_dropout": 0.0}
STAR_TRANSFORMER: Recipe = {
    "inputs": {**_FROZEN_VECTORS, "unit_vectors": True, "normalize_vectors": False, "embedding_dropout": 0.5},
    "encoder": {"dropout": 0.5},
    "encoders": {"ms-trans": {"layers": 2}, "transformer": {"layers": 2}},
    "head": {"head_dropout": 0.5, "linear_branch": False},
    "training": {
        "batch_size": 128,
        "epochs": 50,
        "learning_rate": 1e-4,
        "patience": None,
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 1e-5,
    },
}
"""How Star-Transformer (Guo et al. 2019) was trained on the phrases of SST-5, as its public code shows. Its new words
are drawn from N(0, 0.05), which is about the spread of unit vectors in 300 dimensions, and so of our new words."""

BP_TRANSFORMER: Recipe = {
    "inputs": {**_FROZEN_VECTORS, "embedding_dropout": 0.4},
    "encoder": {"dropout": 0.1},
    "encoders": {
        "ms-trans": {"layers": 4, "attn_drop": 0.3},
        "transformer": {"layers": 4, "attn_drop": 0.3},
    },
    "head": {"head_dropout": 0.4, "linear_branch": False},
    "training": {
        "batch_size": 1024,
        "epochs": 40,
        "learning_rate": 2.5e-4,
        "patience": None,
        "schedule": "exponential",
        "decay": 0.01,
        "warmup": 0.0,
        "weight_decay": 5e-5,
    },
}
"""How BP-Transformer (Ye et al. 2019) was trained on the phrases of SST-5, as its public code shows."""

CONLL: Recipe = {
    "inputs": {"characters": True, "embedding_dropout": 0.5, "word_dropout": 0.0, "zero_digits": True},
    "encoder": {"dropout": 0.5},
    "encoders": {"ms-trans": {"layers": 4, "alpha": 0.0}},
    "head": {"crf": True, "head_dropout": 0.5, "linear_branch": False},
    "training": {
        "batch_size": 16,
        "epochs": 60,
        "learning_rate": 0.1,
        "optimizer": "sgd",
        "patience": None,
        "schedule": "inverse",
        "decay": 0.05,
        "warmup": 0.0,
        "weight_decay": 0.0,
    },
}
"""How taggers were trained on CoNLL-2003 with SGD (Ma and Hovy 2016; TENER, Yan et al. 2019).

Their losses are sums over the 14 words of a sentence, ours means over words. So our learning rates are 14 times theirs:
0.1 for the 0.008 of a BiLSTM, and 0.013 for TENER's 0.0009."""


def expand_recipe(recipe: Recipe, encoder: str) -> dict[str, dict[str, Any]]:
    """The groups of a recipe that have options for an encoder of this name, its own ones in ``encoder``.

    Examples
    --------
    >>> recipe = {"encoder": {"dropout": 0.1}, "encoders": {"bilstm": {"layers": 2}}, "training": {"clip": 1.0}}
    >>> expand_recipe(recipe, "bilstm")
    {'encoder': {'dropout': 0.1, 'layers': 2}, 'training': {'clip': 1.0}}
    >>> expand_recipe(recipe, "duo")
    {'encoder': {'dropout': 0.1}, 'training': {'clip': 1.0}}
    """
    values = {**recipe.get("encoder", {}), **recipe.get("encoders", {}).get(encoder, {})}
    others = {group: dict(options) for group, options in recipe.items() if group not in ("encoder", "encoders")}
    return {**({"encoder": values} if values else {}), **others}

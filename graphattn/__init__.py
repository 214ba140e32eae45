"""GraphAttn: a text is a DGL graph, attention is edge softmax plus message passing, a model is a choice of edges.

The ground floor is the operator :func:`attend`, its backends, scales, the names of node types and relations, attention
layers, and looking at weights. Building graphs from corpora (``graphattn.builders``), models and training
(``graphattn.models``) and commands (``graphattn.experiments``) stand above it and are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphattn.attention import attend
from graphattn.edges import Edges
from graphattn.exceptions import GraphAttnError
from graphattn.layers import MultiScaleAttention
from graphattn.scales import Scale, allocate_heads

if TYPE_CHECKING:
    from graphattn.builders import Sentence, TextGraphBuilder
    from graphattn.models import PairClassifier, SequenceTagger, TextClassifier, load

__version__ = "0.1.0"

_UPSTAIRS = {
    "PairClassifier": "graphattn.models",
    "Sentence": "graphattn.builders",
    "SequenceTagger": "graphattn.models",
    "TextClassifier": "graphattn.models",
    "TextGraphBuilder": "graphattn.builders",
    "load": "graphattn.models",
}

__all__ = [
    "Edges",
    "GraphAttnError",
    "MultiScaleAttention",
    "PairClassifier",
    "Scale",
    "Sentence",
    "SequenceTagger",
    "TextClassifier",
    "TextGraphBuilder",
    "allocate_heads",
    "attend",
    "load",
]


def __getattr__(name: str) -> Any:
    """Load a name of an upper floor when it is first used, so that ``import graphattn`` stays quick."""
    if name in _UPSTAIRS:
        return getattr(import_module(_UPSTAIRS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

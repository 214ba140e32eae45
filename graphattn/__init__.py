"""GraphAttn: a text is a DGL graph, attention is edge softmax plus message passing, a model is a choice of edges.

The ground floor is the operator :func:`attend`, its backends, scales, the names of node types and relations, attention
layers, and looking at weights. Building graphs from corpora (``graphattn.builders``), models and training
(``graphattn.models``) and commands (``graphattn.experiments``) stand above it and are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphattn.backends.cpu import IMPORT_PID as _IMPORT_PID  # noqa: F401  (read the PID before any fork)
from graphattn.exceptions import GraphAttnError
from graphattn.moved_modules import install as _find_moved_modules

if TYPE_CHECKING:
    from graphattn.attention import attend, attend_heads
    from graphattn.backends.registry import register_backend
    from graphattn.builders import Sentence, TextGraphBuilder
    from graphattn.builders.readers import register_reader
    from graphattn.edges import Edges
    from graphattn.experiments.drawing.graph import draw_graph
    from graphattn.layers.multi_scale import MultiScaleAttention
    from graphattn.layers.tensorized import TensorizedAttention
    from graphattn.models import (
        TASKS,
        Estimator,
        PairClassifier,
        SequenceTagger,
        TextClassifier,
        Translator,
        load,
        register_encoder,
        register_task,
    )
    from graphattn.networkx_graphs import to_networkx
    from graphattn.scales import Scale, allocate_heads
    from graphattn.tensorized import tensorized_attend

__version__ = "0.1.0"

_HOMES = {
    "Edges": "graphattn.edges",
    "Estimator": "graphattn.models",
    "MultiScaleAttention": "graphattn.layers.multi_scale",
    "PairClassifier": "graphattn.models",
    "Scale": "graphattn.scales",
    "Sentence": "graphattn.builders",
    "SequenceTagger": "graphattn.models",
    "TASKS": "graphattn.models",
    "TensorizedAttention": "graphattn.layers.tensorized",
    "TextClassifier": "graphattn.models",
    "TextGraphBuilder": "graphattn.builders",
    "Translator": "graphattn.models",
    "allocate_heads": "graphattn.scales",
    "attend": "graphattn.attention",
    "attend_heads": "graphattn.attention",
    "draw_graph": "graphattn.experiments.drawing.graph",
    "load": "graphattn.models",
    "register_backend": "graphattn.backends.registry",
    "register_encoder": "graphattn.models",
    "register_reader": "graphattn.builders.readers",
    "register_task": "graphattn.models",
    "tensorized_attend": "graphattn.tensorized",
    "to_networkx": "graphattn.networkx_graphs",
}

__all__ = [
    "TASKS",
    "Edges",
    "Estimator",
    "GraphAttnError",
    "MultiScaleAttention",
    "PairClassifier",
    "Scale",
    "Sentence",
    "SequenceTagger",
    "TensorizedAttention",
    "TextClassifier",
    "TextGraphBuilder",
    "Translator",
    "allocate_heads",
    "attend",
    "attend_heads",
    "draw_graph",
    "load",
    "register_backend",
    "register_encoder",
    "register_reader",
    "register_task",
    "tensorized_attend",
    "to_networkx",
]


_find_moved_modules()


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, so that ``import graphattn`` and ``graphattn --help`` are quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

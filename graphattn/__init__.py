"""GraphAttn: a text is a graph, attention is edge softmax plus message passing, and a model is a choice of edges.

This package contains the operator :func:`attend`, its backends, attention layers, scales, and the names of node types
and relations. ``graphattn.builders`` (graphs from corpora), ``graphattn.models`` (models and training) and
``graphattn.experiments`` (commands) build on it and are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphattn._backends.cpu import IMPORT_PID as _IMPORT_PID  # noqa: F401  (read the PID before any fork)
from graphattn.exceptions import GraphAttnError as GraphAttnError

if TYPE_CHECKING:
    from graphattn._attention import attend as attend
    from graphattn._attention import attend_heads as attend_heads
    from graphattn._backends.call import AttentionCall as AttentionCall
    from graphattn._backends.registry import register_backend as register_backend
    from graphattn._dgl_graphs import import_dgl as import_dgl
    from graphattn._edges import Edges as Edges
    from graphattn._homogeneous import JointNodes as JointNodes
    from graphattn._networkx_graphs import from_networkx as from_networkx
    from graphattn._networkx_graphs import to_networkx as to_networkx
    from graphattn._scales import Scale as Scale
    from graphattn._scales import allocate_heads as allocate_heads
    from graphattn._tensorized import tensorized_attend as tensorized_attend
    from graphattn.builders import Sentence as Sentence
    from graphattn.builders import TextGraphBuilder as TextGraphBuilder
    from graphattn.builders.readers import register_reader as register_reader
    from graphattn.builders.relations import register_relation as register_relation
    from graphattn.experiments._cli.bench import register_benchmark as register_benchmark
    from graphattn.experiments._cli.main import register_command as register_command
    from graphattn.experiments.drawing._graph import draw_graph as draw_graph
    from graphattn.layers._multi_scale import MultiScaleAttention as MultiScaleAttention
    from graphattn.layers._tensorized import TensorizedAttention as TensorizedAttention
    from graphattn.models import TASKS as TASKS
    from graphattn.models import Estimator as Estimator
    from graphattn.models import PairClassifier as PairClassifier
    from graphattn.models import PairRegressor as PairRegressor
    from graphattn.models import SequenceTagger as SequenceTagger
    from graphattn.models import TextClassifier as TextClassifier
    from graphattn.models import TextRegressor as TextRegressor
    from graphattn.models import Translator as Translator
    from graphattn.models import compare as compare
    from graphattn.models import load as load
    from graphattn.models import register_encoder as register_encoder
    from graphattn.models import register_inputs as register_inputs
    from graphattn.models import register_task as register_task

__version__ = "0.1.0"

_NAMES = {
    "graphattn._attention": "attend attend_heads",
    "graphattn._backends.call": "AttentionCall",
    "graphattn._backends.registry": "register_backend",
    "graphattn._dgl_graphs": "import_dgl",
    "graphattn._edges": "Edges",
    "graphattn._homogeneous": "JointNodes",
    "graphattn._networkx_graphs": "from_networkx to_networkx",
    "graphattn._scales": "Scale allocate_heads",
    "graphattn._tensorized": "tensorized_attend",
    "graphattn.builders": "Sentence TextGraphBuilder",
    "graphattn.builders.readers": "register_reader",
    "graphattn.builders.relations": "register_relation",
    "graphattn.experiments._cli.bench": "register_benchmark",
    "graphattn.experiments._cli.main": "register_command",
    "graphattn.experiments.drawing._graph": "draw_graph",
    "graphattn.layers._multi_scale": "MultiScaleAttention",
    "graphattn.layers._tensorized": "TensorizedAttention",
    "graphattn.models": (
        "Estimator PairClassifier PairRegressor SequenceTagger TASKS TextClassifier "
        "TextRegressor Translator compare load register_encoder register_inputs register_task"
    ),
}
"""Module -> its public names; the imports above repeat it for type checkers."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["GraphAttnError", *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import graphattn`` and ``graphattn --help`` are quick."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

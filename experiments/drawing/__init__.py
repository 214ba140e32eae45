"""Pictures: graphs of sentences, and the attention along their edges."""

from graphattn._optional_packages import import_optional

import_optional("matplotlib", "pictures need", "plot")

from graphattn.experiments.drawing._arcs import draw_arcs
from graphattn.experiments.drawing._confusion import draw_confusion
from graphattn.experiments.drawing._coverage import draw_coverage
from graphattn.experiments.drawing._distances import draw_distances
from graphattn.experiments.drawing._graph import draw_graph
from graphattn.experiments.drawing._matrices import draw_matrices
from graphattn.experiments.drawing._probability_curves import draw_probability_curves
from graphattn.experiments.drawing._words import draw_words

__all__ = [
    "draw_arcs",
    "draw_confusion",
    "draw_coverage",
    "draw_distances",
    "draw_graph",
    "draw_matrices",
    "draw_probability_curves",
    "draw_words",
]

"""Pictures: graphs of sentences, and the attention along their edges."""

from graphattn.optional_packages import import_optional

import_optional("matplotlib", "pictures need", "plot")

from graphattn.experiments.drawing.arcs import draw_arcs
from graphattn.experiments.drawing.confusion import draw_confusion
from graphattn.experiments.drawing.distances import draw_distances
from graphattn.experiments.drawing.graph import draw_graph
from graphattn.experiments.drawing.matrices import draw_matrices

__all__ = ["draw_arcs", "draw_confusion", "draw_distances", "draw_graph", "draw_matrices"]

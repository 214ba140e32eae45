"""Pictures of attention: arcs over a sentence, matrices of heads, curves of distances, one file each.

What draws a graph without a prediction lies beside this folder, in ``drawing``; the page is in ``page``.
"""

from graphattn.experiments.pictures.arcs import draw_arcs
from graphattn.experiments.pictures.distances import draw_distances
from graphattn.experiments.pictures.matrices import draw_matrices

__all__ = ["draw_arcs", "draw_distances", "draw_matrices"]

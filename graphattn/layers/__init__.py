"""Attention layers: projections around ``attend``, with each head on one relation."""

from graphattn.edges import edges_of
from graphattn.layers.graph_convolution import GraphAttention, GraphConvolution, NeighbourMean
from graphattn.layers.multi_scale import MultiScaleAttention
from graphattn.layers.rectified import RectifiedAttention
from graphattn.layers.tensorized import TensorizedAttention

__all__ = [
    "GraphAttention",
    "GraphConvolution",
    "MultiScaleAttention",
    "NeighbourMean",
    "RectifiedAttention",
    "TensorizedAttention",
    "edges_of",
]

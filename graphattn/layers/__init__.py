"""Attention layers: projections around ``attend``, with every head bound to one relation."""

from graphattn.layers.graph_convolution import GraphAttention, GraphConvolution, NeighbourMean
from graphattn.layers.multi_scale import MultiScaleAttention, edges_of
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

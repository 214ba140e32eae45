"""Attention layers: projections around ``attend``, with each head on one relation."""

from graphattn._edges import edges_of
from graphattn.layers._graph_convolution import GraphAttention, GraphConvolution, NeighbourMean
from graphattn.layers._linear import Embedding
from graphattn.layers._multi_scale import MultiScaleAttention
from graphattn.layers._norm import LayerNorm
from graphattn.layers._padded import DenseAttention
from graphattn.layers._rectified import RectifiedAttention
from graphattn.layers._tensorized import TensorizedAttention

__all__ = [
    "DenseAttention",
    "Embedding",
    "GraphAttention",
    "GraphConvolution",
    "LayerNorm",
    "MultiScaleAttention",
    "NeighbourMean",
    "RectifiedAttention",
    "TensorizedAttention",
    "edges_of",
]

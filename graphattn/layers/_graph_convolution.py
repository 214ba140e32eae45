"""Layers that mix a node with its neighbours: graph convolution, graph attention, the plain mean."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._aggregation import aggregate, mean_coefficients, symmetric_coefficients
from graphattn._attention import attend
from graphattn._edges import Edges, Graph, edges_for_layer
from graphattn._precision import at_least_float32
from graphattn._schema import ONLY
from graphattn._transforms import OpaqueModule
from graphattn._validation import require_multiple, require_range
from graphattn.layers._checkpointing import Derived
from graphattn.layers._linear import Linear


class GraphConvolution(OpaqueModule):
    r"""The graph convolution of UMST (Li et al. 2022, Eq. 2 and 3, section 3.2).

    .. math:: S \, ReLU(S x W), \quad S = D^{-1/2} A D^{-1/2}

    A already has self-loops; the paper's formula adds others. The paper multiplies only the word convolution by S a
    second time "to further strengthen the fine-grained feature"; here the phrase convolution does the same.

    Where the nodes form consecutive complete graphs (the tokens of each word), S is the mean over each of them, and the
    layer computes one vector for all nodes of such a block.

    Parameters
    ----------
    feats : width of input and output
    """

    def __init__(self, feats: int):
        super().__init__()
        require_range("feats", feats, min=1)
        self.linear = Linear(feats, feats, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, edges: Graph, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """Mix along undirected edges with self-loops.

        Parameters
        ----------
        edges : between N nodes; or any graph with one relation, as :func:`graphattn.attend` takes
        inputs : (N, feats); the backward pass does not keep derived ones
        weights : unused; there is no attention

        Returns
        -------
        (N, feats)
        """
        edges, nodes = edges_among(edges, inputs), Derived.of(inputs)
        members = block_members(edges)
        if members is not None:
            coefficients = mean_coefficients(members)
            means = nodes.then(lambda values: aggregate(members, values, coefficients).to(values.dtype))
            mixed = F.relu(means.project(self.linear), inplace=True)
            return aggregate(members.reverse[0], mixed).to(self.linear.dtype)
        coefficients = symmetric_coefficients(edges)
        mixed = F.relu(aggregate(edges, nodes.project(self.linear), coefficients), inplace=True)
        return aggregate(edges, mixed, coefficients).to(self.linear.dtype)


class GraphAttention(OpaqueModule):
    r"""Graph attention (Velickovic et al. 2018, Eq. 1-5); the heads are concatenated.

    .. math:: ELU\Big(\sum_j softmax_j(LeakyReLU(a^T [W x_i; W x_j])) \, W x_j\Big)

    Parameters
    ----------
    feats : width of input and output
    heads : number of heads, each of feats / heads features
    """

    def __init__(self, feats: int, heads: int):
        super().__init__()
        require_range("feats", feats, min=1)
        require_range("heads", heads, min=1)
        require_multiple("feats", feats, heads, "heads")
        self.heads = heads
        self.linear = Linear(feats, feats, bias=False)
        self.target, self.source = (nn.Parameter(torch.empty(heads, feats // heads)) for _ in range(2))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def forward(self, edges: Graph, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """Mix along edges.

        Parameters
        ----------
        edges : between N nodes; or any graph with one relation, as :func:`graphattn.attend` takes
        inputs : (N, feats); the backward pass does not keep derived ones
        weights : when given, the (E, heads) attention weights are appended, in edge-id order

        Returns
        -------
        (N, feats)
        """
        edges = edges_among(edges, inputs)
        values = Derived.of(inputs).project(self.linear).view(-1, *self.source.shape)  # (N, H, D)
        values = at_least_float32(values)  # sums in float32 also under autocast
        as_target, as_source = ((values * vector).sum(2) for vector in (self.target, self.source))  # (N, H)
        scores = edges.by_id(F.leaky_relu(as_target[edges.destinations] + as_source[edges.sources], 0.2))
        zeros = values.new_zeros(len(values), self.heads, 1)  # all scores are in the bias
        if weights is None:
            mixed = attend(edges, zeros, zeros, values, bias=scores)
        else:
            mixed, edge_weights = attend(edges, zeros, zeros, values, bias=scores, return_weights=True)
            weights.append(edge_weights)
        return F.elu(mixed).flatten(1).to(self.linear.dtype)


class NeighbourMean(OpaqueModule):
    """The mean over a node's neighbours, without parameters."""

    def forward(self, edges: Graph, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """(N, feats) -> (N, feats); ``weights`` is unused."""
        edges, values = edges_among(edges, inputs), Derived.of(inputs).value()
        return aggregate(edges, values, mean_coefficients(edges)).to(values.dtype)


def edges_among(graph: Graph, inputs: Tensor | Derived) -> Edges:
    """The only relation of a graph, between the nodes that the inputs (N, feats) belong to."""
    return graph if isinstance(graph, Edges) else edges_for_layer(graph, [ONLY], Derived.of(inputs).value())[0]


def block_members(edges: Edges) -> Edges | None:
    """Edges from the nodes to their blocks, see :attr:`Edges.blocks`; None when there are none. Cached."""
    return edges.compute_once("members", _make_members)


def _make_members(edges: Edges) -> Edges | None:
    sizes, count = edges.blocks, edges.num_sources
    if sizes is None:
        return None
    ends = sizes.cumsum(0)
    members = Edges.from_valid_ranges(ends - sizes, ends, count, F.pad(ends, (1, 0)), count)
    return members.to(edges.indptr.device)

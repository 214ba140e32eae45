"""Layers that mix a node with its neighbours: graph convolution, graph attention, the plain mean."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.aggregation import aggregate, mean_coefficients, symmetric_coefficients
from graphattn.attention import attend
from graphattn.edges import Edges
from graphattn.exceptions import ConfigError
from graphattn.layers.checkpointing import Derived
from graphattn.layers.linear import Linear


class GraphConvolution(nn.Module):
    r"""The graph convolution of UMST (Li et al. 2022, Eq. 2 and 3, section 3.2).

    .. math:: S \, ReLU(S x W), \quad S = D^{-1/2} A D^{-1/2}

    A has the self-loops already, to which the paper's formula adds others. The paper multiplies the word convolution by
    S once more "to further strengthen the fine-grained feature"; the phrase convolution is treated alike here.

    Where nodes fall into runs that are complete graphs (the tokens of each word), S is the mean over a run, so that all
    its nodes get the same: it is computed once for each run.

    Parameters
    ----------
    feats : width of input and output
    """

    def __init__(self, feats: int):
        super().__init__()
        _check_width(feats)
        self.linear = Linear(feats, feats, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, edges: Edges, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """Mix along undirected edges with self-loops.

        Parameters
        ----------
        edges : between N nodes
        inputs : (N, feats); derived ones need not be kept for the backward pass
        weights : left as it is; there is no attention

        Returns
        -------
        (N, feats)
        """
        given, members = Derived.of(inputs), run_members(edges)
        if members is not None:
            spread, shares = members.reverse[0], mean_coefficients(members)
            means = given.then(lambda nodes: aggregate(members, nodes, shares).to(nodes.dtype))
            return aggregate(spread, F.relu(means.through(self.linear), inplace=True))
        coefficients = symmetric_coefficients(edges)
        mixed = F.relu(aggregate(edges, given.through(self.linear), coefficients), inplace=True)
        return aggregate(edges, mixed, coefficients)


class GraphAttention(nn.Module):
    r"""Graph attention (Velickovic et al. 2018, Eq. 1-5), heads side by side.

    .. math:: ELU\Big(\sum_j softmax_j(LeakyReLU(a^T [W x_i; W x_j])) \, W x_j\Big)

    Parameters
    ----------
    feats : width of input and output
    heads : they share the width
    """

    def __init__(self, feats: int, heads: int):
        super().__init__()
        _check_width(feats)
        if heads < 1 or feats % heads:
            raise ConfigError(f"feats {feats} is no multiple of heads {heads}")
        self.heads = heads
        self.linear = Linear(feats, feats, bias=False)
        self.target, self.source = (nn.Parameter(torch.empty(heads, feats // heads)) for _ in range(2))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def forward(self, edges: Edges, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """Mix along edges.

        Parameters
        ----------
        edges : between N nodes
        inputs : (N, feats); derived ones need not be kept for the backward pass
        weights : when given, the (E, heads) attention weights are appended, in edge-id order

        Returns
        -------
        (N, feats)
        """
        values = Derived.of(inputs).through(self.linear).view(-1, *self.source.shape)  # (N, H, D)
        values = values.float() if values.element_size() < 4 else values  # sums in float32 also under autocast
        to, of = ((values * vector).sum(2) for vector in (self.target, self.source))  # (N, H)
        scores = edges.by_id(F.leaky_relu(to[edges.destinations] + of[edges.sources], 0.2))
        nothing = values.new_zeros(len(values), self.heads, 1)
        if weights is None:
            return F.elu(attend(edges, nothing, nothing, values, bias=scores)).flatten(1)
        mixed, seen = attend(edges, nothing, nothing, values, bias=scores, return_weights=True)
        weights.append(seen)
        return F.elu(mixed).flatten(1)


class NeighbourMean(nn.Module):
    """The mean over a node's neighbours, without parameters."""

    def forward(self, edges: Edges, inputs: Tensor | Derived, weights: list[Tensor] | None = None) -> Tensor:
        """(N, feats) -> (N, feats); ``weights`` is left as it is."""
        return aggregate(edges, Derived.of(inputs).value(), mean_coefficients(edges))


@torch.inference_mode(False)
def run_members(edges: Edges) -> Edges | None:
    """Edges from N nodes to the runs that are complete graphs; None when nodes do not fall into such runs."""
    if "members" not in edges.plans:
        sizes = edges.blocks
        members = None
        if sizes is not None:
            ends = sizes.cumsum(0)
            members = Edges.of_ranges(ends - sizes, ends, edges.num_sources)
        edges.plans["members"] = members
    return cast("Edges | None", edges.plans["members"])


def _check_width(feats: int) -> None:
    if feats < 1:
        raise ConfigError(f"feats is {feats}; it must be at least 1")

"""Biases by distance equal biases of edges, in the kernels of all plans, with gradients."""

import numpy as np
import pytest
import torch

from graphattn import Edges
from graphattn._attention import attend_layer
from graphattn._backends.cpu.plan import plan_of
from graphattn._distances import DistanceBias, Distances

HEADS, WIDTH, SPAN = 3, 8, 5


def make_edges(kind, lengths):
    """Edges between texts of these lengths."""
    ends = np.cumsum(lengths)
    starts = np.repeat(ends - lengths, lengths)
    stops = np.repeat(ends, lengths)
    nodes = np.arange(len(starts))
    if kind == "window":
        starts, stops = np.maximum(starts, nodes - 4), np.minimum(stops, nodes + 5)
    if kind == "hidden":  # as padding, the first nodes of a text see nothing, and nothing sees them
        starts, stops = np.minimum(starts + 2, stops), np.where(nodes < starts + 2, starts + 2, stops)
    edges = Edges.of_ranges(torch.from_numpy(starts).int(), torch.from_numpy(stops).int(), len(starts))
    if kind in ("all", "window", "hidden"):
        return edges
    keep = np.random.default_rng(0).random(edges.num_edges) < 0.3
    return Edges.of_pairs(edges.sources[keep], edges.destinations[keep], len(starts), len(starts))


def make_bias(lengths, tables, dtype):
    """Random tables whose rows are buckets of distances."""
    count, generator = int(sum(lengths)), torch.Generator().manual_seed(1)
    drawn = [torch.randn(count, HEADS, 2 * SPAN + 1, dtype=dtype, generator=generator) for _ in range(2)]
    positions = torch.cat([torch.arange(length) for length in lengths])
    farthest = max(lengths) - 1
    rows = torch.arange(-farthest, farthest + 1).clamp(-SPAN, SPAN) + SPAN
    kept = (table.requires_grad_() if name in tables else None for name, table in zip("ds", drawn, strict=True))
    return DistanceBias(*kept, Distances(rows, positions, positions))


@pytest.mark.parametrize("tables", ["d", "s", "ds"])
@pytest.mark.parametrize("kind", ["all", "window", "hidden", "some"])
def test_tables_equal_biases_of_edges(kind, tables):
    lengths = [7, 40, 1, 300]
    edges, bias = make_edges(kind, lengths), make_bias(lengths, tables, torch.float64)
    assert (type(plan_of(edges)).__name__ == "EdgePlan") == (kind == "some")
    torch.manual_seed(0)
    rows = tuple(torch.randn(sum(lengths), HEADS, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3))
    upstream = torch.randn(sum(lengths), HEADS, WIDTH, dtype=torch.float64)
    for weights in (False, True):
        results = []
        for backend in ("fused", "torch"):
            out, found = attend_layer([edges], [HEADS], rows, biases=[bias], backend=backend, return_weights=weights)
            loss = (out * upstream).sum() + (found[0].square().sum() if found else 0)
            results.append((out, *torch.autograd.grad(loss, (*rows, *bias.tables))))
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected)

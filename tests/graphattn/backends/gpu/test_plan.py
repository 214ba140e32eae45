"""Plans of backend ``triton``, decoded as the kernels do, have exactly the pairs of the edges, and their numbers."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from graphattn import Edges
from graphattn._backends.call import make_spans
from graphattn._backends.gpu.plan import BLOCK, WORD, plan_layer, plan_of


def decode(plan, num_dst, num_src):
    """Number of the edge of each pair (destination, source), by destination and by source."""
    array = plan.array.numpy().astype(np.int64)
    halves = array[: plan.by_source], array[plan.by_source :]
    if plan.is_range:
        low, high, first = halves[0].reshape(3, num_dst)
        by_destination = {(i, j): first[i] + j for i in range(num_dst) for j in range(low[i], high[i])}
        start, stop = halves[1].reshape(2, num_src)
        return by_destination, {(i, j): first[i] + j for j in range(num_src) for i in range(start[j], stop[j])}
    by_destination = decode_tiles(halves[0], num_dst)
    return by_destination, {(i, j): edge for (j, i), edge in decode_tiles(halves[1], num_src).items()}


def decode_tiles(array, count):
    blocks = -(-count // BLOCK)
    tiles = array[blocks]
    pointers, starts, columns, bits, slots = np.split(
        array, np.cumsum([blocks + 1, count, tiles * WORD, tiles * BLOCK])
    )
    pairs, edges = {}, starts.copy()
    for block in range(blocks):
        for tile in range(pointers[block], pointers[block + 1]):
            for row in range(block * BLOCK, min(count, (block + 1) * BLOCK)):
                for bit in range(WORD):
                    if bits[tile * BLOCK + row % BLOCK] >> bit & 1:
                        pairs[row, columns[tile * WORD + bit]] = slots[edges[row]]
                        edges[row] += 1
    return pairs


def random_edges(num_dst, num_src, share):
    random = np.random.default_rng(0)
    destinations, sources = np.nonzero(random.random((num_dst, num_src)) < share)
    order = random.permutation(len(sources))
    return Edges.of_pairs(torch.from_numpy(sources[order]), torch.from_numpy(destinations[order]), num_src, num_dst)


CASES = {
    "windows": (lambda windows: windows([3, 0, 70, 1], "5"), True),
    "whole texts": (lambda windows: windows([3, 0, 70, 1], "N"), True),
    "whole texts as arrays": (lambda windows: Edges(torch.tensor([0, 2, 4]), torch.tensor([0, 1, 0, 1]), 2), True),
    "falling ranges": (lambda windows: Edges.of_ranges(torch.tensor([3, 0]), torch.tensor([5, 1]), 6), False),
    "many": (lambda windows: random_edges(130, 70, 0.3), False),
    "few": (lambda windows: random_edges(65, 200, 0.01), False),
    "none": (lambda windows: random_edges(3, 2, 0), True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_has_the_edges(windows, name):
    make, is_range = CASES[name]
    edges = make(windows)
    plan = plan_of(edges)
    assert plan.is_range is is_range
    pairs = list(zip(edges.destinations.tolist(), edges.sources.tolist(), strict=True))
    expected = {pair: slot for slot, pair in enumerate(pairs)}
    assert decode(plan, edges.num_destinations, edges.num_sources) == (expected, expected)


@pytest.mark.parametrize("place", [-1, 2**31 - 1])
def test_an_empty_range_may_lie_anywhere(place):
    """As those of a user's relation: its edges are the same wherever it lies."""
    first, stop = torch.tensor([[0, 1, 2], [0, 2, 3]], dtype=torch.int32)
    number = 0 if place < 0 else 2
    first[number] = stop[number] = place
    indptr = torch.nn.functional.pad((stop - first).cumsum(0, dtype=torch.int32), (1, 0))
    plan = plan_of(Edges.from_valid_ranges(first, stop, 3, indptr, int(indptr[-1])))
    begin, end = plan.array[plan.by_source :].view(2, 3)
    pairs = [(source, int(i)) for source in range(3) for i in torch.arange(begin[source], end[source])]
    expected = [(source, i) for i in range(3) for source in range(int(first[i]), int(stop[i]))]
    assert sorted(pairs) == sorted(expected)


def test_repeated_edges_have_no_plan():
    edges = Edges(torch.tensor([0, 3, 3]), torch.tensor([1, 0, 1]), 2)
    assert plan_of(edges) is None
    assert plan_layer(make_spans([edges], [1], torch.zeros(2, 3, 4))) is None


@pytest.mark.parametrize("copy", [lambda edges: edges.to("meta"), deepcopy], ids=["to a device", "deepcopy"])
def test_copies_of_edges_have_the_plan(windows, copy):
    edges, repeated = windows([3, 4], "3"), Edges(torch.tensor([0, 2]), torch.tensor([0, 0]), 1)
    plan, no_plan = plan_of(edges), plan_of(repeated)
    copied = plan_of(copy(edges))
    assert (copied.by_source, copied.is_range, len(copied.array)) == (plan.by_source, plan.is_range, len(plan.array))
    assert no_plan is None
    assert plan_of(copy(repeated)) is None  # on a device without data, it could not be found again


def test_a_layer_is_planned_once_for_the_same_relations(windows):
    window, identity, arcs = windows([5, 2], "3"), windows([5, 2], "1"), random_edges(7, 7, 0.4)
    relations, heads = [window, identity, arcs, window], [1, 2, 1, 1]
    rows = torch.zeros(7, 11, 4)  # without queries and keys of the identity
    layer = plan_layer(make_spans(relations, heads, rows))
    assert plan_layer(make_spans(relations, heads, rows)) is layer
    assert plan_layer(make_spans(relations, heads, torch.zeros(7, 15, 4))) is not layer
    assert plan_layer(make_spans(relations[::-1], heads[::-1], rows)) is not layer
    # number of the head, rows of query, key and value: three scored heads, five values
    tables = [launch.heads[:, :4].tolist() for launch in layer.launches]
    assert tables == [[[0, 0, 3, 6], [4, 2, 5, 10]], [[3, 1, 4, 9]]]
    assert layer.copies == [(1, 7, 2)]

"""Attention on tiles, which GPUs use, equals dense attention; here on a CPU."""

from random import Random

import pytest
import torch
from torch.testing import assert_close

from graphattn import Edges
from graphattn._backends import tiles
from graphattn.builders import Complete, Dependency, Order, TextGraphBuilder, Window, WordGroup
from graphattn.builders.relations import Global

LENGTHS = (9, 0, 1, 40, 3, 17)
RELATIONS = [Window(1), Window(7), Window("N/4"), Global(), Order("forward"), WordGroup(), Dependency("token")]


def graph_edges(relation, random_sentence):
    sentences = [random_sentence(Random(2), length) for length in LENGTHS]
    return Edges.of(TextGraphBuilder([relation]).text_batch(sentences), relation.name)


def bipartite(_):
    """Destinations without sources, and fewer sources than destinations."""
    mask = torch.rand(50, 23, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[10:30] = False
    destinations, sources = mask.nonzero().unbind(1)
    return Edges.of_pairs(sources.flip(0), destinations.flip(0), 23, 50)


EDGES = {relation.name: lambda draw, own=relation: graph_edges(own, draw) for relation in RELATIONS}


def assert_equals_dense(plan, edges, mask, dense_attention, random_tensors):
    inputs = [t.requires_grad_() for t in random_tensors(edges.num_destinations, edges.num_sources)]
    out, expected = tiles.attend(plan, *inputs, scale=0.3, dropout=0.0), dense_attention(mask, *inputs, scale=0.3)
    assert_close(out, expected, rtol=0, atol=1e-12)
    upstream = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    ours, theirs = (torch.autograd.grad(result, inputs, upstream) for result in (out, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [8, 30, 128])
@pytest.mark.parametrize("make", [*EDGES.values(), bipartite], ids=[*EDGES, "bipartite"])
def test_equals_dense_attention(monkeypatch, random_sentence, mask_of, dense_attention, random_tensors, make, rows):
    monkeypatch.setattr(tiles, "ROWS", rows)
    edges = make(random_sentence)
    plan = tiles.plan_tiles(edges)
    assert plan is not None
    assert_equals_dense(plan, edges, mask_of(edges), dense_attention, random_tensors)


@pytest.mark.parametrize(
    ("lengths", "shapes"),
    [
        ([5, 5, 5], [(3, 5, 5)]),  # nothing to pad
        ([5, 3, 4], [(3, 5, 5)]),
        ([40, 1, 1, 3, 30], [(2, 1, 1), (1, 3, 3), (1, 30, 30), (1, 40, 40)]),
    ],
)
def test_complete_graphs(mask_of, dense_attention, random_tensors, lengths, shapes):
    edges = Edges.of(TextGraphBuilder([Complete()], cls=False).text_batch([["x"] * length for length in lengths]))
    plan = tiles.plan_blocks(edges.blocks, torch.device("cpu"))
    assert [group[:3] for group in plan.groups] == shapes
    assert (plan.places is None) == (len(set(lengths)) == 1)
    assert_equals_dense(plan, edges, mask_of(edges), dense_attention, random_tensors)


def test_edges_that_tiles_do_not_fit():
    assert tiles.plan_tiles(Edges.of_pairs(*torch.tensor([[0, 1, 0], [1, 1, 1]]), 2, 2)) is None  # repeated
    assert tiles.plan_tiles(Edges(torch.zeros(4, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 2)) is None
    scattered = torch.randint(0, 9_999, (2, 90_000), generator=torch.Generator().manual_seed(0)).unique(dim=1)
    assert tiles.plan_tiles(Edges.of_pairs(*scattered, 9_999, 9_999)) is None
    assert tiles.plan_tiles(Edges.of_pairs(*scattered[:, :9_999], 9_999, 9_999)) is not None


def test_cells_of_windows_grow_with_the_edges():
    cells = {}
    for length in (1024, 4096):
        edges = Edges.of(TextGraphBuilder([Window(257)], cls=False).text_batch([["x"] * length]))
        cells[length] = sum(group.mask.numel() for group in tiles.plan_tiles(edges).groups)
        assert cells[length] < 2 * edges.num_edges
    assert cells[4096] < 4.5 * cells[1024]


def test_shared_sources_are_summed_in_float32(random_tensors):
    """In bfloat16, a sum of 3,000 gradients of one source would lose most of them."""
    edges = Edges(torch.arange(3001), torch.zeros(3000, dtype=torch.int64), 1)
    query, key, _ = random_tensors(3000, 1, dtype=torch.bfloat16)
    value = torch.ones(1, 2, 3, dtype=torch.bfloat16, requires_grad=True)
    out = tiles.attend(tiles.plan_tiles(edges), query, key, value, scale=1.0, dropout=0.0)
    out.sum().backward()
    assert_close(value.grad.float(), torch.full((1, 2, 3), 3000.0), rtol=0.01, atol=0)

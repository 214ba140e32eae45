"""Plans: chunks cover all destinations and keys, and record which keys they share."""

import pickle
import weakref
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn import Edges, attend
from graphattn._backends.cpu import plan as fused_plan
from graphattn._backends.cpu.plan import EdgePlan, RangePlan, is_narrow, narrow_plan, plan_of, split_runs

lengths_of_sentences = st.lists(st.integers(1, 90), min_size=1, max_size=12)
scales = st.integers(0, 60).map(lambda half: 2 * half + 1)


def check_chunks(chunks, shared, count, keys_of):
    """Assert that chunks are consecutive, cover the keys of their destinations and record shared keys."""
    assert chunks[0, 0] == 0
    assert chunks[-1, 1] == count
    assert (chunks[1:, 0] == chunks[:-1, 1]).all()
    seen = [set().union(*map(keys_of, range(first, stop))) for first, stop, *_ in chunks]
    places = 0
    for number, (_, _, begin, end, own_begin, own_end, place) in enumerate(chunks):
        assert seen[number] <= set(range(begin, end))
        others = set().union(*seen[:number], *seen[number + 1 :])
        assert not others & set(range(own_begin, own_end))
        assert begin <= own_begin <= own_end <= end
        assert place == places
        places += end - begin - (own_end - own_begin)
    assert shared == places


@given(lengths_of_sentences, scales)
def test_chunks_of_wide_ranges(windows, lengths, scale):
    edges = windows(lengths, scale)
    plan = plan_of(edges)
    assert isinstance(plan, RangePlan)
    check_chunks(plan.chunks, plan.shared, edges.num_destinations, lambda i: range(plan.low[i], plan.high[i]))


@given(lengths_of_sentences, st.lists(scales, min_size=1, max_size=3))
def test_chunks_of_narrow_ranges(windows, lengths, scales):
    relations = [windows(lengths, scale) for scale in scales]
    plan = narrow_plan(relations)
    assert narrow_plan(relations) is plan

    def keys_of(i):
        actual = {i}.union(*(range(low[i], high[i]) for low, high in zip(plan.lows, plan.highs, strict=True)))
        return actual

    check_chunks(plan.chunks, plan.shared, sum(lengths), keys_of)
    assert len(plan.lows) == len(relations)
    assert plan.slots.shape[0] == len(plan.lows)


def test_explicit_contiguous_edges_get_a_range_plan(windows):
    edges = windows([5, 9], 5)
    written = Edges(edges.indptr, edges.indices, edges.num_sources)
    assert np.array_equal(plan_of(written).low, plan_of(edges).low)
    shuffled = Edges(edges.indptr, edges.indices.flip(0), edges.num_sources)
    assert isinstance(plan_of(shuffled), EdgePlan)


def test_scattered_ranges_get_an_edge_plan():
    random = np.random.default_rng(0)
    low = torch.from_numpy(random.integers(0, 99_990, 2000))
    assert isinstance(plan_of(Edges.of_ranges(low, low + 3, 100_000)), EdgePlan)


def test_chunks_of_long_texts_share_keys_only_at_cut_points(windows):
    plan = plan_of(windows([3000], 81))
    assert len(plan.chunks) > 5
    assert plan.shared == 2 * 80 * (len(plan.chunks) - 1)
    narrow = narrow_plan([windows([3000], 81)])
    assert narrow.shared == 2 * 80 * (len(narrow.chunks) - 1)


def test_short_sentences_share_nothing(windows):
    assert narrow_plan([windows([22] * 40, scale) for scale in (1, 3, 19)]).shared == 0


@pytest.mark.parametrize(("scale", "narrow"), [(1, True), (7, True), (255, True), (257, False), (1801, False)])
def test_is_narrow(windows, scale, narrow):
    assert is_narrow(windows([2000], scale)) is narrow


def test_distant_or_bipartite_ranges_are_not_narrow():
    low = torch.arange(1000).flip(0)
    assert not is_narrow(Edges.of_ranges(low, low + 1, 1000))
    assert not is_narrow(Edges.of_ranges(low, low + 1, 1001))


def test_runs_that_share_sources_are_merged(monkeypatch):
    monkeypatch.setattr(fused_plan, "TASK_EDGES", 2)
    indptr, indices = np.arange(0, 13, 2), np.array([1, 0, 0, 1, 3, 2, 4, 2, 5, 5, 5, 5])
    plan = EdgePlan(indptr, indices)
    assert plan.tasks.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert plan.separate_tasks.tolist() == [0, 2, 4, 6]


def test_cached_plans_are_not_used_for_new_relations(windows):
    """A new object may have the address, and so the id, of a freed one."""
    near = windows([40], 3)
    for number in range(200):
        other = windows([40], [1, 9, 15][number % 3])
        plan = narrow_plan([near, other])
        assert len(plan.lows) == 2
        assert np.array_equal(plan.highs[1], other.ranges[1].numpy())
        del other


def test_number_of_cached_plans_is_bounded(windows):
    near, others = windows([40], 3), [windows([40], 7) for _ in range(3 * fused_plan.MAX_CACHED_PLANS)]
    plans = [narrow_plan([near, other]) for other in others]
    assert len(near.plans["fused, narrow"]) == fused_plan.MAX_CACHED_PLANS
    assert narrow_plan([near, others[-1]]) is plans[-1]
    assert narrow_plan([near, others[-1], others[-2]]) is not plans[-1]
    gone = weakref.ref(others.pop())
    assert gone() is None, "no reference to the other relation remains"


@pytest.mark.parametrize("copy", [deepcopy, lambda edges: pickle.loads(pickle.dumps(edges))])
def test_copies_of_edges_have_no_cached_plans(windows, copy):
    near, other = windows([40], 3), windows([40], 7)
    narrow_plan([near, other])
    again = copy(near)
    assert again.plans == {}
    assert torch.equal(again.indices, near.indices)
    assert np.array_equal(narrow_plan([again, other]).highs, narrow_plan([near, other]).highs)


def test_the_largest_range_of_each_destination_and_the_other_edges(monkeypatch):
    monkeypatch.setattr(fused_plan, "MIN_SPLIT_EDGES", 0)
    sources = [list(range(40))] + [[0, *range(max(1, i - 8), min(40, i + 9))] for i in range(1, 40)]
    indptr = torch.tensor([0, *map(len, sources)]).cumsum(0)
    edges = Edges(indptr, torch.tensor([j for row in sources for j in row]), 40)
    runs, rest = split_runs(edges)
    low, high = runs.ranges
    parts = [
        set(range(low[i], high[i])) | set(rest.indices[rest.indptr[i] : rest.indptr[i + 1]].tolist()) for i in range(40)
    ]
    assert parts == list(map(set, sources))
    assert runs.num_edges + rest.num_edges == edges.num_edges
    assert low[0] == high[0]  # too many keys for a block of its neighbours
    assert split_runs(edges) is split_runs(edges)


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_edges_that_are_not_split(windows, monkeypatch, few):
    monkeypatch.setattr(fused_plan, "MIN_SPLIT_EDGES", few)
    scattered = Edges(torch.arange(0, 3 * 50 + 1, 3), torch.arange(150) * 7 % 50, 50)
    assert split_runs(scattered) is None
    assert split_runs(windows([400], 301)) is None


def test_tasks_cover_all_destinations():
    starts = np.array([0, 0, 5, 5, 100_000, 100_000, 100_001])
    tasks = EdgePlan(starts, np.zeros(100_001, np.int32)).tasks
    assert (tasks[0], tasks[-1]) == (0, 6)
    assert (np.diff(tasks) > 0).all()


def test_nodes_without_edges_among_contiguous_ones(random_tensors):
    """The last token of a text has no following tokens; its empty range must not widen others."""
    length, texts = 400, 3
    counts = torch.tensor([*range(length - 1, -1, -1)] * texts)
    indices = torch.cat([torch.arange(node + 1, (node // length + 1) * length) for node in range(length * texts)])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    edges = Edges(indptr.int(), indices.int(), length * texts)
    plan = plan_of(edges)
    assert plan.low.dtype == np.int64
    assert plan.chunks[:, 2].min() >= 0
    results = []
    for backend in ("fused", "torch"):
        inputs = [tensor.requires_grad_() for tensor in random_tensors(length * texts, length * texts)]
        results.append(torch.autograd.grad(attend(edges, *inputs, backend=backend).sum(), inputs))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)

"""Tasks cover all destinations and keys once; keys that several chunks see are known to be shared."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn import Edges
from graphattn.backends import fused_plan
from graphattn.backends.fused_plan import EdgePlan, RangePlan, plan_of, shared_plan


def windows(lengths, reach):
    """Windows in sentences that stand one after the other."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    ends = starts + np.repeat(lengths, lengths)
    here = np.arange(int(np.sum(lengths)))
    low, high = np.maximum(here - reach, starts), np.minimum(here + reach + 1, ends)
    return Edges.of_ranges(torch.from_numpy(low), torch.from_numpy(high), len(here))


lengths_of_sentences = st.lists(st.integers(1, 90), min_size=1, max_size=12).map(np.array)


@given(lengths_of_sentences, st.integers(0, 60))
def test_chunks_cover_destinations_and_know_who_shares_keys(lengths, reach):
    edges = windows(lengths, reach)
    plan = plan_of(edges)
    assert isinstance(plan, RangePlan)
    assert plan.chunks[0, 0] == 0
    assert plan.chunks[-1, 1] == edges.num_destinations
    assert (plan.chunks[1:, 0] == plan.chunks[:-1, 1]).all()
    seen = [set() for _ in plan.chunks]
    for keys, (first, stop, begin, end, _) in zip(seen, plan.chunks, strict=True):
        for i in range(first, stop):
            keys.update(range(plan.lows[0, i], plan.highs[0, i]))
        assert (min(keys), max(keys) + 1) == (begin, end)
    for number, keys in enumerate(seen):
        others = set().union(*seen[:number], *seen[number + 1 :])
        assert (plan.chunks[number, 4] < 0) or plan.shared > 0
        if keys & others:
            assert plan.chunks[number, 4] >= 0


def test_written_out_edges_are_recognised():
    edges = windows(np.array([5, 9]), 2)
    written = Edges(edges.indptr, edges.indices, edges.num_sources)
    assert np.array_equal(plan_of(written).lows, plan_of(edges).lows)
    shuffled = Edges(edges.indptr, edges.indices.flip(0), edges.num_sources)
    assert isinstance(plan_of(shuffled), EdgePlan)


def test_ranges_far_apart_are_taken_edge_by_edge():
    random = np.random.default_rng(0)
    low = torch.from_numpy(random.integers(0, 99_990, 2000))
    assert isinstance(plan_of(Edges.of_ranges(low, low + 3, 100_000)), EdgePlan)


def test_long_texts_are_cut_inside_and_share_keys():
    plan = plan_of(windows(np.array([3000]), 40))
    assert len(plan.chunks) > 5
    assert (plan.chunks[:, 4] >= 0).all()
    assert plan.shared == (plan.chunks[:, 3] - plan.chunks[:, 2]).sum()


def test_narrow_relations_share_a_plan_with_the_identity():
    lengths = np.array([30, 7, 200, 1, 55])
    relations = [windows(lengths, reach) for reach in (0, 1, 9)]
    plan = shared_plan(relations)
    assert plan.lows.shape == (2, lengths.sum())
    assert plan.shared == 0
    for first, stop, begin, end, _ in plan.chunks:
        assert begin <= first
        assert stop <= end
        assert begin == plan.lows[:, first:stop].min()
    assert shared_plan(relations) is plan


@pytest.mark.parametrize("reaches", [(0, 0), (1, 400)], ids=["identities", "a wide one"])
def test_no_plan_is_shared(reaches):
    assert shared_plan([windows(np.array([900]), reach) for reach in reaches]) is None


def test_runs_that_share_sources_are_joined(monkeypatch):
    monkeypatch.setattr(fused_plan, "RUN", 2)
    indptr, indices = np.arange(0, 13, 2), np.array([1, 0, 0, 1, 3, 2, 4, 2, 5, 5, 5, 5])
    plan = EdgePlan(indptr, indices)
    assert plan.runs.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert plan.separate_runs.tolist() == [0, 2, 4, 6]

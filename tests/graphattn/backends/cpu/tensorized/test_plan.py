"""Which relations are computed in blocks, and that chunks and strips are complete."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn import Edges
from graphattn._backends.cpu.tensorized import plan as tensorized_plan
from graphattn._backends.cpu.tensorized.plan import block_plan_of, sentence_starts
from graphattn.builders import TextGraphBuilder
from graphattn.builders._sentence import Sentence
from graphattn.builders.relations import Complete, Order, Window, WordGroup


def edges_of(relation, lengths):
    graph = TextGraphBuilder([relation], cls=False).text_batch([["x"] * length for length in lengths])
    return Edges.of(graph, relation.name)


def pairs_of(plan):
    """All pairs (destination, source) that the masks of a plan allow."""
    pairs = set()
    for chunk in plan.chunks:
        count = chunk.size * chunk.length
        tokens = torch.arange(chunk.first, chunk.first + count) if chunk.tokens is None else chunk.tokens
        real = torch.ones(count, dtype=torch.bool)
        if chunk.positions is not None:
            real[:] = False
            real[chunk.positions] = True
        tokens, real = tokens.view(chunk.size, -1), real.view(chunk.size, -1)
        for strip in chunk.strips:
            shape = (chunk.size, strip.queries.stop - strip.queries.start, strip.keys.stop - strip.keys.start)
            seen = torch.ones(shape, dtype=torch.bool)
            for hidden in (strip.hidden, strip.keyless):
                if hidden is not None:
                    seen &= ~hidden
            seen &= real[:, strip.queries].unsqueeze(2) & real[:, strip.keys].unsqueeze(1)
            for row, query, key in seen.nonzero().tolist():
                pairs.add((int(tokens[row, strip.queries][query]), int(tokens[row, strip.keys][key])))
    return pairs


@pytest.mark.parametrize("relation", [Order("forward"), Order("backward"), Complete(), Window(5), Window("N/2")])
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6), strip=st.sampled_from([2, 5, 128]))
def test_plans_contain_exactly_the_edges(relation, lengths, strip):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensorized_plan, "STRIP_QUERIES", strip)
        patch.setattr(tensorized_plan, "MIN_DENSITY", 0)
        edges = edges_of(relation, lengths)
        plan = block_plan_of(edges)
    if not edges.num_edges:
        assert plan is None
        return
    assert pairs_of(plan) == set(zip(edges.destinations.tolist(), edges.sources.tolist(), strict=True))
    assert plan.keyless.tolist() == (edges.indptr[1:] == edges.indptr[:-1]).tolist()


def test_consecutive_sentences_of_equal_length_are_views():
    (chunk,) = block_plan_of(edges_of(Order("forward"), [7, 7, 7])).chunks
    assert (chunk.size, chunk.length, chunk.tokens, chunk.positions) == (3, 7, None, None)
    rows = torch.arange(21.0).view(21, 1)
    assert chunk.gather(rows).data_ptr() == rows.data_ptr()


def test_sentences_of_similar_length_share_a_chunk():
    plan = block_plan_of(edges_of(Complete(), [100, 3, 98, 4, 101]))
    assert sorted((chunk.size, chunk.length) for chunk in plan.chunks) == [(2, 4), (3, 101)]


def test_plans_are_cached():
    edges = edges_of(Complete(), [4, 5])
    assert block_plan_of(edges) is block_plan_of(edges)


def test_sparse_or_scattered_edges_have_no_plan():
    assert block_plan_of(edges_of(Window(3), [200])) is None
    assert block_plan_of(Edges(torch.tensor([0, 2, 2, 2]), torch.tensor([0, 2]), 3)) is None
    assert block_plan_of(Edges(torch.tensor([0, 1]), torch.tensor([1]), 2)) is None  # bipartite


def test_sentence_starts():
    assert sentence_starts(edges_of(Order("backward"), [3, 1, 4])).tolist() == [0, 3, 4, 8]
    groups = TextGraphBuilder([WordGroup()], cls=False).text_batch([Sentence(["a", "b", "c"], word_ids=[0, 0, 1])])
    assert sentence_starts(Edges.of(groups, "group")).tolist() == [0, 2, 3]  # no edge leaves a word
    assert sentence_starts(Edges(torch.tensor([0, 1]), torch.tensor([1]), 2)).tolist() == [0, 1]

"""Random pairs: an undirected graph in which half of all pairs are edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import RandomPairs, Sentence, TextGraphBuilder
from graphattn.builders.relations.random_draws import lots
from graphattn.exceptions import ConfigError, GraphError


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_edges_go_both_ways_and_are_the_same_in_every_batch(batch_equals_singles, seed, lengths, cls):
    relation = RandomPairs(seed)
    builder = TextGraphBuilder([relation], cls=cls)
    sentences = [Sentence(["x"] * length) for length in lengths]
    for graph in batch_equals_singles(builder, sentences):
        pairs = list(zip(*(ends.tolist() for ends in graph.edges(etype=relation.name)), strict=True))
        assert set(pairs) == {(target, source) for source, target in pairs}
        assert {(node, node) for node in range(graph.num_nodes())} <= set(pairs)
        assert len(set(pairs)) == len(pairs)
    layout = builder.layout(sentences)
    assert relation.num_edges(layout).tolist() == relation.edges(layout).per_sentence.tolist()


def test_half_of_all_pairs_are_joined():
    graph = TextGraphBuilder([RandomPairs()], cls=False).build(["x"] * 100)
    joined = (graph.num_edges() - 100) / 2
    assert abs(joined / (100 * 99 / 2) - 0.5) < 0.03
    other = TextGraphBuilder([RandomPairs(1)], cls=False).build(["x"] * 100)
    assert graph.edges()[0].tolist() != other.edges()[0].tolist()


def test_name():
    assert (RandomPairs().name, RandomPairs(7).name) == ("random-pairs", "random-pairs:7")
    assert (repr(RandomPairs()), repr(RandomPairs(7))) == ("RandomPairs()", "RandomPairs(7)")
    with pytest.raises(ConfigError, match="seed is -1; it must be at least 0"):
        RandomPairs(-1)


def test_too_many_pairs_are_refused_before_they_are_made():
    builder = TextGraphBuilder([RandomPairs()], cls=False)
    with pytest.raises(GraphError, match="relation 'random-pairs' has 3,600,000,000 edges"):
        builder.build(["x"] * 60_000)


def test_lots_depend_on_the_length_of_the_text(pairs):
    assert lots(0, np.array([5]), np.array([1])) != lots(0, np.array([6]), np.array([1]))
    of_many = []
    for length in (20, 21):
        graph = TextGraphBuilder([RandomPairs()], cls=False).build(["x"] * length)
        of_many.append([pair for pair in pairs(graph, ("token", "random-pairs", "token")) if max(pair) < 20])
    assert of_many[0] != of_many[1]

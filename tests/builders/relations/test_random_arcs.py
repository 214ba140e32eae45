"""Random arcs: a tree over the words, the same in every batch."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import RandomArcs, Sentence, TextGraphBuilder
from graphattn.exceptions import ConfigError


def arcs_of(graph, relation):
    return list(zip(*(ends.tolist() for ends in graph.edges(etype=relation.name)), strict=True))


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_words_hang_together_as_a_tree_with_self_loops(batch_equals_singles, seed, lengths, cls):
    relation = RandomArcs(seed)
    builder = TextGraphBuilder([relation], cls=cls)
    sentences = [Sentence(["x", "y"] * length, word_ids=[i // 2 for i in range(2 * length)]) for length in lengths]
    for graph in batch_equals_singles(builder, sentences):
        pairs = arcs_of(graph, relation)
        words = graph.num_nodes("word")
        assert set(pairs) >= {(word, word) for word in range(words)}
        assert set(pairs) == {(target, source) for source, target in pairs}
        tree = nx.Graph((source, target) for source, target in pairs if source != target)
        assert len(pairs) == max(0, 3 * words - 2)
        assert words < 2 or (nx.is_tree(tree) and len(tree) == words)
    layout = builder.layout(sentences)
    assert relation.num_edges(layout).tolist() == relation.edges(layout).per_sentence.tolist()


def test_all_words_are_as_likely_to_be_looked_at():
    """The mean degree of the first words is that of the last ones: who hangs on whom does not follow the text."""
    degrees = [0] * 20
    for seed in range(200):
        relation = RandomArcs(seed)
        for source, _ in arcs_of(TextGraphBuilder([relation], cls=False).build(["x"] * 20), relation):
            degrees[source] += 1
    assert max(degrees) < 1.25 * min(degrees)


def test_membership_comes_along():
    graph = TextGraphBuilder([RandomArcs()]).build(["a", "b"])
    assert graph.canonical_etypes == [("token", "in", "word"), ("word", "random-arcs", "word")]


def test_name():
    assert (RandomArcs().name, RandomArcs(7).name) == ("random-arcs", "random-arcs:7")
    assert (repr(RandomArcs()), repr(RandomArcs(7))) == ("RandomArcs()", "RandomArcs(7)")
    with pytest.raises(ConfigError, match="seed is -1; it must be at least 0"):
        RandomArcs(-1)


def test_an_arc_is_no_self_loop():
    graph = TextGraphBuilder([RandomArcs()]).build(["x"] * 5)
    sources, targets = graph.edges(etype="random-arcs")
    assert graph.edges["random-arcs"].data["label"].tolist() == (sources != targets).int().tolist()


def test_every_tree_may_be_drawn():
    seen = set()
    for seed in range(200):
        relation = RandomArcs(seed)
        graph = TextGraphBuilder([relation], cls=False).build(["a", "b", "c"])
        sources, targets = (ends.tolist() for ends in graph.edges(etype=relation.name, order="eid"))
        directions = graph.edges[relation.name].data["direction"].tolist()
        seen.add(frozenset(zip(sources, targets, directions, strict=True)))
    assert len(seen) == 9  # n ** (n - 1) rooted trees of n words

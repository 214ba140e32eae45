"""Random relations: their distribution, and the same edges in every batch."""

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Random, RandomArcs, RandomPairs, Sentence, ShuffledGroup, TextGraphBuilder
from graphattn.builders.relations._random_edges import draw_bits

# random


def sources_of(relation, length, *, cls=False):
    """The sources of each token of a text."""
    arrays = relation.edges(TextGraphBuilder([relation], cls=cls).layout([["x"] * length]))
    return [row.tolist() for row in np.split(arrays.indices, arrays.indptr[1:-1])][: length + cls]


@settings(max_examples=60)
@given(count=st.integers(1, 6), seed=st.integers(0, 2**63), length=st.integers(0, 12), cls=st.booleans())
def test_every_token_has_count_different_sources(count, seed, length, cls):
    rows, length = sources_of(Random(count, seed), length, cls=cls), length + cls
    assert len(rows) == length
    for row in rows:
        assert row == sorted(set(row))
        assert len(row) == min(count, length)
        assert all(0 <= source < length for source in row)


def test_random_edges_depend_on_seed_and_length():
    assert sources_of(Random(3, 1), 40) != sources_of(Random(3, 2), 40)
    assert sources_of(Random(3), 41)[:40] != sources_of(Random(3), 40)
    assert len({tuple(row) for row in sources_of(Random(3), 40)}) > 35


def test_all_sets_of_sources_are_equally_likely():
    drawn = Counter(tuple(row) for seed in range(600) for row in sources_of(Random(2, seed), 6))
    assert set(drawn) == set(combinations(range(6), 2))
    expected = 600 * 6 / 15
    chi_square = sum((count - expected) ** 2 / expected for count in drawn.values())
    assert chi_square < 36.1  # 14 degrees of freedom, one in a thousand


# random-pairs


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), length=st.integers(0, 9), cls=st.booleans())
def test_random_pairs_are_symmetric(pairs, seed, length, cls):
    relation = RandomPairs(seed)
    edges = pairs(TextGraphBuilder([relation], cls=cls).text_batch([["x"] * length]), relation.canonical)
    assert set(edges) == {(target, source) for source, target in edges}
    assert {(node, node) for node in range(length + cls)} <= set(edges)
    assert len(set(edges)) == len(edges)


def test_half_of_all_pairs_are_connected():
    edges = Edges.of(TextGraphBuilder([RandomPairs()], cls=False).text_batch([["x"] * 100]))
    joined = (edges.num_edges - 100) / 2
    assert abs(joined / (100 * 99 / 2) - 0.5) < 0.03
    other = Edges.of(TextGraphBuilder([RandomPairs(1)], cls=False).text_batch([["x"] * 100]))
    assert edges.sources.tolist() != other.sources.tolist()


def test_random_pairs_depend_on_the_length_of_the_text(pairs):
    assert draw_bits(0, np.array([5]), np.array([1])) != draw_bits(0, np.array([6]), np.array([1]))
    of_many = []
    for length in (20, 21):
        graph = TextGraphBuilder([RandomPairs()], cls=False).text_batch([["x"] * length])
        of_many.append([pair for pair in pairs(graph, ("token", "random-pairs", "token")) if max(pair) < 20])
    assert of_many[0] != of_many[1]


# random-arcs


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), length=st.integers(0, 9), cls=st.booleans())
def test_random_arcs_are_a_tree_with_self_loops(pairs, seed, length, cls):
    relation = RandomArcs(seed)
    text = Sentence(["x", "y"] * length, word_ids=[i // 2 for i in range(2 * length)])
    edges, words = pairs(TextGraphBuilder([relation], cls=cls).text_batch([text]), relation.canonical), length + cls
    assert set(edges) >= {(word, word) for word in range(words)}
    assert set(edges) == {(target, source) for source, target in edges}
    tree = nx.Graph((source, target) for source, target in edges if source != target)
    assert len(edges) == max(0, 3 * words - 2)
    assert words < 2 or (nx.is_tree(tree) and len(tree) == words)


def test_degrees_do_not_depend_on_the_position():
    degrees = np.zeros(20)
    for seed in range(200):
        edges = Edges.of(
            TextGraphBuilder([RandomArcs(seed)], cls=False).text_batch([["x"] * 20]), RandomArcs(seed).name
        )
        degrees += np.bincount(edges.sources, minlength=20)
    assert degrees.max() < 1.25 * degrees.min()


def test_random_arcs_add_membership():
    graph = TextGraphBuilder([RandomArcs()]).text_batch([["a", "b"]])
    assert list(graph.edges) == [("word", "random-arcs", "word"), ("token", "in", "word")]


def test_labels_of_random_arcs():
    graph = TextGraphBuilder([RandomArcs()]).text_batch([["x"] * 5])
    sources, targets = Edges.of(graph, "random-arcs").ends_by_id()
    labels = graph.edge_features["word", "random-arcs", "word"]["label"]
    assert labels.tolist() == (sources != targets).int().tolist()


def test_every_tree_is_possible():
    drawn = set()
    for seed in range(200):
        relation = RandomArcs(seed)
        graph = TextGraphBuilder([relation], cls=False).text_batch([["a", "b", "c"]])
        sources, targets = (ends.tolist() for ends in Edges.of(graph, relation.name).ends_by_id())
        directions = graph.edge_features[relation.canonical]["direction"].tolist()
        drawn.add(frozenset(zip(sources, targets, directions, strict=True)))
    assert len(drawn) == 9  # n ** (n - 1) rooted trees of n words


# shuffled-group


def sentence_of(sizes):
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    return Sentence(["x"] * len(word_ids), word_ids=word_ids)


def groups_of(edges):
    """Sizes of a text's groups, which must be consecutive complete graphs."""
    sizes = []
    while sum(sizes) < len({target for target, _ in edges}):
        first = sum(sizes)
        members = sorted(source for target, source in edges if target == first)
        assert members == list(range(first, first + len(members)))
        assert {pair for pair in edges if pair[0] in members} == {(t, s) for t in members for s in members}
        sizes.append(len(members))
    return sizes


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), sizes=st.lists(st.integers(1, 4), max_size=9), cls=st.booleans())
def test_shuffled_groups_have_the_sizes_of_the_words(pairs, seed, sizes, cls):
    relation = ShuffledGroup(seed)
    graph = TextGraphBuilder([relation], cls=cls).text_batch([sentence_of(sizes)])
    assert sorted(groups_of(pairs(graph, relation.canonical))) == sorted([*sizes, *[1] * cls])


def test_the_order_of_groups_is_random(pairs):
    sizes, drawn = [1, 2, 3] * 20, []
    for relation in map(ShuffledGroup, range(20)):
        graph = TextGraphBuilder([relation], cls=False).text_batch([sentence_of(sizes)])
        drawn.append(groups_of(pairs(graph, relation.canonical)))
    assert len(set(map(tuple, drawn))) == 20
    assert all(order != sizes for order in drawn)
    assert np.abs(np.mean(drawn, axis=0) - np.mean(sizes)).max() < 1  # any size may be at any position

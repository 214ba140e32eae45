"""Random relations: their distribution, and the same edges in every batch."""

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Random, RandomArcs, RandomPairs, Sentence, ShuffledGroup, TextGraphBuilder
from graphattn.builders.relations._random_edges import draw_bits
from graphattn.exceptions import GraphError

# random


def sources_of(relation, lengths, cls=False):
    """The sources of each token of each sentence, as positions in the sentence."""
    layout = TextGraphBuilder([relation], cls=cls).layout([Sentence(["x"] * length) for length in lengths])
    arrays = relation.edges(layout)
    rows = np.split(arrays.indices, arrays.indptr[1:-1])[: layout.num_tokens]
    sentences = [[] for _ in lengths]
    for token, row in enumerate(rows):
        sentence = layout.sentence_of_token[token]
        sentences[sentence].append((row - layout.token_starts[sentence]).tolist())
    return sentences


@settings(max_examples=60)
@given(
    count=st.integers(1, 6),
    seed=st.integers(0, 2**63),
    lengths=st.lists(st.integers(0, 12), max_size=5),
    cls=st.booleans(),
)
def test_every_token_has_count_different_sources(count, seed, lengths, cls):
    for length, rows in zip(lengths, sources_of(Random(count, seed), lengths, cls), strict=True):
        length += cls
        assert len(rows) == length
        for row in rows:
            assert row == sorted(set(row))
            assert len(row) == min(count, length)
            assert all(0 <= source < length for source in row)


@settings(max_examples=30)
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, 12), max_size=5))
def test_random_edges_do_not_depend_on_the_batch(follows, seed, lengths):
    relation = Random(3, seed)
    alone = {length: sources_of(relation, [length])[0] for length in {*lengths, *(n + 1 for n in lengths)}}

    def definition(length):
        pairs = [(target, source) for target, row in enumerate(alone[length]) for source in row]
        return {relation.canonical: pairs}

    follows(relation, [Sentence(["x"] * length) for length in lengths], definition)


def test_random_edges_depend_on_seed_and_length():
    assert sources_of(Random(3, 1), [40]) != sources_of(Random(3, 2), [40])
    assert sources_of(Random(3), [41])[0][:40] != sources_of(Random(3), [40])[0]
    assert len({tuple(row) for row in sources_of(Random(3), [40])[0]}) > 35


def test_all_sets_of_sources_are_equally_likely():
    drawn = Counter(tuple(row) for seed in range(600) for row in sources_of(Random(2, seed), [6])[0])
    assert set(drawn) == set(combinations(range(6), 2))
    expected = 600 * 6 / 15
    chi_square = sum((count - expected) ** 2 / expected for count in drawn.values())
    assert chi_square < 36.1  # 14 degrees of freedom, one in a thousand


# random-pairs


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_random_pairs_are_symmetric_and_do_not_depend_on_the_batch(batch_equals_singles, seed, lengths, cls):
    relation = RandomPairs(seed)
    builder = TextGraphBuilder([relation], cls=cls)
    sentences = [Sentence(["x"] * length) for length in lengths]
    for graph in batch_equals_singles(builder, sentences):
        pairs = list(zip(*(ends.tolist() for ends in Edges.of(graph, relation.name).ends_by_id()), strict=True))
        assert set(pairs) == {(target, source) for source, target in pairs}
        assert {(node, node) for node in range(graph.num_nodes())} <= set(pairs)
        assert len(set(pairs)) == len(pairs)


def test_half_of_all_pairs_are_connected():
    edges = Edges.of(TextGraphBuilder([RandomPairs()], cls=False).text_batch([["x"] * 100]))
    joined = (edges.num_edges - 100) / 2
    assert abs(joined / (100 * 99 / 2) - 0.5) < 0.03
    other = Edges.of(TextGraphBuilder([RandomPairs(1)], cls=False).text_batch([["x"] * 100]))
    assert edges.sources.tolist() != other.sources.tolist()


def test_too_many_pairs_are_rejected_before_they_are_built():
    builder = TextGraphBuilder([RandomPairs()], cls=False)
    with pytest.raises(GraphError, match="relation 'random-pairs' has 3,600,000,000 edges"):
        builder.text_batch([["x"] * 60_000])


def test_random_pairs_depend_on_the_length_of_the_text(pairs):
    assert draw_bits(0, np.array([5]), np.array([1])) != draw_bits(0, np.array([6]), np.array([1]))
    of_many = []
    for length in (20, 21):
        graph = TextGraphBuilder([RandomPairs()], cls=False).text_batch([["x"] * length])
        of_many.append([pair for pair in pairs(graph, ("token", "random-pairs", "token")) if max(pair) < 20])
    assert of_many[0] != of_many[1]


# random-arcs


def arcs_of(graph, relation):
    return list(zip(*(ends.tolist() for ends in Edges.of(graph, relation.name).ends_by_id()), strict=True))


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_random_arcs_are_a_tree_with_self_loops(batch_equals_singles, seed, lengths, cls):
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


def test_degrees_do_not_depend_on_the_position():
    degrees = [0] * 20
    for seed in range(200):
        relation = RandomArcs(seed)
        for source, _ in arcs_of(TextGraphBuilder([relation], cls=False).text_batch([["x"] * 20]), relation):
            degrees[source] += 1
    assert max(degrees) < 1.25 * min(degrees)


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


splits = st.lists(st.integers(1, 4), max_size=9)


def sentence_of(sizes):
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    return Sentence(["x"] * len(word_ids), word_ids=word_ids)


def groups_of(graph, relation):
    """Sizes of a sentence's groups, which must be consecutive complete graphs."""
    pairs = set(zip(*(ends.tolist() for ends in Edges.of(graph, relation.name).ends_by_id()), strict=True))
    sizes, first = [], 0
    while first < graph.num_nodes("token"):
        members = sorted(source for source, target in pairs if target == first)
        assert members == list(range(first, first + len(members)))
        assert {(s, t) for s, t in pairs if t in members} == {(s, t) for s in members for t in members}
        sizes.append(len(members))
        first += len(members)
    return sizes


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63), texts=st.lists(splits, max_size=4), cls=st.booleans())
def test_shuffled_groups_have_the_sizes_of_the_words(batch_equals_singles, seed, texts, cls):
    relation = ShuffledGroup(seed)
    builder = TextGraphBuilder([relation], cls=cls)
    sentences = [sentence_of(sizes) for sizes in texts]
    for sizes, graph in zip(texts, batch_equals_singles(builder, sentences), strict=True):
        assert sorted(groups_of(graph, relation)) == sorted([*sizes, *[1] * cls])


def test_the_order_of_groups_is_random():
    sizes = [1, 2, 3] * 20
    builders = [TextGraphBuilder([ShuffledGroup(seed)], cls=False) for seed in range(20)]
    drawn = [
        groups_of(builder.text_batch([sentence_of(sizes)]), ShuffledGroup(seed))
        for seed, builder in enumerate(builders)
    ]
    assert len(set(map(tuple, drawn))) == 20
    assert all(order != sizes for order in drawn)
    assert np.abs(np.mean(drawn, axis=0) - np.mean(sizes)).max() < 1  # any size may be at any position

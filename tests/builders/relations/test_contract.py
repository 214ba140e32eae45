"""What every relation must do: names, counts, and the same edges in every batch; simple ones against their definitions.

A new relation is a row of ``RELATIONS``.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._scales import Scale
from graphattn.builders import (
    BinaryPartition,
    Causal,
    Complete,
    CompoundRelation,
    Dependency,
    Dilated,
    DocumentTree,
    Global,
    Links,
    Membership,
    Nearest,
    Order,
    Random,
    RandomArcs,
    RandomPairs,
    RelativePositions,
    Sentence,
    SentenceNodes,
    ShuffledGroup,
    Star,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.builders.relations import parse_relation
from graphattn.builders.relations._relation_checks import validate_edges
from graphattn.exceptions import ConfigError

RELATIONS = {
    "Window('3')": (Window(3), "window:3"),
    "Window('N/16')": (Window("n / 16"), "window:N/16"),
    "Window('N')": (Window(Scale("N")), "window:N"),
    "Window('1', as_radius=True)": (Window(1, as_radius=True), "radius:1"),
    "Dilated('N/4', 2)": (Dilated("n/4", 2), "dilated:N/4:2"),
    "Global(2)": (Global(2), "global:2"),
    "Random(3)": (Random(3), "random:3"),
    "Random(3, seed=7)": (Random(3, 7), "random:3:7"),
    "RandomPairs()": (RandomPairs(), "random-pairs"),
    "RandomPairs(7)": (RandomPairs(7), "random-pairs:7"),
    "RandomArcs(7)": (RandomArcs(7), "random-arcs:7"),
    "ShuffledGroup()": (ShuffledGroup(), "shuffled-group"),
    "ShuffledGroup(7)": (ShuffledGroup(7), "shuffled-group:7"),
    "WordGroup()": (WordGroup(), "group"),
    "Membership()": (Membership(), "in"),
    "Order('forward')": (Order("forward"), "forward"),
    "Order('backward')": (Order("backward"), "backward"),
    "Causal()": (Causal(), "causal"),
    "Causal(4)": (Causal(4), "causal:4"),
    "Complete()": (Complete(), "all"),
    "Complete(on='word')": (Complete("word"), "all:word"),
    "Dependency(on='word')": (Dependency(), "dependency"),
    "Dependency(on='token')": (Dependency("token"), "dependency:token"),
    "Links(on='token')": (Links(), "links"),
    "Links(on='word')": (Links("word"), "links:word"),
    "Star()": (Star(), "star"),
    "BinaryPartition(2)": (BinaryPartition(2), "binary:2"),
    "SentenceNodes()": (SentenceNodes(), "sentence"),
    "DocumentTree()": (DocumentTree(), "document"),
    "Nearest(4)": (Nearest(4), "nearest:4"),
    "RelativePositions(Window('3'), 4)": (RelativePositions(Window(3), 4), "relative:4(window:3)"),
    "Reverse(Membership())": (Membership().reverse(), "reverse(in)"),
    "Intersection(Window('9'), WordGroup())": (Window(9).within_words(), "window:9&group"),
    "Union(Window('3'), Global(1), Random(2))": (
        Window(3) | Global(1) | Random(2),
        "window:3|global:1|random:2",
    ),
}


@pytest.mark.parametrize("shown", RELATIONS)
def test_names_are_read_back(shown):
    relation, spec = RELATIONS[shown]
    again = parse_relation(spec)
    assert repr(relation) == repr(again) == shown
    assert relation.spec == again.spec == spec
    assert relation.canonical == again.canonical


@pytest.mark.parametrize("shown", RELATIONS)
@settings(max_examples=8)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_a_batch_equals_its_texts(pairs, random_sentence, shown, random, cls):
    """Nodes, features and edges of single texts follow each other; counts need no edges."""
    relation, _ = RELATIONS[shown]
    vectors = np.random.default_rng(0).normal(size=(4, 3)) if relation.needs_vectors else None
    builder = TextGraphBuilder([relation], cls=cls, vectors=vectors)
    texts = [complete(random_sentence(random, size), random) for size in (5, 0, 1, 7)]
    tokens = [np.array([random.randrange(4) for _ in text.tokens], np.int64) for text in texts]
    layouts = [builder.layout([text], features={"id": ([ids], 2)}) for text, ids in zip(texts, tokens, strict=True)]
    layout = builder.layout(texts, features={"id": (tokens, 2)})
    batch, singles = builder.text_batch(layout), list(map(builder.text_batch, layouts))
    for kind, counts in batch.node_counts.items():
        assert counts.tolist() == [single.num_nodes(kind) for single in singles]
        for name, values in batch.node_features[kind].items():
            assert values.tolist() == [row for single in singles for row in single.node_features[kind][name].tolist()]
    for part in builder.relations:
        kind, expected = part.canonical, []
        shifts = [batch.node_counts[end].cumsum(0) - batch.node_counts[end] for end in (part.target, part.source)]
        for single, *shift in zip(singles, *(ends.tolist() for ends in shifts), strict=True):
            expected += [(target + shift[0], source + shift[1]) for target, source in pairs(single, kind)]
        assert pairs(batch, kind) == expected
        counts = [single.edges[kind].num_edges for single in singles]
        assert batch.batch_num_edges(kind).tolist() == part.num_edges(layout).tolist() == counts
        for name, values in batch.edge_features[kind].items():
            assert values.tolist() == [row for single in singles for row in single.edge_features[kind][name].tolist()]
        ends = (batch.batch_num_nodes(end).numpy() for end in (part.source, part.target))
        validate_edges(part.name, part.edges(layout), *ends)
    if isinstance(relation, CompoundRelation):
        assert relation.num_edges(layout).tolist() == builder.num_edges(layout).tolist()


def complete(sentence, random):
    """The sentence with links and sentences."""
    words = range(sentence.num_words)
    links = [(random.choice(words), random.choice(words)) for _ in range(random.randrange(5))] if words else []
    ends = [random.random() < 0.3 for _ in words]
    return replace(sentence, links=links, sentence_ids=[sum(ends[:word]) for word in words])


@pytest.mark.parametrize(
    "relation",
    [
        *(Window(scale, as_radius=as_radius) for scale in (1, 3, "N", "N/3", "N/8") for as_radius in (False, True)),
        Complete(),
        Complete("word"),
        Order("forward"),
        Order("backward"),
        WordGroup(),
        Membership(),
    ],
    ids=repr,
)
@settings(max_examples=10)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_edges_equal_the_table(follows, edge_table, random_sentence, relation, random, cls):
    def definition(sentence):
        return {relation.canonical: [edge[:2] for edge in edge_table(relation.canonical, sentence, cls)]}

    follows(relation, [random_sentence(random, size) for size in (0, 1, 4, 9)], definition, cls=cls)


def global_edges(length):
    return {("token", "global:2", "token"): [(i, j) for i in range(length) for j in range(length) if min(i, j) < 2]}


def causal_edges(length):
    """Sliding windows of decoders: Beltagy et al. 2020, section 3.2."""
    return {("token", "causal:3", "token"): [(i, j) for i in range(length) for j in range(i + 1) if i - j < 3]}


def star(length):
    """Star-Transformer, section 3.1: a ring of satellites, each connected to the relay, which attends to itself."""
    return {
        ("token", "star", "token"): {(i, (i + step) % length) for i in range(length) for step in (-1, 0, 1)},
        ("relay", "star", "token"): [(i, 0) for i in range(length)],
        ("token", "star", "relay"): [(0, i) for i in range(length)],
        ("relay", "star", "relay"): [(0, 0)],
    }


@pytest.mark.parametrize(
    ("relation", "definition"), [(Global(2), global_edges), (Causal(3), causal_edges), (Star(), star)]
)
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_edges_equal_their_definition(follows, relation, definition, lengths, cls):
    texts = [Sentence(["x"] * length) for length in lengths]
    follows(relation, texts, lambda text: definition(len(text) + cls), cls=cls)


def test_a_compound_relation_itself_has_no_edges():
    layout = TextGraphBuilder([Star()], cls=False).layout([["a", "b", "c"], []])
    assert Star().num_edges(layout).tolist() == [9 + 3 + 3 + 1, 1]
    with pytest.raises(ConfigError) as caught:
        Star().edges(layout)
    assert str(caught.value) == "relation 'star' has several kinds of edges; use its parts()"


def test_both_directions_are_two_relations():
    assert repr(Order().parts()) == "(Order('forward'), Order('backward'))"
    assert [part.name for part in Order().parts()] == ["forward", "backward"]

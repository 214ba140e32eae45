"""Composed relations against sets of edges."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import (
    Complete,
    Dependency,
    Global,
    Intersection,
    Membership,
    Order,
    Random,
    Relation,
    RelationArrays,
    RelativePositions,
    Reverse,
    Sentence,
    SentenceNodes,
    Star,
    TextGraphBuilder,
    Union,
    Window,
    WordGroup,
)
from graphattn.exceptions import ConfigError, DataError

TOKENS = st.sampled_from(
    [Window(3), Window("N/4"), Global(2), Random(2), Order("forward"), WordGroup(), Complete(), Dependency("token")]
)


@settings(max_examples=30)
@given(
    operands=st.lists(TOKENS, min_size=2, max_size=3, unique=True),
    random=st.randoms(use_true_random=False),
    cls=st.booleans(),
)
def test_union_and_intersection_equal_sets(pairs, random_sentence, operands, random, cls):
    union, intersection = Union(*operands), Intersection(*operands)
    sentences = [random_sentence(random, size) for size in (3, 0, 6)]
    batch = TextGraphBuilder([union, intersection, *operands], cls=cls).text_batch(sentences)
    edges = [set(pairs(batch, operand.canonical)) for operand in operands]
    assert pairs(batch, union.canonical) == sorted(set.union(*edges))
    assert pairs(batch, intersection.canonical) == sorted(set.intersection(*edges))


@settings(max_examples=40)
@given(
    relation=st.one_of(TOKENS, st.just(Membership()), st.just(Dependency())),
    random=st.randoms(use_true_random=False),
    cls=st.booleans(),
)
def test_reverse_swaps_the_ends(pairs, random_sentence, relation, random, cls):
    reverse = relation.reverse()
    sentences = [random_sentence(random, size) for size in (3, 0, 6)]
    batch = TextGraphBuilder([relation, reverse], cls=cls).text_batch(sentences)
    swapped = sorted((source, target) for target, source in pairs(batch, relation.canonical))
    assert pairs(batch, reverse.canonical) == swapped


def test_reverse_keeps_edge_features(pairs):
    class Distant(Relation):
        name = "distant"

        def edges(self, layout):
            arrays = Order("forward").edges(layout)
            targets = np.repeat(np.arange(layout.num_tokens), np.diff(arrays.indptr))
            distance = targets - arrays.indices
            return RelationArrays(arrays.indptr, arrays.indices, {"distance": distance})

    graph = TextGraphBuilder([Distant().reverse()], cls=False).text_batch([list("abcd")])
    reversed_distant = "token", "reverse(distant)", "token"
    distances = graph.edge_features[reversed_distant]["distance"].tolist()
    assert [source - target for target, source in pairs(graph, reversed_distant)] == distances


def test_reverse_reverses_directions_and_distances():
    dogs = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    arcs = Dependency("token")
    builder = TextGraphBuilder([arcs, arcs.reverse(), arcs.reverse().reverse()], cls=False)
    graph = builder.text_batch([dogs])
    for name in ("dependency", "reverse(dependency)", "reverse(reverse(dependency))"):
        sources, targets = Edges.of(graph, name).ends_by_id()
        directions = graph.edge_features["token", name, "token"]["direction"]
        features = {(s, t): d for s, t, d in torch.stack([sources, targets, directions.long()], 1).tolist()}
        assert features == {(0, 0): 0, (1, 1): 0, (1, 0): 1, (0, 1): 2}, "bark is the head"
    near = RelativePositions(Order("forward"), 2)
    graph = TextGraphBuilder([near.reverse()], cls=False).text_batch([list("abcd")])
    sources, targets = Edges.of(graph, near.reverse().name).ends_by_id()
    expected = (sources - targets).clamp(-2, 2) + 2
    assert graph.edge_features[near.reverse().canonical]["distance"].tolist() == expected.tolist()


def test_derived_relations_keep_their_features():
    class Plain(Dependency):
        def edges(self, layout):
            arrays = super().edges(layout)
            return RelationArrays(arrays.indptr, arrays.indices)

    class Coded(Dependency):
        def edges(self, layout):
            arrays = super().edges(layout)
            data = {"direction": arrays.data["direction"] + 7}
            return RelationArrays(arrays.indptr, arrays.indices, data)

    dogs = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    plain = TextGraphBuilder([Plain("token").reverse()], cls=False).text_batch([dogs])
    assert Edges.of(plain).num_edges == 4
    coded = Coded("token").reverse()
    graph = TextGraphBuilder([coded], cls=False).text_batch([dogs])
    assert sorted(graph.edge_features[coded.canonical]["direction"].tolist()) == [7, 7, 8, 9]


@pytest.mark.parametrize(
    ("relation", "canonical"),
    [
        (Window(3) | Global(1) | Random(2), ("token", "window:3|global:1|random:2", "token")),
        ((Window(9) | Global()) & WordGroup(), ("token", "(window:9|global:1)&group", "token")),
        (Window(9) & WordGroup() | Global(), ("token", "window:9&group|global:1", "token")),
        (Window(9).within_words(), ("token", "window:9&group", "token")),
        (Order("forward").reverse(), ("token", "reverse(forward)", "token")),
        (Membership().reverse(), ("word", "reverse(in)", "token")),
    ],
)
def test_operators_and_names(relation, canonical):
    assert relation.canonical == canonical


def test_needs_are_the_union_of_the_operands():
    composed = Dependency("token") & Window(3)
    assert composed.needs_heads
    assert not (Window(1) | Window(3)).needs_heads
    with pytest.raises(DataError, match="has no heads"):
        TextGraphBuilder([composed]).text_batch([["a", "b"]])


def test_labels_of_a_composed_dependency_must_agree():
    with pytest.raises(ConfigError, match="different labels"):
        TextGraphBuilder([Dependency(), Dependency("token", labels=("obj",)) | Window(1)])


@pytest.mark.parametrize(
    ("compose", "name"),
    [
        (lambda: Union("window:3", "all"), "window:3|all"),
        (lambda: Intersection("window:3", Complete()), "window:3&all"),
        (lambda: Window(3) | "all", "window:3|all"),
        (lambda: "window:3" | Complete(), "window:3|all"),
        (lambda: Window(3) & "all", "window:3&all"),
        (lambda: "window:3" & Complete(), "window:3&all"),
        (lambda: Intersection("window:3|random:1", "all"), "(window:3|random:1)&all"),
        (lambda: Reverse("in"), "reverse(in)"),
        (lambda: RelativePositions("window:3", 2), "relative:2(window:3)"),
    ],
)
def test_operands_by_name(compose, name):
    assert compose().name == compose().spec == name


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda: Union(Window, "all"), "Window is a class"),
        (lambda: Union("window:3", 3), "3 is no relation"),
        (lambda: Window(3) | None, "None is no relation"),
        (lambda: Reverse(None), "None is no relation"),
        (lambda: RelativePositions(["window:3"], 2), "is no relation"),
        (lambda: Intersection("windw:3", "all"), "did you mean 'window'"),
        (lambda: Union(Window(3)), "Union of 1 relations"),
        (lambda: Window(3) | Membership(), "different nodes .*: 'window:3' token -> token, 'in' token -> word"),
        (lambda: Star() | Window(3), "relation 'star' has several kinds of edges"),
        (lambda: Order() & Window(3), "relation 'both' has several kinds of edges"),
    ],
)
def test_invalid_compositions(compose, message):
    with pytest.raises(ConfigError, match=message):
        compose()


class Twice(Relation):
    """Every token attends to the first one, twice."""

    name = "twice"

    def edges(self, layout):
        indptr = np.arange(layout.num_tokens + 1) * 2
        return RelationArrays(indptr, np.repeat(layout.token_starts, 2 * layout.lengths))


def test_duplicate_edges_of_an_operand_count_once(pairs):
    for composed in (Twice() & Complete(), Complete() & Twice(), Twice() | Global(1) & Window(1)):
        graph = TextGraphBuilder([composed], cls=False).text_batch([["a", "b"]])
        assert pairs(graph, composed.canonical) == [(0, 0), (1, 0)]


def test_a_composed_dependency_can_be_optional(pairs):
    composed = Dependency("token", required=False) | Window(1)
    builder = TextGraphBuilder([composed], cls=False)
    assert pairs(builder.text_batch([Sentence(["a", "b"], heads=[2, 0])]), composed.canonical) == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    assert pairs(builder.text_batch([["a", "b"]]), composed.canonical) == [(0, 0), (1, 1)]


def test_compositions_of_sentence_nodes(pairs):
    composed = SentenceNodes().parts()[0] & Window(3)
    graph = TextGraphBuilder([composed], cls=False).text_batch([["a", ".", "b"]])
    assert pairs(graph, composed.canonical) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]

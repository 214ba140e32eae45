"""Clipped distances on edges (Shaw et al. 2018)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import (
    Dependency,
    Membership,
    Order,
    Random,
    RelativePositions,
    Sentence,
    TextGraphBuilder,
    Window,
)
from graphattn.builders.relations._relative_positions import find_inner_distances
from graphattn.exceptions import ConfigError


@settings(max_examples=50)
@given(
    relation=st.sampled_from([Window(5), Random(2), Dependency("token"), Window(3) | Random(1)]),
    clip=st.integers(1, 4),
    random=st.randoms(use_true_random=False),
    cls=st.booleans(),
)
def test_ids_are_clipped_distances(pairs, random_sentence, relation, clip, random, cls):
    sentences = [random_sentence(random, size) for size in (5, 0, 7)]
    relative = RelativePositions(relation, clip)
    builder = TextGraphBuilder([relation, relative], cls=cls)
    for graph in map(builder.text_batch, [[sentence] for sentence in sentences]):
        ends = pairs(graph, relative.canonical)
        assert ends == pairs(graph, relation.canonical)
        # a_ij = w_clip(j - i, k); token i attends to token j
        expected = [max(-clip, min(clip, source - target)) + clip for target, source in ends]
        assert graph.edge_features[relative.canonical]["distance"].tolist() == expected
        assert set(graph.edge_features[relation.canonical]) <= set(graph.edge_features[relative.canonical])
    assert relative.needs_heads == relation.needs_heads


@pytest.mark.parametrize("relation", [Membership(), Dependency()])
def test_only_tokens_have_distances(relation):
    with pytest.raises(ConfigError) as caught:
        RelativePositions(relation, 4)
    assert str(caught.value) == (f"relation {relation.name!r} does not join tokens, so it has no distances")


def test_reverse_also_reverses_the_features_of_the_relation():
    relation = RelativePositions(Dependency("token"), 2).reverse()
    graph = TextGraphBuilder([relation], cls=False).text_batch([Sentence(["Dogs", "bark"], heads=[2, 0])])
    sources, targets = (ends.tolist() for ends in Edges.of(graph, relation.name).ends_by_id())
    data = graph.edge_features[relation.canonical]
    directions, distances = data["direction"].tolist(), data["distance"].tolist()
    features = {(s, t): both for s, t, *both in zip(sources, targets, directions, distances, strict=True)}
    assert features == {(0, 0): [0, 2], (1, 1): [0, 2], (1, 0): [1, 3], (0, 1): [2, 1]}, "bark is the head"


def test_inner_distances_of_a_composition():
    inner = RelativePositions(Order("forward"), 2)
    assert find_inner_distances((Window(3) | inner).reverse()) is inner
    assert find_inner_distances((Window(3) | Window(5)).reverse()) is None

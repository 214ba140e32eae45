"""Shuffled groups: the sizes of a text's words, in another order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Sentence, ShuffledGroup, TextGraphBuilder
from graphattn.exceptions import ConfigError

splits = st.lists(st.integers(1, 4), max_size=9)


def sentence_of(sizes):
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    return Sentence(["x"] * len(word_ids), word_ids=word_ids)


def groups_of(graph, relation):
    """Sizes of the groups of one sentence's graph, which must be complete graphs side by side."""
    pairs = set(zip(*(ends.tolist() for ends in graph.edges(etype=relation.name)), strict=True))
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
def test_groups_have_the_sizes_of_the_words_in_every_batch(batch_equals_singles, seed, texts, cls):
    relation = ShuffledGroup(seed)
    builder = TextGraphBuilder([relation], cls=cls)
    sentences = [sentence_of(sizes) for sizes in texts]
    for sizes, graph in zip(texts, batch_equals_singles(builder, sentences), strict=True):
        assert sorted(groups_of(graph, relation)) == sorted([*sizes, *[1] * cls])
    layout = builder.layout(sentences)
    assert relation.num_edges(layout).tolist() == relation.edges(layout).per_sentence.tolist()


def test_the_order_is_drawn_by_lot():
    sizes = [1, 2, 3] * 20
    builder = [TextGraphBuilder([ShuffledGroup(seed)], cls=False) for seed in range(20)]
    drawn = [groups_of(one.build(sentence_of(sizes)), ShuffledGroup(seed)) for seed, one in enumerate(builder)]
    assert len(set(map(tuple, drawn))) == 20
    assert all(order != sizes for order in drawn)
    assert np.abs(np.mean(drawn, axis=0) - np.mean(sizes)).max() < 1  # any size may come to any place


def test_name():
    assert (ShuffledGroup().name, ShuffledGroup(7).name) == ("shuffled-group", "shuffled-group:7")
    assert (repr(ShuffledGroup()), repr(ShuffledGroup(7))) == ("ShuffledGroup()", "ShuffledGroup(7)")
    with pytest.raises(ConfigError) as caught:
        ShuffledGroup(-1)
    assert str(caught.value) == "seed is -1; it must be at least 0"

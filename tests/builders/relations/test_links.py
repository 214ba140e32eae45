"""Edges that the user provides."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Links, Sentence, TextGraphBuilder, Window
from graphattn.exceptions import DataError


@st.composite
def linked_texts(draw):
    sizes = draw(st.lists(st.integers(1, 3), max_size=5))
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    words = st.integers(0, max(len(sizes) - 1, 0))
    links = draw(st.lists(st.tuples(words, words), max_size=6)) if sizes else []
    return Sentence(["x"] * len(word_ids), word_ids=word_ids, links=links)


@pytest.mark.parametrize("on", ["word", "token"])
@settings(max_examples=30)
@given(texts=st.lists(linked_texts(), max_size=4), cls=st.booleans())
def test_links_equal_the_pairs(pairs, on, texts, cls):
    relation = Links(on)
    builder = TextGraphBuilder([relation, Window(1)], cls=cls)
    for text, graph in zip(texts, map(builder.text_batch, [[text] for text in texts]), strict=True):
        expected = {(target + cls, source + cls) for source, target in text.links}
        if on == "token":
            words = [0] * cls + [word + cls for word in text.word_ids]
            expected = {
                (i, j) for i, word in enumerate(words) for j, other in enumerate(words) if (word, other) in expected
            }
        assert pairs(graph, relation.canonical) == sorted(expected)


def test_selected_texts_keep_their_links(pairs):
    texts = [Sentence(["x"] * n, links=[(n - 1, 0), (0, n - 1)]) for n in (4, 2, 3)]
    builder = TextGraphBuilder([Links()])
    graph = builder.text_batch(builder.layout(texts).take([2, 0]))
    assert pairs(graph, ("token", "links", "token")) == [(1, 3), (3, 1), (5, 8), (8, 5)]


def test_missing_links():
    builder = TextGraphBuilder([Links() | Window(1)])
    with pytest.raises(DataError) as caught:
        builder.text_batch([Sentence(["a"], links=[]), Sentence(["so", "it", "goes"])])
    assert str(caught.value) == (
        "field 'links': sentence 1 ('so it goes' ...) has no links, but the relation 'links' needs them. Read a corpus "
        "with a column of links, give Sentence(links=...), or leave out Links()."
    )
    assert Edges.of(builder.text_batch([Sentence([])])).num_edges == 1

"""The star: a ring of tokens around one relay node for each text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Sentence, Star, TextGraphBuilder, Window
from graphattn.exceptions import ConfigError


def definition(length):
    """Star-Transformer, section 3.1: a ring of satellites, each connected to the relay, which attends to itself."""
    ring = {(i, (i + step) % length) for i in range(length) for step in (-1, 0, 1)}
    return {
        ("token", "star", "token"): ring,
        ("relay", "star", "token"): [(i, 0) for i in range(length)],
        ("token", "star", "relay"): [(0, i) for i in range(length)],
        ("relay", "star", "relay"): [(0, 0)],
    }


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 9), max_size=5), cls=st.booleans())
def test_star_equals_its_definition(follows, lengths, cls):
    graph = follows(Star(), [Sentence(["x"] * length) for length in lengths], definition, cls=cls)
    assert graph.batch_num_nodes("relay").tolist() == [1] * len(lengths)


def test_only_the_relation_adds_the_relay():
    assert "relay" not in TextGraphBuilder([Window(3)]).text_batch([["a"]]).node_counts
    assert TextGraphBuilder([Window(3), Star()]).text_batch([["a"]]).num_nodes("relay") == 1


def test_a_compound_relation_itself_has_no_edges():
    layout = TextGraphBuilder([Star()], cls=False).layout([["a", "b", "c"], []])
    assert Star().num_edges(layout).tolist() == [9 + 3 + 3 + 1, 1]
    with pytest.raises(ConfigError) as caught:
        Star().edges(layout)
    assert str(caught.value) == "relation 'star' has several kinds of edges; use its parts()"

"""Strictly earlier and strictly later tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Order, Sentence


@pytest.mark.parametrize("direction", ["forward", "backward"])
@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_order_equals_the_table(assert_agrees, sentences_of_many_lengths, direction, random, cls):
    assert_agrees(Order(direction), sentences_of_many_lengths(random), cls)


def test_sources_of_forward_edges_are_earlier_tokens(assert_agrees):
    edges, _ = assert_agrees(Order("forward"), [Sentence(["a", "b", "c"])], cls=False)
    assert [edge[:2] for edge in edges] == [(1, 0), (2, 0), (2, 1)]


def test_both_directions_are_two_relations():
    assert [part.name for part in Order().parts()] == ["forward", "backward"]
    assert [part.canonical for part in Order("backward").parts()] == [("token", "backward", "token")]
    assert repr(Order().parts()) == "(Order('forward'), Order('backward'))"

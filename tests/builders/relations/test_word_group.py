"""Tokens of the same word see each other."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Sentence, WordGroup


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_groups_equal_the_table(agrees, sentences_of_many_lengths, random, cls):
    agrees(WordGroup(), sentences_of_many_lengths(random), cls)


def test_cls_sees_itself_only(agrees):
    edges, _ = agrees(WordGroup(), [Sentence(["un", "known", "word"], word_ids=[0, 0, 1])], cls=True)
    assert [edge[:2] for edge in edges] == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]


def test_name():
    assert WordGroup().canonical == ("token", "group", "token")
    assert repr(WordGroup()) == "WordGroup()"

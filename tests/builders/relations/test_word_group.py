"""Relations between the tokens of a word, and from them to the word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Membership, Sentence, WordGroup

BOTH = pytest.mark.parametrize("relation", [WordGroup(), Membership()], ids=repr)


@BOTH
@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_edges_equal_the_table(assert_agrees, sentences_of_many_lengths, relation, random, cls):
    assert_agrees(relation, sentences_of_many_lengths(random), cls)


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (WordGroup(), [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]),
        (Membership(), [(0, 0), (1, 1), (1, 2), (2, 3)]),
    ],
)
def test_cls_forms_a_word_group(assert_agrees, relation, expected):
    edges, _ = assert_agrees(relation, [Sentence(["un", "known", "word"], word_ids=[0, 0, 1])], cls=True)
    assert [edge[:2] for edge in edges] == expected


def test_names():
    assert WordGroup().canonical == ("token", "group", "token")
    assert Membership().canonical == ("token", "in", "word")
    assert [repr(WordGroup()), repr(Membership())] == ["WordGroup()", "Membership()"]

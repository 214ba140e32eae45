"""Words receive from their tokens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Membership, Sentence


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_membership_equals_the_table(agrees, sentences_of_many_lengths, random, cls):
    agrees(Membership(), sentences_of_many_lengths(random), cls)


def test_cls_is_a_word_of_its_own(agrees):
    edges, _ = agrees(Membership(), [Sentence(["un", "known", "word"], word_ids=[0, 0, 1])], cls=True)
    assert [edge[:2] for edge in edges] == [(0, 0), (1, 1), (1, 2), (2, 3)]


def test_name():
    assert Membership().canonical == ("token", "in", "word")
    assert repr(Membership()) == "Membership()"

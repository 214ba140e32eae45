"""The complete graph of each sentence."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Complete


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_tokens(assert_agrees, sentences_of_many_lengths, random, cls):
    assert_agrees(Complete(), sentences_of_many_lengths(random), cls)


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_words(assert_agrees, sentences_of_many_lengths, random, cls):
    assert_agrees(Complete("word"), sentences_of_many_lengths(random), cls)


def test_name():
    assert Complete().canonical == ("token", "all", "token")
    assert repr(Complete()) == "Complete()"
    assert Complete("word").canonical == ("word", "all:word", "word")
    assert repr(Complete("word")) == "Complete(on='word')"

"""The complete graph of each sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Complete
from graphattn.exceptions import ConfigError


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_every_token_sees_every_token(agrees, sentences_of_many_lengths, random, cls):
    agrees(Complete(), sentences_of_many_lengths(random), cls)


@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_every_word_sees_every_word(agrees, sentences_of_many_lengths, random, cls):
    agrees(Complete("word"), sentences_of_many_lengths(random), cls)


def test_name():
    assert Complete().canonical == ("token", "all", "token")
    assert repr(Complete()) == "Complete()"
    assert Complete("word").canonical == ("word", "all:word", "word")
    assert repr(Complete("word")) == "Complete(on='word')"


def test_other_places_are_refused():
    with pytest.raises(ConfigError) as caught:
        Complete("sentence")
    assert str(caught.value) == "Complete(on='sentence') is not possible; choose 'token' or 'word'"

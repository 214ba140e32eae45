"""Sentences told by punctuation."""

import pytest

from graphattn.builders.sentence_boundaries import sentence_ids
from graphattn.builders.subwords import BLANK


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("a b", [0, 0]),
        (". a", [0, 1]),
        ("a . b ! ? c", [0, 0, 1, 1, 1, 2]),
        ("a ?! ' ) b . . . c", [0, 0, 0, 0, 1, 1, 1, 1, 2]),
        ("Dr. X left . So did 3.5 % …", [0, 0, 0, 0, 1, 1, 1, 1, 1]),
        ("a . '' b !\" c", [0, 0, 0, 1, 1, 2]),
        ("a \u3002 b \uff1f\uff01 c", [0, 0, 1, 1, 2]),
    ],
)
def test_a_sentence_ends_behind_its_punctuation(text, ids):
    assert list(sentence_ids(text.split())) == ids


@pytest.mark.parametrize("text", ["a . b ! ? c", "a ?! ' ) b . . . c", "Dr. X left . So did 3.5 % …"])
def test_marks_of_blanks_change_nothing(text):
    words = text.split()
    assert sentence_ids([BLANK + word for word in words]) == sentence_ids(words)

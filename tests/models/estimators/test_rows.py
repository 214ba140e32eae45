"""Rows of output: an input, its prediction and probabilities, as values of JSON."""

import numpy as np
import pytest

from graphattn.builders import Example, Sentence
from graphattn.models._estimators.tasks.rows import ClassRows, NumberRows, TagRows

SHARES = np.array([0.25, 0.75], np.float32)


@pytest.mark.parametrize(
    ("x", "fields"),
    [
        ("a film", {"text": "a film"}),
        (["a", "film"], {"words": ["a", "film"]}),
        (Sentence(["a", "film"]), {"words": ["a", "film"]}),
        (Example("a", "b"), {"text": "a", "second": "b"}),
    ],
)
def test_a_row_has_the_input(x, fields):
    assert ClassRows(["no", "yes"]).format(x, "yes") == {**fields, "label": "yes"}


@pytest.mark.parametrize(
    ("prediction", "fields"),
    [
        (np.str_("yes"), {"label": "yes"}),
        (("yes", "no"), {"labels": ["yes", "no"]}),
        (np.array([0, 1]), {"labels": ["yes"]}),
    ],
)
def test_one_class_or_several(prediction, fields):
    assert ClassRows(["no", "yes"]).format("a", prediction) == {"text": "a", **fields}


def test_keys_of_probabilities_are_strings():
    row = ClassRows([False, True]).format("a", True, SHARES)
    assert row == {"text": "a", "label": True, "probabilities": {"false": 0.25, "true": 0.75}}


def test_each_word_has_probabilities():
    row = TagRows(["A", "B"]).format(["x", "y"], ("B", "A"), np.stack([SHARES, SHARES[::-1]]))
    shares = [{"A": 0.25, "B": 0.75}, {"A": 0.75, "B": 0.25}]
    assert row == {"words": ["x", "y"], "tags": ["B", "A"], "probabilities": shares}


def test_numbers_have_the_digits_of_the_model():
    assert NumberRows(1.0).format("a", np.float64(1 / 3))["value"] == pytest.approx(1 / 3, abs=1e-6)

"""The pair classifier: two texts through one encoder."""

import numpy as np
import pytest

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError


@pytest.mark.slow
def test_forms_of_pairs(corpus, tiny):
    pairs, labels = corpus("pair", 12)
    training = {"epochs": 1}
    expected = tiny("pair", training=training).fit(pairs, labels).predict_proba(pairs)
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-6)
    for X, y in (
        ([list(pair) for pair in pairs], labels),
        (np.array(pairs), np.array(labels)),
        ([(one.split(), Sentence(other.split())) for one, other in pairs], labels),
        ([Example(*pair, label=label) for pair, label in zip(pairs, labels, strict=True)], None),
    ):
        assert np.array_equal(tiny("pair", training=training).fit(X, y).predict_proba(X), expected)


def test_the_order_of_a_pair_matters(corpus, tiny):
    pairs, labels = corpus("pair")
    estimator = tiny("pair").fit(pairs, labels)
    turned = [(other, one) for one, other in pairs]
    assert np.abs(estimator.predict_proba(pairs) - estimator.predict_proba(turned)).max() > 1e-4


def test_the_vocabulary_has_the_words_of_both_texts(tiny):
    estimator = tiny("pair", training={"epochs": 1}).fit([("first", "second"), ("third", "first")] * 3, ["x", "y"] * 3)
    assert {"first", "second", "third"} <= set(estimator.vocabulary_.words)


@pytest.mark.parametrize(
    "item",
    ["ab", ("a",), ("a", "b", "c"), Example("a"), ("a", None), 3, None],
    ids=str,
)
def test_invalid_pairs(item, tiny):
    with pytest.raises(DataError) as caught:
        tiny("pair").fit([("a", "b"), item], ["x", "y"])
    assert str(caught.value) == "input 1 is no pair of texts. Give (first, second)."

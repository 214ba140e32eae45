"""Balanced class weights; test_estimator.py tests those by name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.class_weight import compute_class_weight

from graphattn.exceptions import ConfigError
from graphattn.models._estimators.class_weights import class_weights
from graphattn.models._estimators.label_set import LabelSet

LABELS = LabelSet(["a", "b", "c"])


def test_balanced_over_classes_with_examples():
    weights = class_weights("balanced", LABELS, ["a", "a", "a", "c"])
    assert weights.tolist() == pytest.approx([4 / (2 * 3), 1.0, 4 / (2 * 1)])


def test_balanced_weights_of_repeated_examples():
    repeated = ["a", "a", "b", "c", "c", "c"]
    weights = class_weights("balanced", LABELS, ["a", "b", "c"], np.array([2.0, 1.0, 3.0]))
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=repeated)
    assert weights.tolist() == pytest.approx(expected.tolist())


def test_balanced_weight_of_a_class_that_every_text_has():
    assert class_weights("balanced", LabelSet(["a", "b"]), ["a", "a", "b"], texts=2).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("weight", [None, float("nan"), pd.NA, "", "2", [2.0], 0.0], ids=repr)
def test_a_weight_of_a_class_that_is_no_number(weight):
    with pytest.raises(ConfigError) as caught:
        class_weights({"a": weight}, LabelSet(["a", "b"]), ["a", "b"])
    assert caught.value.options == ("class_weight",)

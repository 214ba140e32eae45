"""Held-out data of a training set, and forms of inputs."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError
from graphattn.models._estimators.inputs import (
    as_list,
    check_weights,
    resolve_labels,
    split_held_out,
    unpack_dev_set,
)
from graphattn.models._estimators.tasks.classify import PairClassification


@given(
    classes=st.lists(st.integers(0, 3), min_size=3, max_size=60),
    share=st.floats(0.1, 0.9),
    stratified=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_held_out_fraction(classes, share, stratified, seed):
    """Every example is in one of the two parts, in order; classes with several keep their fraction, others stay."""
    count, strata = len(classes), np.array(classes)
    held = min(max(1, round(share * count)), count - 1)
    rest, taken = split_held_out(count, held, strata if stratified else None, seed)
    assert sorted(rest + taken) == list(range(count))
    assert len(taken) == held
    assert (rest, taken) == (sorted(rest), sorted(taken))
    assert (rest, taken) == split_held_out(count, held, strata if stratified else None, seed)
    sizes = np.bincount(strata)
    repeated = np.flatnonzero(sizes > 1)
    total = sizes[repeated].sum()
    if stratified and 0 < len(repeated) <= min(held, total - held):
        assert not (sizes[strata[taken]] == 1).any()
        for number in repeated:
            assert abs(int((strata[taken] == number).sum()) - held * sizes[number] / total) <= 1


@pytest.mark.parametrize("X", ["text", b"text", Sentence(["a"]), Example("a"), {"text": ["a"]}], ids=repr)
def test_single_inputs_are_not_lists(X):
    with pytest.raises(DataError, match="is given where"):
        as_list(X)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, lambda rows: pa.Table.from_pandas(pd.DataFrame(rows))])
def test_tables_of_texts_and_of_pairs(form):
    assert as_list(form([["a b"], ["c"]])) == ["a b", "c"]
    assert as_list(form([["a b", "c"], ["d", "e"]]), PairClassification()) == [("a b", "c"), ("d", "e")]
    for task, rows in ((None, [["a", "b"], ["c", "d"]]), (PairClassification(), [["a", "b", "c"]])):
        with pytest.raises(DataError, match="shape"):
            as_list(np.array(rows), task)


def test_a_dev_set_in_its_forms():
    texts, labels = ["a", "b"], ["x", "y"]
    one, other = Example("a", label="x"), Example("b", label="y")
    for dev in ((texts, labels), [texts, labels]):
        assert unpack_dev_set(dev) == (texts, labels)
    for dev in ([one, other], (one, other), (one,), [one, other, one], [Sentence(["a"]), Sentence(["b"])]):
        assert unpack_dev_set(dev) == (dev, None)


def test_another_seed_holds_out_other_examples():
    assert len({tuple(split_held_out(50, 10, None, seed)[1]) for seed in range(5)}) == 5


def test_weights_in_their_forms():
    assert check_weights(None, 3) is None
    for weights in (
        [2, 2, 2],
        2,
        np.array([2.0, 2.0, 2.0]),
        pd.Series([2, 2, 2]),
        torch.full((3,), 2, dtype=torch.bfloat16),
    ):
        assert check_weights(weights, 3).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "2 inputs but sample_weight has the shape (1,). Give one for each."),
        ([1.0, -1.0], "sample_weight 1 is -1.0. Give numbers from 0 to 1e+38."),
        ([float("nan"), 1.0], "sample_weight 0 is nan. Give numbers from 0 to 1e+38."),
        ([1.0, 2e38], "sample_weight 1 is 2e+38. Give numbers from 0 to 1e+38."),
        ([float("inf"), 1.0], "sample_weight 0 is inf. Give numbers from 0 to 1e+38."),
        ([0.0, 0.0], "all values of sample_weight are 0. Give some examples a positive weight."),
    ],
)
def test_weights_that_cannot_be_used(weights, message):
    with pytest.raises(DataError) as caught:
        check_weights(weights, 2)
    assert str(caught.value) == message


@pytest.mark.parametrize("X", [{"a", "b"}, frozenset(["a", "b"])], ids=["set", "frozenset"])
def test_a_set_has_no_order(X):
    with pytest.raises(DataError, match="a set has no order"):
        as_list(X)
    with pytest.raises(DataError, match="which is no list"):
        resolve_labels(["a", "b"], X, "label")


@pytest.mark.parametrize("y", ["ab", 5, {"a": 1, "b": 2}, np.array("a")], ids=repr)
def test_labels_that_are_no_list(y):
    with pytest.raises(DataError, match=r"labels are .*, which is no list"):
        resolve_labels(["a", "b"], y, "label")


@pytest.mark.parametrize("value", ["a", "", pd.NA, pd.NaT, [1], {}, b"x"], ids=repr)
def test_a_weight_that_is_no_number_is_named_by_its_place(value):
    with pytest.raises(DataError, match=r"sample_weight 1 is .*not a number"):
        check_weights([1, value], 2)
    if not isinstance(value, list):
        with pytest.raises(DataError, match=r"sample_weight is .*not a number"):
            check_weights(value, 2)


def test_nothing_is_no_list():
    with pytest.raises(DataError, match="is given where many inputs are expected"):
        as_list(None)

"""Labels to ids and back, and errors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.exceptions import DataError
from graphattn.models._estimators.label_set import LabelSet, find_respellings


@given(st.lists(st.one_of(st.text(max_size=3)), min_size=2).filter(lambda labels: len(set(labels)) > 1))
def test_ids_name_the_labels(labels):
    known = LabelSet.of(labels)
    assert known.classes == sorted(set(labels))
    assert [known.classes[index] for index in known.ids(labels)] == labels


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([2, 0, 2], [0, 2]),
        ([True, False], [False, True]),
        (np.array([3, 1, 1]), [1, 3]),
        (np.array(["b", "a"]), ["a", "b"]),
        ([1.5, -1.0], [-1.0, 1.5]),
    ],
)
def test_kinds_of_labels(labels, classes):
    known = LabelSet.of(labels)
    assert known.classes == classes
    assert [type(label) for label in known.classes] == [type(label) for label in classes]
    assert known.ids(labels).tolist() == [classes.index(label) for label in labels]


@pytest.mark.parametrize(
    ("labels", "what", "message"),
    [
        ([], "label", "there are no labels; training needs at least two different ones"),
        (["a"], "label", "the only label is 'a'; training needs at least two different ones"),
        (["a"] * 3, "label", "all 3 labels are 'a'; training needs at least two different ones"),
        (["O"] * 2, "tag", "all 2 tags are 'O'; training needs at least two different ones"),
        (["a", 1], "label", "labels of several types: [\"'a'\", '1']; use strings"),
        ([1.0, float("nan"), 2.0], "label", "a label is nan. Drop examples without a label."),
        (["a", None], "label", "a label is None. Drop examples without a label."),
        (["a", pd.NA], "label", "a label is <NA>. Drop examples without a label."),
        (["a", "\ud800"], "label", "the label '\\ud800' contains half a surrogate pair. Write both halves."),
    ],
)
def test_labels_that_cannot_be_learned(labels, what, message):
    with pytest.raises(DataError) as caught:
        LabelSet.of(labels, what=what)
    assert str(caught.value) == message


NUMBERED = [f"c{number:02}" for number in range(30)]


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        ("ab", ["a", "z"], "the dev set has label 'z', which the training set lacks. Known: a, b."),
        ("ab", [np.str_("z")], "the dev set has label 'z', which the training set lacks. Known: a, b."),
        ("ab", [None, "a"], "a label of the dev set is None. Drop examples without a label of the dev set."),
        (
            NUMBERED[:20],
            list("pqrstu"),
            "the dev set has label 'p', 'q', 'r', 's', 't' and 1 more, which the training set lacks. "
            f"Known: {', '.join(NUMBERED[:20])}.",
        ),
        (
            NUMBERED,
            ["x"],
            f"the dev set has label 'x', which the training set lacks. Known: {', '.join(NUMBERED[:20])} ....",
        ),
    ],
)
def test_unknown_labels_are_listed(classes, labels, message):
    """At most twenty known and five unknown ones."""
    with pytest.raises(DataError) as caught:
        LabelSet(classes).ids(labels, where="dev set")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("classes", "given", "message"),
    [
        (
            [0, 1],
            "1",
            "has label '1', which the training set lacks. Known: 0, 1, of type int. "
            "Convert yours to int: int(label), or y.astype(int) of an array.",
        ),
        (
            *([True, False], "True"),
            "has label 'True', which the training set lacks. Known: False, True, of type bool. Convert yours to bool.",
        ),
        (
            ["0", "1"],
            1,
            "has label 1, which the training set lacks. Known: 0, 1, of type str. "
            "Convert yours to str: str(label), or y.astype(str) of an array.",
        ),
        (
            ["0", "1"],
            np.int64(0),
            "has label 0, which the training set lacks. Known: 0, 1, of type str. "
            "Convert yours to str: str(label), or y.astype(str) of an array.",
        ),
    ],
)
def test_labels_that_differ_only_by_type(classes, given, message):
    with pytest.raises(DataError) as caught:
        LabelSet.of(classes).ids([given], where="dev set")
    assert str(caught.value) == f"the dev set {message}"


DECOMPOSED = "cafe\u0301"


def test_labels_are_looked_up_in_any_unicode_form():
    for first, other in (("café", DECOMPOSED), (DECOMPOSED, "café")):
        labels = LabelSet.of(["tea", first])
        assert labels.classes == [first, "tea"]
        assert labels.ids([other, first, "tea"]).tolist() == [0, 0, 1]


def test_the_order_of_classes_does_not_depend_on_the_unicode_form():
    composed, decomposed = (LabelSet.of(names).classes for names in (["cafz", "café"], ["cafz", DECOMPOSED]))
    assert [composed.index("cafz"), decomposed.index("cafz")] == [0, 0]


def test_entity_types_have_one_form():
    tags = ["B-café", f"I-{DECOMPOSED}", f"B-{DECOMPOSED}", "O"]
    assert find_respellings(tags) == {f"I-{DECOMPOSED}": "I-café", f"B-{DECOMPOSED}": "B-café"}
    assert find_respellings(tags[:1], [f"S-{DECOMPOSED}"]) == {"B-café": f"B-{DECOMPOSED}"}
    assert not find_respellings([1, 1.5, True, "a", "é"])

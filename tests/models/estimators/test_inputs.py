"""What is held out of a training set, and inputs in their many forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError
from graphattn.models.estimators.inputs import as_list, dev_parts, held_out_split, pair_columns, single_column


@given(
    classes=st.lists(st.integers(0, 3), min_size=3, max_size=60),
    share=st.floats(0.1, 0.9),
    stratified=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_held_out_share(classes, share, stratified, seed):
    """Every example is in one of the two, in order; each class keeps its share where it has more than one member."""
    count, strata = len(classes), np.array(classes)
    held = min(max(1, round(share * count)), count - 1)
    rest, taken = held_out_split(count, held, strata if stratified else None, seed)
    assert sorted(rest + taken) == list(range(count))
    assert len(taken) == held
    assert (rest, taken) == (sorted(rest), sorted(taken))
    assert (rest, taken) == held_out_split(count, held, strata if stratified else None, seed)
    members = np.unique(strata, return_counts=True)[1]
    if (
        stratified
        and members.min() > 1
        and len(members) <= min(held, count - held)
        and set(classes) == {*range(len(members))}
    ):
        for number, size in enumerate(members):
            assert abs(int((strata[taken] == number).sum()) - held * size / count) <= 1


def test_columns():
    one, other = Sentence(["a"]), Example("b c")
    assert single_column(["x y", ["x", "y"], ("x",), np.array(["x"]), one, other], "Test") == [
        ["x y", ["x", "y"], ["x"], ["x"], one, "b c"]
    ]
    assert pair_columns([("a", one), [["b"], "c"], Example("d", "e")]) == [["a", ["b"], "d"], [one, "c", "e"]]


@pytest.mark.parametrize("single", ["text", b"text", Sentence(["a"]), Example("a"), 3, None])
def test_one_where_many_are_expected(single):
    with pytest.raises(DataError) as caught:
        as_list(single)
    way_out = "Give a list of them." if single in (3, None) else "Put it into a list."
    assert str(caught.value) == f"a {type(single).__name__} is given where many inputs are expected. {way_out}"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            ["a great film"],
            "input 1 of X is a list whose words hold blanks, the first of them 'a great film'. Give a text as it is, "
            "not in a list; of several texts each is an input. Words with blanks stand in a Sentence.",
        ),
        (
            ("a film", "a plot"),
            "input 1 of X is a list whose words hold blanks, the first of them 'a film'. Give a text as it is, not "
            "in a list; of several texts each is an input. Words with blanks stand in a Sentence.",
        ),
        (
            ["a", None],
            "word 1 of input 1 of X is a NoneType. Give a text, a list of words, a Sentence or an Example.",
        ),
    ],
)
def test_lists_that_are_no_words(item, message):
    with pytest.raises(DataError) as caught:
        single_column(["a text", item], "X")
    assert str(caught.value) == message


def test_words_may_hold_blanks_beside_others():
    words = [["in", "New York"], ["film"], [], [""]]
    assert single_column([*words, Sentence(["New York"])], "X") == [[*words, Sentence(["New York"])]]


def test_a_dev_set_in_its_forms():
    texts, labels = ["a", "b"], ["x", "y"]
    one, other = Example("a", label="x"), Example("b", label="y")
    for dev in ((texts, labels), [texts, labels]):
        assert dev_parts(dev) == (texts, labels)
    for dev in ([one, other], (one, other), (one,), [one, other, one], [Sentence(["a"]), Sentence(["b"])]):
        assert dev_parts(dev) == (dev, None)


def test_words_with_no_break_spaces():
    assert single_column([["1\u00a0000"]], "SequenceTagger") == [[["1\u00a0000"]]]
    with pytest.raises(DataError, match="is a list whose words hold blanks"):
        single_column([["a text"]], "SequenceTagger")


def test_another_seed_holds_out_others():
    assert len({tuple(held_out_split(50, 10, None, seed)[1]) for seed in range(5)}) == 5

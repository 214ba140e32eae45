"""Inputs as texts, and some of them."""

import numpy as np
import pandas as pd
import pytest

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError
from graphattn.models._estimators.tasks.classify import PairClassification
from graphattn.models._estimators.texts import Texts, collect_fields


def read(X):
    return Texts.of(X).columns


def read_pairs(X):
    return [*Texts.of(X, PairClassification()).columns]


def test_columns_of_mistakes_keep_all_columns_of_a_corpus():
    fields = collect_fields({"gold": ["a"], "input_gold": ["b"], "id": [1]}, 1)
    assert fields == {"input_input_gold": ["a"], "input_gold": ["b"], "id": [1]}


def test_columns():
    one, other = Sentence(["a"]), Example("b c")
    assert read(["x y", ["x", "y"], np.array(["x"]), one, other]) == [["x y", ["x", "y"], ["x"], one, "b c"]]
    assert read_pairs([("a", one), [["b"], "c"], Example("d", "e")]) == [["a", ["b"], "d"], [one, "c", "e"]]
    table = np.array([["a b", "c"], ["d", "e"]])
    assert read_pairs(table) == [["a b", "d"], ["c", "e"]]


def test_inputs_that_are_not_texts():
    with pytest.raises(DataError, match="input 1 is a int"):
        read(["a text", 3])


@pytest.mark.parametrize("item", [None, float("nan"), pd.NA])
def test_missing_inputs_are_named_as_such(item):
    with pytest.raises(DataError, match=r"input 1 is .*, a missing value\. Leave it out"):
        read(["a text", item])


def test_a_pair_is_not_a_text():
    with pytest.raises(DataError) as caught:
        read(["a text", ("one", "other")])
    assert str(caught.value) == (
        "input 1 is a tuple. Give the words of a text as a list; for pairs of texts there is PairClassifier."
    )


def test_words_can_contain_blanks_among_other_words():
    words = [["in", "New York"], ["film"], [], [""]]
    assert read([*words, Sentence(["New York"])]) == [[*words, Sentence(["New York"])]]


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 3, ["a"], b"a"], ids=repr)
def test_a_word_that_is_no_string_is_named_by_its_place(value):
    for words in (["a", value], ("a", value)):
        with pytest.raises(DataError, match="input 1: word 1 is"):
            read_pairs([("a", "b"), ("a", words)])
    with pytest.raises(DataError, match="input 1: word 1 is"):
        read([["b"], ["a", value]])
    if not isinstance(value, list):
        with pytest.raises(DataError, match="input 0 is"):
            read([Example(value)])


def test_an_array_without_axes_is_no_list_of_words():
    with pytest.raises(DataError, match="input 0 is a ndarray"):
        read([np.array("a")])


def test_selected_texts_keep_what_was_given_for_them():
    weights = np.array([1.0, 2.0, 3.0])
    texts = Texts([["a", "b", "c"], ["d", "e", "f"]], ["x", "y", "z"], weights, where="training set")
    some = texts.select([2, 0])
    assert (some.columns, some.labels, some.numbers, some.where) == (
        [["c", "a"], ["f", "d"]],
        ["z", "x"],
        [2, 0],
        "training set",
    )
    assert some.weights.tolist() == [3.0, 1.0]
    assert (some.unlabelled().labels, some.unlabelled().where, len(some)) == (None, "data", 2)
    assert [*some] == [("c", "f"), ("a", "d")]
    assert some.show(0) == {"text": "c", "second": "f"}


def test_html_is_stripped_from_raw_texts_alone():
    texts = Texts.of(["<b>a</b> &amp; b", ["<b>"], Sentence(["<b>"])], strip_html=True)
    assert list(texts.columns[0]) == ["a & b", ["<b>"], Sentence(["<b>"])]

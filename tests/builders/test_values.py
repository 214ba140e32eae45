"""Missing values, and lists whose items have one type."""

import numpy as np
import pandas as pd
import pytest

from graphattn.builders._values import is_list, is_missing, read_integers, read_strings
from graphattn.exceptions import DataError

MISSING = [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT]


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_missing_values(value):
    assert is_missing(value)
    for read in (read_strings, read_integers):
        with pytest.raises(DataError, match=r"head 1 is .*, a missing value\. Give a list of"):
            read(["a" if read is read_strings else 2, value], "head")
        with pytest.raises(DataError, match=r"a missing value where a list was expected"):
            read(value, "head")


@pytest.mark.parametrize("value", ["", " ", 0, False, [], "nan", np.array([np.nan])], ids=repr)
def test_other_values(value):
    assert not is_missing(value)


def test_lists():
    assert all(map(is_list, ([], (), np.array(["a"]), pd.Series(["a"]), {"a": 1}.keys())))
    assert not any(map(is_list, ("ab", b"ab", {"a": 1}, {"a"}, 3, None, np.array("a"))))


def test_integers_of_other_libraries():
    numbers = read_integers([np.int64(2), 0.0, np.float32(1), True], "head")
    assert (numbers, {*map(type, numbers)}) == ((2, 0, 1, 1), {int})
    for value in (1.5, "2", "", [1], float("inf")):
        with pytest.raises(DataError, match=r"head 1 is .*, not a whole number"):
            read_integers([0, value], "head")


def test_strings():
    assert read_strings(np.array(["a", "b"]), "word") == ("a", "b")
    for value in (3, b"a", ["a"], {}):
        with pytest.raises(DataError, match=r"word 0 is .*, not a string"):
            read_strings([value], "word")

"""Errors can be pickled, as worker processes require."""

import copy

import pytest

from graphattn.exceptions import ConfigError, DataError, UnregisteredError


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("{hidden} is odd", options=("hidden",)),
        DataError("no tag", path="train.conll", line=7, hint="Set {tag_column}.", options=("tag_column",)),
        UnregisteredError("there is no relation 'near'", "near"),
    ],
)
def test_errors_can_be_copied(error):
    again = copy.copy(error)  # with the pickle protocol
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))

"""Errors can be pickled, as worker processes require."""

import pickle

import pytest

from graphattn.exceptions import ConfigError, DataError, RunFolderError, TruncationWarning, UnregisteredError, verbatim


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("{hidden} is odd", options=("hidden",)),
        DataError("no tag", path="train.conll", line=7, hint="Set {tag_column}.", options=("tag_column",)),
        UnregisteredError("there is no relation 'near'", "near"),
        RunFolderError("{run_dir} is in use", "; wait", is_busy=True, options=("run_dir",)),
        TruncationWarning(3, 512, 99, "dev set", hint="Set {limit}.", options=("limit",)),
    ],
)
def test_errors_and_warnings_can_be_pickled(error):
    error.add_note("found by a worker")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_braces_of_a_file_or_field_are_no_placeholders():
    error = DataError(
        f"no column {verbatim(repr('{text}'))}",
        path="{text}.tsv",
        field="{text}",
        hint=f"Set {{text}}, not {verbatim('{{text}}{text=1}')}.",
        options=("text",),
    )
    expected = "{text}.tsv, field '{text}': no column '{text}'. Set --text-column, not {{text}}{text=1}."
    assert error.render(lambda name: "--text-column") == expected
    assert str(DataError(verbatim("{x}"))) == "{x}"

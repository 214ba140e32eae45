"""Errors can be pickled, as worker processes require."""

import pickle

import pytest

from graphattn.exceptions import ConfigError, DataError, RunFolderError, TruncationWarning, UnregisteredError, verbatim


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("{hidden} is odd", options=("hidden",)),
        DataError("no tag", path="train.conll", line=7, hint="Set {tag_column}.", options=("tag_column",)),
        RunFolderError("{run_dir} a is full", "; give another", options=("run_dir",), is_busy=True),
        UnregisteredError("there is no relation 'near'", "near"),
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


def test_an_option_can_be_renamed():
    error = ConfigError("{heads} are odd; set {hidden} or {heads}", options=("heads", "hidden"))
    error.rename_option("heads", "pretrained_heads")
    assert error.options == ("pretrained_heads", "hidden")
    assert error.render(str.upper) == "PRETRAINED_HEADS are odd; set HIDDEN or PRETRAINED_HEADS"

"""Lines of JSON: text as it is, numbers that are some."""

import json

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.cli.json_lines import encoded_line


def test_a_row_is_a_line_of_readable_text():
    line = encoded_line({"text": "schön\n", "score": 0.5})
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "schön" in line
    assert json.loads(line) == {"text": "schön\n", "score": 0.5}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value):
    with pytest.raises(DataError, match="the model gives numbers that are not finite"):
        encoded_line({"score": [value]})

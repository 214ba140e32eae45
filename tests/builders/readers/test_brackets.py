"""Spans in brackets, as in CoNLL-2005 and CoNLL-2012."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.readers._column_layout import are_brackets, read_brackets
from graphattn.builders.tag_schemes import write_tags
from graphattn.exceptions import DataError, Hint


def read(*cells):
    return read_brackets(cells, path="a.conll", lines=range(7, 7 + len(cells)))


@given(st.lists(st.tuples(st.sampled_from(["A0", "C-ARG1", "V"]), st.integers(0, 2), st.integers(1, 4)), max_size=5))
def test_spans_are_those_that_were_written(drawn):
    cells, spans = [], []
    for name, gap, length in drawn:
        cells += ["*"] * gap
        spans.append((name, len(cells), len(cells) + length))
        cells += [f"({name}*)"] if length == 1 else [f"({name}*", *["*"] * (length - 2), "*)"]
    assert read(*cells) == write_tags(spans, len(cells), "IOB2")


def test_an_end_may_repeat_its_name():
    """As in CoNLL-2004."""
    assert read("(A0*", "*A0)", "(V*V)") == ["B-A0", "I-A0", "B-V"]


@pytest.mark.parametrize(
    ("cells", "line"),
    [(["*", "-"], 8), (["*", "*)"], 8), (["*", "(A0*", "*"], 8), (["(12)"], 7)],
)
def test_what_is_no_span_is_reported_with_its_line(cells, line):
    with pytest.raises(DataError) as caught:
        read(*cells)
    assert caught.value.line == line


def test_the_outer_of_nested_spans_is_read():
    """CoNLL-2012 has a few."""
    with pytest.warns(Hint, match=r"a\.conll: spans inside other spans are left out"):
        assert read("(A0(A1*)", "*)", "(A2*", "(A3)", "*)") == ["B-A0", "I-A0", "B-A2", "I-A2", "I-A2"]


def test_a_span_of_one_word_may_lack_the_asterisk():
    """As the names of CoNLL-2012."""
    assert read("(GPE)", "*", "(ORG*", "*)") == ["B-GPE", "O", "B-ORG", "I-ORG"]


def test_brackets_are_recognized():
    assert are_brackets(["*", "(A0*", "*)", "(V*)"])
    assert not are_brackets(["*", "1:VID"])
    assert not are_brackets(["(12)"])
    assert not are_brackets([])

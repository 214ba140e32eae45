"""Ragged arrays equal lists of lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphattn._ragged import Ragged


def make(rows):
    counts = np.array([len(row) for row in rows], np.int64)
    return Ragged.from_counts(np.array([value for row in rows for value in row], np.int64), counts)


def to_lists(ragged):
    return [ragged.values[begin:end].tolist() for begin, end in zip(ragged.offsets, ragged.offsets[1:], strict=False)]


@given(rows=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6), data=st.data())
def test_rows_equal_lists(rows, data):
    ragged = make(rows)
    assert to_lists(ragged) == rows
    assert ragged.row_of_value.tolist() == [number for number, row in enumerate(rows) for _ in row]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    assert to_lists(ragged.take(np.array(chosen, np.int64))) == [rows[number] for number in chosen]
    assert to_lists(ragged.keep(ragged.values > 4)) == [[value for value in row if value > 4] for row in rows]
    assert to_lists(Ragged.concatenate([ragged, make([[1]]), ragged])) == [*rows, [1], *rows]

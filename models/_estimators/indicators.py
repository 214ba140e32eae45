"""Labels of several classes as rows of zeros and ones, one column for each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from reprlib import repr as shorten
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import DataError

BOTH_FORMS = (
    "Give a NumPy array of zeros and ones with a column for each class, or for each text a set of its classes, such "
    "as {0, 1}."
)


class IndicatorRows(list[tuple[Any, ...]]):
    """The columns that are 1 in each row of a matrix of zeros and ones.

    ``columns`` are the names of a frame's columns, or their numbers; ``collections`` are the rows as collections of the
    classes 0 and 1, if they may be such; None for a matrix.
    """

    def __init__(
        self,
        rows: Iterable[tuple[Any, ...]],
        columns: Sequence[Any],
        collections: Sequence[tuple[Any, ...]] | None = None,
    ):
        super().__init__(rows)
        self.columns, self.collections = columns, collections


def detach(values: Any) -> Any:
    """A tensor as NumPy can read it, without gradient and bfloat16; other values unchanged."""
    return values.detach().double().cpu() if hasattr(values, "detach") else values


def as_matrix(y: Any) -> npt.NDArray[Any] | None:
    """An array, tensor, sparse matrix or frame of zeros and ones as an array; None for labels in another form."""
    if hasattr(y, "columns"):
        y = y.to_numpy()
    if len(getattr(y, "shape", ())) != 2:
        return None
    matrix = np.asarray(y.toarray() if hasattr(y, "toarray") else detach(y))
    if matrix.size and isinstance(matrix.flat[0], str):
        return None
    try:
        is_binary = matrix.dtype.kind in "biufO" and np.isin(matrix, (0, 1)).all()
    except TypeError:  # pandas' NA is neither equal nor unequal to a number
        is_binary = False
    if not is_binary:
        raise DataError(
            "a matrix of labels has values other than 0 and 1",
            hint="Give zeros and ones, or a tuple of class names for each text.",
        )
    return matrix.astype(np.int64)


def list_rows(y: Any, matrix: npt.NDArray[Any]) -> IndicatorRows:
    """The rows of the matrix of labels; columns keep the names of a frame, if each has one of its own."""
    columns: Sequence[Any] = range(matrix.shape[1])
    names = list(getattr(y, "columns", ()))
    if all(isinstance(name, str) and name for name in names) and len(set(names)) == len(columns):
        columns = names
    return IndicatorRows([tuple(columns[n] for n in np.flatnonzero(row).tolist()) for row in matrix], columns)


def find_indicators(labels: Sequence[Any]) -> IndicatorRows | None:
    """Read collections of labels as a matrix if they are rows of one; None if they are collections of classes.

    Rows are those of a matrix if all have the same length, hold only 0 and 1 (also as truth values or text) and some
    repeat one, as no collection of classes does. Rows of two without repetitions may be either.
    """
    rows = list(map(_as_flags, labels))
    is_matrix = any(row is not None and len(set(row)) < len(row) for row in rows)
    widths = {-1 if row is None else len(row) for row in rows}
    if not is_matrix and widths != {2}:
        return None
    if len(widths) > 1 or -1 in widths:
        width = next(len(row) for row in rows if row is not None and len(set(row)) < len(row))
        number = next(number for number, row in enumerate(rows) if row is None or len(row) != width)
        raise DataError(
            f"label {number}, {shorten(labels[number])}, is no row of {width} zeros and ones, as others are",
            hint=BOTH_FORMS,
        )
    flags = np.array(rows)
    collections = None if is_matrix else list(map(tuple, labels))
    return IndicatorRows([tuple(np.flatnonzero(row).tolist()) for row in flags], range(flags.shape[1]), collections)


def is_collection(label: Any) -> bool:
    """Whether a label can hold several; neither text, a dictionary nor an array without axes can."""
    return isinstance(label, Iterable) and not isinstance(label, (str, Mapping)) and getattr(label, "shape", None) != ()


def _as_flags(label: Any) -> list[int] | None:
    """A list, tuple, array or tensor of zeros and ones as numbers; None for another label."""
    if not is_collection(label) or isinstance(label, Set) or not hasattr(label, "__len__"):
        return None
    flags = []
    for value in label:
        value = value.item() if hasattr(value, "item") else value
        if not isinstance(value, (str, int, float)) or value not in (0, 1, "0", "1"):
            return None
        flags.append(int(value))
    return flags

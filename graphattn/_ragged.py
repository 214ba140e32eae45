"""Rows of different lengths as one array of values, and where each row begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]


def offsets_from_counts(counts: Ints) -> Ints:
    """(R + 1,) offset of each row and of the end, from (R,) numbers of values.

    Examples
    --------
    >>> offsets_from_counts(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def concatenate_ranges(first: Ints, counts: Ints, step: int = 1) -> Ints:
    """Concatenated ranges: ``counts[i]`` numbers from ``first[i]``, ``step`` apart.

    Examples
    --------
    >>> concatenate_ranges(np.array([5, 0]), np.array([2, 3]), step=10).tolist()
    [5, 15, 0, 10, 20]
    """
    return count_up(counts) * step + np.repeat(first, counts)


def count_up(counts: Ints) -> Ints:
    """The position of each value in its row: 0, 1, ... for each of (R,) numbers of values."""
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: (T, ...) values of all rows, and the (R + 1,) offset of each row and of the end.

    Examples
    --------
    >>> rows = Ragged.from_counts(np.array([7, 8, 9]), np.array([2, 0, 1]))
    >>> rows.take(np.array([2, 0])).values.tolist(), len(rows)
    ([9, 7, 8], 3)
    """

    values: npt.NDArray[Any]
    offsets: Ints

    @classmethod
    def from_counts(cls, values: npt.NDArray[Any], counts: Ints) -> Ragged:
        """Rows with (R,) numbers of values."""
        return cls(values, offsets_from_counts(counts))

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of several arrays, one after the other."""
        values = np.concatenate([part.values for part in parts])
        return cls.from_counts(values, np.concatenate([part.counts for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Ints:
        """(R,) number of values of each row."""
        return np.diff(self.offsets)

    @property
    def row_of_value(self) -> Ints:
        """(T,) row of each value."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, rows: Ints) -> Ragged:
        """Some rows, in the given order."""
        counts = self.counts[rows]
        return Ragged.from_counts(self.values[concatenate_ranges(self.offsets[rows], counts)], counts)

    def keep(self, mask: npt.NDArray[np.bool_]) -> Ragged:
        """All rows, with the values that a (T,) mask keeps."""
        counts = np.bincount(self.row_of_value[mask], minlength=len(self))
        return Ragged.from_counts(self.values[mask], counts)

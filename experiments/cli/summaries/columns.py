"""Figures below each other, names beside each other."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_NAMES = 20


def as_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right, the last too unless it has no heading.

    Parameters
    ----------
    header : headings
    rows : as many texts each

    Examples
    --------
    >>> print(*as_columns(("epoch", "loss"), [("1", "0.7"), ("2", "0.55")]), sep="\\n")
    epoch  loss
    1       0.7
    2      0.55
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    right = range(1, len(header) - (not header[-1]))

    def line(row: Sequence[str]) -> str:
        cells = (
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(header), *map(line, rows)]


def in_a_row(names: Sequence[str]) -> str:
    """The first twenty, and how many there are besides.

    Examples
    --------
    >>> in_a_row(["bad", "good"])
    'bad, good'
    >>> in_a_row([str(number) for number in range(22)])[-18:]
    '18, 19, and 2 more'
    """
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown}, and {more} more" if more > 0 else shown

"""Figures below each other."""

from __future__ import annotations

from collections.abc import Sequence


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

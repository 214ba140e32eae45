"""Spans in brackets, as in the columns of CoNLL-2005 and CoNLL-2012: ``(A0*``, ``*``, ``*)``, ``(V*)``, ``(GPE)``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from graphattn.builders.tag_schemes import Span, write_tags
from graphattn.exceptions import DataError, Hint

_OPEN = r"\([^()*\s\d][^()*\s]*"
_CELL = re.compile(rf"((?:{_OPEN})*)\*((?:[^()*\s]*\))*)|((?:{_OPEN})+)(\)+)")
"""Coreference, ``(12)``, is no span."""


def read_brackets(cells: Sequence[str], *, path: str, lines: Sequence[int]) -> list[str]:
    """The spans of a column in brackets, as IOB2 tags; those inside other spans are left out.

    Examples
    --------
    >>> read_brackets(["(A0*", "*)", "(V*)", "*"], path="a.conll", lines=[1, 2, 3, 4])
    ['B-A0', 'I-A0', 'B-V', 'O']
    """

    def error(problem: str, line: int) -> DataError:
        return DataError(problem, path=path, line=line, hint="Write (A0*, *, *) or (A0*).")

    spans: list[Span] = []
    opened: list[tuple[str, int]] = []
    for position, (cell, line) in enumerate(zip(cells, lines, strict=True)):
        parts = _CELL.fullmatch(cell)
        if parts is None:
            raise error(f"{cell!r} is no span in brackets", line)
        opened += [(name, position) for name in (parts[1] or parts[3] or "").split("(")[1:]]
        for _ in range((parts[2] or parts[4] or "").count(")")):
            if not opened:
                raise error(f"{cell!r} ends a span that does not begin", line)
            name, start = opened.pop()
            if not opened:
                spans.append((name, start, position + 1))
            else:
                warnings.warn(Hint(f"{path}: spans inside other spans are left out"), stacklevel=2)
    if opened:
        name, start = opened[0]
        raise error(f"the span {name!r} that begins here does not end in its sentence", lines[start])
    return write_tags(spans, len(cells), "IOB2")


def are_brackets(cells: Sequence[str]) -> bool:
    """Whether all cells have the form of spans in brackets."""
    return bool(cells) and all(map(_CELL.fullmatch, cells))

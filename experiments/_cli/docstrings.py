"""Docstrings of commands, which their help texts show."""

from __future__ import annotations

import ast
import inspect
import sys
from textwrap import dedent
from typing import Any


def read_docstring(documented: Any) -> str:
    """The docstring of a function or class, empty if there is none; under ``python -OO``, from its source."""
    text = inspect.getdoc(documented)
    if text is None and sys.flags.optimize > 1:
        text = parse_docstring(documented)
    return text or ""


def parse_docstring(documented: Any) -> str | None:
    """The docstring in the source of a function or class; None if there is none, or the source is not there.

    Examples
    --------
    >>> parse_docstring(read_docstring).partition(",")[0]
    'The docstring of a function or class'
    """
    try:
        (node,) = ast.parse(dedent(inspect.getsource(documented))).body
    except (OSError, TypeError, SyntaxError):
        return None
    return ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None

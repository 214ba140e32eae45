"""Lines of JSON that any reader takes: UTF-8 as it is, and no NaN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphattn.exceptions import DataError

_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def encoded_line(row: Mapping[str, Any]) -> str:
    """A row as a line of JSON.

    Raises
    ------
    DataError
        when it holds a number that is none, which JSON cannot write
    """
    try:
        return _ENCODE(row) + "\n"
    except ValueError:
        raise DataError(
            "the model gives numbers that are not finite",
            hint="Its weights were never good; train again.",
        ) from None

"""``graphattn train ... --explain``: a table of every option, its value and what decided it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graphattn.experiments._cli.flags import as_flag
from graphattn.models.defaults import DEFAULT, SET, TRAINED, Resolved

_HEADER = ("option", "value", "decided by")
_MOST = 48
"""Characters of the longest value that widens its column."""


def format_options(
    resolved: Resolved, *, set_names: Collection[str], trained_names: Collection[str] = (), unused: Collection[str] = ()
) -> str:
    """A line for each option that a task uses.

    Parameters
    ----------
    resolved : the options
    set_names : options that a flag, a file of options or a model to continue from has set
    trained_names : those of them that only the model has set
    unused : options without an effect on the task
    """
    default = "pretrained model" if resolved["pretrained"].pretrained else DEFAULT
    set_by = {**dict.fromkeys(set_names, "you"), **dict.fromkeys(trained_names, TRAINED)}
    rows = [_HEADER, ("--encoder", resolved["encoder"].name, set_by.get("encoder", default))]
    for _, name, value, reason in resolved.rows(unused):
        reason = set_by.get(name, "this command") if reason == SET else reason
        rows.append((as_flag(name), _format_value(value), reason))
    widths = [max(min(len(row[column]), _MOST) for row in rows) for column in (0, 1)]
    return "\n".join(f"{flag:<{widths[0]}}  {value:<{widths[1]}}  {reason}" for flag, value, reason in rows)


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

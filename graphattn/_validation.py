"""Checks of values that users pass in. Messages name the option; the command line prints its flag instead."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from graphattn._schema import ONLY
from graphattn.exceptions import ConfigError


def suggest(name: object, known: Iterable[str]) -> str:
    """A question that names the most similar names, with a blank at its end; empty when none is similar.

    Examples
    --------
    >>> suggest("umts", ["ms-trans", "umst", "bilstm"]), suggest("lstm", ["umst"])
    ("did you mean 'umst'? ", '')
    """
    close = get_close_matches(str(name), known, n=3)
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


def require_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise unless the value of an option is one of the choices.

    Examples
    --------
    >>> require_choice("variant", "open", ("paper", "gated"))
    Traceback (most recent call last):
    graphattn.exceptions.ConfigError: variant is 'open'; choose one of: paper, gated
    """
    if value not in choices:
        hint = f"{suggest(value, choices)}choose one of"
        raise ConfigError(f"{{{name}}} is {value!r}; {hint}: {', '.join(choices)}", options=(name,))


def require_range(
    name: str,
    value: float,
    *,
    min: float = -math.inf,
    max: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Raise unless the value of an option is finite and within its bounds, and not to be learned.

    Examples
    --------
    >>> require_range("dropout", 1.0, min=0, below=1)
    Traceback (most recent call last):
    graphattn.exceptions.ConfigError: dropout is 1.0; it must be at least 0 and below 1
    """
    if getattr(value, "requires_grad", False):
        raise ConfigError(f"{{{name}}} is a tensor that would get no gradient; give a number", options=(name,))
    if math.isfinite(value) and min <= value <= max and above < value < below:
        return
    bounds = (("at least", min), ("above", above), ("at most", max), ("below", below))
    rules = [f"{words} {bound}" for words, bound in bounds if math.isfinite(bound)]
    if not rules or value == math.inf:
        rules.append("finite")
    raise ConfigError(f"{{{name}}} is {value}; it must be {' and '.join(rules)}", options=(name,))


def require_multiple(name: str, value: int, divisor: int, other: str | None = None, *, fix: str | None = None) -> None:
    """Raise unless the value of an option is a multiple of a number, which ``other`` has; ``fix`` solves the conflict.

    Examples
    --------
    >>> require_multiple("hidden", 300, 7, "heads", fix="head_feats")
    Traceback (most recent call last):
    graphattn.exceptions.ConfigError: hidden is 300; it must be a multiple of heads (7), or set head_feats
    """
    if value % divisor:
        shown = str(divisor) if other is None else f"{{{other}}} ({divisor})"
        hint = "" if fix is None else f", or set {{{fix}}}"
        options = [option for option in (name, other, fix) if option is not None]
        raise ConfigError(f"{{{name}}} is {value}; it must be a multiple of {shown}{hint}", options=options)


def require_heads(heads: Mapping[str, int] | int) -> dict[str, int]:
    """The relations that have heads, with their numbers; raise when none has, or a number is negative."""
    if isinstance(heads, int):
        heads = {ONLY: heads}
    if not isinstance(heads, Mapping):
        raise ConfigError(
            f"{{heads}} are {heads!r}; give the number of each relation's heads, such as {{'window:3': 2}}",
            options=("heads",),
        )
    positive = {relation: count for relation, count in heads.items() if count}
    if min(positive.values(), default=0) < 1:
        raise ConfigError(
            f"{{heads}} are {dict(heads)}; give at least one relation a positive number of heads", options=("heads",)
        )
    return positive

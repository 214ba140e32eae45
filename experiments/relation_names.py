"""Relations by the names that users give on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphattn.builders import Complete, Dependency, Membership, Order, Relation, Window, WordGroup
from graphattn.exceptions import ConfigError, GraphAttnError

_NAMED: dict[str, Callable[[], Relation]] = {
    "group": WordGroup,
    "dependency": Dependency,
    "dependency:token": lambda: Dependency("token"),
    "in": Membership,
    "forward": lambda: Order("forward"),
    "backward": lambda: Order("backward"),
    "all": Complete,
}


def relations_from(names: Sequence[str]) -> list[Relation]:
    """The relations that some names stand for.

    Parameters
    ----------
    names : ``window:3``, ``window:N/16`` or another scale, ``radius:3`` for a reach to each side, ``group``,
        ``dependency`` (between words, with ``in``), ``dependency:token``, ``in``, ``forward``, ``backward``, ``all``

    Raises
    ------
    ConfigError
        for a name that is none of these

    Examples
    --------
    >>> relations_from(["window:N/16", "group"])
    [Window('N/16'), WordGroup()]
    """
    return [_relation(name) for name in names]


def _relation(name: str) -> Relation:
    kind, _, scale = name.partition(":")
    if name in _NAMED:
        return _NAMED[name]()
    if kind in ("window", "radius") and scale:
        try:
            return Window(scale, as_radius=kind == "radius")
        except GraphAttnError as error:
            raise ConfigError(f"relation {name!r}: {error}") from error
    known = ", ".join(("window:SCALE", "radius:SCALE", *_NAMED))
    raise ConfigError(f"there is no relation {name!r}; choose from: {known}")

"""Relations by the names that users give on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from graphattn.builders import Relation
from graphattn.builders.relations import parse_relation


def relations_from(names: Sequence[str]) -> list[Relation]:
    """The relations that some names stand for; :func:`~graphattn.builders.relations.parse_relation` says which.

    Parameters
    ----------
    names : ``window:3``, ``group``, ``dependency`` (between words, with ``in``), ``window:3|global:1`` and so on

    Raises
    ------
    ConfigError
        for a name that is none of these

    Examples
    --------
    >>> relations_from(["window:N/16", "group"])
    [Window('N/16'), WordGroup()]
    """
    return [parse_relation(name) for name in names]

"""Which relations the heads of a layer look along: ``window:3=4,dependency=2,star=2`` read and checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from graphattn.builders.relations import Relation, parse_relation
from graphattn.builders.relations.relative_positions import find_inner_distances
from graphattn.exceptions import ConfigError
from graphattn.schema import TOKEN


def parse_heads(heads: str | Mapping[str, int]) -> dict[str, int]:
    """Read heads by relation.

    Parameters
    ----------
    heads : such as ``"window:3=4,dependency=2,star=2"``, or relation -> number of heads

    Returns
    -------
    Name of a relation, in full -> number of heads.

    Raises
    ------
    ConfigError
        for an unknown relation, one that no head can look along, one given twice, or a number that is none

    Examples
    --------
    >>> parse_heads("window:3=4, binary=2")
    {'window:3': 4, 'binary:1': 2}
    """
    if not heads and not isinstance(heads, str):
        raise ConfigError(
            "{heads} is empty; give relations with their heads, window:3=4 for example", options=("heads",)
        )
    return count_heads(_pairs(heads), "heads")


def count_heads(pairs: Iterable[tuple[str, object]], option: str) -> dict[str, int]:
    """Relations with their heads, checked; results and errors are those of :func:`parse_heads`.

    Parameters
    ----------
    pairs : names and numbers as they were written
    option : where they were written
    """
    counts: dict[str, int] = {}
    for name, count in pairs:
        try:
            full = head_relation(name).name
        except ConfigError as error:
            raise ConfigError(f"{{{option}}}: {error.template}", options=(option, *error.options)) from error
        if full in counts:
            raise ConfigError(f"{{{option}}} has {full} twice; give it once, with all its heads", options=(option,))
        if isinstance(count, bool) or not re.fullmatch(r"[1-9]\d{0,5}", str(count)):
            raise ConfigError(
                f"{{{option}}}: {name} has {count!r} heads; it must be a whole number of at least 1", options=(option,)
            )
        counts[full] = int(str(count))
    return counts


def _pairs(heads: str | Mapping[str, int]) -> list[tuple[str, object]]:
    if isinstance(heads, Mapping):
        return [(str(name), count) for name, count in heads.items()]
    pairs: list[tuple[str, object]] = []
    for part in map(str.strip, heads.split(",")):
        name, sign, count = part.rpartition("=")
        if not sign:
            raise ConfigError(
                f"{{heads}}: {part!r} is not RELATION=HEADS; write window:3=4,dependency=2 for example, or one number",
                options=("heads",),
            )
        pairs.append((name.strip(), count.strip()))
    return pairs


def head_relation(name: str) -> Relation:
    """The relation of that name, for heads of tokens; ``dependency`` joins tokens.

    Raises
    ------
    ConfigError
        when there is none, its edges do not lead to tokens, they come from nodes that nothing leads to, or relative
        positions are lost inside it
    """
    relation = parse_relation(name, on=TOKEN)
    targets = {part.target for part in relation.parts()}
    if TOKEN not in targets:
        raise ConfigError(f"relation {name!r} leads to no tokens, so no token could attend along it")
    for part in relation.parts():
        if part.source not in targets:
            raise ConfigError(
                f"relation {name!r} leads from {part.source} nodes, to which it has no edges; they would know nothing"
            )
        inner = find_inner_distances(part)
        if inner is not None:
            raise ConfigError(
                f"relation {name!r} has {inner.name} inside it, whose distances no head would see; "
                f"put relative:{inner.clip}(...) around the whole"
            )
    return relation

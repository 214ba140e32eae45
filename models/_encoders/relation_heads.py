"""Parse heads by relation: ``window:3=4,dependency=2,star=2``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from graphattn._schema import TOKEN
from graphattn.builders.relations import Relation, parse_relation
from graphattn.builders.relations._names import split_heads
from graphattn.builders.relations._relative_positions import find_inner_distances
from graphattn.exceptions import ConfigError


def parse_heads(heads: str | Mapping[str, int]) -> dict[str, int]:
    """Read heads by relation, such as ``"window:3=4,dependency=2"``; the names of relations become complete.

    Examples
    --------
    >>> parse_heads("window:3=4, binary=2")
    {'window:3': 4, 'binary:1': 2}
    """
    pairs = split_heads(heads)
    if not pairs:
        raise ConfigError(
            "{heads} is empty; give relations with their heads, window:3=4 for example", options=("heads",)
        )
    missing = next((name for name, count in pairs if count is None), None)
    if missing is not None:
        raise ConfigError(
            f"{{heads}}: {missing!r} is not RELATION=HEADS; write window:3=4,dependency=2 for example, or one number",
            options=("heads",),
        )
    return count_heads(pairs, "heads")


def count_heads(pairs: Iterable[tuple[str, object]], option: str) -> dict[str, int]:
    """Validate pairs of relation and heads; ``option`` is the option they come from."""
    counts: dict[str, int] = {}
    for name, count in pairs:
        try:
            full = head_relation(name).name
        except ConfigError as error:
            raise ConfigError(f"{{{option}}}: {error.template}", options=(option, *error.options)) from error
        if full in counts:
            raise ConfigError(f"{{{option}}} repeats {full}; give it once, with all its heads", options=(option,))
        if not re.fullmatch(r"[1-9]\d{0,5}", str(count)):
            raise ConfigError(
                f"{{{option}}}: {name} has {count!r} heads; it must be a whole number of at least 1", options=(option,)
            )
        counts[full] = int(str(count))
    return counts


def head_relation(name: str) -> Relation:
    """The relation of that name, for heads of tokens; ``dependency`` connects tokens.

    A relation without edges to tokens, from nodes without incoming edges, or with hidden relative positions is
    rejected.
    """
    relation = parse_relation(name, on=TOKEN)
    targets = {part.target for part in relation.parts()}
    if TOKEN not in targets:
        raise ConfigError(f"relation {name!r} has no edges to tokens")
    for part in relation.parts():
        if part.source not in targets:
            raise ConfigError(f"relation {name!r} starts from {part.source} nodes, to which it has no edges")
        inner = find_inner_distances(part)
        if inner is not None:
            raise ConfigError(
                f"relation {name!r} has {inner.name} inside, where heads cannot use distances; "
                f"put relative:{inner.clip}(...) around the whole"
            )
    return relation


def parse_relation_heads(relations: str | Iterable[str] | Mapping[str, object]) -> dict[str, int]:
    """Read ``("dependency=2", "binary:1=2")``; a colon may replace the last sign.

    A number is required: ``global:2`` is a relation, not two heads on ``global``.
    """
    return count_heads((_split_at_colon(*pair) for pair in split_heads(relations)), "relations")


def _split_at_colon(spec: str, count: object) -> tuple[str, object]:
    """A relation and its heads; without a number, the spec has it after its last colon."""
    if count is not None:
        return spec, count
    name, sign, count = spec.rpartition(":")
    if not sign:
        raise ConfigError(
            f"{{relations}}: {spec!r} is not RELATION=HEADS; write dependency=2 for example", options=("relations",)
        )
    if _is_relation(spec):
        raise ConfigError(
            f"{{relations}}: {spec!r} names a relation and no heads; write {_suggest_heads(spec)}",
            options=("relations",),
        )
    return name, count


def _suggest_heads(spec: str) -> str:
    """Complete a relation without heads; its last number may have been meant as the heads."""
    suggestion = f"{spec}=2 for two heads on it"
    name, _, count = spec.rpartition(":")
    if not count.isdigit() or not _is_relation(name):
        return suggestion
    return f"{suggestion}, {name}={count} for {count} on {parse_relation(name).spec}"


def _is_relation(name: str) -> bool:
    try:
        parse_relation(name)
    except ConfigError:
        return False
    return True

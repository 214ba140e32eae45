"""The edges of each head of a pretrained model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate

from graphattn.builders.relations import split_heads
from graphattn.exceptions import ConfigError
from graphattn.models.encoders.relation_heads import head_relation, parse_heads
from graphattn.models.pretrained.architecture import Architecture
from graphattn.schema import TOKEN

HeadRange = tuple[str, int, int]
"""Relation, number of its first head in a layer, and number of heads."""
_LAYERS = re.compile(r"(\d+)(?:-(\d+))?:(?=\D)")


def parse_layer_heads(heads: str | Mapping[str, int], architecture: Architecture) -> list[dict[str, int]]:
    """Read relation -> number of heads, for each layer.

    ``"window:257|global=12"`` is for all layers; with ``"4-5:all=10,dependency=2; 0:window:3"`` other layers keep their
    edges. A relation without a number has all heads. The first heads of a layer get the first relation.
    """
    layers = [{relation: architecture.heads} for relation in architecture.relations]
    if isinstance(heads, Mapping):
        return [_parse_heads_of_layer(heads, architecture.heads) for _ in layers]
    for part in filter(None, map(str.strip, heads.split(";"))):
        match = _LAYERS.match(part)
        first, last = (0, len(layers) - 1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not first <= last < len(layers):
            raise ConfigError(
                f"{{heads}}: {part!r} names layers {first} to {last}; the model has 0 to {len(layers) - 1}",
                options=("heads",),
            )
        counts = _parse_heads_of_layer(part if match is None else part[match.end() :], architecture.heads)
        layers[first : last + 1] = [counts] * (last + 1 - first)
    return layers


def _parse_heads_of_layer(heads: str | Mapping[str, int], count: int) -> dict[str, int]:
    pairs = split_heads(heads)
    if len(pairs) == 1 and pairs[0][1] is None:
        heads = {pairs[0][0]: count}
    counts = parse_heads(heads)
    for name in counts:
        nodes = {node for part in head_relation(name).parts() for node in (part.source, part.target)} - {TOKEN}
        if nodes:
            raise ConfigError(
                f"{{heads}}: {name} has edges to {' and '.join(sorted(nodes))} nodes, and a pretrained model has "
                "tokens only; give it to an encoder on top",
                options=("heads",),
            )
    if sum(counts.values()) != count:
        raise ConfigError(
            f"{{heads}} {heads!r} has {sum(counts.values())} heads; each layer of the model has {count}",
            options=("heads",),
        )
    return counts


def head_ranges(heads: Mapping[str, int]) -> list[HeadRange]:
    """Each relation of a layer with the number of its first head, and of its heads."""
    ends = accumulate(heads.values())
    return [(name, end - count, count) for (name, count), end in zip(heads.items(), ends, strict=True)]

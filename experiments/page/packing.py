"""Attention weights as compact JSON for the page: typed arrays in base64, edges that heads share written once."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import ConfigError

MOST_EDGES = 1_000_000
"""Edges of one text that a page keeps, over all layers and heads: about five megabytes."""

MOST_TOKENS = 65535
_LEVELS = 65535


@dataclass(frozen=True)
class _Map:
    """One head's edges along one relation, by target, then by source; ``about`` is what is not an array."""

    about: dict[str, Any]
    pointers: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.pointers)


def packed(page: Mapping[str, Any], most_edges: int = MOST_EDGES) -> dict[str, Any]:
    """What ``to_page()`` of an attention result gives, as the page reads it.

    Weights become whole numbers of 16 bits times a unit of their map, so they are off by at most one part in 131,070 of
    the map's largest. Where the text has more edges than the page may hold, every token keeps its strongest incoming
    edges in each map, the same number everywhere.

    Parameters
    ----------
    page : title, prediction, tokens, parts and maps
    most_edges : how many edges to keep, over all maps

    Returns
    -------
    The page with ``edges`` (pointers into the sources by target; where the sources of every target lie side by
    side only the first), ``maps`` (which edges, weights, unit) and ``kept`` (strongest edges a target, or None for all)

    Raises
    ------
    ConfigError
        when a text is too long for any page
    """
    if max(map(len, page["tokens"].values())) > MOST_TOKENS:
        raise ConfigError(f"a page shows texts of up to {MOST_TOKENS:,} tokens; cut the text")
    maps = [_sorted(one, page["tokens"]) for one in page["maps"]]
    kept = _affordable(maps, most_edges)
    if kept is not None:
        maps = [_strongest(one, kept) for one in maps]
    edges: list[dict[str, str]] = []
    places: dict[tuple[bytes, bytes], int] = {}
    rows = []
    for one in maps:
        key = one.pointers.tobytes(), one.sources.tobytes()
        if key not in places:
            places[key] = len(edges)
            edges.append(_packed_edges(one))
        rows.append({**one.about, "edges": places[key], **_packed_weights(one.weights)})
    told = {name: page[name] for name in ("title", "prediction", "tokens", "words")}
    return {**told, "edges": edges, "maps": rows, "kept": kept}


def _sorted(found: Mapping[str, Any], tokens: Mapping[str, Sequence[str]]) -> _Map:
    arrays = {"source", "target", "weight"}
    source, target = (np.asarray(found[name], dtype=np.int64) for name in ("source", "target"))
    order = np.lexsort((source, target))
    counts = np.bincount(target, minlength=len(tokens[found["target_part"]]))
    pointers = np.concatenate(([0], np.cumsum(counts)))
    about = {name: value for name, value in found.items() if name not in arrays}
    return _Map(about, pointers, source[order], np.asarray(found["weight"], dtype=np.float32)[order])


def _affordable(maps: list[_Map], most_edges: int) -> int | None:
    """How many edges each target may keep in each map, at least one; None when all fit."""
    counts = np.sort(np.concatenate([one.counts for one in maps] or [np.zeros(0, np.int64)]))
    if counts.sum() <= most_edges:
        return None
    low, high = 1, int(counts[-1])  # the answer is at least low and below high
    while high - low > 1:
        middle = (low + high) // 2
        fits = np.minimum(counts, middle).sum() <= most_edges
        low, high = (middle, high) if fits else (low, middle)
    return low


def _strongest(one: _Map, kept: int) -> _Map:
    targets = np.repeat(np.arange(len(one.counts)), one.counts)
    order = np.lexsort((-one.weights, targets))  # stable: of equal weights the earlier source stays
    rank = np.arange(len(order)) - np.repeat(one.pointers[:-1], one.counts)
    chosen = np.sort(order[rank < kept])
    pointers = np.concatenate(([0], np.cumsum(np.minimum(one.counts, kept))))
    return _Map(one.about, pointers, one.sources[chosen], one.weights[chosen])


def _packed_edges(one: _Map) -> dict[str, str]:
    filled = one.counts > 0
    first = np.zeros(len(one.counts), np.int64)
    first[filled] = one.sources[one.pointers[:-1][filled]]
    steps = np.arange(len(one.sources)) - np.repeat(one.pointers[:-1], one.counts)
    side_by_side = np.array_equal(one.sources, np.repeat(first, one.counts) + steps)
    own = {"first": _base64(first, "<u4")} if side_by_side else {"sources": _base64(one.sources, "<u2")}
    return {"pointers": _base64(one.pointers, "<u4"), **own}


def _packed_weights(weights: npt.NDArray[np.float32]) -> dict[str, Any]:
    unit = float(weights.max(initial=0)) / _LEVELS
    levels = np.rint(weights.astype(np.float64) / unit) if unit else np.zeros(len(weights))
    return {"weights": _base64(levels, "<u2"), "unit": unit}


def _base64(array: npt.NDArray, kind: str) -> str:
    return b64encode(array.astype(kind).tobytes()).decode("ascii")

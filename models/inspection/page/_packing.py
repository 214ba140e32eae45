"""Attention weights as compact JSON for the page: typed arrays in base64, and shared edges only once."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import ConfigError
from graphattn.models._results.class_probabilities import name_class

MAX_EDGES = 1_000_000
"""Edges of one text on a page, over all layers and heads: about five megabytes."""

MAX_TOKENS = 65535
_LEVELS = 65535


@dataclass(frozen=True)
class _HeadMap:
    """The edges of one head along one relation, sorted by target, then by source."""

    fields: dict[str, Any]  # the map's entries that are not arrays
    pointers: npt.NDArray[np.int64]  # the edges of target t are at pointers[t]:pointers[t + 1]
    sources: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.pointers)


def pack_page(page: Mapping[str, Any], max_edges: int = MAX_EDGES) -> dict[str, Any]:
    """Pack what ``to_page()`` of an attention result returns, for the page's scripts.

    Weights become 16-bit integers times a unit of their map, with an error of at most one part in 131,070 of the map's
    largest weight. If the text has more edges than ``max_edges``, every token keeps its strongest incoming edges, the
    same number in each map: ``kept``, or None. ``edges`` are pointers into the sources by target, with only the first
    source of each target if all targets have contiguous sources; ``maps`` have an index into ``edges`` and weights.
    ``word_texts`` are the words of texts that have words of several tokens.
    """
    if max(map(len, page["tokens"].values())) > MAX_TOKENS:
        raise ConfigError(f"a page shows texts of up to {MAX_TOKENS:,} tokens; cut the text")
    maps = [_sort_edges(entry, page["tokens"]) for entry in page["maps"]]
    kept = _find_limit(maps, max_edges)
    if kept is not None:
        maps = [_keep_strongest(head_map, kept) for head_map in maps]
    edges: list[dict[str, str]] = []
    index_of: dict[tuple[bytes, bytes], int] = {}
    rows = []
    for head_map in maps:
        key = head_map.pointers.tobytes(), head_map.sources.tobytes()
        if key not in index_of:
            index_of[key] = len(edges)
            edges.append(_pack_edges(head_map))
        rows.append({**head_map.fields, "edges": index_of[key], **_pack_weights(head_map.weights)})
    header = {name: page[name] for name in ("title", "tokens", "words", "parses")}
    header["branches"] = page.get("branches")  # missing in results that were saved before
    header["word_texts"] = _texts_of_words(page)
    return {**header, "prediction": _name_labels(page["prediction"]), "edges": edges, "maps": rows, "kept": kept}


def _texts_of_words(page: Mapping[str, Any]) -> dict[str, list[str]]:
    """Text -> its words, of texts in which a word has several tokens."""
    texts = page.get("word_texts", page["tokens"])
    return {
        part: list(dict(zip(words, texts[part], strict=True)).values())
        for part, words in page["words"].items()
        if len(set(words)) < len(words)
    }


def _name_labels(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """The prediction with labels as its probabilities name them, since JavaScript writes 1.0 as 1."""
    named = dict(prediction)
    if "label" in named:
        named["label"] = name_class(named["label"])
    if "labels" in named:
        named["labels"] = [name_class(label) for label in named["labels"]]
    return named


def _sort_edges(entry: Mapping[str, Any], tokens: Mapping[str, Sequence[str]]) -> _HeadMap:
    source, target = (np.asarray(entry[name], dtype=np.int64) for name in ("source", "target"))
    order = np.lexsort((source, target))
    counts = np.bincount(target, minlength=len(tokens[entry["target_part"]]))
    pointers = np.concatenate(([0], np.cumsum(counts)))
    fields = {name: value for name, value in entry.items() if name not in {"source", "target", "weight"}}
    return _HeadMap(fields, pointers, source[order], np.asarray(entry["weight"], dtype=np.float32)[order])


def _find_limit(maps: list[_HeadMap], max_edges: int) -> int | None:
    """The number of edges that each target may keep in each map, at least one; None if all fit."""
    counts = np.sort(np.concatenate([head_map.counts for head_map in maps] or [np.zeros(0, np.int64)]))
    if counts.sum() <= max_edges:
        return None
    low, high = 1, int(counts[-1])  # the limit is at least low and below high
    while high - low > 1:
        middle = (low + high) // 2
        fits = np.minimum(counts, middle).sum() <= max_edges
        low, high = (middle, high) if fits else (low, middle)
    return low


def _keep_strongest(head_map: _HeadMap, kept: int) -> _HeadMap:
    """Keep so many edges of each target; of equal weights, the earlier source."""
    targets = np.repeat(np.arange(len(head_map.counts)), head_map.counts)
    order = np.lexsort((-head_map.weights, targets))
    rank = np.arange(len(order)) - np.repeat(head_map.pointers[:-1], head_map.counts)
    strongest = np.sort(order[rank < kept])
    pointers = np.concatenate(([0], np.cumsum(np.minimum(head_map.counts, kept))))
    return _HeadMap(head_map.fields, pointers, head_map.sources[strongest], head_map.weights[strongest])


def _pack_edges(head_map: _HeadMap) -> dict[str, str]:
    pointers, sources, counts = head_map.pointers, head_map.sources, head_map.counts
    first = np.zeros(len(counts), np.int64)
    first[counts > 0] = sources[pointers[:-1][counts > 0]]
    steps = np.arange(len(sources)) - np.repeat(pointers[:-1], counts)
    contiguous = np.array_equal(sources, np.repeat(first, counts) + steps)
    ends = {"first": _base64(first, "<u4")} if contiguous else {"sources": _base64(sources, "<u2")}
    return {"pointers": _base64(pointers, "<u4"), **ends}


def _pack_weights(weights: npt.NDArray[np.float32]) -> dict[str, Any]:
    unit = float(weights.max(initial=0)) / _LEVELS
    levels = np.rint(weights.astype(np.float64) / unit) if unit else np.zeros(len(weights))
    return {"weights": _base64(levels, "<u2"), "unit": unit}


def _base64(array: npt.NDArray[np.generic], dtype: str) -> str:
    return b64encode(array.astype(dtype).tobytes()).decode("ascii")

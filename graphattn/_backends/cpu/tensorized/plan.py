"""Relations with contiguous keys as dense blocks: the tokens of each matrix product, and its mask.

In order, complete and window relations each destination has a range of keys, and no edge leaves its sentence. Sentences
of similar length form a chunk; its queries are divided into strips, each with the keys that it can see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn._edges import Edges

STRIP_QUERIES = 128
"""Queries of one strip: small strips compute fewer masked pairs, large ones make larger products."""
CHUNK_PAIRS = 1 << 17
"""Tokens times keys of all sentences of a chunk, so that the chunk fits into the cache."""
MIN_DENSITY = 1 / 8
"""Ratio of edges to pairs below which blocks would compute too many masked pairs."""


@dataclass(frozen=True, eq=False)
class Strip:
    """Some queries of every sentence of a chunk, and the keys they can see."""

    queries: slice  # positions in the sentence
    keys: slice  # positions in the sentence
    hidden: Tensor | None  # (1 or B, I, J) -inf where a query does not see a key, else 0; None when each sees all
    keyless: Tensor | None  # (1 or B, I, 1) which queries see no key; None when all see one


@dataclass(frozen=True, eq=False)
class SentenceChunk:
    """Sentences of similar length."""

    size: int  # number of sentences (B)
    length: int  # tokens of the longest (T)
    first: int  # the first token, when all sentences have equal length and are consecutive
    # (B T,) token of each position, the last one repeated as padding; None when they are consecutive
    tokens: Tensor | None
    positions: Tensor | None  # (tokens,) the positions without padding; None when there is no padding
    strips: tuple[Strip, ...]  # cover all queries

    def gather(self, rows: Tensor) -> Tensor:
        """(N, D) -> (B, T, D)."""
        if self.tokens is None:
            rows = rows[self.first : self.first + self.size * self.length]
        else:
            rows = rows.index_select(0, self.tokens)
        return rows.unflatten(0, (self.size, self.length))

    def buffer(self, target: Tensor) -> Tensor:
        """(B, T, D) to fill before :meth:`scatter`; a view of ``target`` (N, D) where tokens are consecutive."""
        return self.gather(target) if self.tokens is None else target.new_empty(self.size, self.length, target.shape[1])

    def scatter(self, target: Tensor, buffer: Tensor) -> None:
        """Copy a buffer (B, T, D) to the rows of ``target`` (N, D)."""
        if self.positions is not None and self.tokens is not None:
            target.index_copy_(0, self.tokens[self.positions], buffer.flatten(0, 1)[self.positions])
        elif self.tokens is not None:
            target.index_copy_(0, self.tokens, buffer.flatten(0, 1))

    def mask_padding(self, rows: Tensor, value: float) -> Tensor:
        """Fill the rows of padding with a value."""
        if self.positions is not None:
            padding = rows.new_ones(self.size * self.length, dtype=torch.bool)
            padding[self.positions] = False
            rows.masked_fill_(padding.view(self.size, self.length, 1), value)
        return rows


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Plan to compute one relation in blocks."""

    chunks: tuple[SentenceChunk, ...]  # cover all tokens
    keyless: Tensor  # (N,) which nodes have no incoming edge


def block_plan_of(edges: Edges) -> BlockPlan | None:
    """The cached plan of a relation; None when keys are not contiguous, or blocks would be mostly empty.

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 0, 1, 3]), torch.tensor([0, 0, 1]), 3)  # forward, three tokens
    >>> [(chunk.size, chunk.length) for chunk in block_plan_of(edges).chunks]
    [(1, 3)]
    """
    return edges.compute_once("tensorized", _make_plan)


def _make_plan(edges: Edges) -> BlockPlan | None:
    ranges = _key_ranges(edges)
    if ranges is None:
        return None
    begin, end = ranges
    bounds = torch.from_numpy(_find_cuts(begin.cpu().numpy(), end.cpu().numpy() - 1)).to(begin.device)
    starts, sizes = bounds[:-1], bounds.diff()
    if edges.num_edges < MIN_DENSITY * float(sizes.double().square().sum()):
        return None
    sentence_start = torch.repeat_interleave(starts, sizes, output_size=len(begin))
    begin, end = begin - sentence_start, end - sentence_start
    chunks = tuple(_make_chunk(begin, end, starts[group], sizes[group]) for group in _group_by_size(sizes))
    return BlockPlan(chunks, begin >= end)


def _key_ranges(edges: Edges) -> tuple[Tensor, Tensor] | None:
    """(N,) first key and (N,) the one after the last, both the node itself where it has no key.

    None when keys are not contiguous.
    """
    count = edges.num_destinations
    if edges.num_sources != count or not edges.num_edges:
        return None
    first = edges.first_sources
    if first is None:
        return None
    degrees = edges.indptr.long().diff()
    begin = torch.where(degrees > 0, first.long(), torch.arange(count, device=first.device))
    return begin, begin + degrees


def sentence_starts(edges: Edges) -> npt.NDArray[np.int64]:
    """(B + 1,) first nodes of the runs that no edge leaves, and the number of nodes; for edges on a CPU.

    If sources and destinations are different nodes, all nodes are one run.
    """
    count = edges.num_destinations
    if edges.num_sources != count:
        return np.array([0, count])
    indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
    low, high = np.arange(count), np.arange(count)
    (seeing,) = np.nonzero(indptr[1:] > indptr[:-1])
    if len(seeing):
        low[seeing] = np.minimum.reduceat(indices, indptr[seeing])
        high[seeing] = np.maximum.reduceat(indices, indptr[seeing])
    return _find_cuts(low, high)


def _find_cuts(low: npt.NDArray[np.integer], high: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Cut points between nodes that no edge crosses, from each node's lowest and highest source."""
    here = np.arange(len(low))
    begins = np.bincount(np.minimum(low, here) + 1, minlength=len(low) + 1)
    ends = np.bincount(np.maximum(high, here) + 1, minlength=len(low) + 1)
    return np.flatnonzero(np.cumsum(begins - ends) == 0)


def _group_by_size(sizes: Tensor) -> Iterator[Tensor]:
    """Group sentences of similar length into chunks of bounded size."""
    order = torch.argsort(sizes, stable=True)
    ordered = sizes[order].tolist()
    start = 0
    for stop in range(1, len(ordered) + 1):
        longest = ordered[stop] if stop < len(ordered) else 0
        full = (stop + 1 - start) * longest * max(longest, 64) > CHUNK_PAIRS
        if stop == len(ordered) or full or longest > 1.25 * ordered[start] + 4:
            yield order[start:stop]
            start = stop


def _make_chunk(begin: Tensor, end: Tensor, starts: Tensor, sizes: Tensor) -> SentenceChunk:
    size, length = len(sizes), int(sizes.max())
    first = int(starts[0])
    position = torch.arange(length, device=starts.device)
    tokens = starts.unsqueeze(1) + torch.minimum(position, sizes.unsqueeze(1) - 1)  # (B, T)
    real = position < sizes.unsqueeze(1)
    low, high = begin[tokens], end[tokens]
    # keys that are padding have weight zero, so a range to the sentence's end may extend to the block's end
    high = torch.where(high >= sizes.unsqueeze(1), length, high)
    longest = int(sizes.argmax())
    low, high = torch.where(real, low, low[longest]), torch.where(real, high, high[longest])
    if bool((low == low[:1]).all() and (high == high[:1]).all()):
        low, high = low[:1], high[:1]
    strips = tuple(
        _make_strip(low, high, slice(q, min(q + STRIP_QUERIES, length))) for q in range(0, length, STRIP_QUERIES)
    )
    consecutive = bool((starts == first + length * torch.arange(size, device=starts.device)).all())
    whole = bool(real.all())
    return SentenceChunk(
        size,
        length,
        first,
        None if whole and consecutive else tokens.flatten(),
        None if whole else real.flatten().nonzero().squeeze(1),
        strips,
    )


def _make_strip(low: Tensor, high: Tensor, queries: slice) -> Strip:
    low, high = low[:, queries], high[:, queries]
    keyless = low >= high
    seeing = ~keyless
    if not bool(seeing.any()):
        return Strip(queries, slice(0, 1), low.new_zeros(1, 1, 1, dtype=torch.bool), keyless.unsqueeze(-1))
    keys = slice(int(low[seeing].min()), int(high[seeing].max()))
    key = torch.arange(keys.start, keys.stop, device=low.device)
    hidden = (key < low.unsqueeze(-1)) | (key >= high.unsqueeze(-1))
    return Strip(
        queries, keys, hidden if bool(hidden.any()) else None, keyless.unsqueeze(-1) if bool(keyless.any()) else None
    )

"""Batches of sentences of similar length, within a budget of sentences, tokens or edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._validation import require_range
from graphattn.exceptions import ConfigError

POOL = 50
"""Number of batches whose sentences are shuffled and then sorted by length together."""


class BudgetBatches(Sampler[list[int]]):
    """Batches of sentence numbers within budgets; a sentence above a budget is a batch of its own.

    Graphs have no padding, so the cost of a batch depends only on its tokens and edges. Sentences of similar length are
    batched together, so that batches cost about the same.

    Parameters
    ----------
    tokens : (S,) tokens of each sentence
    max_sentences, max_tokens, max_edges : budgets; None for no limit
    edges : (S,) edges of each sentence, needed for ``max_edges``
    shuffle : a new order in each epoch; otherwise longest first, so that a lack of memory shows at once
    seed : with the epoch, determines the order

    Raises
    ------
    ConfigError
        when no budget is given, one is not positive, or ``edges`` are missing

    Examples
    --------
    >>> list(BudgetBatches(np.array([3, 9, 4, 2]), max_tokens=9, shuffle=False))
    [[1], [2, 0, 3]]
    """

    def __init__(
        self,
        tokens: Ints,
        *,
        max_sentences: int | None = None,
        max_tokens: int | None = None,
        max_edges: int | None = None,
        edges: Ints | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ):
        budgets = {"max_sentences": max_sentences, "max_tokens": max_tokens, "max_edges": max_edges}
        if all(budget is None for budget in budgets.values()):
            raise ConfigError("a batch needs a limit: give max_sentences, max_tokens or max_edges")
        for name, budget in budgets.items():
            if budget is not None:
                require_range(name, budget, min=1)
        if max_edges is not None and edges is None:
            raise ConfigError("max_edges needs the edges of each sentence; give edges=builder.num_edges(layout)")
        self.tokens, self.shuffle, self.seed, self.epoch = np.asarray(tokens), shuffle, seed, 0
        self._limits = [
            (np.asarray(sizes), budget)
            for sizes, budget in (
                (np.ones_like(self.tokens), max_sentences),
                (self.tokens, max_tokens),
                (edges, max_edges),
            )
            if budget is not None and sizes is not None
        ]

    def set_epoch(self, epoch: int) -> None:
        """Select the order of an epoch; Lightning calls this."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches())

    def __len__(self) -> int:
        return len(self._batches())

    def _batches(self) -> list[list[int]]:
        count = len(self.tokens)
        if not self.shuffle:
            return self._cut(np.argsort(-self.tokens, kind="stable"))
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(count)
        pool = POOL * self._typical_size()
        batches: list[list[int]] = []
        for start in range(0, count, pool):
            pooled = order[start : start + pool]
            batches += self._cut(pooled[np.argsort(-self.tokens[pooled], kind="stable")])
        return [batches[index] for index in random.permutation(len(batches))]

    def _typical_size(self) -> int:
        sizes = [budget / max(1.0, float(sizes.mean())) for sizes, budget in self._limits if len(sizes)]
        return max(1, int(min(sizes, default=1)))

    def _cut(self, order: Ints) -> list[list[int]]:
        runs = cut_at_budgets([(sizes[order], budget) for sizes, budget in self._limits])
        return [order[start:stop].tolist() for start, stop in runs]


def cut_at_budgets(limits: Sequence[tuple[Ints, int]]) -> list[tuple[int, int]]:
    """Start and stop of the longest runs of items within all budgets; an item above a budget is a run of its own.

    ``limits`` are pairs of the (S,) sizes of the items and the budget of a run.
    """
    sums = [(offsets_from_counts(sizes), budget) for sizes, budget in limits]
    runs, start, count = [], 0, len(limits[0][0])
    while start < count:
        stop = min(int(np.searchsorted(total, total[start] + budget, side="right")) for total, budget in sums) - 1
        stop = max(stop, start + 1)
        runs.append((start, stop))
        start = stop
    return runs

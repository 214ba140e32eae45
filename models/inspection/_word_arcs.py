"""Which heads follow dependencies: words whose strongest edge is their arc (Clark et al. 2019, section 4.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from graphattn._ragged import Ints
from graphattn._schema import WORD
from graphattn.models.inspection._attention_map import Floats
from graphattn.models.inspection._edge_kinds import EdgeKinds
from graphattn.models.inspection._head_sums import shares_of_strongest


class WordArcs:
    """The pairs of different words that the edges between nodes of one type connect, without special tokens.

    A word attends to another with the sum of the weights from the tokens of the other, and with the mean over its own
    tokens.
    """

    def __init__(self, kinds: EdgeKinds, sources: Ints, targets: Ints, unit: str):
        source, target = (sources, targets) if unit == WORD else (kinds.words[sources], kinds.words[targets])
        kept = np.flatnonzero((source != target) & ~kinds.is_special[source] & ~kinds.is_special[target])
        pairs = target[kept].astype(np.int64) * len(kinds.heads) + source[kept]
        order = np.argsort(pairs, kind="stable")
        self._edges = kept[order]
        pairs, self._starts = np.unique(pairs[order], return_index=True)
        self._targets, self._sources = np.divmod(pairs, max(1, len(kinds.heads)))
        tokens = np.ones(len(kinds.heads)) if unit == WORD else np.bincount(kinds.words, minlength=len(kinds.heads))
        self._tokens = np.maximum(tokens, 1)[self._targets, None]
        self._by_source = np.argsort(self._sources, kind="stable")
        self._kinds = kinds

    def count_matched_arcs(self, weights: Floats) -> dict[str, Floats]:
        """Kind of dependency -> (heads,) number of dependents whose strongest edge is the arc; ties count in shares.

        ``nsubj<``: the subject attends most to its head. ``nsubj>``: of all words, the head attends most to it.
        ``weights`` are (E, heads).
        """
        if not len(self._edges):
            return {}
        between = np.add.reduceat(weights[self._edges], self._starts, axis=0) / self._tokens
        heads, count = self._kinds.heads, len(self._kinds.heads)
        strongest_in = shares_of_strongest(self._targets, between, count)
        strongest_out = np.empty_like(between)
        strongest_out[self._by_source] = shares_of_strongest(
            self._sources[self._by_source], between[self._by_source], count
        )
        followed: dict[str, Floats] = {}
        for mark, shares, dependents, others in (
            ("<", strongest_in, self._targets, self._sources),
            (">", strongest_out, self._sources, self._targets),
        ):
            arcs = heads[dependents] == others
            labels = self._kinds.labels[dependents[arcs]]
            sums = np.zeros((len(self._kinds.label_names), weights.shape[1]))
            np.add.at(sums, labels, shares[arcs])
            followed |= {
                f"{self._kinds.label_names[label]}{mark}": sums[label] for label in np.flatnonzero(sums.any(axis=1))
            }
        return followed


@dataclass(eq=False)
class ArcCounts:
    """Dependency -> how often the head is at each offset from the dependent, in words."""

    offsets: dict[str, Counter[int]] = field(default_factory=dict)

    def add(self, kinds: EdgeKinds) -> None:
        """Add the dependencies of texts."""
        dependents = np.flatnonzero((kinds.heads >= 0) & ~kinds.is_special)
        if not len(dependents):
            return
        offsets = kinds.heads[dependents] - dependents
        found, counts = np.unique(np.stack([kinds.labels[dependents], offsets]), axis=1, return_counts=True)
        for (label, offset), count in zip(found.T.tolist(), counts.tolist(), strict=True):
            self.offsets.setdefault(str(kinds.label_names[label]), Counter())[offset] += count

    def baseline(self, label: str) -> tuple[int, int, float]:
        """The number of dependents, the most frequent offset of their heads, and its share."""
        counts = self.offsets[label]
        offset, most = max(counts.items(), key=lambda item: (item[1], -abs(item[0]), item[0]))
        return counts.total(), offset, most / counts.total()

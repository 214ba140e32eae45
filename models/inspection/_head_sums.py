"""Sums over a corpus for each head: weight by distance, strongest edges, entropy, weight by kind of edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from graphattn._ragged import Ints
from graphattn.models.inspection._attention_map import Floats

HeadKey = tuple[int, int, str]
"""Layer, head, relation."""


@dataclass(eq=False)
class HeadSums:
    """Sums over all targets of one head; their size does not depend on the corpus.

    ``signed_mass`` is the (D, 2) weight of edges by distance, from the target itself or later nodes, and from earlier
    ones; ``signed_strongest`` the (D, 2) number of targets whose largest weight is there, where ties count in equal
    shares; ``entropy`` the sum of the targets' entropies in nats; ``largest_entropy`` that of the logarithms of their
    numbers of edges; ``kinds`` the weight of each kind of edge; ``followed`` the number of words whose strongest edge
    is a dependency, by its kind.
    """

    signed_mass: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    signed_strongest: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    entropy: float = 0.0
    largest_entropy: float = 0.0
    targets: int = 0
    kinds: dict[str, float] = field(default_factory=dict)
    followed: dict[str, float] = field(default_factory=dict)

    @property
    def mass(self) -> Floats:
        """(D,) weight of edges by distance."""
        return self.signed_mass.sum(axis=1)

    @property
    def strongest(self) -> Floats:
        """(D,) number of targets whose largest weight is at a distance."""
        return self.signed_strongest.sum(axis=1)

    def add_offsets(self, offsets: Ints, weights: Floats, strongest: Floats) -> None:
        """Add edges: source minus target, weights, and shares of being their target's strongest edge."""
        cells = 2 * np.abs(offsets) + (offsets < 0)
        count = int(cells.max(initial=-2)) // 2 + 1
        self.signed_mass = _pad_to(self.signed_mass, count)
        self.signed_strongest = _pad_to(self.signed_strongest, count)
        self.signed_mass[:count] += np.bincount(cells, weights, minlength=2 * count).reshape(-1, 2)
        self.signed_strongest[:count] += np.bincount(cells, strongest, minlength=2 * count).reshape(-1, 2)

    def add_entropy(self, weights: Floats, degrees: Ints) -> None:
        """Add the weights of a batch's edges, and the in-degrees of its targets (without zeros)."""
        self.entropy -= float((weights * np.log(np.maximum(weights, np.finfo(np.float64).tiny))).sum())
        self.largest_entropy += float(np.log(degrees).sum())
        self.targets += len(degrees)

    def add_kinds(self, weights: Mapping[str, float]) -> None:
        """Add the total weight of each kind of edge."""
        for name, weight in weights.items():
            if weight:
                self.kinds[name] = self.kinds.get(name, 0.0) + weight


def _pad_to(values: Floats, count: int) -> Floats:
    return np.pad(values, ((0, max(0, count - len(values))), (0, 0)))


def shares_of_strongest(targets: Ints, weights: Floats, count: int) -> npt.NDArray[np.float64]:
    """For each edge and head, 1 if it has its target's largest weight; k such edges get 1/k each.

    ``targets`` are (E,), ascending; ``weights`` (E, heads); ``count`` is the number of targets.

    Examples
    --------
    >>> shares_of_strongest(np.array([0, 0, 1]), np.array([[0.4], [0.6], [1.0]]), 2).ravel()
    array([0., 1., 1.])
    """
    if not len(targets):
        return np.zeros(weights.shape)
    starts = np.flatnonzero(np.diff(targets, prepend=-1))
    largest = np.zeros((count, weights.shape[1]))
    largest[targets[starts]] = np.maximum.reduceat(weights, starts, axis=0)
    best = (weights == largest[targets]).astype(float)
    ties = np.ones_like(largest)
    ties[targets[starts]] = np.add.reduceat(best, starts, axis=0)
    shares: npt.NDArray[np.float64] = best / ties[targets]
    return shares

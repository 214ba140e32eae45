"""What the project has promised, and whether a measurement keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHAPES = ("128x22", "128x109", "128x201", "8x2048", "2x8192")
FORWARD, BOTH = "forward", "forward + backward"
INFERENCE, TRAINING = "inference", "training step"

RATIOS: Mapping[tuple[str, str], tuple[float, ...]] = {
    (FORWARD, "dense"): (5, 4.5, 5.5, 8, 11),
    (BOTH, "dense"): (4, 4, 5, 6, 8),
    (FORWARD, "dgl"): (6, 5, 5, 9, 14),
    (BOTH, "dgl"): (6, 5, 6, 7, 9),
    (FORWARD, "flex"): (1, 1, 1, 1, 1),
    (INFERENCE, "transformer"): (2.8, 2.8, 2.8, 4, 6.5),
    (TRAINING, "transformer"): (2.5, 2.5, 2.5, 3.5, 5),
}
"""(task, peer) -> how many times as fast as the peer GraphAttn is to be at least, for each of :data:`SHAPES`."""


@dataclass(frozen=True)
class Target:
    """A bound.

    Parameters
    ----------
    bound : the number
    at_least : whether the value must reach it; otherwise it must not exceed it
    unit : what is behind the number in tables
    """

    bound: float
    at_least: bool = True
    unit: str = ""

    def met(self, value: float) -> bool:
        """Whether a value keeps it."""
        return value >= self.bound if self.at_least else value <= self.bound

    def verdict(self, value: float) -> str:
        """The bound and whether it is met.

        Examples
        --------
        >>> Target(4.5).verdict(4.4), Target(5, at_least=False, unit="ms").verdict(3)
        ('>= 4.5: short', '<= 5 ms: met')
        """
        sign = ">=" if self.at_least else "<="
        unit = f" {self.unit}" if self.unit else ""
        return f"{sign} {self.bound:g}{unit}: {'met' if self.met(value) else 'short'}"


def ratio_target(task: str, peer: str, workload: str) -> Target | None:
    """The promised ratio peer / ours; None where nothing was promised."""
    bounds = RATIOS.get((task, peer))
    if bounds is None or workload not in SHAPES:
        return None
    return Target(bounds[SHAPES.index(workload)])

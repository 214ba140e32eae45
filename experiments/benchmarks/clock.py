"""Timing in turns: what is compared runs one after the other, round after round, so that a noisy machine is fair."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """What is timed.

    Parameters
    ----------
    run : gets what ``fresh`` made
    fresh : called before every run, outside the clock, so that nothing is remembered from one run to the next
    """

    run: Callable[[Any], object]
    fresh: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Spread:
    """Times of equal runs, in milliseconds, in the order of the rounds."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return float(np.median(self.times))

    @property
    def quartiles(self) -> tuple[float, float]:
        """What a quarter and three quarters of the runs stay below."""
        return quartiles(self.times)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile, by linear interpolation.

    Examples
    --------
    >>> quartiles([1, 2, 3, 4, 5])
    (2.0, 4.0)
    """
    lower, upper = np.percentile(values, [25, 75])
    return float(lower), float(upper)


def ratio(other: Spread, ours: Spread) -> float:
    """How many times as long the other one takes, by medians."""
    return other.median / ours.median


def ratio_quartiles(other: Spread, ours: Spread) -> tuple[float, float]:
    """Quartiles of the ratios within each round."""
    return quartiles([theirs / mine for theirs, mine in zip(other.times, ours.times, strict=True)])


def interleaved(jobs: Mapping[str, Job], rounds: int, *, seconds: float = math.inf) -> dict[str, Spread]:
    """Time jobs in turns; each begins a round in its turn.

    Parameters
    ----------
    jobs : name -> what to time; each runs once untimed first
    rounds : timed runs of each
    seconds : when the timed runs have taken longer than this, no further round begins
    """
    for job in jobs.values():
        timed(job)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    names, spent = list(jobs), 0.0
    for number in range(rounds):
        if spent > 1000 * seconds:
            break
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            times[name].append(timed(jobs[name]))
            spent += times[name][-1]
    return {name: Spread(tuple(own)) for name, own in times.items()}


def timed(job: Job) -> float:
    """Milliseconds of one run."""
    made = job.fresh()
    started = time.perf_counter()
    job.run(made)
    return 1000 * (time.perf_counter() - started)

"""Lots that depend on a text alone: the same in every batch, process and run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphattn.builders.layout import Ints
from graphattn.exceptions import ConfigError

_GOLDEN = 0x9E3779B97F4A7C15


def check_seed(seed: int) -> None:
    """Refuse negative seeds.

    Raises
    ------
    ConfigError
        naming the seed
    """
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must be at least 0")


def named(name: str, seed: int) -> str:
    """A relation's name with its seed, unless that is 0."""
    return f"{name}:{seed}" if seed else name


def lots(seed: int, sizes: Ints, *places: Ints) -> npt.NDArray[np.uint64]:
    """(N,) 64 random bits for each place of a text.

    Parameters
    ----------
    seed : another one gives other lots
    sizes : (N,) of the text
    places : (N,) each, which tell the lots of a text apart
    """
    state = mixed(sizes.astype(np.uint64) + np.uint64(seed))
    for place in places:
        state = mixed(state + place.astype(np.uint64))
    return state


def mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64 bits so that neighbouring numbers have nothing in common (SplitMix64)."""
    state = state + np.uint64(_GOLDEN)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

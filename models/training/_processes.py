"""Which process of a run writes its files, and whether the variables of a launcher are about the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphattn.models._options import TrainingOptions


def choose_strategy(options: TrainingOptions) -> str:
    """Spawn processes when several devices are requested; fork them in an interactive session."""
    if options.strategy != "auto" or options.nodes > 1 or options.devices == 1:
        return options.strategy
    return "ddp_notebook" if hasattr(sys, "ps1") else "ddp_spawn"


def is_alone(options: TrainingOptions) -> bool:
    """Whether a run has one device, which needs no strategy."""
    return options.strategy == "auto" and options.devices * options.nodes == 1


def is_launched(options: TrainingOptions) -> bool:
    """Whether each process of the run is a program of its own, which torchrun, srun, jsrun or Lightning starts.

    In other runs ``RANK``, ``LOCAL_RANK``, ``SLURM_PROCID`` and the like are about something else, such as a shell on a
    cluster, or ``srun -n 4`` with a seed for each.
    """
    several = options.devices * options.nodes > 1
    return several and not choose_strategy(options).startswith(("ddp_spawn", "ddp_fork", "ddp_notebook"))


def is_first_process(options: TrainingOptions) -> bool:
    """Whether this process writes files: the only one that was started, or the first of several."""
    if not is_launched(options):
        return True
    from lightning.pytorch.utilities import rank_zero_only

    return bool(rank_zero_only.rank == 0)  # type: ignore[attr-defined]


@contextmanager
def ignore_launcher_rank(options: TrainingOptions) -> Iterator[None]:
    """Let Lightning's loggers write in a run that starts its processes itself, whatever variables say."""
    if "lightning" not in sys.modules:
        yield
        return
    from lightning.pytorch.utilities import rank_zero_only

    rank = rank_zero_only.rank  # type: ignore[attr-defined]
    if not is_launched(options):
        rank_zero_only.rank = 0  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rank_zero_only.rank = rank  # type: ignore[attr-defined]

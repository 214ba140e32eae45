"""What all contenders share: whether they can run here, how much memory they take, and how runs are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, TypeVar

import psutil

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks.clock import Job

OURS = "ours"
ProblemT = TypeVar("ProblemT")


class Unable(RuntimeError):
    """A contender finds, while it prepares, that it cannot run here; the message says why."""


class Contender(ABC, Generic[ProblemT]):
    """One way to compute what is compared.

    Attributes
    ----------
    name : in ``--peers`` and in JSON
    title : in tables
    package : what must be installed; None for what GraphAttn needs itself
    has_backward : whether it has gradients on a CPU
    """

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str | None] = None
    has_backward: ClassVar[bool] = True

    def missing(self) -> str | None:
        """Why it cannot run here; None when it can."""
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install {self.package})"
        return None

    def needs(self, problem: ProblemT, *, backward: bool) -> int:
        """Bytes it takes at its peak, estimated; 0 when that is of the inputs' size."""
        return 0

    @abstractmethod
    def job(self, problem: ProblemT, *, backward: bool) -> Job:
        """A run, with everything prepared that need not be done anew for each.

        Raises
        ------
        Unable
            when that does not work here
        """


def chosen(contenders: Iterable[type[Contender[Any]]], names: Sequence[str] | None) -> list[Contender[Any]]:
    """Ours and the peers of these names; all of them when None.

    Raises
    ------
    ConfigError
        for a name that no peer has
    """
    known: Mapping[str, type[Contender[Any]]] = {kind.name: kind for kind in contenders}
    peers = [name for name in known if name != OURS]
    if names is None:
        names = peers
    for name in names:
        if name not in peers:
            raise ConfigError(f"--peers has {name!r}; choose from: {', '.join(peers)}; or none")
    return [known[OURS](), *(known[name]() for name in peers if name in names)]


def able(contenders: Sequence[Contender[Any]]) -> tuple[list[Contender[Any]], list[str]]:
    """Those who can run here, and a line for each who cannot."""
    reasons = {contender.title: contender.missing() for contender in contenders}
    left_out = [f"{title}: {reason}" for title, reason in reasons.items() if reason is not None]
    return [contender for contender in contenders if reasons[contender.title] is None], left_out


def jobs_for(
    contenders: Sequence[Contender[ProblemT]],
    problem: ProblemT,
    *,
    backward: bool,
    label: str,
) -> tuple[dict[str, Job], list[str]]:
    """The jobs of those who can do it, and a line for each who cannot.

    Parameters
    ----------
    contenders : who to ask
    problem : what to compute
    backward : with gradients
    label : names the problem in the lines
    """
    limit = usable_bytes()
    jobs, left_out = {}, []
    for contender in contenders:
        reason = skip_reason(contender, problem, backward=backward, limit=limit)
        if reason is None:
            try:
                jobs[contender.name] = contender.job(problem, backward=backward)
            except Unable as error:
                reason = str(error)
        if reason is not None:
            left_out.append(f"{contender.title}, {label}: {reason}")
    return jobs, left_out


def skip_reason(contender: Contender[ProblemT], problem: ProblemT, *, backward: bool, limit: int) -> str | None:
    """Why a contender cannot work on a problem within ``limit`` bytes; None when it can."""
    if backward and not contender.has_backward:
        return "no backward pass on a CPU"
    needed = contender.needs(problem, backward=backward)
    if needed > limit:
        return f"needs about {needed / 2**30:.1f} GiB; {limit / 2**30:.1f} GiB may be used"
    return None


def usable_bytes() -> int:
    """Most of the memory that is free."""
    return int(0.8 * psutil.virtual_memory().available)

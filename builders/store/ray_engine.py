"""Who does the work of building on a Ray cluster: actors that keep their parser and come back when they die."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from graphattn.builders.store.engines import AHEAD, Result, Task
from graphattn.exceptions import BuildError, ConfigError

_RESTARTS = 10
"""Times that an actor may die, and a task be tried again, before the building stops."""


class RayEngine:
    """Actors of a Ray cluster; all machines must see the corpora and the store under the same paths.

    A block goes to whichever actor is free. An actor that dies is started anew and its block is done again, with the
    same result: shards do not depend on who made them.

    Parameters
    ----------
    jobs : actors; on a cluster of this machine they are given a CPU each, whatever it has
    address : of a running cluster (``"auto"``, ``"ray://HOST:10001"``); None starts one on this machine
    gpus : share of a GPU that each actor holds, for a parser on GPUs

    Raises
    ------
    ConfigError
        when Ray is not installed, the cluster cannot be reached, or it has too little for the actors
    """

    def __init__(self, jobs: int = 1, *, address: str | None = None, gpus: float = 0.0):
        self.jobs, self.address, self.gpus = jobs, address, gpus
        self._ray = _import_ray()
        self._started_ray = False
        self._actors: list[Any] = []

    def run(self, job: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in any order.

        Raises
        ------
        BuildError
            when an actor dies again and again
        """
        ray = self._ray
        actors = self._ready_actors()
        shared = ray.put(job)
        running: dict[Any, int] = {}
        load = [0] * len(actors)
        waiting = iter(tasks)
        try:
            while True:
                while min(load) < AHEAD and (task := next(waiting, None)) is not None:
                    actor = load.index(min(load))
                    running[actors[actor].do.remote(shared, task)] = actor
                    load[actor] += 1
                if not running:
                    return
                (done, *_), _ = ray.wait(list(running), num_returns=1)
                load[running.pop(done)] -= 1
                yield ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"an actor of the Ray cluster died {_RESTARTS} times, perhaps for want of memory "
                f"({type(error).__name__}). What is done is kept: run the same command again to go on"
            ) from error
        finally:
            for reference in running:
                ray.cancel(reference)

    def close(self) -> None:
        """Let the actors go, and the cluster if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False

    def _ready_actors(self) -> list[Any]:
        if not self._actors:
            self._connect()
            self._check_room()
            remote = self._ray.remote(
                num_cpus=1, num_gpus=self.gpus, max_restarts=_RESTARTS, max_task_retries=_RESTARTS
            )
            worker = remote(_Worker)
            self._actors = [worker.remote() for _ in range(self.jobs)]
        return self._actors

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            options |= {"num_cpus": self.jobs, "include_dashboard": False}
        else:
            options["address"] = self.address
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"the Ray cluster at {self.address} cannot be reached ({error})") from error
        self._started_ray = True

    def _check_room(self) -> None:
        """Refuse more actors than the cluster has room for: those without would wait for ever."""
        there = self._ray.cluster_resources()
        for name, needed in (("CPU", float(self.jobs)), ("GPU", self.jobs * self.gpus)):
            if there.get(name, 0.0) < needed:
                raise ConfigError(
                    f"{self.jobs} actors need {needed:g} {name}s and the Ray cluster has {there.get(name, 0.0):g}; "
                    "set fewer jobs"
                )


class _Worker:
    """What an actor is: it does the job on a task. Parsers are loaded once and stay with the process."""

    def do(self, job: Callable[[Any], Any], task: Any) -> Any:
        return job(task)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("the engine 'ray' is not installed: pip install 'graphattn[ray]'") from None
    return ray

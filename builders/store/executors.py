"""Who does the work of building: this process, or several of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing.connection import wait as wait_for
from typing import Protocol, TypeVar

from graphattn.exceptions import BuildError

Task = TypeVar("Task")
Result = TypeVar("Result")

AHEAD = 2
"""Tasks waiting for each worker, so that none is idle and memory stays bounded."""


class Engine(Protocol):
    """Runs a job on many tasks.

    Attributes
    ----------
    elsewhere : whether tasks are gone through in another process, which cannot read this one's standard input
    """

    elsewhere: bool

    def run(self, job: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in any order; tasks are taken as they are needed, the first error ends everything."""

    def close(self) -> None:
        """Let the workers go."""


class LocalEngine:
    """Processes of this machine; a single task is done in this process.

    Parameters
    ----------
    jobs : how many processes
    """

    elsewhere = False

    def __init__(self, jobs: int = 1):
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def run(self, job: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in any order.

        Raises
        ------
        BuildError
            when a worker was killed
        """
        waiting = iter(tasks)
        first = list(islice(waiting, 2))
        if self.jobs == 1 or len(first) < 2:
            yield from map(job, chain(first, waiting))
            return
        running: set[Future[Result]] = set()
        try:
            for task in chain(first, waiting):
                running.add(self._started().submit(job, task))
                if len(running) >= AHEAD * self.jobs:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise BuildError(
                "a worker process was killed, perhaps for want of memory. What is done is kept: run the same command "
                "again to go on, with fewer --jobs if memory is short"
            ) from error
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """End the processes once their present tasks are done."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            methods = multiprocessing.get_all_start_methods()
            context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
            if "forkserver" in methods:
                context.set_forkserver_preload(["graphattn.builders.store.build"])
            self._pool = ProcessPoolExecutor(self.jobs, context, _end_with_parent)
        return self._pool


def _end_with_parent() -> None:
    """Let this worker end when the process that started it does, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

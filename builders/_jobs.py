"""Run a function on many tasks: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from math import ceil, floor
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from typing_extensions import override

from graphattn._optional_packages import import_optional
from graphattn.exceptions import BuildError, ConfigError

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_PER_WORKER = 2
"""Tasks in flight for each worker: none is idle, and memory stays bounded."""
_RESTARTS = 10
_RESUME = "Finished parts of a file or store are kept: run the same command again to resume"


class Engine(Protocol):
    """Runs a job, a function, on many tasks. A ``BuildError`` says that a worker died."""

    def run(self, job: Callable[[Item], Result], tasks: Iterable[Item], *, in_order: bool = False) -> Iterator[Result]:
        """Yield the results in any order, or in that of the tasks.

        Tasks are read when a worker needs them, and the first error stops all.
        """

    def close(self) -> None:
        """Stop the workers."""


class LocalEngine(Engine):
    """``jobs`` processes on this machine; a single task runs in this process."""

    def __init__(self, jobs: int = 1):
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    @override
    def run(self, job: Callable[[Item], Result], tasks: Iterable[Item], *, in_order: bool = False) -> Iterator[Result]:
        tasks = iter(tasks)
        # one process does not read ahead in a stream of texts
        head = [] if self.jobs == 1 and in_order else list(islice(tasks, 2))
        tasks = chain(head, tasks)
        if self.jobs == 1 or len(head) < 2:
            yield from map(job, tasks)
            return
        pool = self._pool = self._pool or _start_processes(self.jobs, job)
        running: dict[Future[Result], None] = {}  # in the order of the tasks
        done: SimpleQueue[Future[Result]] = SimpleQueue()

        def submit(task: Item) -> None:
            future = pool.submit(job, task)
            running[future] = None
            if not in_order:
                future.add_done_callback(done.put)

        def collect() -> Result:
            future = next(iter(running)) if in_order else done.get()
            del running[future]
            return future.result()

        try:
            yield from _run_window(tasks, submit, collect, TASKS_PER_WORKER * self.jobs)
        except BrokenProcessPool as error:
            raise BuildError(
                "a worker process was killed, perhaps because memory ran out. "
                f"{_RESUME}, with fewer --jobs if memory is short"
            ) from error
        finally:
            for future in list(running):
                future.cancel()

    @override
    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def kill(self) -> None:
        """Stop the processes at once."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
        self.close()


class RayEngine(Engine):
    """Actors on a Ray cluster whose machines all see the corpora and the store under the same paths.

    This process reads the tasks and needs no CPU of the cluster, so the actors may use all of them. Ray restarts an
    actor that dies and repeats its task; the result is the same, because a shard does not depend on who writes it.

    ``jobs`` actors have a CPU each, and a cluster that is started here (``address`` is None) has exactly these CPUs;
    other addresses are ``"auto"`` or ``"ray://HOST:10001"``. ``gpus`` is the share of a GPU for each actor, for a
    parser on GPUs; None divides all GPUs of the cluster, see :func:`gpu_share`. An actor is restarted, and its task
    repeated, at most ``restarts`` times.
    """

    def __init__(
        self, jobs: int = 1, *, address: str | None = None, gpus: float | None = 0.0, restarts: int = _RESTARTS
    ):
        self.jobs, self.address, self.gpus, self.restarts = jobs, address, gpus, restarts
        self._ray: Any = import_optional("ray", "the engine needs", "ray")
        self._is_connected = False

    @override
    def run(self, job: Callable[[Item], Result], tasks: Iterable[Item], *, in_order: bool = False) -> Iterator[Result]:
        from ray.util import ActorPool

        ray = self._ray
        self._connect()
        worker = ray.remote(_Worker).options(
            num_cpus=1, num_gpus=self._gpus_per_actor(), max_restarts=self.restarts, max_task_retries=self.restarts
        )
        actors: list[Any] = []
        pool = ActorPool(actors)

        def submit(task: Item) -> None:
            if len(actors) < self.jobs:
                actors.append(worker.remote(job, os.getcwd()))
                pool.push(actors[-1])
            pool.submit(lambda actor, value: actor.run.remote(value), task)

        try:
            collect = pool.get_next if in_order else pool.get_next_unordered
            yield from _run_window(tasks, submit, collect, TASKS_PER_WORKER * self.jobs)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise actor_error(error, self.restarts) from error
        finally:
            for actor in actors:
                ray.kill(actor)

    @override
    def close(self) -> None:
        if self._is_connected:
            self._ray.shutdown()
            self._is_connected = False

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # otherwise each actor logs a warning
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            options |= {"address": "local", "num_cpus": self.jobs, "include_dashboard": False}
        else:
            options["address"] = self.address
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"cannot reach the Ray cluster at {self.address} ({error}). Check that it runs and, if it asks for a "
                "token, that RAY_AUTH_MODE=token is set"
            ) from error
        self._is_connected = True

    def _gpus_per_actor(self) -> float:
        """Resolve ``gpus``; reject actors that the cluster has no room for, because they would wait forever."""
        resources = self._ray.cluster_resources()
        gpus = gpu_share(self.jobs, resources.get("GPU", 0.0)) if self.gpus is None else self.gpus
        for name, needed in (("CPU", float(self.jobs)), ("GPU", self.jobs * gpus)):
            if (available := resources.get(name, 0.0)) < needed:
                raise ConfigError(
                    f"{self.jobs} actors need {needed:g} {name}s and the Ray cluster has {available:g}; "
                    "reduce {jobs}",
                    options=("jobs",),
                )
        return gpus


def actor_error(error: Exception, restarts: int = _RESTARTS) -> BuildError:
    """The error of an actor that Ray reports as dead."""
    if getattr(error, "actor_init_failed", False):
        reason = str(error).strip().splitlines()[-1]  # of a traceback: the exception, an ImportError for example
        return BuildError(
            f"an actor of the Ray cluster cannot start ({reason}). Install the same packages on all its machines"
        )
    return BuildError(
        f"an actor of the Ray cluster died {restarts} times, perhaps because memory ran out "
        f"({type(error).__name__}). {_RESUME}"
    )


def gpu_share(jobs: int, gpus: float) -> float:
    """The share of a GPU for each of some actors: at most a whole one, and never parts of two.

    Examples
    --------
    >>> gpu_share(2, 4), gpu_share(3, 2), gpu_share(2, 0)
    (1.0, 0.5, 0.0)
    """
    # Ray counts ten-thousandths. Rounding down makes the shares of all actors on a GPU fit.
    return floor(10_000 / ceil(jobs / gpus)) / 10_000 if gpus >= 1 else 0.0


def _run_window(
    tasks: Iterable[Item], submit: Callable[[Item], None], collect: Callable[[], Result], size: int
) -> Iterator[Result]:
    """Keep ``size`` tasks in flight."""
    running = 0
    for task in tasks:
        submit(task)
        running += 1
        if running == size:
            yield collect()
            running -= 1
    for _ in range(running):
        yield collect()


class _Worker:
    """A Ray actor; it keeps the job and so the job's parser."""

    def __init__(self, job: Callable[[Any], Any], folder: str):
        os.chdir(folder)  # the driver's folder, so that relative paths mean the same
        self._job = job

    def run(self, task: Any) -> Any:
        return self._job(task)


def _start_processes(jobs: int, job: Callable[..., Any]) -> ProcessPoolExecutor:
    is_posix = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if is_posix else "spawn")
    if is_posix:
        module = getattr(job, "func", job).__module__  # of a partial's function
        context.set_forkserver_preload(["graphattn.builders._graph_builder", module])
        # Wait for the import of PyTorch here. A worker that is started after an interrupt would print a traceback.
        first = context.Process()
        try:
            first.start()
        except OSError as error:
            # such as the socket's name in TMPDIR, of which most systems take about 100 characters
            raise ConfigError(
                f"no process can be started ({error.strerror or error}); set TMPDIR to a writable folder with a short "
                "name, or use one process"
            ) from error
        first.join()
    return ProcessPoolExecutor(jobs, context, _exit_with_parent)


def _exit_with_parent() -> None:
    """Exit this worker when its parent exits, even if the parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

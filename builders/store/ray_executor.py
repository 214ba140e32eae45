"""Who does the work of building on a Ray cluster: a pipeline of Ray Data whose actors keep their parser."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from math import ceil, floor
from typing import Any

from graphattn.builders.store.executors import Result, Task
from graphattn.exceptions import BuildError, ConfigError

_RESTARTS = 10
"""Times that an actor may die, and a task be tried again, before the building stops."""


class RayEngine:
    """Ray Data on a cluster whose machines all see the corpora and the store under the same paths.

    One reader goes through the tasks and hands them, one by one, to a pool of actors. Reading takes no CPU of its own,
    so that the actors may have all of them. Ray starts an actor that dies anew and does its task again, with the same
    result: shards do not depend on who made them.

    Parameters
    ----------
    jobs : actors; on a cluster of this machine they are given a CPU each, whatever it has
    address : of a running cluster (``"auto"``, ``"ray://HOST:10001"``); None starts one on this machine
    gpus : share of a GPU that each actor holds, for a parser on GPUs; None shares the GPUs there are among the actors,
        see :func:`gpu_share`

    Raises
    ------
    ConfigError
        when Ray is not installed, the cluster cannot be reached, or it has too little for the actors
    """

    elsewhere = True

    def __init__(self, jobs: int = 1, *, address: str | None = None, gpus: float | None = 0.0):
        self.jobs, self.address, self.gpus = jobs, address, gpus
        self._ray = _import_ray()
        self._started = False

    def run(self, job: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in any order; job and tasks travel to other processes, and ``tasks`` may be gone through twice.

        Raises
        ------
        BuildError
            when an actor dies again and again
        """
        ray = self._ray
        self._connect()
        rows = self._pipeline(job, tasks, self._gpus_of_an_actor()).iter_rows()
        try:
            for row in rows:
                result, error = ray.cloudpickle.loads(row["result"])
                if error is not None:
                    raise error
                yield result
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"an actor of the Ray cluster died {_RESTARTS} times, perhaps for want of memory "
                f"({type(error).__name__}). What is done is kept: run the same command again to go on"
            ) from error

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        if self._started:
            self._ray.shutdown()
            self._started = False

    def _pipeline(self, job: Callable[[Task], Result], tasks: Iterable[Task], gpus: float) -> Any:
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.target_min_block_size = context.target_max_block_size = (
            1  # a task is a block: it goes to any free actor
        )
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        here = os.getcwd()
        source = ray.data.read_datasource(_task_source(ray, tasks, here), num_cpus=0, override_num_blocks=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray 2.60 announces other names for the last two arguments
            return source.map_batches(
                _worker(job, here),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=self.jobs),
                num_cpus=1,
                num_gpus=gpus,
                max_restarts=_RESTARTS,
                max_task_retries=_RESTARTS,
            )

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else each actor is an alarm about its arguments
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            options |= {"address": "local", "num_cpus": self.jobs, "include_dashboard": False}
        else:
            options["address"] = self.address
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"the Ray cluster at {self.address} cannot be reached ({error}). Check that it runs and, if it asks "
                "for a token, that RAY_AUTH_MODE=token is set here"
            ) from error
        self._started = True

    def _gpus_of_an_actor(self) -> float:
        """What an actor holds; refuses more actors than the cluster has room for: those without would wait for ever."""
        there = self._ray.cluster_resources()
        gpus = gpu_share(self.jobs, there.get("GPU", 0.0)) if self.gpus is None else self.gpus
        for name, needed in (("CPU", float(self.jobs)), ("GPU", self.jobs * gpus)):
            if there.get(name, 0.0) < needed:
                raise ConfigError(
                    f"{self.jobs} actors need {needed:g} {name}s and the Ray cluster has {there.get(name, 0.0):g}; "
                    "set fewer jobs"
                )
        return gpus


def gpu_share(jobs: int, gpus: float) -> float:
    """The share of a GPU for each of some actors: a whole one at most, and no actor's share lies on two GPUs.

    Parameters
    ----------
    jobs : actors
    gpus : whole GPUs of the cluster, wherever they are

    Examples
    --------
    >>> gpu_share(2, 4), gpu_share(3, 2), gpu_share(2, 0)
    (1.0, 0.5, 0.0)
    """
    # Ray counts in ten-thousandths; rounded down, so that as many shares as there are actors fit on a GPU
    return floor(10_000 / ceil(jobs / gpus)) / 10_000 if gpus >= 1 else 0.0


def _worker(job: Callable[[Any], Any], folder: str) -> type:
    """What an actor is: it does the job on a task. Parsers are loaded once and stay with the process."""

    class Worker:
        def __init__(self) -> None:
            os.chdir(folder)  # relative paths mean the same everywhere

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            from ray import cloudpickle

            result = None
            task, error = cloudpickle.loads(batch["task"][0])
            if error is None:
                try:
                    result = job(task)
                except Exception as raised:
                    error = raised
            return {"result": [cloudpickle.dumps((result, error))]}

    return Worker


def _task_source(ray: Any, tasks: Iterable[Any], folder: str) -> Any:
    """The tasks as a source of Ray Data, each a row; an error on the way is one, too."""
    import pyarrow as pa
    from ray.data.block import BlockMetadata

    def read() -> Iterator[pa.Table]:
        os.chdir(folder)
        error = None
        try:
            for task in tasks:
                yield pa.table({"task": [ray.cloudpickle.dumps((task, None))]})
        except Exception as raised:
            error = raised
        if error is not None:
            yield pa.table({"task": [ray.cloudpickle.dumps((None, error))]})

    class TaskSource(ray.data.Datasource):
        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            return [ray.data.ReadTask(read, BlockMetadata(None, None, None, None))]

    return TaskSource()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("the engine 'ray' is not installed: pip install 'graphattn[ray]'") from None
    return ray

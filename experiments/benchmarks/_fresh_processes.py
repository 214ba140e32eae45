"""Peak memory and time of work in a fresh process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import psutil
import torch

from graphattn.exceptions import BuildError
from graphattn.experiments.benchmarks._contenders import Contender, UnableError
from graphattn.experiments.benchmarks._workloads import Workload, uniform

WARM_UP = uniform(2, 256)
STATUS_FILE, CLEAR_FILE = Path("/proc/self/status"), Path("/proc/self/clear_refs")
COMMAND = "from graphattn.experiments._cli.main import main; main()"
_PAUSE = 0.05  # seconds between two samples of the memory


@dataclass(frozen=True)
class PeakMemory:
    """Memory of one run, in bytes."""

    held: int  # graph and inputs, before the run
    added: int  # the peak of the run on top of that
    whole: int  # the peak of the process from its start on, with libraries and graph construction
    run_ms: float  # milliseconds of the run


def measure_peak_memory(
    contender: Contender, workload: Workload, *, keep_freed: bool = True, backward: bool = True
) -> PeakMemory:
    """Run once in a fresh process, on the contender made again from its settings, with as many threads as this one.

    Without ``keep_freed``, the allocator returns freed blocks of a megabyte or more at once, so that the peak is what a
    contender needs. Raises an UnableError if the process ends without a measurement.
    """
    made_by = type(contender).__module__, type(contender).__name__
    request = [*made_by, vars(contender), workload.name, workload.batches, backward]
    threads = str(torch.get_num_threads())
    variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if not keep_freed:
        variables["MALLOC_MMAP_THRESHOLD_"] = str(2**20)
    with tempfile.TemporaryDirectory() as folder:  # in a clone, Python would import the folder graphattn/
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            input=json.dumps(request),
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode < 0:
        raise UnableError(f"ended by signal {-done.returncode}; the memory may have been too small")
    if done.returncode:
        raise UnableError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return PeakMemory(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Answer the request on standard input with a line of JSON."""
    module, name, settings, workload, batches, backward = json.load(sys.stdin)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    contender = getattr(import_module(module), name)(**settings)
    memory = run_once(contender, Workload(workload, tuple(map(tuple, batches))), backward=backward)
    print(json.dumps(asdict(memory)))


def run_once(contender: Contender, workload: Workload, *, backward: bool = True) -> PeakMemory:
    """Run once, after a small run that loads libraries and compiles kernels."""
    contender.make_job(contender.problem(WARM_UP), backward=backward).time()
    gc.collect()
    empty, highest = resident_bytes(), peak_bytes()
    reset_peak()
    job = contender.make_job(contender.problem(workload), backward=backward)
    state = job.prepare()
    before, highest = resident_bytes(), max(highest, peak_bytes())
    reset_peak()
    start = time.perf_counter()
    job.run(state)
    run_ms = 1000 * (time.perf_counter() - start)
    peak = peak_bytes()
    return PeakMemory(held=before - empty, added=peak - before, whole=max(highest, peak), run_ms=run_ms)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The peak since :func:`reset_peak`, or since the process started where the system cannot reset it."""
    if STATUS_FILE.is_file():
        lines = STATUS_FILE.read_text(encoding="ascii", errors="replace").splitlines()
        (kibibytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return 1024 * int(kibibytes)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> None:
    """Reset the peak where the system can (Linux)."""
    with suppress(OSError):
        CLEAR_FILE.write_text("5", encoding="ascii")


@dataclass(frozen=True)
class BuildResult:
    """A finished ``graphattn build``."""

    seconds: float  # from the start of the process to its end
    parent: int
    worker: int


def build_in_subprocess(corpora: Sequence[Path], store: Path, *flags: str) -> BuildResult:
    """Run ``graphattn build`` and sample its memory."""
    command = [sys.executable, "-c", COMMAND, "build", *map(str, corpora), "--out", str(store), *flags]
    parent = worker = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        start = time.perf_counter()
        # in a clone, Python would import the folder graphattn/: start elsewhere
        process = subprocess.Popen(command, cwd=store.parent, stdout=subprocess.DEVNULL, stderr=errors)
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):  # the process, or one that it started, has just ended
                parent = max(parent, watched.memory_info().rss)
                for child in watched.children(recursive=True):
                    with suppress(psutil.Error):
                        worker = max(worker, child.memory_info().rss)
            time.sleep(_PAUSE)
        seconds = time.perf_counter() - start
        if process.returncode:
            errors.seek(0)
            raise BuildError(_explain_failure(process.returncode, errors.read()))
    return BuildResult(seconds, parent, worker)


def _explain_failure(code: int, errors: str) -> str:
    if code < 0:
        return f"the process that built the store ended by signal {-code}; the memory may have been too small"
    last = (errors.strip().splitlines() or ["no error message"])[-1].removeprefix("error: ")
    return f"the process that built the store ended with code {code}: {last}"

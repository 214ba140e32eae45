"""Peak memory of one contender on one workload, in a process of its own: nobody inherits what others left behind."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import torch

from graphattn.experiments.benchmarks.attention_contenders import (
    AttentionProblem,
    DenseAttention,
    DGLOperators,
    Ours,
    PyGTransformerConv,
    TorchSegments,
)
from graphattn.experiments.benchmarks.clock import timed
from graphattn.experiments.benchmarks.contenders import Contender
from graphattn.experiments.benchmarks.encoder_contenders import EncoderProblem, OursEncoder
from graphattn.experiments.benchmarks.mtsa_contenders import CONTENDERS as CONTEXT_CONTENDERS
from graphattn.experiments.benchmarks.mtsa_contenders import ContextProblem
from graphattn.experiments.benchmarks.umst_contenders import CONTENDERS as UMST_CONTENDERS
from graphattn.experiments.benchmarks.umst_contenders import SplitProblem
from graphattn.experiments.benchmarks.workloads import Workload, uniform

ATTENTION, TRAINING_STEP, CONTEXT = "forward + backward", "training step", "context, forward + backward"
UMST_STEP = "UMST, training step"
CONTENDERS: dict[str, tuple[type[Contender[Any]], ...]] = {
    ATTENTION: (Ours, TorchSegments, DGLOperators, DenseAttention, PyGTransformerConv),
    TRAINING_STEP: (OursEncoder,),
    CONTEXT: CONTEXT_CONTENDERS,
    UMST_STEP: UMST_CONTENDERS,
}
PROBLEMS: dict[str, type[Any]] = {
    ATTENTION: AttentionProblem,
    TRAINING_STEP: EncoderProblem,
    CONTEXT: ContextProblem,
    UMST_STEP: SplitProblem,
}
WARM_UP = uniform(2, 256)
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
"""For :func:`measured_apart`: what a contender needs, not what the allocator keeps."""
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Failed(RuntimeError):
    """The process ended without figures; the message says how."""


def measured_apart(
    task: str, contender: str, workload: Workload, *, variables: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Start a process, let it measure, and take its figures; threads are as many as here.

    Parameters
    ----------
    task : :data:`ATTENTION`, :data:`TRAINING_STEP`, :data:`CONTEXT` or :data:`UMST_STEP`
    contender : its name
    workload : on what
    variables : of the environment, added to those of this process

    Returns
    -------
    What :func:`measured` gives.

    Raises
    ------
    Failed
        when the process ends without figures, killed for lack of memory for example
    """
    request = {"task": task, "contender": contender, "name": workload.name, "batches": workload.batches}
    threads = str(torch.get_num_threads())
    with tempfile.TemporaryDirectory() as folder:  # in a checkout Python would import the folder graphattn/ there
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            input=json.dumps(request),
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode < 0:
        raise Failed(f"ended by signal {-done.returncode}; the memory may have been too small")
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["no figures"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure what standard input asks for, as a line of JSON."""
    request = json.load(sys.stdin)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    workload = Workload(request["name"], tuple(map(tuple, request["batches"])))
    print(json.dumps(measured(request["task"], request["contender"], workload)))


def measured(task: str, name: str, workload: Workload) -> dict[str, float]:
    """Run once, after a small run that loads libraries and compiles kernels.

    Returns
    -------
    ``held`` (bytes of graph and inputs), ``added`` (most that the run put on top), ``whole`` (most that the process
    had, from its start, with libraries and the making of graphs), ``run_ms``
    """
    (contender,) = (kind() for kind in CONTENDERS[task] if kind.name == name)
    timed(contender.job(PROBLEMS[task](WARM_UP), backward=True))
    gc.collect()
    empty, highest = resident_bytes(), peak_bytes()
    reset_peak()
    job = contender.job(PROBLEMS[task](workload), backward=True)
    made = job.fresh()
    before, highest = resident_bytes(), max(highest, peak_bytes())
    reset_peak()
    started = time.perf_counter()
    job.run(made)
    run_ms = 1000 * (time.perf_counter() - started)
    peak = peak_bytes()
    return {"held": before - empty, "added": peak - before, "whole": max(highest, peak), "run_ms": run_ms}


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The most it was since :func:`reset_peak`, or since the process began where the system cannot reset."""
    if _STATUS.is_file():
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        (kibibytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return 1024 * int(kibibytes)
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> None:
    """Forget the peak so far, where the system can (Linux)."""
    try:
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return

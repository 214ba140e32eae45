"""Where and with what a measurement was made."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

import graphattn

PACKAGES = ("torch", "dgl", "numba", "numpy", "torch_geometric")


def circumstances() -> dict[str, Any]:
    """CPU with its vectors, cores, memory in GiB, versions, threads, and the commit of code in its repository."""
    return {
        "cpu": cpu_model(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "graphattn": graphattn.__version__, **_versions()},
        "commit": commit(),
    }


def described(found: dict[str, Any]) -> str:
    """The circumstances in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    at = f", commit {found['commit']}" if found["commit"] else ""
    return (
        f"{found['cpu']} ({found['vectors']}), {found['cores']} cores, {found['memory_gib']} GiB, {found['system']}; "
        f"{found['threads']} threads; {versions}{at}"
    )


def cpu_model(path: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the code that runs, with ``+`` when files have changed since; None outside its repository."""
    folder = Path(graphattn.__file__).parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top or not (Path(top) / "graphattn" / "attention.py").is_file():
        return None  # a repository of the user's, in which GraphAttn is installed
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", top)
    return f"{_git(folder, 'rev-parse', '--short=12', 'HEAD')}{'+' if changed else ''}"


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()

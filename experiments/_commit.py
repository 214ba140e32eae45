"""The commit of the running code, for reports of benchmarks and rows of results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import graphattn


def current_commit(folder: Path = Path(graphattn.__file__).parent) -> str | None:
    """The commit of the code in this folder, with ``+`` if files changed since; None outside our repository."""
    top = _run_git(folder, "rev-parse", "--show-toplevel")
    if not top or not (Path(top) / "graphattn" / "_attention.py").is_file():
        return None  # a repository of the user, in which GraphAttn is installed
    return _run_git(folder, "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+")


def _run_git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()

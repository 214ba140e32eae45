"""``graphattn build`` in a process of its own, with its time and its memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from graphattn.exceptions import BuildError

SCRIPT = "from graphattn.experiments.cli.main import main; main()"
_PAUSE = 0.05  # seconds between two looks at the memory


@dataclass(frozen=True)
class Built:
    """A building that has ended.

    Parameters
    ----------
    seconds : from the start of the process to its end
    parent, worker : the most bytes that were resident at once in it, and in any process below it
    """

    seconds: float
    parent: int
    worker: int


def build_in_subprocess(corpora: Sequence[Path], store: Path, *flags: str) -> Built:
    """Run ``graphattn build`` and watch it.

    Parameters
    ----------
    corpora, store : absolute paths
    flags : more of the command's arguments

    Raises
    ------
    BuildError
        when it fails; the message has what it said
    """
    command = [sys.executable, "-c", SCRIPT, "build", *map(str, corpora), "--out", str(store), *flags]
    parent = worker = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        start = time.perf_counter()
        # in a checkout Python would import the folder graphattn/ there: begin elsewhere
        process = subprocess.Popen(command, cwd=store.parent, stdout=subprocess.DEVNULL, stderr=errors)
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            parent = max(parent, _resident(watched))
            worker = max([worker, *map(_resident, _descendants(watched))])
            time.sleep(_PAUSE)
        seconds = time.perf_counter() - start
        if process.returncode:
            errors.seek(0)
            raise BuildError(_failure(process.returncode, errors.read()))
    return Built(seconds, parent, worker)


def _failure(code: int, errors: str) -> str:
    """What a process that ended with an exit code had to say."""
    if code < 0:
        return f"the process that built the store ended by signal {-code}; the memory may have been too small"
    last = (errors.strip().splitlines() or ["it said nothing"])[-1].removeprefix("error: ")
    return f"the process that built the store ended with code {code}: {last}"


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0

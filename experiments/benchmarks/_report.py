"""A benchmark's result as Markdown for people and JSON for programs, with the machine and versions behind it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil
import torch

import graphattn
from graphattn.experiments._cli.output import open_output
from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments._commit import current_commit
from graphattn.experiments.benchmarks._contenders import Settings

Record = dict[str, Any]
PACKAGES = ("torch", "triton", "dgl", "numba", "numpy", "torch_geometric")


def describe_machine() -> Record:
    """CPU, cores, memory, versions, threads, and in our repository the commit."""
    has_gpu = torch.cuda.is_available()
    return {
        "cpu": cpu_model(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        **({"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()} if has_gpu else {}),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "graphattn": graphattn.__version__, **_package_versions()},
        "commit": current_commit(),
    }


@dataclass
class BenchmarkReport:
    """The result of one benchmark."""

    name: str  # of the benchmark and its files
    description: str  # what is compared and how, in sentences
    columns: Mapping[str, Callable[[Record], str]]  # heading -> cell of a row
    settings: Record | Settings
    rows: list[Record] = field(default_factory=list)  # the measurements
    notes: list[str] = field(default_factory=list)  # lines below the table
    left_out: list[str] = field(default_factory=list)  # lines about what did not run, and why
    plot: Callable[[Sequence[Record], Path], None] | None = None  # draws the rows into a file
    machine: Record = field(default_factory=describe_machine)  # as :func:`describe_machine` returns it

    def to_markdown(self, picture: str | None = None) -> str:
        """The report as Markdown; ``picture`` is the file name of the plot."""
        parts = [f"# graphattn bench {self.name}", self.description, summarize_machine(self.machine) + "."]
        cells = [[cell(row) for cell in self.columns.values()] for row in self.rows]
        parts.append(format_markdown([list(self.columns), *cells]))
        parts += [f"![{self.name}]({picture})"] if picture else []
        parts += ["\n".join(f"- {line}" for line in self.notes)] if self.notes else []
        parts += ["Left out:\n\n" + "\n".join(f"- {line}" for line in self.left_out)] if self.left_out else []
        return "\n\n".join(parts) + "\n"

    def to_json(self) -> str:
        """Everything, unrounded."""
        content = {
            "command": self.name,
            "settings": self.settings if isinstance(self.settings, dict) else asdict(self.settings),
            "circumstances": self.machine,
            "rows": self.rows,
            "notes": self.notes,
            "left_out": self.left_out,
        }
        return json.dumps(content, indent=1) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``NAME.md``, ``NAME.json`` and, if there are rows to plot, ``NAME.png``."""
        with open_output(folder / f"{self.name}.json") as file:
            file.write(self.to_json())
        picture = None
        if self.plot is not None and self.rows:
            picture = f"{self.name}.png"
            self.plot(self.rows, folder / picture)
        with open_output(folder / f"{self.name}.md") as file:
            file.write(self.to_markdown(picture))


def plot_cost(rows: Sequence[Record], path: Path) -> None:
    """Plot microseconds a token against the length of sentences, both on logarithmic axes.

    If a length was measured with batches of several sizes, the largest batch is shown.
    """
    from graphattn.experiments.drawing._curves import Panel, draw_panels

    panels = [
        Panel(heading, "tokens of a sentence", collect_costs([row for row in rows if row["task"] == heading]))
        for heading in dict.fromkeys(row["task"] for row in rows)
    ]
    draw_panels(panels, path, up="microseconds a token", logarithmic=True)


def collect_costs(rows: Sequence[Record]) -> dict[str, list[tuple[float, float]]]:
    """Contender -> (length, microseconds a token), by length."""
    measured = [row for row in rows if row["length"] is not None]
    costs: dict[str, dict[float, float]] = {row["title"]: {} for row in measured}
    for row in sorted(measured, key=itemgetter("length", "tokens")):  # the largest of several batches comes last
        costs[row["title"]][row["length"]] = 1000 * row["median_ms"] / row["tokens"]
    return {title: list(by_length.items()) for title, by_length in costs.items()}


def summarize_machine(machine: Record) -> str:
    """The machine and versions on one line."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    commit = f", commit {machine['commit']}" if machine["commit"] else ""
    gpu = f"{machine['gpu']} (cuDNN {machine['cudnn']}), " if "gpu" in machine else ""
    return (
        f"{gpu}{machine['cpu']} ({machine['vectors']}), {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}; {machine['threads']} threads; {versions}{commit}"
    )


def cpu_model(path: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions

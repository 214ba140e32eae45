"""Time and memory of one layer that fuses context, by length (MTSA, Figure 1): a row of ``graphattn bench mtsa``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphattn.models.options import Options, option
from graphattn.optional_packages import import_optional
from graphattn.validation import require_choice

LAYER_COSTS = "layer-costs"
LAYERS = ("ours", "multihead", "dense", "bilstm", "cnn")
"""Contenders of the benchmark that are in the figure."""


@dataclass
class LayerOptions(Options):
    """What is measured; the defaults are the paper's batches."""

    sentences: int = option(64, "sentences of a batch", min=1)
    length: int = option(64, "tokens of a sentence", min=1)
    repeats: int = option(9, "timed runs", min=1)
    memory: bool = option(True, "also measure the peak memory, in a new process")


def layer_groups(encoder: str) -> dict[str, Options]:
    """Group of options -> an instance with the defaults."""
    return {"task": LayerOptions()}


def measure_layer(encoder: str, seed: int, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Median milliseconds of forward and backward, and the MiB that they add to weights and inputs."""
    import_optional("psutil", f"{LAYER_COSTS} needs", "bench")
    from graphattn.experiments.benchmarks.harness import (
        MEBIBYTE,
        Comparison,
        Settings,
        compare,
        measure_times,
        measure_times_and_memory,
    )
    from graphattn.experiments.benchmarks.mtsa import CONTENDERS, TASK
    from graphattn.experiments.benchmarks.report import Report

    require_choice("encoder", encoder, LAYERS)
    task = replace(LayerOptions(), **changes.get("task", {}))
    task.validate()
    peers = () if encoder == "ours" else (encoder,)
    settings = Settings((f"{task.sentences}x{task.length}",), task.repeats, peers)
    report = Report("mtsa", "", {}, settings)
    measure = measure_times_and_memory if task.memory else measure_times
    compare(report, settings, Comparison(CONTENDERS, {TASK: True}, measure))
    row = next((row for row in report.rows if row["contender"] == encoder), None)
    if row is None:
        return {"failed": "; ".join(report.left_out)}
    memory = {"mebibytes": round(row["added"] / MEBIBYTE, 1)} if "added" in row else {}
    return {"milliseconds": round(row["median_ms"], 3), **memory}

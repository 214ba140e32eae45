"""Where the time of training and of predictions goes: ``python .ci/gpu_profile.py machine|profile [DEVICE]``."""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from graphattn.experiments.benchmarks._report import describe_machine
from graphattn.models import TextClassifier, TrainingOptions

ROWS = 25
WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "MemcpyAsync", "LaunchKernel")
"""Calls of CUDA's runtime, without ``cuda`` before."""


def make_texts(count: int) -> tuple[list[str], list[str]]:
    """Texts of 4 to 40 words with two labels."""
    random = Random(0)
    words = [f"word{number}" for number in range(5000)]
    texts = [" ".join(random.choices(words, k=random.randint(4, 40))) for _ in range(count)]
    return texts, [random.choice("ab") for _ in range(count)]


def show(name: str, profiled: Any) -> None:
    """Print the operations that take longest, and how often the CPU waited or copied."""
    events = profiled.key_averages()
    counts = {event.key: event.count for event in events if event.key.removeprefix("cuda") in WAITS}
    print(f"\n## {name}\n\n{counts}\n")
    for key in ("self_device_time_total", "self_cpu_time_total"):
        print(events.table(sort_by=key, row_limit=ROWS, max_name_column_width=60))


def main(what: str, device: str = "cuda") -> None:
    """Describe the machine, or profile a fit of one epoch and predictions on a warm machine."""
    if what == "machine":
        print(describe_machine())
        for number in range(torch.cuda.device_count()):
            print(torch.cuda.get_device_properties(number))
        return
    texts, labels = make_texts(2048)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device != "cpu" else [])]
    for encoder in ("ms-trans", "transformer"):
        training = TrainingOptions(epochs=1, dev_fraction=0.0, device=device, progress=False)
        estimator = TextClassifier(encoder, training=training)
        estimator.head.linear_branch = False
        estimator.fit(texts[:256], labels[:256])  # loads libraries and kernels
        with profile(activities=activities) as profiled:
            estimator.fit(texts, labels)
        show(f"{encoder}: an epoch of {len(texts):,} texts", profiled)
        with profile(activities=activities) as profiled:
            estimator.predict(texts)
        show(f"{encoder}: predictions of {len(texts):,} texts", profiled)


if __name__ == "__main__":
    main(*sys.argv[1:])

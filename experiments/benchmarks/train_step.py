"""``bench train-step``: forward, backward and a step of the optimizer, whole encoders."""

from __future__ import annotations

from graphattn.experiments.benchmarks.comparison import Settings
from graphattn.experiments.benchmarks.encoder import LENGTHS, QUICK, encoders_report
from graphattn.experiments.benchmarks.report import Report
from graphattn.experiments.benchmarks.targets import TRAINING

__all__ = ["LENGTHS", "QUICK", "measure"]

COMPARED = """\
One training step of whole encoders for each batch, float32: forward, backward down to the token vectors, and Adam.
Sizes as in `bench encoder`; dropout is 0 for all, since dropout on attention weights would send nn.TransformerEncoder
down a slow path. Not timed: making graphs (each run of GraphAttn gets new ones), padding and masks. `limit` is the
ratio of floating-point operations, the same for training as for inference."""


def measure(settings: Settings) -> Report:
    """Time a training step of every encoder on every workload."""
    return encoders_report("train-step", COMPARED, {TRAINING: True}, settings)

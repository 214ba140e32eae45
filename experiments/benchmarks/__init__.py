"""Benchmarks of speed and memory: one module for each ``graphattn bench NAME``, and the harness they share.

Contenders run interleaved on the same tokens, data type and threads; tables show medians and their ratios.
"""

from graphattn.experiments.benchmarks._contenders import Contender, Job, Settings
from graphattn.experiments.benchmarks._harness import TIMES, Comparison, column, compare, time_jobs
from graphattn.experiments.benchmarks._report import BenchmarkReport
from graphattn.experiments.benchmarks._workloads import parse_workloads

__all__ = [
    "TIMES",
    "BenchmarkReport",
    "Comparison",
    "Contender",
    "Job",
    "Settings",
    "column",
    "compare",
    "parse_workloads",
    "time_jobs",
]

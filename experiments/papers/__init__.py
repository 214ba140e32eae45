"""Data sets, settings and runs behind the result tables."""

from graphattn.experiments.papers._catalogue import find_experiments
from graphattn.experiments.papers._data_sets import DATA_SETS
from graphattn.experiments.papers._result_rows import read_rows, results_table
from graphattn.experiments.papers._runs import run
from graphattn.experiments.papers._settings import settings

__all__ = ["DATA_SETS", "find_experiments", "read_rows", "results_table", "run", "settings"]

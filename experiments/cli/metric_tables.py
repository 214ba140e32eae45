"""Metrics for people: a table on a terminal, one line for each figure on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def print_metrics(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Show metrics in percent.

    Parameters
    ----------
    columns : data set (or model) -> metric -> percent

    Examples
    --------
    >>> print_metrics({"dev": {"accuracy": 81.25}})
    dev accuracy: 81.25
    """
    metrics = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    if sys.stdout is None or not sys.stdout.isatty():
        for column, figures in columns.items():
            for name, value in figures.items():
                print(f"{column} {_spelled(name)}: {value:.2f}")
        return
    table = Table("", *columns)
    for metric in metrics:
        row = [f"{figures[metric]:.2f}" if metric in figures else "" for figures in columns.values()]
        table.add_row(_spelled(metric), *row)
    Console().print(table)


def _spelled(metric: str) -> str:
    return metric.replace("_", " ")

"""Output for people on a terminal, plain lines on a pipe: tables of metrics, progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

Item = TypeVar("Item")


def print_metrics(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Print metrics in percent: a table on a terminal, one line per value on a pipe.

    Parameters
    ----------
    columns : data set (or model) -> metric -> percent

    Examples
    --------
    >>> print_metrics({"dev": {"accuracy": 81.25}})
    dev accuracy: 81.25
    """
    if sys.stdout is None or not sys.stdout.isatty():
        for column, values in columns.items():
            for metric, value in values.items():
                print(f"{column} {_title(metric)}: {value:.2f}")
        return
    table = Table("", *columns)
    for metric in dict.fromkeys(metric for values in columns.values() for metric in values):
        row = [f"{values[metric]:.2f}" if metric in values else "" for values in columns.values()]
        table.add_row(_title(metric), *row)
    Console().print(table)


def _title(metric: str) -> str:
    return metric.replace("_", " ")


def show_progress(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Pass items on; on a terminal, count them with a bar on standard error."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    yield from track(items, description, total, console=Console(stderr=True), disable=not on_terminal)

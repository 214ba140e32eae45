"""Figures of finished runs: a file with a line of JSON for each, and the tables that are made of them."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphattn.exceptions import DataError
from graphattn.experiments.papers.data_sets import DATA_SETS
from graphattn.models.encoders import ENCODERS

_ENCODERS = (*ENCODERS, "tfidf")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows that earlier runs wrote.

    Raises
    ------
    DataError
        when the file cannot be read, or a line of it is no row; it names the line
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(f"cannot be read ({reason})", path=path, hint="Give the file of an earlier run.") from None
    return [_row(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()]


def _row(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
        row["data_set"], row["encoder"], row["seed"]
    except (ValueError, KeyError, TypeError):
        raise DataError(
            "is not a row of a run", path=path, line=number, hint="Remove the line to repeat the run."
        ) from None
    return dict(row)


def results_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean and standard deviation over the seeds as a Markdown table, one line for each data set and encoder.

    Runs with changed settings have a line of their own, which names the changes; of two with one seed the later counts.

    Examples
    --------
    >>> rows = [{"data_set": "sst2", "encoder": "ms-trans", "seed": s, "dev": 80 + s, "test": 81 + s} for s in (0, 2)]
    >>> print(results_table(rows))
    | data set | encoder | seeds | dev | test |
    |---|---|---|---|---|
    | sst2 | ms-trans | 2 | 81.0 ± 1.4 | 82.0 ± 1.4 |
    """
    lines = ["| data set | encoder | seeds | dev | test |", "|---|---|---|---|---|"]
    for (data_set, encoder), runs in _by_line(rows).items():
        lines.append(f"| {data_set} | {encoder} | {len(runs)} | {_figures(runs, 'dev')} | {_figures(runs, 'test')} |")
    return "\n".join(lines)


def side_by_side_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The test figures of :func:`results_table`, one line for each data set and one column for each encoder.

    Examples
    --------
    >>> rows = [{"data_set": "sst2", "encoder": "ms-trans", "seed": s, "test": 81 + s} for s in (0, 2)]
    >>> print(side_by_side_table([*rows, {"data_set": "sst2", "encoder": "tfidf", "seed": 0, "test": 81}]))
    | data set | ms-trans | tfidf |
    |---|---|---|
    | sst2 | 82.0 ± 1.4 | 81.0 |
    """
    cells = {place: _figures(runs, "test") for place, runs in _by_line(rows).items()}
    data_sets, encoders = (list(dict.fromkeys(place[part] for place in cells)) for part in (0, 1))
    encoders.sort(key=lambda encoder: _rank(encoder, _ENCODERS))
    lines = [["data set", *encoders]]
    lines += [[data_set, *(cells.get((data_set, encoder), "") for encoder in encoders)] for data_set in data_sets]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body])


def _by_line(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """(data set, encoder with changed settings) -> its runs, in the order of the data sets."""
    groups: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data_set"], row["encoder"] + _changed(row)), {})[row["seed"]] = row
    ordered = sorted(groups, key=lambda place: _rank(place[0], list(DATA_SETS)))
    return {place: list(groups[place].values()) for place in ordered}


def _rank(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _changed(row: Mapping[str, Any]) -> str:
    values = [f"{name} {value}" for group in (row.get("changes") or {}).values() for name, value in group.items()]
    return f" ({', '.join(values)})" if values else ""


def _figures(runs: Sequence[Mapping[str, Any]], part: str) -> str:
    values = [run[part] for run in runs if part in run]
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


def describe(row: Mapping[str, Any]) -> str:
    """One run in one line.

    Examples
    --------
    >>> describe({"data_set": "sst2", "encoder": "tfidf", "seed": 0, "dev": 79.4, "test": 81.1, "seconds": 2})
    'sst2 tfidf seed 0: dev 79.4, test 81.1, 2 s'
    """
    figures = ", ".join(f"{part} {row[part]}" for part in ("dev", "test") if part in row)
    return f"{row['data_set']} {row['encoder']} seed {row['seed']}: {figures}, {row['seconds']} s"


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Write one run's figures as a line of JSON; lines of other runs, also simultaneous ones, stay whole."""
    with open(path, "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        begun = size > 0 and file.read(1) != b"\n"  # by a run that was killed while it wrote
        file.write(("\n" * begun + json.dumps(row) + "\n").encode("utf-8"))

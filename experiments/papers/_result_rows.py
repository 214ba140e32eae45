"""Results of finished runs: a file with a line of JSON for each run, and tables."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphattn.builders._regular_files import NAMES, read_text
from graphattn.exceptions import DataError
from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._data_sets import DATA_SETS
from graphattn.experiments.papers._settings import PRETRAINED_RUNS
from graphattn.models._encoders import ENCODERS

_DEFAULTS = ("default-bilstm", "default", "default-bilstm=glove", "default=glove")
_ENCODERS = (*ENCODERS, "tfidf", "crf", *_DEFAULTS, *PRETRAINED_RUNS)


_FIGURES = ("dev", "test", "held_out", "mse", "milliseconds")
"""Figures of a run that its line shows."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows that earlier runs wrote; none if the file does not exist."""
    try:
        lines = read_text(path, NAMES).split("\n") if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(f"cannot be read ({reason})", path=path, hint="Give the file of an earlier run.") from None
    return [_parse_row(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()]


def _parse_row(line: str, path: Path, number: int) -> dict[str, Any]:
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

    Runs with changed settings have separate lines that name the changes. Of two runs with one seed, the later counts.
    Runs that held out a fold have its score instead of the test set's.

    Examples
    --------
    >>> rows = [{"data_set": "sst2", "encoder": "ms-trans", "seed": s, "dev": 80 + s, "test": 81 + s} for s in (0, 2)]
    >>> print(results_table(rows))
    | data set | encoder | seeds | dev | test |
    |---|---|---|---|---|
    | sst2 | ms-trans | 2 | 81.0 ± 1.4 | 82.0 ± 1.4 |
    """
    lines = [["data set", "encoder", "seeds", "dev", "test"]]
    for (data_set, encoder), runs in group_runs(rows).items():
        on_fold = any("held_out" in run for run in runs)
        test = f"{_format_scores(runs, 'held_out')} (fold)" if on_fold else _format_scores(runs, "test")
        lines.append([data_set, encoder, str(len(runs)), _format_scores(runs, "dev"), test])
    return format_markdown(lines)


def group_runs(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """(data set, encoder with changed settings) -> its runs, in the order of the data sets."""
    groups: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        if not any(split in row for split in ("dev", "test", "held_out", "failed")):
            continue  # a measurement without scores
        groups.setdefault((row["data_set"], row["encoder"] + _format_changes(row)), {})[row["seed"]] = row
    ordered = sorted(groups, key=lambda key: (_rank(key[0].partition(":")[0], list(DATA_SETS)), rank_encoder(key[1])))
    return {key: list(groups[key].values()) for key in ordered}


def rank_encoder(name: str) -> int:
    """The place of an encoder in a table; with named settings it follows the one without."""
    return _rank(name.partition("+")[0], _ENCODERS)


def _rank(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _format_changes(row: Mapping[str, Any]) -> str:
    values = [f"{name} {value}" for group in (row.get("changes") or {}).values() for name, value in group.items()]
    return f" ({', '.join(values)})" if values else ""


def _format_scores(runs: Sequence[Mapping[str, Any]], split: str) -> str:
    return format_mean([run[split] for run in runs if split in run], ".1f") or "-"


def format_mean(values: Sequence[float], form: str) -> str:
    """Mean, and standard deviation of several values; empty without values."""
    if not values:
        return ""
    mean = format(statistics.mean(values), form)
    return f"{mean} ± {format(statistics.stdev(values), form)}" if len(values) > 1 else mean


def describe_run(row: Mapping[str, Any]) -> str:
    """Describe a run on one line.

    Examples
    --------
    >>> describe_run({"data_set": "sst2", "encoder": "tfidf", "seed": 0, "dev": 79.4, "test": 81.1, "seconds": 2})
    'sst2 tfidf seed 0: dev 79.4, test 81.1, 2 s'
    """
    figures = ", ".join(f"{split} {row[split]}" for split in _FIGURES if split in row) or "failed"
    return f"{row['data_set']} {row['encoder']} seed {row['seed']}: {figures}, {row['seconds']} s"


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a line of JSON in one write, so that simultaneous runs do not mix their lines."""
    with open(path, "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        incomplete = size > 0 and file.read(1) != b"\n"  # of a run that was killed while it wrote
        file.write(("\n" * incomplete + json.dumps(row) + "\n").encode("utf-8"))

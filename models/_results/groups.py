"""Metrics of groups of inputs, such as those of a source, a language or a length, and which groups differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.builders._values import is_missing
from graphattn.exceptions import ConfigError
from graphattn.models._results.class_probabilities import name_class
from graphattn.models._results.numbers import split_ranges
from graphattn.models._results.significance import LEVEL, SummedMetric, permute_groups

MAX_GROUPS = 50
_MAX_NUMBERS, _RANGES = 10, 5
"""More different numbers are sorted into ranges, each with about as many inputs."""
_MISSING = "(none)"


class GroupTable(dict[str, dict[str, Any]]):
    """Group -> its metrics in percent, ``low`` and ``high`` of the main one's 95 % interval, and ``support``.

    ``p_value`` is that of the difference from all other inputs: a permutation test with Holm's correction for all
    groups; ``differs`` says whether it is below 0.05. ``print`` shows a table.
    """

    def __init__(self, main_metric: str, rows: dict[str, dict[str, Any]]):
        super().__init__(rows)
        self.main_metric = main_metric

    @override
    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        title = self.main_metric.replace("_", " ")
        lines = [f"{'':<{width}}{title:>11}{'95 % interval':>18}{'support':>11}"]
        for name, row in self.items():
            interval = f"{row['low']:.2f} to {row['high']:.2f}"
            mark = f"  * p = {row['p_value']:.3f}" if row["differs"] else ""
            lines.append(f"{name:<{width}}{row[self.main_metric]:>11.2f}{interval:>18}{row['support']:>11,}{mark}")
        if any(row["differs"] for row in self.values()):
            lines.append("* differs from all other texts (permutation test, Holm's correction)")
        return "\n".join(lines)

    __repr__ = dict.__repr__


def measure_groups(
    values: Sequence[Any], main_metric: str, sums: SummedMetric, measure: Callable[[Sequence[int]], dict[str, float]]
) -> GroupTable:
    """Metrics of the inputs with each value.

    Parameters
    ----------
    values : one of each input
    main_metric, sums : its name, and what each input adds to it
    measure : numbers of inputs -> their metrics
    """
    groups = split_groups(values)
    rows = {}
    for (name, numbers), p_value in zip(groups.items(), permute_groups(sums, list(groups.values())), strict=True):
        low, high = sums.select(numbers).interval()
        bounds = {"low": low, "high": high, "support": len(numbers)}
        rows[name] = {**measure(numbers.tolist()), **bounds, "p_value": p_value, "differs": p_value < 1 - LEVEL}
    return GroupTable(main_metric, rows)


def split_groups(values: Sequence[Any]) -> dict[str, npt.NDArray[np.int64]]:
    """Name -> the numbers of the inputs with a value, the most frequent value first; or with a number in a range.

    Examples
    --------
    >>> {name: numbers.tolist() for name, numbers in split_groups(["a", "b", None, "b"]).items()}
    {'b': [1, 3], 'a': [0], '(none)': [2]}
    >>> list(split_groups(range(20)))
    ['0 to 3', '4 to 7', '8 to 11', '12 to 15', '16 to 19']
    """
    known = {number: value for number, value in enumerate(values) if not (is_missing(value) or value == "")}
    numeric = {number: _as_number(value) for number, value in known.items()}
    if len({*numeric.values()}) > _MAX_NUMBERS and not any(map(math.isnan, numeric.values())):
        of_inputs = np.array(list(numeric))
        ranges = split_ranges(np.array(list(numeric.values())), _RANGES)
        groups = {name: of_inputs[numbers] for name, numbers in ranges.items()}
    else:
        names = {number: name_class(value) for number, value in known.items()}
        counts = Counter(names.values())
        if len(counts) > MAX_GROUPS:
            raise ConfigError(
                f"{{by}} has {len(counts):,} different values; choose a column with at most {MAX_GROUPS}, or numbers",
                options=("by",),
            )
        groups = {
            name: np.array([number for number, other in names.items() if other == name])
            for name, _ in counts.most_common()
        }
    missing = np.array([number for number in range(len(values)) if number not in known])
    return {**groups, _MISSING: missing} if len(missing) else groups


def _as_number(value: Any) -> float:
    """A value as a number; NaN for others."""
    try:
        return math.nan if isinstance(value, (bool, np.bool_)) else float(value)
    except (TypeError, ValueError):
        return math.nan

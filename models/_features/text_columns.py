"""Columns beside the texts that classifiers and regressors read: categories and numbers as rows of numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn.builders.readers._cells import NUMBER, CellColumn
from graphattn.exceptions import Hint, verbatim, warn_caller
from graphattn.layers._linear import Embedding

WIDEST = 16
"""Most columns of a table of categories; with as many categories or fewer it begins as one-hot vectors."""
FARTHEST = 10.0
"""Largest standardized number, in deviations; one outlier does not outweigh a text."""
_FEW = 20
"""Distinct categories of which there may be any share of the texts."""


@dataclass(frozen=True)
class Category:
    """A column of names: id 1 for the first of the ``values``, 0 for an empty cell or another value."""

    name: str
    values: tuple[str, ...]
    width: int

    @property
    def size(self) -> int:
        """The number of ids."""
        return 1 + len(self.values)

    def encode(self, cells: Sequence[str | None]) -> list[float]:
        """Each cell's id."""
        ids = {value: float(number) for number, value in enumerate(self.values, 1)}
        return [0.0 if cell is None else ids.get(cell, 0.0) for cell in cells]

    def show(self, number: float) -> str:
        """The column with the value of an id."""
        return f"{self.name}={self.values[int(number) - 1]}" if number else f"{self.name} unknown"

    def describe(self) -> str:
        """The column and its rule, for a line of output."""
        count = len(self.values)
        return f"{self.name}: {count:,} categor{'y' if count == 1 else 'ies'}, and one for empty cells and new values"

    def list_unknown(self, cells: Iterable[str | None]) -> list[str]:
        """The values in cells that the training set lacks."""
        known = {*self.values}
        return [cell for cell in cells if cell is not None and cell not in known]

    @property
    def rule(self) -> str:
        """What an empty cell is."""
        return ", which is a category of its own"


@dataclass(frozen=True)
class Number:
    """A column of numbers, as deviations from the mean of the training set; 0 for an empty cell."""

    name: str
    mean: float
    deviation: float
    width = 1
    size = 0
    """It has no ids."""

    def encode(self, cells: Sequence[float | None]) -> list[float]:
        """(x - mean) / deviation of each cell, at most :data:`FARTHEST` from 0."""
        values = np.array([self.mean if cell is None else cell for cell in cells], np.float64)
        return ((values - self.mean) / self.deviation).clip(-FARTHEST, FARTHEST).tolist()

    def show(self, number: float) -> str:
        """The column with the number whose standardized form is given."""
        return f"{self.name}={_format(self.mean + number * self.deviation)}"

    def describe(self) -> str:
        """The column and its rule, for a line of output."""
        return f"{self.name}: mean {_format(self.mean)}, also for empty cells, deviation {_format(self.deviation)}"

    def list_unknown(self, cells: Iterable[float | None]) -> list[str]:
        """None, since every number is known."""
        return []

    @property
    def rule(self) -> str:
        """What an empty cell is."""
        return f"; the mean, {_format(self.mean)}, stands for it"


@dataclass
class Gaps:
    """Empty cells, and values that the training set lacks, in the columns of some texts, by the names of columns."""

    texts: int = 0
    empty: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, columns: TextColumns, cells: Mapping[str, Sequence[Any]]) -> None:
        """Count those of further texts; ``cells`` are name -> the cell of each."""
        self.texts += len(next(iter(cells.values())))
        for column in columns.columns:
            of_column, unknown = cells[column.name], column.list_unknown(cells[column.name])
            self.empty[column.name] += sum(cell is None for cell in of_column)
            self.unknown[column.name] += len(unknown)
            self.examples |= {column.name: unknown[0]} if unknown else {}

    def describe(self, columns: TextColumns) -> dict[tuple[str, str], str]:
        """Name of a column, and ``empty`` or ``unknown`` -> a sentence on such cells, if there are any."""
        sentences = dict[tuple[str, str], str]()
        for column in columns.columns:
            name = column.name
            if self.empty[name]:
                sentences[name, "empty"] = f"{self._count(self.empty[name])} no {name}{column.rule}"
            if self.unknown[name]:
                problem = f"{self._count(self.unknown[name])} a {name} that the training set lacks"
                sentences[name, "unknown"] = f"{problem}, such as {self.examples[name]!r}; it counts as none"
        return sentences

    def _count(self, count: int) -> str:
        return f"{count:,} of {self.texts:,} texts {'has' if count == 1 else 'have'}"


_LATER: ContextVar[bool] = ContextVar("gaps are counted later", default=False)


@contextmanager
def hint_at_gaps_later() -> Iterator[None]:
    """Give no hints at gaps of a part of a corpus, whose caller counts those of all."""
    token = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(token)


class TextColumns:
    """The columns beside the texts, as they were fitted to a training set.

    Examples
    --------
    >>> kinds = [CellColumn("priority", "priority", "category"), CellColumn("amount", "amount", "number")]
    >>> columns = TextColumns.fit(kinds, {"priority": ["low", "high", "low"], "amount": [1.0, 2.0, 3.0]})
    >>> columns.encode({"priority": ["high", None], "amount": [2.0, None]}).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, columns: Iterable[Category | Number]):
        self.columns = tuple(columns)
        self._hinted: set[tuple[str, str]] = set()

    @classmethod
    def fit(
        cls,
        kinds: Sequence[CellColumn],
        cells: Mapping[str, Sequence[Any]],
        weights: npt.NDArray[np.float64] | None = None,
        *,
        one_hot: bool = False,
    ) -> Self:
        """Learn the categories, ascending, and the means and deviations of a training set.

        Parameters
        ----------
        kinds : the columns, with their kinds
        cells : name -> the cell of each text, None if it is empty
        weights : (S,) weights of the texts, as many copies of each; None for one
        one_hot : let each category have its own column of the table, which is not trained
        """
        columns: list[Category | Number] = []
        for name, _, kind in kinds:
            filled = [number for number, cell in enumerate(cells[name]) if cell is not None]
            if kind == NUMBER:
                of_filled = np.array([cells[name][number] for number in filled], np.float64)
                shares = None if weights is None else weights[filled]
                columns.append(Number(name, *_measure(of_filled, shares)))
                continue
            values = sorted({cells[name][number] for number in filled})
            columns.append(Category(name, tuple(values), len(values) if one_hot else min(len(values), WIDEST)))
        return cls(columns)

    @classmethod
    def of_config(cls, config: Iterable[Mapping[str, Any]]) -> Self:
        """The columns of :meth:`to_config`."""
        return cls(
            Number(**each) if "mean" in each else Category(each["name"], tuple(each["values"]), each["width"])
            for each in config
        )

    def to_config(self) -> list[dict[str, Any]]:
        """Plain values, for ``config.json``."""
        return [
            {**asdict(column), **({"values": list(column.values)} if isinstance(column, Category) else {})}
            for column in self.columns
        ]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def sizes(self) -> Tensor:
        """(K,) ids of each column, 0 for numbers, for :func:`list_entries`."""
        return torch.tensor([column.size for column in self.columns])

    def encode(self, cells: Mapping[str, Sequence[Any]]) -> npt.NDArray[np.float32]:
        """(S, K) ids of categories, and standardized numbers."""
        return np.array([column.encode(cells[column.name]) for column in self.columns], np.float32).T

    def show(self, row: Sequence[float]) -> list[str]:
        """Each column with its value in an encoded row."""
        return [column.show(value) for column, value in zip(self.columns, row, strict=True)]

    def list_typical_cells(self) -> dict[str, Any]:
        """Name -> a cell of the training set."""
        return {
            column.name: next(iter(column.values), None) if isinstance(column, Category) else column.mean
            for column in self.columns
        }

    def describe(self) -> str:
        """The columns and their rules in one line."""
        return "; ".join(column.describe() for column in self.columns)

    def hint_at_gaps(self, cells: Mapping[str, Sequence[Any]], where: str) -> None:
        """Say once of each column what stands for empty cells, and for unknown values; ``where`` names the corpus."""
        if _LATER.get():
            return
        gaps = Gaps()
        gaps.add(self, cells)
        for kind, sentence in gaps.describe(self).items():
            if kind not in self._hinted:
                warn_caller(Hint(verbatim(f"{where}: {sentence}" if where else sentence)))
                self._hinted.add(kind)

    def list_doubts(self, cells: Mapping[str, Sequence[Any]]) -> Iterator[str]:
        """Sentences on columns of the training set that tell nothing, or nothing about other texts."""
        for column in self.columns:
            filled = [cell for cell in cells[column.name] if cell is not None]
            values = {*filled}
            has_empty = isinstance(column, Category) and len(filled) < len(cells[column.name])
            if len(values) + has_empty < 2:
                what = f"the same in all texts, {values.pop()!r}" if values else "empty"
                yield f"{column.name} is {what}, so that it tells nothing"
            elif isinstance(column, Category) and len(values) > max(_FEW, len(filled) / 2):
                many = f"{column.name} has {len(values):,} categories in {len(filled):,} texts, like an id"
                yield f"{many}, and other texts will have few of them"


def _format(number: float) -> str:
    """Four digits or more, so that there is no exponent in 12,345.

    Examples
    --------
    >>> _format(88.7654), _format(12345.4)
    ('88.77', '12345')
    """
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"


def _measure(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None) -> tuple[float, float]:
    """Mean and deviation; 0 and 1 without values, and the deviation 1 of a constant."""
    if not len(values) or (weights is not None and not weights.any()):
        return 0.0, 1.0
    mean = float(np.average(values, weights=weights))
    deviation = math.sqrt(np.average((values - mean) ** 2, weights=weights))
    is_constant = values.min() == values.max()
    return (float(values[0]), 1.0) if is_constant else (mean, deviation or 1.0)


class ColumnFeatures(nn.Module):
    """Encoded columns as features of a head: a row of a table for each category, and standardized numbers.

    A table of up to :data:`WIDEST` categories begins with one-hot rows, a larger one with random rows of about length
    1; the row of empty cells and new values begins at zero.
    """

    def __init__(self, columns: TextColumns):
        super().__init__()
        self.columns = columns
        self.width = sum(column.width for column in columns.columns)
        self.tables = nn.ModuleList(
            Embedding(column.size, column.width) for column in columns.columns if isinstance(column, Category)
        )
        for table in self.tables:
            assert isinstance(table, Embedding)
            rows, width = table.weight[1:], table.embedding_dim
            with torch.no_grad():
                table.weight[0] = 0
                rows.copy_(torch.eye(width) if len(rows) == width else torch.randn_like(rows) / math.sqrt(width))

    def forward(self, cells: Tensor) -> Tensor:
        """(B, K) encoded columns -> (B, width)."""
        tables, parts = iter(self.tables), []
        for column, values in zip(self.columns.columns, cells.T, strict=True):
            is_category = isinstance(column, Category)
            parts.append(next(tables)(values.long()) if is_category else values.unsqueeze(1))
        return torch.cat(parts, dim=1)


def list_entries(cells: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """(B, K) columns and values of the sparse matrix of one-hot categories and standardized numbers.

    ``cells`` are (B, K) encoded columns, ``sizes`` (K,) :attr:`TextColumns.sizes`. Each part has a mean square of 1, as
    the tf-idf of a text, so that a penalty on coefficients holds each column like a whole text.

    Examples
    --------
    >>> columns, values = list_entries(torch.tensor([[2.0, -0.5]]), torch.tensor([3, 0]))
    >>> columns.tolist(), values.tolist()
    ([[2, 3]], [[1.0, -0.5]])
    """
    is_number, widths = sizes == 0, sizes.clamp(min=1)
    ids = torch.where(is_number, 0, cells).long()
    return ids + widths.cumsum(0) - widths, torch.where(is_number, cells, 1.0)


def count_columns(sizes: Tensor) -> int:
    """Columns of the matrix of :func:`list_entries`."""
    return int(sizes.clamp(min=1).sum())

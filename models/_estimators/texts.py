"""Texts: what a model reads, in memory or out of a store, with what the user gave for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from graphattn.builders import Example, Sentence
from graphattn.builders._stored import is_stored
from graphattn.builders._values import is_list, is_missing, read_strings
from graphattn.builders._word_boundaries import Source, strip_html
from graphattn.builders.readers._cells import CellColumn, read_cell
from graphattn.exceptions import ConfigError, DataError, verbatim
from graphattn.models._estimators.inputs import CHUNK, ReadsTexts, as_list, as_text


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts or pairs of texts, with their labels and weights.

    ``columns`` are one column of texts, or two for pairs, each a list or out of a store. ``words`` are the same with
    words in place of raw texts, if these were split before. ``labels`` are one for each
    text or pair, None if unknown; ``weights`` likewise, None for equal ones. ``numbers`` are each text's index in the
    user's data, None for all of them in order. ``where`` is what errors call them. ``cells`` are
    name -> column of what a model reads beside the texts, None for nothing. ``fields`` are the columns that tables of
    mistakes have instead of the texts, if any.
    """

    columns: Sequence[Sequence[Source]]
    labels: Any = None
    weights: npt.NDArray[np.float64] | None = None
    numbers: Sequence[int] | None = None
    where: str = "data"
    words: Sequence[Sequence[Source]] | None = None
    cells: Mapping[str, Sequence[Any]] | None = None
    fields: Mapping[str, Sequence[Any]] | None = None

    @classmethod
    def of(cls, X: Iterable[Any], task: ReadsTexts | None = None, *, strip_html: bool = False) -> Texts:
        """A user's inputs as texts; of tables and dictionaries, the columns that a task knows.

        ``strip_html`` removes HTML from raw texts; those of a store have none.
        """
        if isinstance(X, Texts):
            return X
        is_pair = task is not None and task.texts_per_input == 2
        columns = () if task is None else task.known_columns.cells
        if is_stored(X):
            if columns:
                names = verbatim(", ".join(column.name for column in columns))
                raise DataError(f"a store has no columns {names} beside its texts", hint="Give the table itself.")
            return cls(X.pairs() if is_pair else [X.texts()])
        items = as_list(X, task)
        texts = cls(_split_pairs(items) if is_pair else [_read_singles(items)], cells=_collect_cells(items, columns))
        return texts.strip_html() if strip_html else texts

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Any]:
        """The texts, or the pairs."""
        return iter(self.columns[0]) if len(self.columns) == 1 else zip(*self.columns, strict=True)

    @property
    def sources(self) -> Sequence[Sequence[Source]]:
        """The columns for a vocabulary, which splits only what was not split before."""
        return self.columns if self.words is None else self.words

    def strip_html(self) -> Self:
        """The texts without HTML."""
        return replace(self, columns=[list(map(_strip_html, column)) for column in self.columns])

    def unlabelled(self) -> Texts:
        """The texts alone, as texts to predict."""
        return Texts(self.columns, cells=self.cells)

    def load(self) -> Self:
        """The texts as lists in memory."""
        return replace(self, columns=[list(column) for column in self.columns])

    def select(self, numbers: Sequence[int]) -> Self:
        """The texts with these indices; those of a store stay there."""
        columns = [_select(column, numbers) for column in self.columns]
        words = None if self.words is None else [_select(column, numbers) for column in self.words]
        labels = None if self.labels is None else _select(self.labels, numbers)
        weights = None if self.weights is None else self.weights[numbers]
        cells, fields = _select_named(self.cells, numbers), _select_named(self.fields, numbers)
        chosen: dict[str, Any] = {"labels": labels, "weights": weights, "numbers": numbers}
        return replace(self, columns=columns, words=words, cells=cells, fields=fields, **chosen)

    def iter_chunks(self) -> Iterator[Sequence[Source]]:
        """All texts, in chunks that fit into memory."""
        for column in self.sources:
            if is_stored(column):
                yield from column.parts()
            else:
                yield from (column[start : start + CHUNK] for start in range(0, len(column), CHUNK))

    def show(self, number: int, *, text: str | None = None) -> dict[str, Any]:
        """The fields of a text or pair as columns of a table, or itself, a text perhaps as ``text`` has it."""
        if self.fields:
            return {name: column[number] for name, column in self.fields.items()}
        if text is not None:
            return {"text": text}
        names = ("text", "second")[: len(self.columns)]
        return {name: as_text(column[number]) for name, column in zip(names, self.columns, strict=True)}

    def check_tokenization(self, split: str) -> None:
        """Reject a store whose tokenization rule is not that of raw texts."""
        rules = {column.tokenized_by for column in self.columns if is_stored(column)} - {None, split}
        for rule in rules:
            fix = (
                "train on the corpus itself, or build the store without a tokenizer"
                if rule == "another"
                else f"give both the same split: graphattn build --split {split}, or {{split}} {rule} of the inputs"
            )
            by = "a tokenizer's own rule" if rule == "another" else f"the rule {rule!r}"
            raise ConfigError(f"the store's texts were tokenized by {by}, not {split!r}; {fix}", options=("split",))


_ADDED = frozenset({"gold", "predicted", "confidence", "error", "start", "end", "words"})
"""Columns that tables of mistakes add."""


def collect_fields(columns: Mapping[str, Sequence[Any]] | None, size: int) -> dict[str, list[Any]] | None:
    """Columns of ``size`` values for :attr:`Texts.fields`; one that is called like an added column gets a prefix."""
    if columns is None:
        return None
    fields = dict[str, list[Any]]()
    for name in columns:
        free = str(name)
        while free in _ADDED or (free != name and free in columns):
            free = f"input_{free}"
        fields[free] = list(columns[name])
        if len(fields[free]) != size:
            problem = f"{size} inputs but {len(fields[free])} values of the column {name!r}"
            raise DataError(problem, hint="Give one for each input.")
    return fields


def _select(items: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    """The items with these indices; those of a store stay there."""
    return items.take(numbers) if hasattr(items, "take") else [items[number] for number in numbers]


def _select_named(
    columns: Mapping[str, Sequence[Any]] | None, numbers: Sequence[int]
) -> dict[str, Sequence[Any]] | None:
    return None if columns is None else {name: _select(items, numbers) for name, items in columns.items()}


def _collect_cells(items: Sequence[Any], columns: Sequence[CellColumn]) -> dict[str, list[Any]] | None:
    """Name -> the values in each of the columns that a model reads beside the texts; None if it reads none."""
    if not columns:
        return None
    rows = []
    for index, item in enumerate(items):
        given = getattr(item, "cells", None) or {}
        missing = next((column.name for column in columns if column.name not in given), None)
        if missing is not None:
            names = ", ".join(column.name for column in columns)
            hint = f"Give a table, or objects, with the columns {names}; in Python also Example(text, cells={{...}})."
            raise DataError(f"input {index} has no {missing!r}, a feature beside the text", hint=hint)
        try:
            rows.append({column.name: read_cell(given[column.name], column) for column in columns})
        except DataError as error:
            error.message = f"input {index}: {error.message}"
            raise
    return {column.name: [row[column.name] for row in rows] for column in columns}


def _read_singles(items: Sequence[Any]) -> list[Source]:
    """Inputs as single texts."""
    for index, item in enumerate(items):
        if isinstance(item, tuple):
            raise DataError(
                f"input {index} is a tuple",
                hint="Give the words of a text as a list; for pairs of texts there is PairClassifier.",
            )
    return [_read_source(item, index) for index, item in enumerate(items)]


def _split_pairs(items: Sequence[Any]) -> tuple[list[Source], list[Source]]:
    """The first and the second texts of inputs."""
    first, second = [], []
    for index, item in enumerate(items):
        pair = (item.text, item.second) if isinstance(item, Example) else item
        if not isinstance(pair, (list, tuple, np.ndarray)) or not is_list(pair) or len(pair) != 2 or pair[1] is None:
            raise DataError(f"input {index} is no pair of texts", hint="Give (first, second).")
        first.append(_read_source(pair[0], index))
        second.append(_read_source(pair[1], index))
    return first, second


def _read_source(item: Any, index: int) -> Source:
    """An input as a text, its words or a sentence."""
    if isinstance(item, Example):
        item = item.text
    if isinstance(item, (str, Sentence)):
        return item
    if isinstance(item, (list, tuple, np.ndarray)) and is_list(item):
        try:
            return list(read_strings(item, "word"))
        except DataError as error:
            error.message = f"input {index}: {error.message}"
            raise
    if is_missing(item):
        hint = "Leave it out, or give an empty text."
        raise DataError(f"input {index} is {item}, a missing value", hint=hint)
    raise DataError(
        f"input {index} is a {type(item).__name__}", hint="Give a text, a list of words, a Sentence or an Example."
    )


def _strip_html(source: Source) -> Source:
    return strip_html(source) if isinstance(source, str) else source

"""Tables of predictions that keep all columns of the input: CSV, TSV, Parquet and JSON Lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphattn.builders._sentence import Sentence
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.arrow_tables import read_rows, serialize_arrow
from graphattn.experiments._cli.output import encode_line
from graphattn.experiments._cli.tables import SEPARATORS, can_be_field, format_row
from graphattn.experiments._cli.text_stream import NumberedText
from graphattn.models._estimators.inputs import as_text, input_fields
from graphattn.models._results.class_probabilities import name_class


@dataclass(frozen=True)
class PredictionTable:
    """A table of inputs and predictions, made for rows like the first one.

    A prediction whose column the input has already gets the prefix ``predicted_``.
    """

    columns: tuple[str, ...]  # of the input
    types: Mapping[str, type]  # of their values
    added: Mapping[str, str]  # key of a prediction -> its column
    suffix: str  # ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl``
    quoted: bool  # whether all fields are in quotes
    probabilities: bool  # whether the probabilities of all classes are wanted; the confidence always is
    label_separator: str | None  # characters between several labels in a field; None for a list of JSON
    left_out: frozenset[str] = frozenset()  # columns of the input that the format cannot hold

    @classmethod
    def of(
        cls,
        text: NumberedText,
        prediction: Mapping[str, Any],
        suffix: str,
        *,
        probabilities: bool,
        label_separator: str | None,
    ) -> PredictionTable:
        """The table for inputs like this one, and rows of JSON like this one."""
        arrow = None if text.row is None else text.row.arrow
        left_out = frozenset() if arrow is None or suffix == ".parquet" else arrow.left_out
        columns, cells = _split_input(text, suffix, left_out)
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None and suffix not in SEPARATORS:
            raise ConfigError(
                f"the input has {columns.count(twice)} columns {twice!r}; rename one, or let {{out}} end in .csv",
                options=("out",),
            )
        is_plain = isinstance(text.content, str) if text.row is None else not text.row.quoted
        types = {name: type(cell) for name, cell in zip(columns, cells, strict=True) if cell is not None}
        table = cls(
            columns, types, {}, suffix, suffix == ".tsv" and not is_plain, probabilities, label_separator, left_out
        )
        names = table._split_prediction(text, prediction)
        return replace(table, added={name: _find_free_name(name, columns) for name in names})

    @property
    def has_confidence(self) -> bool:
        """Whether predictions need the probabilities of classes."""
        return "confidence" in self.added

    def header(self) -> str:
        """The first line; empty for a format without a header."""
        if self.suffix not in SEPARATORS:
            return ""
        return format_row([*self.columns, *self.added.values()], self.suffix, quoted=self.quoted)

    def make_row(self, text: NumberedText, prediction: Mapping[str, Any]) -> Any:
        """The row of an input and its prediction.

        It is a line of text, and for Parquet a dictionary. A DataError says that the format cannot hold a field, or
        that the input has fields that the first one lacks.
        """
        names, cells = _split_input(text, self.suffix, self.left_out)
        arrow = None if text.row is None else text.row.arrow
        if arrow is not None and self.suffix != ".parquet":
            for name in sorted(arrow.left_out - self.left_out):
                problem = f"the column {name!r} has bytes that are not UTF-8, which a {self.suffix} file cannot hold"
                raise DataError(problem, hint="Let {out} end in .parquet.", options=("out",))
        added = self._split_prediction(text, prediction)
        if self.suffix in SEPARATORS:
            if names != self.columns:
                self._reject({*names} - {*self.columns}, f"so there is no such column in the {self.suffix} file")
                cells = list(map(dict(zip(names, cells, strict=True)).get, self.columns))
            return format_row([*cells, *map(added.get, self.added)], self.suffix, quoted=self.quoted)
        self._reject({*names} & {*self.added.values()}, "and which has the prediction")
        row = dict(zip(names, cells, strict=True)) | {self.added[name]: value for name, value in added.items()}
        return (arrow, row) if self.suffix == ".parquet" else _encode_json(row)

    def make_row_without_prediction(self, text: NumberedText, error: Mapping[str, Any]) -> Any:
        """The row of an input that cannot be predicted, without fields that cannot be written; JSON has the error."""
        names, cells = _split_input(text, self.suffix, self.left_out)
        row = dict(zip(names, cells, strict=True))
        if self.suffix == ".jsonl":
            return _encode_json({**row, **{_find_free_name(name, names): value for name, value in error.items()}})
        if self.suffix == ".parquet":
            arrow = None if text.row is None else text.row.arrow
            return arrow, {name: value for name, value in row.items() if self._fits_column(name, value)}
        cells = cells if names == self.columns else list(map(row.get, self.columns))
        cells = [cell if can_be_field(cell, self.suffix, quoted=self.quoted) else None for cell in cells]
        return format_row([*cells, *[None] * len(self.added)], self.suffix, quoted=self.quoted)

    def _fits_column(self, name: str, value: Any) -> bool:
        """Whether a column of Parquet can have a value of a row that has no prediction."""
        return name not in self.added.values() and isinstance(value, self.types.get(name, object))

    def join(self, rows: Sequence[Any]) -> bytes:
        """Some rows as a part of the file; for Parquet as a stream of Arrow, see :func:`write_parquet`."""
        if self.suffix != ".parquet":
            return "".join(rows).encode("utf-8", "backslashreplace")
        carried, records = read_rows([arrow for arrow, _ in rows]), [record for _, record in rows]
        names = dict.fromkeys(name for record in [dict.fromkeys(self.columns), *records] for name in record)
        return serialize_arrow({name: carried.get(name, [record.get(name) for record in records]) for name in names})

    def _reject(self, names: Iterable[str], consequence: str) -> None:
        for name in sorted(names):
            raise DataError(
                f"the input has a field {name!r}, which the first one lacks, {consequence}",
                hint="Give the first input this field, too, or write another format.",
            )

    def _split_prediction(self, text: NumberedText, prediction: Mapping[str, Any]) -> dict[str, Any]:
        """Key -> value of a prediction, without those of the input.

        In all formats but JSON, outputs, probabilities and the most probable classes have columns of their own.
        """
        is_json, values, of_input = self.suffix == ".jsonl", dict[str, Any](), set[str]()
        if text.row is not None or not is_json:
            words = list(text.content.words) if isinstance(text.content, Sentence) else None
            has_words = text.row is not None and words is not None and words in text.row.cells
            of_input = {"text", "second", *(["words"] if has_words or "tags" not in prediction else [])}
        for name, value in prediction.items():
            if name == "outputs" and not is_json:
                values |= {"output": value[0]["text"], "score": value[0]["score"]}
            elif name == "labels" and self.label_separator is not None and self.suffix in SEPARATORS:
                values[name] = self.label_separator.join(map(name_class, value))
            elif name not in (*of_input, "probabilities", "top"):
                values[name] = value
        probabilities = prediction.get("probabilities")
        if isinstance(probabilities, Mapping) and "confidence" not in values:
            values["confidence"] = find_confidence(prediction)
        if "top" in prediction:
            values |= {"top": prediction["top"]} if is_json else _rank(prediction["top"])
        if probabilities is not None and self.probabilities:
            of_columns = not is_json and isinstance(probabilities, Mapping)
            values |= (
                {f"p({label})": share for label, share in probabilities.items()}
                if of_columns
                else {"probabilities": probabilities}
            )
        return values


def find_confidence(prediction: Mapping[str, Any]) -> float | None:
    """The probability of the label; of several labels, that of exactly these, as if they were independent.

    Examples
    --------
    >>> find_confidence({"label": True, "probabilities": {"false": 0.25, "true": 0.75}})
    0.75
    >>> find_confidence({"labels": ["a"], "probabilities": {"a": 0.75, "b": 0.5}})
    0.375
    """
    shares: Mapping[str, float] = prediction["probabilities"]
    if "labels" not in prediction:
        return shares.get(name_class(prediction["label"]))
    chosen = set(map(name_class, prediction["labels"]))
    return round(math.prod(share if name in chosen else 1 - share for name, share in shares.items()), 6)


def _rank(top: Mapping[str, float]) -> dict[str, Any]:
    """Columns of the most probable classes and their probabilities.

    Examples
    --------
    >>> _rank({"b": 0.7, "a": 0.2})
    {'top_1': 'b', 'top_1_probability': 0.7, 'top_2': 'a', 'top_2_probability': 0.2}
    """
    values = dict[str, Any]()
    for rank, (name, share) in enumerate(top.items(), 1):
        values |= {f"top_{rank}": name, f"top_{rank}_probability": share}
    return values


def _split_input(text: NumberedText, suffix: str, left_out: frozenset[str]) -> tuple[tuple[str, ...], Sequence[Any]]:
    """The columns and fields of an input, none if it could not be read; without a row, those of JSON are predicted."""
    if text.row is not None:
        if not left_out:
            return text.row.names, text.row.cells
        kept = {name: cell for name, cell in zip(text.row.names, text.row.cells, strict=True) if name not in left_out}
        return tuple(kept), list(kept.values())
    if text.content is None or suffix == ".jsonl":
        return (), []
    fields = input_fields(text.content)
    return tuple("text" if name == "words" else name for name in fields), list(map(as_text, fields.values()))


def _find_free_name(name: str, columns: Sequence[str]) -> str:
    while name in columns:
        name = f"predicted_{name}"
    return name


def _encode_json(row: Mapping[str, Any]) -> str:
    return encode_line({name: None if _is_not_finite(value) else value for name, value in row.items()})


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)

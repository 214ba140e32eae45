"""Convert users' inputs, labels and weights to lists and arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from graphattn.builders import Example, Sentence
from graphattn.builders._stored import is_stored
from graphattn.builders._values import describe_value, is_list, is_missing
from graphattn.builders._word_boundaries import Source
from graphattn.exceptions import DataError
from graphattn.models._estimators.indicators import detach
from graphattn.models._estimators.named_columns import (
    KnownColumns,
    as_record,
    find_columns,
    has_text,
    iter_table,
    make_input,
    to_python,
)

Result = TypeVar("Result")
CHUNK = 1 << 14
"""Texts of a list that are processed together."""
_ANY = KnownColumns()


class ReadsTexts(Protocol):
    """What a task says of its inputs: texts or pairs, and the columns of tables that have them."""

    texts_per_input: ClassVar[int]

    @property
    def known_columns(self) -> KnownColumns:
        """What is known of the columns of tables and dictionaries."""


def as_list(X: Iterable[Any], task: ReadsTexts | None = None) -> Any:
    """:func:`as_collection` as a list; a store is returned unchanged."""
    return X if is_stored(X) else list(as_collection(X, task))


def unpack_dev_set(dev: Any) -> tuple[Any, Any]:
    """A dev set's inputs and labels; None if the inputs contain the labels."""
    if isinstance(dev, tuple) and len(dev) != 2 and not all(isinstance(item, (Example, Sentence)) for item in dev):
        raise DataError(f"the dev set has {len(dev)} parts", hint="Give (inputs, labels), or inputs with labels.")
    single = (str, tuple, Mapping, Example, Sentence) if isinstance(dev, list) else (Example, Sentence)
    if isinstance(dev, (tuple, list)) and len(dev) == 2 and not any(isinstance(item, single) for item in dev):
        return dev[0], dev[1]
    return dev, None


@contextmanager
def name_dev_set_in_errors() -> Iterator[None]:
    """Name the dev set in errors about inputs and labels."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f"the dev set: {error.message}",
            path=error.path,
            line=error.line,
            field=error.field,
            hint=error.hint,
            options=error.options,
        ) from error


def input_fields(x: Any) -> dict[str, Any]:
    """An input as fields of JSON."""
    if isinstance(x, str):
        return {"text": x}
    if isinstance(x, tuple) and len(x) == 2 and hasattr(x[1], "words"):  # a pair out of a store
        return {"words": list(x[0].words), "second": list(x[1].words)}
    if hasattr(x, "text"):
        return {"text": x.text} if x.second is None else {"text": x.text, "second": x.second}
    return {"words": list(getattr(x, "words", x))}


def as_text(source: Source) -> str:
    """A source as a text: words are joined by blanks."""
    if isinstance(source, str):
        return source
    return " ".join(source.words if isinstance(source, Sentence) else source)


def as_collection(X: Any, task: ReadsTexts | None = None) -> Iterable[Any]:
    """Inputs of a task; the rows of a table, and dictionaries, are read by the names of their columns.

    Without a column of texts, a frame of one column is its column, and one of two its rows as pairs, like an array.
    """
    if isinstance(X, (str, bytes, Sentence, Example)):
        raise DataError(f"a {type(X).__name__} is given where many inputs are expected", hint="Put it into a list.")
    if isinstance(X, Mapping):
        raise DataError(f"a {type(X).__name__} is given where a list is expected", hint="Give one of its values.")
    if isinstance(X, (set, frozenset)):
        hint = "Give a list: a set has no order, in which results could come back."
        raise DataError(f"a {type(X).__name__} is given where a list is expected", hint=hint)
    if not isinstance(X, Iterable) and not hasattr(X, "__getitem__"):
        raise DataError(f"{describe_value(X)} is given where many inputs are expected", hint="Give a list.")
    if type(X) is list and not any(map(_is_record, {*map(type, X)})):
        return X
    names, columns = find_columns(X), 1 if task is None else task.texts_per_input
    if names is not None:
        known = _ANY if task is None else task.known_columns
        if has_text(names, known) or len(names) != columns or not hasattr(X, "columns"):
            return iter_table(X, names, known)
    if names is None and getattr(X, "ndim", 1) == 1:
        X = to_python(X)
        if isinstance(X, Sequence) and not any(_is_record(kind) for kind in {*map(type, X)}):
            return X
        known = _ANY if task is None else task.known_columns
        records = ((item, as_record(item) if _is_record(type(item)) else None) for item in X)
        return (
            item if record is None else make_input(record, number, known)
            for number, (item, record) in enumerate(records)
        )
    table = np.asarray(X, object)
    if table.shape[1:] == (1,):
        return table[:, 0].tolist()
    if table.shape[1:] != (columns,):
        raise DataError(
            f"the inputs are a {type(X).__name__} of the shape {table.shape}",
            hint=f"Give {columns} column{'s' * (columns > 1)}; for lists of words a list of lists, as from tolist().",
        )
    return map(tuple, table)


def _is_record(kind: type) -> bool:
    return issubclass(kind, Mapping) or kind.__name__ == "Series"


def map_parts(function: Callable[[Iterable[Any]], Result], X: Iterable[Any]) -> list[Result]:
    """Apply a function to inputs; to those without a length, such as a generator's, some at a time.

    An error of later ones says from which input on it counts.
    """
    if hasattr(X, "__len__"):
        return [function(X)]
    remaining, results, first = iter(X), list[Result](), 0
    while (part := list(itertools.islice(remaining, CHUNK))) or not results:
        try:
            results.append(function(part))
        except DataError as error:
            error.message += f", counted from input {first}" if first else ""
            raise
        first += len(part)
    return results


def has_predict(other: Any) -> bool:
    """Whether this is a model, and not the predictions of one."""
    return hasattr(other, "predict")


def predict_with_others(others: Mapping[str, Any], X: Any) -> dict[str, Any]:
    """Name -> predictions for inputs: those of a model, or those that are given in its place."""
    return {name: other.predict(X) if has_predict(other) else other for name, other in others.items()}


def single_target(y: Any) -> Any:
    """Labels; of a frame or an array of shape (n, 1) its column."""
    return as_collection(y) if len(getattr(y, "shape", ())) == 2 and y.shape[1] == 1 else y


def resolve_labels(X: Sequence[Any], y: Iterable[Any] | None, field: str) -> Sequence[Any]:
    """``y`` as a list, or the ``field`` of the inputs when it is None."""
    items = X.texts() if is_stored(X) else X
    if y is not None:
        if hasattr(y, "columns"):
            raise DataError(
                f"labels are a {type(y).__name__}", hint="Give one column of it, or for several labels to_numpy()."
            )
        if isinstance(y, (str, bytes, Mapping, set, frozenset)) or not is_list(to_python(y)):
            hint = "Give a list with one for each input."
            raise DataError(f"labels are {describe_value(y)}, which is no list", hint=hint)
        labels = list(to_python(y))
        if len(labels) != len(items):
            raise DataError(f"{len(items)} inputs but {len(labels)} labels", hint="Give one for each.")
        return labels
    stored = items.column(field) if is_stored(items) else [getattr(item, field, None) for item in items]
    missing = next((index for index, label in enumerate(stored) if is_missing(label)), None)
    if missing is not None:
        raise DataError(f"input {missing} has no {field}", hint=f"Give y, or inputs with {field.rstrip('s')}s.")
    return stored


_MAX_WEIGHT = 1e38
"""Sums of larger ones may not be finite."""


def check_weights(sample_weight: Any, count: int) -> npt.NDArray[np.float64] | None:
    """Weights of examples as an array; None if there are none, the same weight for all if it is a number."""
    if sample_weight is None:
        return None
    weights = _read_weights(detach(sample_weight))
    weights = np.full(count, weights) if weights.ndim == 0 else weights
    if weights.shape != (count,):
        raise DataError(f"{count} inputs but sample_weight has the shape {weights.shape}", hint="Give one for each.")
    invalid = np.flatnonzero(~((weights >= 0) & (weights <= _MAX_WEIGHT)))
    if len(invalid):
        hint = f"Give numbers from 0 to {_MAX_WEIGHT:g}."
        raise DataError(f"sample_weight {invalid[0]} is {weights[invalid[0]]}", hint=hint)
    if not weights.any():
        raise DataError("all values of sample_weight are 0", hint="Give some examples a positive weight.")
    return weights


def _read_weights(values: Any) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        for index, value in enumerate(values) if is_list(values) else [(None, values)]:
            with suppress(TypeError, ValueError):
                float(value)
                continue
            name = "sample_weight" if index is None else f"sample_weight {index}"
            hint = f"Give numbers from 0 to {_MAX_WEIGHT:g}."
            raise DataError(f"{name} is {describe_value(value)}, not a number", hint=hint) from None
        raise


def split_held_out(count: int, held: int, strata: npt.NDArray[Any] | None, seed: int) -> tuple[list[int], list[int]]:
    """Split indices into a training and a held-out part, both sorted.

    If both parts have room for all classes, each class keeps its fraction; one with a single member is not held out.
    """
    from sklearn.model_selection import train_test_split

    members = np.arange(count)
    if strata is not None:
        several = members[np.bincount(strata)[strata] > 1]
        num_classes = len(np.unique(strata[several]))
        if num_classes and num_classes <= min(held, len(several) - held):
            members, strata = several, strata[several]
        else:
            strata = None
    _, taken = train_test_split(members, test_size=held, random_state=seed, stratify=strata)
    return np.setdiff1d(np.arange(count), taken).tolist(), sorted(taken.tolist())

"""What users hand to estimators: inputs and labels in their many forms, made plain."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.builders import Example, Sentence
from graphattn.builders.lazy_texts import LazyCorpus, LazyTexts
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import ConfigError, DataError

Columns = Sequence[Sequence[Source]]
"""One column of texts, or two for pairs."""
_BLANK = re.compile(r"[ \t\r\n\f\v\u3000]")
"""Between words; no-break and thin spaces stand in them, as in ``10 000``."""
AT_ONCE = 1 << 14
"""Texts of a list that are gone through together."""


def as_list(X: Iterable[Any]) -> Any:
    """Inputs as a list; a corpus that memory need not hold stays as it is.

    Raises
    ------
    DataError
        for a single text, or a table
    """
    if isinstance(X, LazyCorpus):
        return X
    refuse_single(X)
    return list(X)


def dev_parts(dev: Any) -> tuple[Any, Any]:
    """A dev set's inputs and labels; None for labels that the inputs carry.

    Parameters
    ----------
    dev : a tuple of inputs and labels, or a list of these, or inputs that carry their labels
    """
    if isinstance(dev, tuple) and len(dev) != 2 and not all(isinstance(one, (Example, Sentence)) for one in dev):
        raise DataError(
            f"the dev set has {len(dev)} parts", hint="Give (inputs, labels), or inputs that carry their labels."
        )
    of_two = isinstance(dev, (tuple, list)) and len(dev) == 2
    single = (str, tuple, Example, Sentence) if isinstance(dev, list) else (Example, Sentence)
    of_inputs = of_two and any(isinstance(one, single) for one in dev)
    return (dev[0], dev[1]) if of_two and not of_inputs else (dev, None)


@contextmanager
def naming_dev_set() -> Iterator[None]:
    """Errors of inputs and labels say that the dev set is meant."""
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


def is_store(path: Path) -> bool:
    """Whether this is a folder that ``graphattn build`` wrote."""
    try:
        return (path / "store.json").is_file()
    except (OSError, ValueError):  # a text instead of a path
        return False


def refuse_single(X: Any) -> None:
    """Refuse what is no collection of inputs, but would pass for one of characters or names.

    Raises
    ------
    DataError
        for a single text, or a table
    """
    if isinstance(X, os.PathLike):
        raise DataError(
            f"a {type(X).__name__} is given where inputs are expected",
            hint="Read the file with list(read_corpus(path)), a store with Store(path).",
        )
    if isinstance(X, (str, bytes, Sentence, Example)):
        raise DataError(f"a {type(X).__name__} is given where many inputs are expected", hint="Put it into a list.")
    if not isinstance(X, Iterable) or getattr(X, "ndim", 1) == 0:
        raise DataError(f"a {type(X).__name__} is given where many inputs are expected", hint="Give a list of them.")
    if isinstance(X, Mapping):
        raise DataError(
            f"a {type(X).__name__} of columns is given where a list is expected",
            hint="Give one column of it, X['text'] for example, or for pairs list(zip(X['text'], X['second'])).",
        )
    if hasattr(X, "columns"):
        raise DataError(
            f"a {type(X).__name__} is given where a list is expected",
            hint="Give one column of it, or for pairs the rows of two columns with to_numpy().",
        )


def single_column(X: Iterable[Any], estimator: str) -> Columns:
    """Inputs of an estimator that takes one text each.

    Raises
    ------
    DataError
        for an input that is no text, list of words, ``Sentence`` or ``Example``
    """
    if isinstance(X, LazyCorpus):
        return [X.texts()]
    return [[_source(item, index, estimator) for index, item in enumerate(X)]]


def _source(item: Any, index: int, estimator: str) -> Source:
    if isinstance(item, Example):
        return item.text
    if isinstance(item, (str, Sentence)):
        return item
    if isinstance(item, np.ndarray) and item.shape == (1,) and getattr(item.base, "ndim", 0) == 2:
        raise DataError(
            f"the inputs of {estimator} are an array of one column",
            hint="Give that column (ravel()), or lists of words.",
        )
    if isinstance(item, (list, tuple, np.ndarray)):
        return _words(list(item), index, estimator)
    raise DataError(
        f"input {index} of {estimator} is a {type(item).__name__}",
        hint="Give a text, a list of words, a Sentence or an Example.",
    )


def _words(words: list[Any], index: int, estimator: str) -> list[str]:
    for place, word in enumerate(words):
        if not isinstance(word, str):
            raise DataError(
                f"word {place} of input {index} of {estimator} is a {type(word).__name__}",
                hint="Give a text, a list of words, a Sentence or an Example.",
            )
    if words and all(_BLANK.search(word.strip()) for word in words):
        raise DataError(
            f"input {index} of {estimator} is a list whose words hold blanks, the first of them {words[0]!r}",
            hint="Give a text as it is, not in a list; of several texts each is an input. Words with blanks stand in a "
            "Sentence.",
        )
    return words


def pair_columns(X: Iterable[Any]) -> Columns:
    """Inputs of an estimator that takes two texts each.

    Raises
    ------
    DataError
        for an input that is no pair
    """
    if isinstance(X, LazyCorpus):
        return X.pairs()
    first, second = [], []
    for index, item in enumerate(X):
        if isinstance(item, Example):
            item = (item.text, item.second)
        if not isinstance(item, (list, tuple, np.ndarray)) or len(item) != 2 or item[1] is None:
            raise DataError(f"input {index} of PairClassifier is no pair of texts", hint="Give (first, second).")
        first.append(_source(item[0], index, "PairClassifier"))
        second.append(_source(item[1], index, "PairClassifier"))
    return [first, second]


def resolve_labels(X: Sequence[Any] | LazyCorpus, y: Iterable[Any] | None, field: str) -> Sequence[Any]:
    """Labels as given, or as the inputs carry them.

    Raises
    ------
    DataError
        when there are none, or not one for each input
    """
    items = X.texts() if isinstance(X, LazyCorpus) else X
    if y is not None:
        if hasattr(y, "columns"):
            raise DataError(
                f"labels are a {type(y).__name__}", hint="Give one column of it, or for several labels to_numpy()."
            )
        given = list(y)
        if len(given) != len(items):
            raise DataError(f"{len(items)} inputs but {len(given)} labels", hint="Give one for each.")
        return given
    labels = _carried(items, field)
    missing = next((index for index, label in enumerate(labels) if label is None), None)
    if missing is not None:
        raise DataError(f"input {missing} has no {field}", hint=f"Give y, or inputs that carry their {field}.")
    return labels


def _carried(items: Sequence[Any], field: str) -> Sequence[Any]:
    if isinstance(items, LazyTexts):
        return items.column(field)
    return [getattr(item, field, None) for item in items]


def select(items: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    """A choice of texts or labels; lazy ones stay lazy."""
    return items.take(numbers) if hasattr(items, "take") else [items[number] for number in numbers]


def vocabulary_source(columns: Columns) -> Iterable[Source] | Counter[str]:
    """What a vocabulary learns from: all texts, or the words of lazy ones, counted."""
    counts: Counter[str] = Counter()
    for column in columns:
        if not isinstance(column, LazyTexts):
            return chain.from_iterable(columns)
        counts.update(column.words())
    return counts


def check_same_tokenization(columns: Columns, split: str) -> None:
    """Refuse texts that were cut into words before, by another rule than the one for raw texts.

    Raises
    ------
    ConfigError
        naming both rules
    """
    rules = {column.tokenized_by for column in columns if isinstance(column, LazyTexts)} - {None, split}
    for rule in rules:
        way_out = (
            "train on the corpus itself, or build the store without a tokenizer"
            if rule == "another"
            else f"give both the same split: graphattn build --split {split}, or {{split}} {rule} of the inputs"
        )
        by = "a tokenizer's own rule" if rule == "another" else f"the rule {rule!r}"
        raise ConfigError(
            f"the store's texts were cut into words by {by}, not {split!r}; {way_out}", options=("split",)
        )


def iter_chunks(columns: Columns) -> Iterator[Sequence[Source]]:
    """All texts, so many at a time as memory holds with ease."""
    for column in columns:
        if isinstance(column, LazyTexts):
            yield from column.parts()
        else:
            yield from (column[start : start + AT_ONCE] for start in range(0, len(column), AT_ONCE))


def held_out_split(count: int, held: int, strata: npt.NDArray | None, seed: int) -> tuple[list[int], list[int]]:
    """Numbers to keep and numbers to hold out, in order; the same share of each class where that is possible."""
    from sklearn.model_selection import train_test_split

    if strata is not None and (np.bincount(strata).min() < 2 or min(held, count - held) < len(np.unique(strata))):
        strata = None
    rest, taken = train_test_split(np.arange(count), test_size=held, random_state=seed, stratify=strata)
    return sorted(rest.tolist()), sorted(taken.tolist())

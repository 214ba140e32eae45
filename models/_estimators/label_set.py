"""Class names to ids and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.builders._spelling import compose
from graphattn.builders._values import is_missing
from graphattn.builders.readers._unlabelled import find_marks
from graphattn.exceptions import DataError, UnknownLabelError, verbatim


class LabelSet:
    """The classes of a task, sorted or in the order of a matrix's columns. A label is looked up in any Unicode form.

    Examples
    --------
    >>> LabelSet.of(["b", "a", "b"]).ids(["b", "a"]).tolist()
    [1, 0]
    """

    def __init__(self, classes: Sequence[Any]):
        self.classes = list(classes)
        self._ids = {_compose_label(label): index for index, label in enumerate(self.classes)}
        self._ids |= {label: index for index, label in enumerate(self.classes)}

    @classmethod
    def of(cls, labels: Iterable[Any], *, what: str = "label", least: int = 2) -> LabelSet:
        """The set of all labels."""
        counts = Counter(labels)
        plain = set(map(plain_label, counts))
        for label in plain:
            _validate_label(label, what)
        if len(plain) < least:
            every = f"all {counts.total()} {what}s are" if counts.total() > 1 else f"the only {what} is"
            problem = f"{every} {next(iter(plain))!r}" if plain else f"there are no {what}s"
            raise DataError(f"{problem}; training needs at least two different ones")
        try:
            return cls(sorted(plain, key=_compose_label))
        except TypeError:
            raise DataError(f"{what}s of several types: {sorted(map(repr, plain))[:5]}; use strings") from None

    def __len__(self) -> int:
        return len(self.classes)

    def ids(
        self, labels: Iterable[Any], *, where: str = "data", what: str = "label", kind: npt.DTypeLike = np.int64
    ) -> npt.NDArray[np.integer]:
        """(n,) the id of each label."""
        unknown: dict[str, Any] = {}
        count = 0

        def id_of(label: Any) -> int:
            nonlocal count
            number = self._ids.get(label)
            if number is None:
                number = self._ids.get(_compose_label(label))
            if number is None:
                unknown[repr(plain_label(label))] = label
                count += 1
            return number or 0

        ids = np.fromiter(map(id_of, labels), kind)
        for label in unknown.values():
            _validate_label(plain_label(label), f"{what} of the {where}")  # a missing label does not count as wrong
        if unknown:
            names = sorted(unknown)
            marks = find_marks([*self.classes, *unknown.values()], tags=what == "tag")
            advice = [f"{{drop_label={mark}}} leaves it out." for mark in unknown.values() if mark in marks]
            known = self._list_classes()
            if (other := self._find_other_type(unknown.values())) is not None:
                known, advice = f"{known}, of type {other}", [_advise_conversion(other)]
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            error = UnknownLabelError(
                f"the {where} has {what} {verbatim(shown)}, which the training set lacks",
                hint=f"Known: {verbatim(known)}.",
                alternative=" ".join(advice),
                options=("drop_label",),
            )
            error.count, error.total = count, len(ids)
            raise error
        return ids

    def reject_other_types(self, labels: Iterable[Any], where: str) -> None:
        """Reject labels that differ from classes by type alone, as 0 from ``"0"``: none would be right."""
        other = self._find_other_type(label for label in labels if label not in self._ids)
        if other is not None:
            raise DataError(f"the {where} are not of type {other}, as the classes are", hint=_advise_conversion(other))

    def _list_classes(self) -> str:
        names = list(map(str, self.classes))
        return ", ".join(names[:20]) + " ..." * (len(names) > 20)

    def _find_other_type(self, unknown: Iterable[Any]) -> str | None:
        """The type of a class from which an unknown label differs only by type, as 0 from ``"0"``."""
        kinds = {str(name): type(name).__name__ for name in self.classes}
        return next((kinds[str(label)] for label in unknown if str(label) in kinds), None)


def _advise_conversion(to: str) -> str:
    how = "" if to == "bool" else f": {to}(label), or y.astype({to}) of an array"  # bool("False") is True
    return f"Convert yours to {to}{how}."


def find_respellings(names: Iterable[Any], known: Iterable[Any] = ()) -> Mapping[Any, str]:
    """Name -> the first name that is equal in another Unicode form, for those that are not the first.

    Of entity tags the types are compared, so that all tags of an entity have the same.

    Examples
    --------
    >>> list(find_respellings(["B-caf\\u00e9", "I-cafe\\u0301", "O"]).values())
    ['I-caf\u00e9']
    """
    first: dict[str, str] = {}
    respellings = {}
    for name in chain(known, names):
        if isinstance(name, str) and not name.isascii():
            prefix, kind = (name[:2], name[2:]) if name[1:2] == "-" else ("", name)
            kept = first.setdefault(compose(kind), kind)
            if kept != kind:
                respellings[name] = prefix + kept
    return respellings


def _compose_label(label: Any) -> Any:
    return compose(label) if isinstance(label, str) else label


def _validate_label(label: Any, what: str) -> None:
    """Reject missing labels, and those that JSON cannot store."""
    if is_missing(label):
        raise DataError(f"a {what} is {label}", hint=f"Drop examples without a {what}.")
    if not isinstance(label, (str, bool, int, float)):
        hint = "Use strings or numbers."
        raise DataError(f"the {what} {label!r} is of type {type(label).__name__}", hint=hint)
    if isinstance(label, str) and any("\ud800" <= character <= "\udfff" for character in label):
        raise DataError(f"the {what} {label!r} contains half a surrogate pair", hint="Write both halves.")


def plain_label(label: Any) -> Any:
    """A NumPy scalar as a Python value; other labels unchanged."""
    return label.item() if isinstance(label, np.generic) else label

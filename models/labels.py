"""Class names to ids and back, with errors that name what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import DataError


class LabelSet:
    """The classes of a task, sorted.

    Parameters
    ----------
    classes : names; strings, numbers or truth values

    Examples
    --------
    >>> LabelSet.of(["b", "a", "b"]).ids(["b", "a"]).tolist()
    [1, 0]
    """

    def __init__(self, classes: Sequence[Any]):
        self.classes = list(classes)
        self._ids = {label: index for index, label in enumerate(self.classes)}

    @classmethod
    def of(cls, labels: Sequence[Any], *, what: str = "label") -> LabelSet:
        """All labels that occur.

        Raises
        ------
        DataError
            when there are fewer than two, or one is missing
        """
        plain = {_plain(label) for label in labels}
        if any(label != label for label in plain):
            raise DataError(f"a {what} is nan", hint=f"Drop examples without a {what}.")
        if len(plain) < 2:
            found = f"all {len(labels)} {what}s are {next(iter(plain))!r}" if plain else f"there are no {what}s"
            raise DataError(f"{found}; a model needs at least two different ones to learn from")
        try:
            return cls(sorted(plain))
        except TypeError:
            raise DataError(f"{what}s of several types: {sorted(map(repr, plain))[:5]}; use strings") from None

    def __len__(self) -> int:
        return len(self.classes)

    def ids(self, labels: Sequence[Any], *, where: str = "data", what: str = "label") -> npt.NDArray[np.int64]:
        """(n,) the id of each label.

        Raises
        ------
        DataError
            naming the labels that the model does not know
        """
        unknown = sorted({repr(_plain(label)) for label in labels if label not in self._ids})
        if unknown:
            shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            raise DataError(
                f"the {where} has {what} {shown}, which the training set lacks",
                hint=f"Known are: {', '.join(map(str, self.classes[:20]))}{' ...' if len(self) > 20 else ''}.",
            )
        return np.fromiter((self._ids[label] for label in labels), np.int64, len(labels))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label

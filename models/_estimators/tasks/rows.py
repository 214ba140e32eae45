"""An input and its prediction as a row of output, as ``graphattn predict`` prints it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.builders import Example
from graphattn.models._estimators.inputs import input_fields
from graphattn.models._estimators.label_set import plain_label
from graphattn.models._results.class_probabilities import name_class
from graphattn.models._results.numbers import shorten


class Rows(ABC):
    """Formats predictions as rows of JSON."""

    @abstractmethod
    def format(self, x: Any, prediction: Any, probabilities: npt.NDArray[np.float32] | None = None) -> dict[str, Any]:
        """An input and its prediction; with ``probabilities`` also those of all classes."""


class ClassRows(Rows):
    """Rows with a class, or several."""

    def __init__(self, classes: Sequence[Any]):
        self.classes = classes

    @override
    def format(self, x: Any, prediction: Any, probabilities: npt.NDArray[np.float32] | None = None) -> dict[str, Any]:
        row = {**input_fields(x), **self._name_classes(prediction)}
        return row if probabilities is None else {**row, "probabilities": name_shares(self.classes, probabilities)}

    def _name_classes(self, prediction: Any) -> dict[str, Any]:
        if isinstance(prediction, tuple):
            return {"labels": list(prediction)}
        if getattr(prediction, "ndim", 0) == 1:  # zeros and ones
            return {"labels": np.asarray(self.classes)[prediction.astype(bool)].tolist()}
        return {"label": plain_label(prediction)}


class TagRows(Rows):
    """Rows with a class for each word."""

    def __init__(self, classes: Sequence[Any]):
        self.classes = classes

    @override
    def format(self, x: Any, prediction: Any, probabilities: npt.NDArray[np.float32] | None = None) -> dict[str, Any]:
        row = {"words": input_fields(x)["words"], "tags": list(prediction)}
        if probabilities is None:
            return row
        return {**row, "probabilities": [name_shares(self.classes, each) for each in probabilities]}


def name_shares(classes: Sequence[Any], probabilities: npt.NDArray[np.float32]) -> dict[str, float]:
    """Class -> probability; keys are JSON strings, such as ``true`` for True."""
    names = map(name_class, classes)
    return {name: round(float(share), 6) for name, share in zip(names, probabilities, strict=True)}


class NumberRows(Rows):
    """Rows with a number; ``scale`` is the standard deviation of the targets of the training set."""

    def __init__(self, scale: float):
        self.scale = scale

    @override
    def format(self, x: Any, prediction: Any, probabilities: npt.NDArray[np.float32] | None = None) -> dict[str, Any]:
        return {**input_fields(x), "value": shorten(float(prediction), self.scale)}


class OutputRows(Rows):
    """Rows with the outputs of a translator, one or several."""

    @override
    def format(self, x: Any, prediction: Any, probabilities: npt.NDArray[np.float32] | None = None) -> dict[str, Any]:
        outputs = prediction if isinstance(prediction, list) else [prediction]
        rows = [{"text": output.text, "score": round(output.score, 6)} for output in outputs]
        return {**input_fields(x.text if isinstance(x, Example) else x), "outputs": rows}

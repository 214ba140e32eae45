"""Measurements of a run besides scores: seconds of an epoch, perplexity after each, distances of attention, int8."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from typing_extensions import override

from graphattn.experiments.papers._data_sets import DataSet
from graphattn.models import Estimator, Translator, load
from graphattn.models.training._averaging import Average
from graphattn.models.training._callback import Callback, find_callback

FARTHEST = 15
"""Distances up to this one are kept, as in MS-Trans' Figure 3."""


class EpochFigures(Callback):
    """Seconds that each epoch trains, and for a translator the perplexity of the dev set after it."""

    def __init__(self, estimator: Estimator, dev: tuple[list[Any], list[Any] | None] | None):
        self.estimator, self.dev = estimator, dev
        self.start = self.end = 0.0
        self.seconds: list[float] = []
        self.perplexities: list[float] = []

    @override
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.start = self.end = time.perf_counter()

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.end = time.perf_counter()

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.seconds.append(self.end - self.start)
        if self.dev is not None and isinstance(self.estimator, Translator):
            average = find_callback(trainer, Average)  # type: ignore[type-abstract]
            with nullcontext() if average is None else average.swap_in(pl_module.model):
                self.perplexities.append(self.estimator.perplexity(*self.dev))

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "perplexities": self.perplexities}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seconds, self.perplexities = state_dict["seconds"], state_dict["perplexities"]

    def figures(self) -> dict[str, Any]:
        """Median of the epochs' seconds; for a translator, dev metrics after each epoch."""
        figures: dict[str, Any] = {"seconds_per_epoch": round(median(self.seconds), 3)} if self.seconds else {}
        if self.perplexities:
            metric = f"dev_{self.estimator.main_metric}"
            figures["by_epoch"] = [
                {metric: round(row[metric], 2), "dev_perplexity": round(value, 3)}
                for row, value in zip(self.estimator.history_, self.perplexities, strict=True)
            ]
        return figures


def observe_distances(
    estimator: Estimator, corpus: DataSet, splits: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """Frequency of each distance of the strongest edge on the dev set: by head of the first layer, and by layer."""
    from graphattn.models.inspection._summary import summarise

    summary = summarise(estimator, splits["dev"])
    heads, layers = summary.distances(), summary.layers()
    heads = heads[heads.layer == 0]
    return {
        "heads": {f"{head} ({name})": _shares(group) for (head, name), group in heads.groupby(["head", "relation"])},
        "layers": {str(layer + 1): _shares(group) for layer, group in layers.groupby("layer")},
    }


def observe_int8(estimator: Estimator, corpus: DataSet, splits: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of the model with linear layers in int8; none on a processor that lacks it."""
    with TemporaryDirectory() as folder:
        rounded = load(estimator.save(Path(folder) / "model"), precision="int8")
        return corpus.measure(rounded, splits) if rounded.model_.precision == "int8" else {}


def _shares(table: Any) -> list[float]:
    return [round(float(share), 4) for share in table.strongest[: FARTHEST + 1]]


def observe_decisions(estimator: Any, _: DataSet, splits: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """F1, Brier score and calibration error on the test set, and what they would be without temperature or thresholds.

    F1 is that of the rarer of two classes, or of all labels.
    """
    items, temperature, thresholds = splits["test"], estimator.temperature_, estimator.thresholds_
    after = _measure_decisions(estimator, items)
    estimator.set_thresholds(None)
    estimator.model_.scale(temperature)
    before = _measure_decisions(estimator, items)
    estimator.model_.scale(1 / temperature)
    estimator.set_thresholds(thresholds or None)
    return {"before": before, "after": after, "fitted": {"temperature": round(temperature, 4)}}


def _measure_decisions(estimator: Estimator, items: list[Any]) -> dict[str, float]:
    report = estimator.report(items)
    rarest = min(report["classes"].values(), key=lambda scores: scores["support"])
    f1 = report["micro_f1"] if "micro_f1" in report else rarest["f1"]
    figures = {"f1": f1, "brier": report["brier"], "calibration_error": report["calibration_error"]}
    return {name: round(value, 4) for name, value in figures.items()}


OBSERVATIONS: dict[str, Callable[[Estimator, DataSet, Mapping[str, Any]], Any]] = {
    "attention_distances": observe_distances,
    "decisions": observe_decisions,
    "int8": observe_int8,
}
"""Name -> what it computes from a trained estimator, its data set and the splits of that."""

"""Reports of evaluations: scores of each class, confusion matrix, bootstrap interval, mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.exceptions import ConfigError, DataError
from graphattn.models._results.class_probabilities import ClassProbabilities, name_class
from graphattn.models._results.coverage import Coverage
from graphattn.models._results.groups import GroupTable, measure_groups
from graphattn.models._results.numbers import format_number, spread
from graphattn.models._results.significance import LEVEL, RESAMPLES, Comparison, SummedMetric, format_p, score_f1

Counts = npt.NDArray[np.int64]
MODEL = "model"
"""Name of the model itself among those that it is compared with."""
NONE = "(none)"
"""Name of the row of decisions without a gold class, and of the column of gold classes that are not found."""
_PROBABILITY_FORMS = {
    "brier": "Brier score {:.4f}",
    "calibration_error": "expected calibration error {:.2f}",
    "roc_auc": "ROC-AUC {:.2f}",
    "average_precision": "average precision {:.2f}",
}
_COLUMNS = ("precision", "recall", "f1", "support")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Decisions next to the gold classes: one per text or word, per label of several, or per entity.

    Entities and labels of several may have a class on one side only.

    Parameters
    ----------
    gold, predicted : (n,) class numbers; ``len(classes)`` for none
    inputs : (n,) number of the input of each decision
    size : number of inputs
    classes : names
    """

    gold: Counts
    predicted: Counts
    inputs: Counts
    size: int
    classes: list[str]

    @classmethod
    def of(
        cls, rows: Iterable[tuple[int, Any, Any]], size: int, known: Sequence[Any], *, keep_unused: bool = False
    ) -> Outcomes:
        """Number the classes, in the order of ``known``.

        Parameters
        ----------
        rows : input, gold class and predicted class of each decision; None for no class
        size : number of inputs
        known : the model's classes; gold ones may be others
        keep_unused : keep classes without a decision
        """
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [(), (), ()]
        numbers: dict[Any, int] = {None: -1, **{name: number for number, name in enumerate(known)}}
        sides = [
            np.array([numbers.setdefault(name, len(numbers) - 1) for name in side], np.int64) for side in columns[1:]
        ]
        names = list(numbers)[1:]
        used = range(len(names)) if keep_unused else sorted({*np.concatenate(sides).tolist()} - {-1})
        renumbered = np.full(len(names) + 1, len(used))  # the last is for -1
        renumbered[list(used)] = range(len(used))
        gold, predicted = (renumbered[side] for side in sides)
        classes = [name_class(names[n]) for n in used]
        return cls(gold, predicted, np.array(columns[0], np.int64), size, classes)

    @property
    def wrong_inputs(self) -> list[int]:
        """Numbers of the inputs with a wrong decision."""
        return np.unique(self.inputs[self.gold != self.predicted]).tolist()

    def scores(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
        """Precision, recall, F1 in percent and support, of each class and averaged, by scikit-learn."""
        from sklearn.metrics import precision_recall_fscore_support

        labels = list(range(len(self.classes)))
        if not len(self.gold):
            return {}, {}

        def measure(average: str | None) -> Any:
            options: Any = {"labels": labels, "average": average, "zero_division": 0}
            return precision_recall_fscore_support(self.gold, self.predicted, **options)

        rows = zip(*measure(None), strict=True)
        classes = {name: _name_scores(*row) for name, row in zip(self.classes, rows, strict=True)}
        # where each decision has a gold class, the micro average is the accuracy
        has_none = (self.gold == len(labels)).any() or (self.predicted == len(labels)).any()
        support = sum(row["support"] for row in classes.values())
        averages = {
            average: _name_scores(*measure(average)[:3], support)
            for average in (["micro"] if has_none else []) + ["macro", "weighted"]
        }
        return classes, averages

    def confusion(self) -> tuple[list[str], Counts]:
        """Names, and the (gold, predicted) counts; the last row and column are for none, if there is any."""
        from sklearn.metrics import confusion_matrix

        names = [*self.classes, NONE]
        if not len(self.gold):
            return names, np.zeros((len(names), len(names)), np.int64)
        matrix: Counts = confusion_matrix(self.gold, self.predicted, labels=range(len(names)))
        if matrix[-1].any() or matrix[:, -1].any():
            return names, matrix
        return self.classes, matrix[:-1, :-1]

    @property
    def sums(self) -> SummedMetric:
        """Micro-averaged F1 as a metric of sums over inputs; it is the accuracy if each decision has a class."""
        masks = self.gold == self.predicted, self.gold < len(self.classes), self.predicted < len(self.classes)
        counts = [np.bincount(self.inputs, mask, self.size) for mask in masks]
        return SummedMetric(np.stack(counts, 1), score_f1)


def format_metric(name: str, value: float) -> str:
    """A metric of a report for a table: the Brier score and the squared error are no percentages.

    Examples
    --------
    >>> format_metric("accuracy", 81.254), format_metric("brier", 0.01824), format_metric("mse", 9.1e-14)
    ('81.25', '0.0182', '9.10e-14')
    """
    return format_number(value) if name == "mse" else f"{value:.{4 if name == 'brier' else 2}f}"


def format_rows(rows: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """The cells of the table of classes or ranges: percentages, or numbers in the unit of a regressor's targets."""
    targets = spread(row["gold"] for row in rows if "gold" in row)
    errors = min((row["mse"] for row in rows if row.get("mse")), default=0.0)
    steps = {"gold": targets, "predicted": targets, "mse": errors}
    return [
        [
            f"{value:,}" if name == "support" else format_number(value, steps.get(name, 1.0))
            for name, value in row.items()
        ]
        for row in rows
    ]


class Report(dict[str, Any]):
    """The metrics of an evaluation by name, with details; ``print`` shows a table.

    Besides the metrics, in percent but for the Brier score, it has ``confidence_interval`` (of the main metric),
    ``classes`` and ``averages`` (name -> ``precision``, ``recall``, ``f1`` and ``support``), or of a regressor
    ``ranges`` of targets (name -> ``gold``, ``predicted``, ``mse`` and ``support``). If the model is compared with
    others, ``compared`` has metric -> name -> ``score``, and of the others what :class:`Comparison` says.

    Parameters
    ----------
    metrics : name -> percent, or other details
    main_metric : the name of the one that the interval is of
    outcomes : the decisions; None for texts
    interval : of the main metric; None for that of the outcomes
    ranges : rows of the table of a regressor
    probabilities : those of a classifier, whose measures are among the metrics
    coverage : how many texts a classifier of one label decides from a confidence on, and how many of them right
    find_mistakes : returns the rows of :attr:`mistakes`
    sums : the main metric by input; None for that of the outcomes
    measure : returns the metrics of some inputs, for :meth:`by`
    comparisons : name of another model -> how the model compares with it
    find_disagreements : returns the rows of :attr:`disagreements`
    """

    def __init__(
        self,
        metrics: Mapping[str, Any],
        main_metric: str,
        outcomes: Outcomes | None = None,
        *,
        interval: tuple[float, float] | None = None,
        ranges: Mapping[str, Mapping[str, float]] | None = None,
        probabilities: ClassProbabilities | None = None,
        coverage: Coverage | None = None,
        find_mistakes: Callable[[], list[dict[str, Any]]] = list,
        sums: SummedMetric | None = None,
        measure: Callable[[Sequence[int]], dict[str, float]] | None = None,
        comparisons: Mapping[str, Comparison] | None = None,
        find_disagreements: Callable[[], list[dict[str, Any]]] = list,
    ):
        super().__init__(metrics)
        self.main_metric, self.outcomes, self._find_mistakes = main_metric, outcomes, find_mistakes
        self.probabilities, self.coverage, self.comparisons = probabilities, coverage, dict(comparisons or {})
        self._sums = outcomes.sums if sums is None and outcomes is not None else sums
        self._measure, self._find_disagreements = measure, find_disagreements
        if probabilities is not None:
            self.update(probabilities.measure())
        if interval is None and self._sums is not None:
            interval = self._sums.interval()
        if interval is not None:
            low, high = interval
            bounds = {"metric": main_metric, "level": LEVEL, "low": low, "high": high, "resamples": RESAMPLES}
            self["confidence_interval"] = bounds
        if outcomes is not None:
            self["classes"], self["averages"] = outcomes.scores()
        if ranges is not None:
            self["ranges"] = ranges
        if self.comparisons:
            rows = {name: comparison.to_row() for name, comparison in self.comparisons.items()}
            self["compared"] = {main_metric: {MODEL: {"score": self[main_metric]}, **rows}}

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics alone."""
        return {name: value for name, value in self.items() if isinstance(value, int | float)}

    @property
    def summary(self) -> dict[str, Any]:
        """Without the scores of each class or range."""
        return {name: value for name, value in self.items() if name not in ("classes", "averages", "ranges")}

    @cached_property
    def mistakes(self) -> list[dict[str, Any]]:
        """Wrong decisions with ``text``, ``gold``, ``predicted`` and ``confidence``, most confident first.

        Of a regressor all predictions, with ``error`` in place of the confidence, the largest error first.
        """
        return sorted(
            self._find_mistakes(), key=lambda row: -abs(row["error"] if "error" in row else row["confidence"])
        )

    def by(self, values: Sequence[Any]) -> GroupTable:
        """The metrics of groups of inputs, with intervals, and which groups differ from all others.

        Parameters
        ----------
        values : one of each input, such as a column of the corpus; more than ten different numbers are sorted into
            five ranges with about equally many inputs

        Raises
        ------
        ConfigError
            for more than 50 groups
        DataError
            for another number of values
        """
        if self._sums is None or self._measure is None:
            raise ConfigError(f"{self.main_metric} is of a whole corpus, so {{by}} does not apply", options=("by",))
        if len(values) != len(self._sums.rows):
            problem = f"{len(self._sums.rows)} inputs but {len(values)} values to group them by"
            raise DataError(problem, hint="Give one for each input.")
        return measure_groups(values, self.main_metric, self._sums, self._measure)

    @cached_property
    def disagreements(self) -> list[dict[str, Any]]:
        """Inputs that the models predict differently: ``text``, ``gold``, ``predicted``, and the names of the others.

        Of a tagger they are places of texts. Of a regressor they are all texts, the largest difference first.
        """
        return self._find_disagreements()

    @override
    def __str__(self) -> str:
        averages = {f"{name} average": row for name, row in self.get("averages", {}).items()}
        lines = []
        if rows := [*self.get("classes", self.get("ranges", {})).items(), *averages.items()]:
            names, values = zip(*rows, strict=True)  # a class may be called like an average
            cells, columns = format_rows(values), list(values[0])
            width, column = max(map(len, names)), max(11, 2 + max(len(cell) for row in cells for cell in row))
            lines.append(" " * width + "".join(f"{name:>{column}}" for name in columns))
            for number, (name, row) in enumerate(zip(names, cells, strict=True)):
                if averages and number == len(rows) - len(averages):
                    lines.append("")
                lines.append(f"{name:<{width}}" + "".join(f"{cell:>{column}}" for cell in row))
            lines.append("")
        line = f"{self.main_metric.replace('_', ' ')}: {self[self.main_metric]:.2f}"
        if bounds := self.get("confidence_interval"):
            line += f" ({100 * LEVEL:.0f} % confidence interval {bounds['low']:.2f} to {bounds['high']:.2f})"
        signature = self.get("signatures", {}).get(self.main_metric)
        several = len(self.comparisons) > 1
        compared = [each.describe(name, adjusted=several) for name, each in self.comparisons.items()]
        compared += self._describe_systems()
        return "\n".join([*lines, line, *filter(None, [signature, self._describe_probabilities()]), *compared])

    def _describe_systems(self) -> Iterator[str]:
        """A line for each system that outputs of a translator are compared with."""
        if self.comparisons or self.main_metric not in self.get("compared", {}):
            return
        (_, model), *others = self["compared"][self.main_metric].items()
        for name, other in others:
            scores = (
                f"{model['score']:.2f} against {other['score']:.2f} of {name}: {model['score'] - other['score']:+.2f}"
            )
            p_value = f"p = {format_p(other['p_value'])}"
            if "adjusted_p_value" in other:
                p_value += f", {format_p(other['adjusted_p_value'])} with Holm's correction"
            yield f"{self.main_metric} {scores}, {p_value} (paired bootstrap)"

    def _describe_probabilities(self) -> str:
        forms = {name: form for name, form in _PROBABILITY_FORMS.items() if name in self}
        return ", ".join(form.format(self[name]) for name, form in forms.items())

    __repr__ = dict.__repr__


def _name_scores(*scores: float) -> dict[str, float]:
    *shares, support = scores
    return {
        **{name: 100 * float(share) for name, share in zip(_COLUMNS, shares, strict=False)},
        "support": int(support),
    }

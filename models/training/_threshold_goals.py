"""What thresholds of classes are chosen for: metrics, wanted shares and costs of mistakes, as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphattn.exceptions import ConfigError, verbatim
from graphattn.models.training._decisions import COST, METRICS, SHARES
from graphattn.options import split_items


@dataclass(frozen=True)
class ThresholdGoals:
    """What thresholds are chosen for: a metric of all classes, metrics of some, or a table of costs.

    Parameters
    ----------
    metric : of all classes, see :func:`find_metric`; None if only some have one
    of_classes : name of a class -> its metric
    costs : gold class and predicted class -> what this mistake costs; "none" of several labels is the absence of one
    """

    metric: str | None = None
    of_classes: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ThresholdGoals:
        """Read ``f1``, ``precision=0.95``, ``spam:recall=0.9,ham:f1``, or costs such as ``spam:ham=1,ham:spam=10``.

        Raises
        ------
        ValueError
            for anything else

        Examples
        --------
        >>> ThresholdGoals.parse("precision=0.95").metric, dict(ThresholdGoals.parse("spam:recall=0.9").of_classes)
        ('precision=0.95', {'spam': 'recall=0.9'})
        >>> dict(ThresholdGoals.parse("ham:spam=10, spam:ham=1").costs)
        {('ham', 'spam'): 10.0, ('spam', 'ham'): 1.0}
        >>> dict(ThresholdGoals.parse("good, very:precision=0.9").of_classes)
        {'good, very': 'precision=0.9'}
        """
        items = split_items(text, ":")
        if len(items) == 1 and _is_metric(items[0]):
            return cls(metric=items[0])
        of_classes, costs = dict[str, str](), dict[tuple[str, str], float]()
        for item in items:
            name, colon, goal = item.rpartition(":")
            predicted, sign, number = goal.rpartition("=")
            if not colon or not name:
                raise ValueError(item)
            if _is_metric(goal):
                of_classes[name] = goal
            elif sign and predicted:
                costs[name, predicted] = _read_cost(number)
            else:
                raise ValueError(item)
        if of_classes and costs:
            raise ValueError(text)
        return cls(None, of_classes, costs)

    def list_metrics(self, classes: Sequence[str], *, multilabel: bool) -> dict[str, str]:
        """The metric of each class that has one; of several labels F1 where none is named."""
        known = {*classes, *(["none"] if multilabel and self.costs else [])}
        for name in [*self.of_classes, *(name for pair in self.costs for name in pair)]:
            if name not in known:
                problem = f"names {name!r}, which is no class; classes are {', '.join(classes)}"
                raise ConfigError(f"{{tune_threshold}} {verbatim(problem)}", options=("tune_threshold",))
        if self.costs:
            other = dict(zip(classes, reversed(classes), strict=True))  # of two classes
            pairs = {name: "none" if multilabel else other[name] for name in classes}
            for gold, predicted in self.costs:
                if pairs.get(gold) != predicted and pairs.get(predicted) != gold:
                    example = f"{classes[0]}:{pairs[classes[0]]}"
                    problem = f"has a cost of {gold}:{predicted}, which is no mistake; write {example}, for example"
                    raise ConfigError(f"{{tune_threshold}} {verbatim(problem)}", options=("tune_threshold",))
            costs = {
                name: (self.costs.get((name, rest), 1.0), self.costs.get((rest, name), 1.0))
                for name, rest in pairs.items()
            }
            return {name: f"{COST}={missed:g}:{extra:g}" for name, (missed, extra) in costs.items()}
        default = self.metric or ("f1" if multilabel else None)
        metrics = {name: self.of_classes.get(name, default) for name in classes}
        return {name: metric for name, metric in metrics.items() if metric is not None}


def _is_metric(text: str) -> bool:
    kind, sign, value = text.partition("=")
    if not sign or kind not in SHARES:
        return text in METRICS
    try:
        return 0 < float(value) <= 1
    except ValueError:
        return False


def _read_cost(text: str) -> float:
    """A cost; a ValueError unless it is a finite number from 0."""
    cost = float(text)
    if not 0 <= cost < float("inf"):
        raise ValueError(text)
    return cost

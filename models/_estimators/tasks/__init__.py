"""Tasks: labels and targets, heads, metrics, reports and rows of output, one file for each."""

from graphattn.models._estimators.labels import LabelSet
from graphattn.models._estimators.tasks.classify import Classification, PairClassification
from graphattn.models._estimators.tasks.regress import PairRegression, Regression
from graphattn.models._estimators.tasks.tag import Tagging
from graphattn.models._estimators.tasks.task import Examples, Task
from graphattn.models._estimators.tasks.translate import Translation

__all__ = [
    "Classification",
    "Examples",
    "LabelSet",
    "PairClassification",
    "PairRegression",
    "Regression",
    "Tagging",
    "Task",
    "Translation",
]

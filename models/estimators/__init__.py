"""Estimators in scikit-learn's conventions, one constructor for each task: texts in, labels or texts out.

An estimator is inputs, an encoder and a task; see :mod:`~graphattn.models.estimators.estimator`. Layers, heads and the
training loop do not belong here.
"""

from graphattn.models.estimators.estimator import Estimator
from graphattn.models.estimators.sequence_tagger import SequenceTagger
from graphattn.models.estimators.tasks import Task
from graphattn.models.estimators.text_classifier import PairClassifier, TextClassifier
from graphattn.models.estimators.text_inputs import TextInputs, register_inputs
from graphattn.models.estimators.text_regressor import PairRegressor, TextRegressor
from graphattn.models.estimators.translator import Translator
from graphattn.models.estimators.word_inputs import WordInputs

__all__ = [
    "Estimator",
    "PairClassifier",
    "PairRegressor",
    "SequenceTagger",
    "Task",
    "TextClassifier",
    "TextInputs",
    "TextRegressor",
    "Translator",
    "WordInputs",
    "register_inputs",
]

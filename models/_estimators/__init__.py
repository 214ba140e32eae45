"""Estimators in scikit-learn's conventions, one constructor for each task: texts in, labels or texts out.

An estimator is inputs, an encoder and a task; see :mod:`~graphattn.models._estimators.estimator`. Layers, heads and the
training loop do not belong here.
"""

from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.sequence_tagger import SequenceTagger
from graphattn.models._estimators.tasks import Task
from graphattn.models._estimators.text_classifier import PairClassifier, TextClassifier
from graphattn.models._estimators.text_inputs import TextInputs, register_inputs
from graphattn.models._estimators.text_regressor import PairRegressor, TextRegressor
from graphattn.models._estimators.translator import Translator
from graphattn.models._estimators.word_inputs import WordInputs

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

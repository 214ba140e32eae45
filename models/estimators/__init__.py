"""Estimators in scikit-learn's conventions, one file for each task: texts in, labels or texts out.

They turn inputs and labels into a corpus, and decisions into labels. Layers, heads and the training loop do not belong
here.
"""

from graphattn.models.estimators.base import Estimator
from graphattn.models.estimators.labelling import LabellingEstimator
from graphattn.models.estimators.pair_classifier import PairClassifier
from graphattn.models.estimators.sequence_tagger import SequenceTagger
from graphattn.models.estimators.text_classifier import TextClassifier
from graphattn.models.estimators.text_regressor import PairRegressor, TextRegressor
from graphattn.models.estimators.translator import Translator

TextEstimator = LabellingEstimator
"""Former name."""

__all__ = [
    "Estimator",
    "LabellingEstimator",
    "PairClassifier",
    "PairRegressor",
    "SequenceTagger",
    "TextClassifier",
    "TextEstimator",
    "TextRegressor",
    "Translator",
]

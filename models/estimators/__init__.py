"""Estimators in scikit-learn's conventions: texts in, labels out. What they are made of lies in the folders beside."""

from graphattn.models.estimators.base import TextEstimator
from graphattn.models.estimators.pair_classifier import PairClassifier
from graphattn.models.estimators.sequence_tagger import SequenceTagger
from graphattn.models.estimators.text_classifier import TextClassifier

__all__ = ["PairClassifier", "SequenceTagger", "TextClassifier", "TextEstimator"]

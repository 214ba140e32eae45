"""Estimators in scikit-learn's conventions, one file for each task: texts in, labels or texts out.

Here belongs what turns inputs and labels into a corpus, and decisions into labels. Layers, heads, the training loop
and files do not: they lie in the folder above and beside.
"""

from graphattn.models.estimators.base import TextEstimator
from graphattn.models.estimators.pair_classifier import PairClassifier
from graphattn.models.estimators.sequence_tagger import SequenceTagger
from graphattn.models.estimators.text_classifier import TextClassifier
from graphattn.models.estimators.translator import Translator

__all__ = ["PairClassifier", "SequenceTagger", "TextClassifier", "TextEstimator", "Translator"]

"""Floor 2: encoders, task heads, training, estimators, saving and loading.

A new model is a new file in ``encoders``. Reading corpora and making graphs belong one floor below, commands and
experiments one floor above.
"""

from graphattn.models.encoders import (
    BiLSTMOptions,
    DuoOptions,
    EncoderOptions,
    MSTransOptions,
    MTSAOptions,
    TransformerOptions,
)
from graphattn.models.estimators import PairClassifier, SequenceTagger, TextClassifier, TextEstimator
from graphattn.models.loading import load
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions

__all__ = [
    "BiLSTMOptions",
    "DuoOptions",
    "EncoderOptions",
    "HeadOptions",
    "InputOptions",
    "MSTransOptions",
    "MTSAOptions",
    "PairClassifier",
    "SequenceTagger",
    "TextClassifier",
    "TextEstimator",
    "TrainingOptions",
    "TransformerOptions",
    "load",
]

"""Floor 2: encoders, task heads, training, estimators, saving and loading.

A new model is a new file in ``encoders``. Reading corpora and making graphs belong one floor below, commands and
experiments one floor above.
"""

from graphattn.models._corpus import Corpus
from graphattn.models._decoders.options import DecoderOptions, SearchOptions, SubwordOptions, TranslationTraining
from graphattn.models._encoders import (
    BiLSTMOptions,
    DuoOptions,
    DuoTransformerOptions,
    Encoder,
    EncoderOptions,
    MSTransOptions,
    MTSAOptions,
    MultiStageOptions,
    MUSEOptions,
    TNTOptions,
    TransformerOptions,
    UMSTOptions,
    make_encoder,
    register_encoder,
)
from graphattn.models._estimators.comparing import compare
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.label_set import LabelSet
from graphattn.models._estimators.loading import TASKS, load, register_task
from graphattn.models._estimators.replay import add_old_examples
from graphattn.models._estimators.sequence_tagger import SequenceTagger
from graphattn.models._estimators.tasks.classify import (
    Classification,
    ClassPredictor,
    MultiLabelPredictor,
    MultiLabels,
    TextLabels,
)
from graphattn.models._estimators.tasks.head import Predictor
from graphattn.models._estimators.tasks.labels import Labels
from graphattn.models._estimators.tasks.regress import NumberLabels, NumberPredictor, Regression
from graphattn.models._estimators.tasks.tag import Tagging, TagLabels, TagPredictor
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_classifier import PairClassifier, TextClassifier
from graphattn.models._estimators.text_inputs import TextInputs, register_inputs
from graphattn.models._estimators.text_regressor import PairRegressor, TextRegressor
from graphattn.models._estimators.translator import Translator
from graphattn.models._estimators.word_inputs import WordInputs
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._results.class_probabilities import ClassProbabilities
from graphattn.models._results.coverage import Coverage, Decided
from graphattn.models._results.entities import EntitySpan, TaggedText
from graphattn.models._results.reports import Outcomes, Report
from graphattn.models._results.significance import Comparison
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import ParsingOptions

__all__ = [
    "TASKS",
    "BiLSTMOptions",
    "ClassPredictor",
    "ClassProbabilities",
    "Classification",
    "Comparison",
    "Corpus",
    "Coverage",
    "Decided",
    "DecoderOptions",
    "DuoOptions",
    "DuoTransformerOptions",
    "Encoder",
    "EncoderOptions",
    "EntitySpan",
    "Estimator",
    "HeadOptions",
    "InputOptions",
    "LabelSet",
    "Labels",
    "MSTransOptions",
    "MTSAOptions",
    "MUSEOptions",
    "MultiLabelPredictor",
    "MultiLabels",
    "MultiStageOptions",
    "NumberLabels",
    "NumberPredictor",
    "Outcomes",
    "PairClassifier",
    "PairRegressor",
    "ParsingOptions",
    "Predictor",
    "PretrainedOptions",
    "Regression",
    "Report",
    "SearchOptions",
    "SequenceTagger",
    "SubwordOptions",
    "TNTOptions",
    "TagLabels",
    "TagPredictor",
    "TaggedText",
    "Tagging",
    "Task",
    "TextClassifier",
    "TextInputs",
    "TextLabels",
    "TextRegressor",
    "TrainingOptions",
    "TransformerOptions",
    "TranslationTraining",
    "Translator",
    "UMSTOptions",
    "WordInputs",
    "add_old_examples",
    "compare",
    "load",
    "make_encoder",
    "register_encoder",
    "register_inputs",
    "register_task",
]

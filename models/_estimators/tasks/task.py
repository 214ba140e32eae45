"""What a task defines: labels and targets, the head, metrics, reports, and rows of output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from graphattn.builders import Example, Sentence
from graphattn.exceptions import ConfigError, DataError, Hint, warn_caller
from graphattn.models._corpus import Corpus
from graphattn.models._encoders import EncoderOptions, NoEncoderOptions
from graphattn.models._estimators.named_columns import KnownColumns
from graphattn.models._estimators.pretrained_inputs import PretrainedInputs
from graphattn.models._estimators.tasks.explain import Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles, read_labelled
from graphattn.models._estimators.tasks.recipes import PAPER, Recipe, expand_recipe
from graphattn.models._estimators.tasks.rows import Rows
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._options import INPUTS
from graphattn.models._prediction import Predictions, predict_corpus, predict_decisions
from graphattn.models._results.reports import Report
from graphattn.models._text_model import TextModel, Trainable
from graphattn.models.heads import Head
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.heads._ngrams import NgramBranch
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._options import FINE_TUNING
from graphattn.models.training._decisions import ScoredTexts
from graphattn.models.training._hints import hint_at_empty_inputs

if TYPE_CHECKING:
    from graphattn.builders.store import Store


class Task:
    """What an :class:`~graphattn.models.Estimator` predicts: labels and targets, the head, metrics, reports, rows.

    A task is made anew for each fit, with the estimator's arguments as its attributes: ``class_weight``, and those of
    its own. It has no life cycle: :meth:`fit` learns from the labels, and :meth:`restore` reads a saved model.

    Attributes
    ----------
    name : the name in ``graphattn train NAME`` and in a saved model
    description : a predicate for ``graphattn info``, such as "classifies texts"
    corpus_kind : kind of corpus for the readers: ``classify`` (texts with labels), ``pair``, ``tag`` or ``translate``
    texts_per_input : 2 for pairs
    label_field : attribute of an ``Example`` or ``Sentence`` with its label
    per_word : whether each word has a label
    prediction_options : flags of ``graphattn predict`` and ``evaluate`` that only some tasks have
    output_formats : of ``graphattn predict --output``
    source_and_target_files : whether a corpus is a file of sources and a file of targets
    weighted_metrics : whether examples can have weights in metrics
    dev_search : the search that generates outputs for dev metrics, if ``predict`` uses another
    score_metric : the metric of ``score``; the main one when None
    presets : name -> group of options -> defaults that differ
    default_encoder : the encoder if none was set, without a pretrained model
    fine_tuning : group of options -> defaults that differ with a pretrained model, and then replace those of the preset
    estimator_type : scikit-learn's name of such estimators
    changeable : attributes of the estimator that may change after training, and which the task then reads again
    linear_branch : the class of the linear branch that is added after training, if the options ask for one; or None
    truncates : whether long texts may be truncated
    has_characters : whether words have character features by default
    calibrates : whether :meth:`fit_decisions` needs the scores of a dev set
    can_be_frozen : whether the head can be fitted alone, on the vectors of a pretrained model
    has_contrastive : whether texts have classes, so that the vectors of a class can be moved together
    """

    name: ClassVar[str]
    description: ClassVar[str]
    corpus_kind: ClassVar[str]
    texts_per_input: ClassVar[int] = 1
    label_field: ClassVar[str] = "label"
    per_word: ClassVar[bool] = False
    prediction_options: ClassVar[frozenset[str]] = frozenset({"probabilities", "picture", "mistakes"})
    output_formats: ClassVar[tuple[str, ...]] = ("json", "csv", "tsv", "parquet")
    source_and_target_files: ClassVar[bool] = False
    weighted_metrics: ClassVar[bool] = True
    dev_search: ClassVar[str | None] = None
    score_metric: ClassVar[str | None] = None
    presets: ClassVar[Mapping[str, Recipe]] = {"default": {}, "paper": PAPER}
    default_encoder: ClassVar[str] = "ms-trans"
    fine_tuning: ClassVar[Recipe] = FINE_TUNING
    estimator_type: ClassVar[str | None] = None
    changeable: ClassVar[tuple[str, ...]] = ("corpus_",)
    linear_branch: ClassVar[type[LinearBranch] | None] = NgramBranch
    truncates: ClassVar[bool] = True
    has_characters: ClassVar[bool] = False
    class_weight: Any = None
    corpus_: Mapping[str, Any] = {}
    calibrates: ClassVar[bool] = False
    can_be_frozen: ClassVar[bool] = False
    has_contrastive: ClassVar[bool] = False

    def __init__(self, **arguments: Any):
        vars(self).update(arguments)

    @property
    def class_names(self) -> list[Any]:
        """The classes in the order of their ids; empty for a task without classes."""
        return []

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of further columns of words that inputs have."""
        return ()

    @property
    def known_columns(self) -> KnownColumns:
        """What is known of the columns of tables and dictionaries."""
        return KnownColumns.of(self)

    @property
    def rescale(self) -> tuple[float, float]:
        """Mean and unit of predictions, whose model learns standardized ones."""
        return 0.0, 1.0

    # -- options -------------------------------------------------------------------------------------------------------

    @classmethod
    def default_options(cls, encoder: type[EncoderOptions]) -> Recipe:
        """Group -> option -> default, where it differs from that of the class of options."""
        return {}

    @classmethod
    def preset_options(cls, preset: str, encoder: type[EncoderOptions]) -> Recipe:
        """Group -> option -> default of a preset."""
        return expand_recipe(cls.presets.get(preset, {}), encoder.name)

    @classmethod
    def derive_options(cls, options: Mapping[str, Any]) -> Recipe:
        """Group -> option -> value of options that are None because they depend on others."""
        return {"inputs": {"characters": cls.has_characters}}

    @classmethod
    def limit_options(cls, options: Mapping[str, Any]) -> Recipe:
        """Group -> option -> value of options that others turn off."""
        return {}

    @classmethod
    def joins_pairs(cls, options: Mapping[str, Any]) -> bool:
        """Whether the model reads the two texts of a pair as one sequence."""
        pretrained = options["pretrained"]
        return cls.texts_per_input == 2 and bool(pretrained.pretrained and pretrained.join_pairs)

    @classmethod
    def check_options(cls, encoder: EncoderOptions, options: Mapping[str, Any]) -> None:
        """Check the rules between groups of options before training."""
        pretrained, head = options["pretrained"], options["head"]
        is_alone = encoder.name == NoEncoderOptions.name
        for name, fits in (("contrastive", cls.has_contrastive), ("frozen", cls.can_be_frozen)):
            if getattr(pretrained, name) and not fits:
                problem = f"a model that {cls.description} has no {{{name}}}"
                raise ConfigError(f"{problem}; leave it out", options=(name,))
        if pretrained.contrastive and pretrained.tuned_layers == 0 and is_alone:
            problem = "{contrastive} does not fit {tuned_layers=0}, which leaves nothing to train"
            raise ConfigError(f"{problem}; leave one of them out", options=("contrastive", "tuned_layers"))
        if not pretrained.frozen:
            return
        for name, is_needed, fix in (
            ("pretrained", bool(pretrained.pretrained), "give the directory or name of a pretrained model"),
            ("encoder", is_alone, "nothing trains other layers; leave it out"),
            ("head_hidden", not head.head_hidden, "only a linear layer is fitted; leave it out"),
            ("pooling", head.pooling != "source2token", "nothing trains its weights; choose another"),
        ):
            if not is_needed:
                raise ConfigError(f"{{frozen}} does not fit {{{name}}}: {fix}", options=("frozen", name))

    def find_facts(self, training: Texts, held_out: Texts | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """What :class:`~graphattn.models.defaults.Facts` has about the training set and the dev set of this task."""
        return {}

    # -- files ---------------------------------------------------------------------------------------------------------

    def read(self, corpus: CorpusFiles) -> tuple[Any, Any, Mapping[str, Any]]:
        """Inputs, their labels (None if the inputs have them), and how the training corpus was read."""
        items, training = read_labelled(self, corpus)
        return items, None, training

    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        """How the training corpus was read, and its labels, to read texts to predict in the same way."""
        return {"training": training, "labels": frozenset(map(str, self.class_names))}

    def check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        """Reject a label in a line of a file."""

    def check_stored(self, store: Store, path: Path) -> None:
        """Reject a store without labels."""
        self.check_read(store.texts().column(self.label_field), path)

    def check_read(self, labels: Sequence[Any], path: Path) -> None:
        """Reject a corpus with unlabelled texts."""
        missing = next((number for number, label in enumerate(labels, 1) if label is None), None)
        if missing is not None:
            hint = "Label every text, or delete those without labels."
            raise DataError(f"text {missing} has no {self.label_field}", path=path, hint=hint)

    def check_file(self, labels: Sequence[Any], path: Path) -> None:
        """Reject a file whose labels the task cannot use."""
        self.check_read(labels, path)

    # -- inputs and labels ---------------------------------------------------------------------------------------------

    @abstractmethod
    def resolve_labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        """One label per input; the inputs' own when ``y`` is None."""

    def normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        """Convert labels of a dev or evaluation set to the training set's notation."""
        return labels

    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Any = None) -> None:
        """Learn from the labels of the training set (classes, scale, scheme); reject examples that cannot be used.

        ``previous`` is the task of the model to continue from, if any.
        """

    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        """(S,) class ids for a stratified split; None for a random one."""
        return None

    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        """The weight of each class in the loss; ``weights`` are those of the examples."""
        return None

    @abstractmethod
    def make_targets(self, labels: Sequence[Any], where: str) -> Any:
        """Labels as targets of a :class:`~graphattn.models._corpus.Corpus`."""

    def check_labels(self, texts: Texts, inputs: TextInputs, *, unknown: str | None) -> None:
        """Reject labels that cannot be evaluated."""

    def describe_references(self, held_out: Texts | None) -> str | None:
        """A digest of the labels of a dev set, if its corpus does not contain them."""
        return None

    # -- the model -----------------------------------------------------------------------------------------------------

    def make_inputs(self, options: Mapping[str, Any]) -> TextInputs:
        """Inputs for :meth:`make_model`, not yet fitted."""
        if options["pretrained"].pretrained:
            return PretrainedInputs(options["inputs"], options["pretrained"])
        inputs: TextInputs = INPUTS[options["inputs"].level](options["inputs"])
        return inputs

    def fit_inputs(self, inputs: TextInputs, examples: Texts, options: Mapping[str, Any], previous: Any) -> Texts:
        """Learn the vocabulary of the training set, or the new words if there is an estimator to continue from.

        Returns
        -------
        The examples, with words in place of raw texts
        """
        if hint := hint_at_empty_inputs(examples.columns):
            warn_caller(hint)
        if previous is None:
            return inputs.fit(examples, options["training"].seed)
        return inputs.extend(previous.text_inputs_, previous.model_, examples)

    @abstractmethod
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        """Create the head; ``weights`` are those of the classes in the loss."""

    def make_model(
        self, inputs: TextInputs, encoder: EncoderOptions, options: Mapping[str, Any], weights: Tensor | None = None
    ) -> tuple[Trainable, EncoderOptions]:
        """Create the model, with the builder of the inputs; return also the encoder's options for their width."""
        layers = inputs.make_layers(encoder, options["head"].head_dropout)
        model = TextModel(layers.embedding, layers.encoder, self.make_head(layers.encoder.width, options, weights))
        model.learning_rates = layers.learning_rates
        return model, layers.options

    def fit_decisions(
        self,
        model: Any,
        corpus: Corpus,
        dev: ScoredTexts | None,
        *,
        cross_validate: Callable[[], ScoredTexts] | None,
        log: Callable[[str], None],
    ) -> list[Any] | None:
        """Fit what turns scores into probabilities and labels, on a dev set or by cross-validation.

        Parameters
        ----------
        model, corpus : the trained model, and the training set
        dev : scores of the dev set, if there is one
        cross_validate : trains models on folds of the training set, and returns its scores; None if ``dev`` has these
        log : prints a line

        Returns
        -------
        New decisions for the dev set; None if they are the same, or there is none
        """
        return None

    def match_classes(self, previous: Task) -> list[int]:
        """The new id of each class of the task to continue from."""
        return []

    # -- metrics and predictions ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The metric of ``score``, which chooses the best epoch unless ``training.metric`` names another."""

    @abstractmethod
    def list_metrics(self) -> Sequence[str]:
        """The names of the metrics that can choose the best epoch, whose largest value is the best."""

    @abstractmethod
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Metrics, those of :meth:`list_metrics` in percent.

        ``weights`` are those of the examples, unless ``weighted_metrics`` is False.
        """

    def predict_dev_set(self, model: Any, corpus: Corpus) -> list[Any]:
        """Predict the dev set during training; :meth:`measure` takes the results."""
        return predict_decisions(model, corpus)

    def predict(self, model: Any, corpus: Corpus) -> list[Any]:
        """Predict a corpus; :meth:`measure` and :meth:`decode` take the results."""
        return predict_corpus(model, corpus).decisions

    def predict_for_report(self, model: Any, corpus: Corpus) -> Predictions:
        """Predict a corpus for :meth:`report`."""
        return Predictions(self.predict(model, corpus))

    @abstractmethod
    def decode(self, decisions: list[Any]) -> Any:
        """Convert decisions to the labels of ``predict``."""

    def hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any], *, has_vectors: bool) -> Hint | None:
        """A hint if the decisions for the dev set are all alike or empty."""
        return None

    @abstractmethod
    def report(
        self,
        examples: Texts,
        predictions: Predictions,
        *,
        inputs: TextInputs,
        rerun: Callable[..., Predictions],
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        """Metrics, outcomes and mistakes of predictions; ``rerun`` predicts texts again."""

    # -- rows and explanations -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """Formats predictions as rows of output."""

    @abstractmethod
    def explain(self, model: Any) -> Explainer:
        """What inspection asks of the fitted model."""

    # -- saving --------------------------------------------------------------------------------------------------------

    @classmethod
    def config_types(cls) -> dict[str, Any]:
        """Name -> JSON type of the values of :meth:`to_config`, and of those of the inputs."""
        weights = str | list[list[Any]] | None
        inputs = {"widths": list[int] | None, "architecture": Architecture | None}
        return {**TextInputs.config_types(), **inputs, "class_weight": weights}

    def to_config(self) -> dict[str, Any]:
        """Values for ``config.json`` besides the options."""
        return {}

    def list_tokenizers(self, inputs: TextInputs) -> tuple[str, str | None]:
        """The texts of ``tokenizer.json`` and, for a translator with a second one, of ``source_tokenizer.json``."""
        return inputs.vocabulary.to_json(), None

    def restore(self, inputs: TextInputs, files: ModelFiles) -> None:
        """Restore the inputs, and what :meth:`fit` learnt."""
        inputs.restore(files.config, files.tokenizer, files.weights)

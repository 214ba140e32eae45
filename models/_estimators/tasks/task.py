"""A task: its labels, head, rows and explanations, and what is known of its options, files and inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from graphattn.builders.readers._cells import CellColumn
from graphattn.exceptions import ConfigError, Hint, verbatim, warn_caller
from graphattn.models._encoders import EncoderOptions, NoEncoderOptions
from graphattn.models._estimators.named_columns import KnownColumns
from graphattn.models._estimators.pretrained_inputs import PretrainedInputs
from graphattn.models._estimators.tasks.explain import Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles, read_labelled
from graphattn.models._estimators.tasks.head import Predictor, joins_pairs
from graphattn.models._estimators.tasks.labels import Labels
from graphattn.models._estimators.tasks.recipes import BESIDE_LINEAR_MODEL, PAPER, Recipe, expand_recipe
from graphattn.models._estimators.tasks.rows import Rows
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._features.text_columns import TextColumns
from graphattn.models._files.saving import ModelFiles
from graphattn.models._options import EPOCHS_WITH_VECTORS, INPUTS
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.heads._ngrams import NgramBranch
from graphattn.models.pretrained._directories import ARCHITECTURE_TYPES
from graphattn.models.pretrained._options import FINE_TUNING
from graphattn.models.training._hints import hint_at_empty_inputs


class Task:
    """What an :class:`~graphattn.models.Estimator` predicts: its labels, head, rows and explanations.

    A task is made anew for each fit, with the estimator's arguments; those that no part of it takes are its attributes.
    :meth:`fit` learns from the labels, and :meth:`restore` reads a saved model.

    Attributes
    ----------
    labels : labels to targets, decisions to labels, metrics and reports
    head : makes the model; scores to decisions and probabilities
    rows : formats predictions as rows of output
    name : the name in ``graphattn train NAME`` and in a saved model
    description : a predicate for ``graphattn info``, such as "classifies texts"
    corpus_kind : kind of corpus for the readers: ``classify`` (texts with labels), ``pair``, ``tag`` or ``translate``
    texts_per_input : 2 for pairs
    per_word : whether each word has a label
    prediction_options : flags of ``graphattn predict`` and ``evaluate`` that only some tasks have
    output_formats : of ``graphattn predict --output``
    source_and_target_files : whether a corpus is a file of sources and a file of targets
    dev_search : the search that generates outputs for dev metrics, if ``predict`` uses another
    presets : name -> group of options -> defaults that differ
    default_encoder : the encoder if none was set, without a pretrained model
    fine_tuning : group of options -> defaults that differ with a pretrained model, and then replace those of the preset
    estimator_type : scikit-learn's name of such estimators
    changeable : attributes of the estimator that may change after training, and which the task then reads again
    linear_branch : the class of the linear branch that is added after training, if the options ask for one; or None
    truncates : whether long texts may be truncated
    has_characters : whether words have character features by default
    can_be_frozen : whether the head can be fitted alone, on the vectors of a pretrained model
    has_contrastive : whether texts have classes, so that the vectors of a class can be moved together
    epochs_with_vectors : arguments of ``resolve_epochs`` beside a linear model, for an encoder that reads word vectors
    cell_columns : columns beside the texts that the model reads
    """

    name: ClassVar[str]
    description: ClassVar[str]
    corpus_kind: ClassVar[str]
    texts_per_input: ClassVar[int] = 1
    per_word: ClassVar[bool] = False
    prediction_options: ClassVar[frozenset[str]] = frozenset(
        {"probabilities", "picture", "mistakes", "compare", "disagreements", "by"}
    )
    output_formats: ClassVar[tuple[str, ...]] = ("json", "csv", "tsv", "parquet")
    source_and_target_files: ClassVar[bool] = False
    dev_search: ClassVar[str | None] = None
    presets: ClassVar[Mapping[str, Recipe]] = {"default": {}, "paper": PAPER}
    default_encoder: ClassVar[str] = "ms-trans"
    fine_tuning: ClassVar[Recipe] = FINE_TUNING
    estimator_type: ClassVar[str | None] = None
    changeable: ClassVar[tuple[str, ...]] = ("corpus_",)
    linear_branch: ClassVar[type[LinearBranch] | None] = NgramBranch
    truncates: ClassVar[bool] = True
    has_characters: ClassVar[bool] = False
    can_be_frozen: ClassVar[bool] = False
    has_contrastive: ClassVar[bool] = False
    epochs_with_vectors: ClassVar[Mapping[str, int]] = EPOCHS_WITH_VECTORS
    corpus_: Mapping[str, Any] = {}
    cell_columns: Sequence[CellColumn] = ()
    labels: Labels
    head: Predictor

    def __init__(self, **arguments: Any):
        vars(self).update(arguments)

    def update(self, arguments: Mapping[str, Any]) -> None:
        """Take the current values of what may change after training."""
        self.corpus_ = arguments["corpus_"]

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """Formats predictions as rows of output."""

    @abstractmethod
    def explain(self, model: Any) -> Explainer:
        """What inspection asks of the fitted model."""

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of further columns of words that inputs have."""
        return ()

    @property
    def known_columns(self) -> KnownColumns:
        """What is known of the columns of tables and dictionaries."""
        return KnownColumns.of(self)

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
    def beside_linear_model(cls, encoder: type[EncoderOptions]) -> Recipe:
        """Group -> option -> default of a graph encoder that is trained beside a linear model."""
        return expand_recipe(BESIDE_LINEAR_MODEL, encoder.name)

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
        return cls.texts_per_input == 2 and joins_pairs(options)

    @classmethod
    def check_options(cls, encoder: EncoderOptions, options: Mapping[str, Any]) -> None:
        """Check the rules between groups of options before training."""
        pretrained = options["pretrained"]
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
        head = options["head"]
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
        items, training = read_labelled(self.labels, self.corpus_kind, corpus)
        return items, None, training

    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        """How the training corpus was read, and its labels, to read texts to predict in the same way."""
        return {"training": training, "labels": frozenset(map(str, self.labels.classes))}

    # -- in training ---------------------------------------------------------------------------------------------------

    def make_inputs(self, options: Mapping[str, Any]) -> TextInputs:
        """Inputs of the model, not yet fitted."""
        if options["pretrained"].pretrained:
            return PretrainedInputs(options["inputs"], options["pretrained"])
        inputs: TextInputs = INPUTS[options["inputs"].level](options["inputs"])
        return inputs

    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Task | None = None) -> None:
        """Learn from the labels of the training set; ``previous`` is the task of the model to continue from, if any."""
        labels, head = (None, None) if previous is None else (previous.labels, previous.head)
        self.labels.fit(examples, options, labels)
        self.head.fit(examples.labels, head)
        for hint in filter(None, self.labels.list_hints(examples.labels, labels)):
            warn_caller(hint)

    def fit_inputs(self, inputs: TextInputs, examples: Texts, options: Mapping[str, Any], previous: Any) -> Texts:
        """Learn the vocabulary of the training set, or the new words if there is an estimator to continue from.

        Returns
        -------
        The examples, with words in place of raw texts
        """
        if hint := hint_at_empty_inputs(examples.columns):
            warn_caller(hint)
        inputs.text_columns = self._fit_columns(examples, options, previous)
        if previous is None:
            return inputs.fit(examples, options["training"].seed)
        return inputs.extend(previous.text_inputs_, previous.model_, examples)

    def _fit_columns(self, examples: Texts, options: Mapping[str, Any], previous: Any) -> TextColumns | None:
        """Learn the columns beside the texts, or keep those of the model to continue from; None if there are none."""
        if previous is not None:
            known: TextColumns | None = previous.text_inputs_.text_columns
            if {column.name for column in self.cell_columns} != {*([] if known is None else known.names)}:
                raise ConfigError(
                    "the model to continue from has other {feature_columns}; leave them out, or train from scratch",
                    options=("feature_columns",),
                )
            return known
        if examples.cells is None:
            return None
        one_hot = bool(options["pretrained"].frozen)
        columns = TextColumns.fit(self.cell_columns, examples.cells, examples.weights, one_hot=one_hot)
        for doubt in columns.list_doubts(examples.cells):
            fix = "leave it out of {feature_columns}"
            warn_caller(Hint(f"{verbatim(doubt)}; {fix}", options=("feature_columns",)))
        return columns

    # -- saving --------------------------------------------------------------------------------------------------------

    @classmethod
    def config_types(cls) -> dict[str, Any]:
        """Name -> JSON type of the values of :meth:`to_config`, and of those of the inputs."""
        weights = str | list[list[Any]] | None
        inputs = {"widths": list[int] | None, **ARCHITECTURE_TYPES}
        return {**TextInputs.config_types(), **inputs, "class_weight": weights, "feature_columns": list[str] | None}

    def to_config(self) -> dict[str, Any]:
        """Values for ``config.json`` besides the options."""
        return {**self.labels.to_config(), **self.head.to_config()}

    def list_tokenizers(self, inputs: TextInputs) -> tuple[str, str | None]:
        """The texts of ``tokenizer.json`` and, for a translator with a second one, of ``source_tokenizer.json``."""
        return inputs.vocabulary.to_json(), None

    def restore(self, inputs: TextInputs, files: ModelFiles) -> None:
        """Restore the inputs, and what :meth:`fit` learnt."""
        inputs.restore(files.config, files.tokenizer, files.weights)
        self.labels.restore(files)
        self.head.restore(files)

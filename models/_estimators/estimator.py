"""The estimator: inputs, encoder and task, and how they are trained, used and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from graphattn.builders import TextGraphBuilder, Vocabulary
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._corpus import Corpus
from graphattn.models._encoders import EncoderOptions, encoder_options
from graphattn.models._estimators.class_weights import deserialize_class_weight, serialize_class_weight
from graphattn.models._estimators.inputs import as_list, check_weights, map_parts
from graphattn.models._estimators.inspectable import Inspectable
from graphattn.models._estimators.sklearn_protocol import ScikitLearn, make_not_fitted_error
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.tasks.recipes import Recipe
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.warm_start import list_decided_options
from graphattn.models._files.dense_model import DenseModel, make_dense_model
from graphattn.models._files.hub import push
from graphattn.models._files.model_card import OF_THIS_MACHINE, add_results, format_card, set_decisions
from graphattn.models._files.onnx import write_onnx
from graphattn.models._files.saving import METRICS, ModelFiles, write_model
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._prediction import Predictions, encode_corpus, predict_corpus
from graphattn.models._results.reports import Report
from graphattn.models._text_model import TextModel
from graphattn.models.defaults import Facts, Resolved, choose_encoder, resolve
from graphattn.models.heads._word_features import WordFeatureBranch
from graphattn.models.pretrained._native_head import export_estimator
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.pretrained._stack import find_pretrained
from graphattn.options import Options, Parameters, ParsingOptions, option

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    from graphattn.models.inspection import Attention

_FITTING = RLock()
"""Held by the thread that fits; its callbacks may fit other estimators."""


@dataclass
class FileOptions(Options):
    """Corpora besides the training set."""

    init_from: str | None = option(
        None, "trained model to continue from, with its options; labels and words may be new", common=True
    )
    dev: str | None = option(
        None, "dev set that chooses the best epoch (default: a tenth of the training set)", common=True
    )
    test: Sequence[str] | None = option(None, "test set, evaluated once at the end; may be repeated", common=True)


def preset_option(presets: Mapping[str, Recipe]) -> Any:
    """The option that chooses one of a task's presets."""
    help = "defaults for a good model, the settings of the papers, or those of a kind of corpus"
    return option("default", help, choices=presets, common=True)


@dataclass
class PresetOptions(Options):
    """Arguments of estimators besides their groups of options."""

    preset: str = preset_option(Task.presets)


def list_arguments(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, given its local variables before there are others."""
    return {name: value for name, value in variables.items() if name not in ("self", "__class__")}


class Estimator(Inspectable, ScikitLearn, Parameters):
    """Inputs, encoder and task, trained together: texts in, labels or texts out, in scikit-learn's conventions.

    A subclass is a constructor: it names its task, and has one argument for each group of options. Threads may fit and
    use several estimators: one fits at a time, since PyTorch has one random generator.

    Attributes
    ----------
    task : labels, head, metrics and rows of output
    option_groups : name -> class of options, in the order of the flags. Each group is one argument of the constructor,
        with two exceptions: each field of ``task`` is an argument, and ``files`` (dev and test sets) is none
    unused_options : options of the groups that have no effect on this task
    late_options : groups that may still change after training
    task_ : the task with what it learnt of the labels
    resolved_ : group -> its options with all values; ``resolved_.why("epochs")`` says what decided one
    facts_ : what was known of the training set when the options were resolved
    text_inputs_ : vocabulary and features of words
    corpus_ : how the training corpus was read: format and options; empty if :meth:`read` has not read it
    mixture_ : shares of graph encoder and linear branch, and the dev metrics of the whole model; or, with few labels,
        the percentage of held-out texts that each way of training predicted right
    num_examples_ : sizes of the ``training`` and ``dev`` set; empty in a loaded model
    card_ : the model card of a loaded model, which :meth:`save` writes again; empty after :meth:`fit`
    """

    task: ClassVar[type[Task]]
    option_groups: ClassVar[Mapping[str, type[Options]]] = {
        "files": FileOptions,
        "task": Options,
        "inputs": InputOptions,
        "encoder": EncoderOptions,
        "head": HeadOptions,
        "training": TrainingOptions,
        "parsing": ParsingOptions,
        "pretrained": PretrainedOptions,
    }
    unused_options: ClassVar[frozenset[str]] = frozenset()
    late_options: ClassVar[frozenset[str]] = frozenset({"parsing"})
    encoder: str | EncoderOptions | None
    preset: str = "default"
    inputs: Any
    head: HeadOptions
    training: TrainingOptions
    parsing: ParsingOptions
    pretrained: PretrainedOptions
    warm_start: bool = False
    resolved_: Resolved
    facts_: Facts
    encoder_: EncoderOptions
    inputs_: Any
    head_: HeadOptions
    training_: TrainingOptions
    pretrained_: PretrainedOptions
    text_inputs_: TextInputs
    model_: Any
    history_: list[dict[str, float]]
    mixture_: dict[str, float]
    corpus_: Mapping[str, Any] = {}
    num_examples_: Mapping[str, int] = {}
    card_: str = ""
    _notes: Mapping[str, str] = {}
    """Further text files of a loaded model, such as ``train.yaml``, which :meth:`save` writes again."""
    _dev_results: tuple[Sequence[Any], list[Any]] | None = None
    """Labels and decisions for the dev set."""

    def __init__(self, encoder: str | EncoderOptions | None = None, **arguments: Any):
        self.encoder = encoder
        vars(self).update(arguments)
        for name, kind in self._groups().items():
            value = arguments.get(name)
            setattr(self, name, kind() if value is None else value)
        pretrained = arguments.get("pretrained")
        self.pretrained = pretrained if isinstance(pretrained, PretrainedOptions) else PretrainedOptions(pretrained)

    # -- options -------------------------------------------------------------------------------------------------------

    @classmethod
    def _groups(cls) -> dict[str, type[Options]]:
        """The groups of options that are constructor arguments, without the encoder's."""
        return {name: kind for name, kind in cls.option_groups.items() if name not in ("files", "task", "encoder")}

    def resolve_options(self, facts: Facts | None = None, *, derive: bool = True) -> Resolved:
        """Group -> its options with all values; ``resolve_options().why("epochs")`` says what decided one.

        Parameters
        ----------
        facts : what is known of the training set; some options depend on it
        derive : whether to decide what depends on other options, too
        """
        for name, kind in self._groups().items():
            if not isinstance(getattr(self, name), kind):
                actual = type(getattr(self, name)).__name__
                raise ConfigError(f"{name} of {type(self).__name__} is {actual}; give {kind.__name__}")
        groups = {"encoder": self._select_encoder(), **{name: getattr(self, name) for name in self._groups()}}
        defaults = {item.name: item.default for item in fields(self.option_groups["task"])}
        set_arguments = {name: value for name, value in self._task_arguments().items() if value != defaults[name]}
        return resolve(self.task, {"task": self.option_groups["task"](**set_arguments), **groups}, facts, derive=derive)

    def validate(self) -> None:
        """Check all options.

        Raises
        ------
        ConfigError
            naming the option and a fix
        """
        self.resolve_options().check()

    def _select_encoder(self) -> EncoderOptions:
        """The encoder's options as they were set."""
        default = choose_encoder(self.task, self.pretrained.pretrained)
        return encoder_options(default if self.encoder is None else self.encoder)

    def _task_arguments(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self.option_groups["task"])}

    def prepare(self, facts: Facts | None = None, saved: Mapping[str, Options] = {}) -> None:
        """Resolve and check all options; make the task and its inputs.

        Parameters
        ----------
        facts : what is known before the training set is read
        saved : group -> options of a saved model
        """
        resolved = self.resolve_options(facts).restore(saved)
        resolved.check()
        self._adopt(resolved, facts)
        self.mixture_, self.num_examples_, self.card_, self._dev_results = {}, {}, "", None
        self._notes = {}
        self._fitted_task = self._make_task()
        self.text_inputs_ = self.task_.make_inputs(self.options_)
        self.text_inputs_.texts_per_input, self.text_inputs_.truncates = self.task.texts_per_input, self.task.truncates
        self.text_inputs_.per_word = self.task.per_word

    def decide_options(self, **facts: Any) -> None:
        """Resolve the options that depend on the training set; ``facts`` are fields of ``Facts``."""
        known = replace(self.facts_, **facts)
        self._adopt(self.resolve_options(known).reuse(self.resolved_), known)

    def _adopt(self, resolved: Resolved, facts: Facts | None) -> None:
        self.resolved_, self.facts_ = resolved, Facts() if facts is None else facts
        fitted = {name: options for name, options in resolved.items() if name not in ("task", *self.late_options)}
        vars(self).update({f"{name}_": options for name, options in fitted.items()})

    def _make_task(self) -> Task:
        arguments = self._task_arguments()
        arguments.pop("preset", None)
        return self.task(**arguments)

    @property
    @override
    def task_(self) -> Task:
        """The fitted task, with the current values of what may change after training; before ``fit`` a new one."""
        task: Task = vars(self).get("_fitted_task") or self._make_task()
        for name in task.changeable:
            setattr(task, name, getattr(self, name))
        return task

    @property
    def options_(self) -> dict[str, Any]:
        """Group -> options of the fitted model, without the encoder's and those that may change."""
        return {name: self.resolved_[name] for name in self._groups() if name not in self.late_options}

    def changed_options(self) -> dict[str, Any]:
        """Name -> value of the options of a fitted estimator that differ from the defaults; see ``resolved_``."""
        self._check_fitted()
        return self.resolved_.list_changes(self.unused_options)

    @override
    def set_params(self, **params: Any) -> Self:
        """Change parameters; the name of a pretrained model leaves the other options in ``pretrained`` as they are."""
        if "pretrained" in params and not isinstance(params["pretrained"], Options):
            params["pretrained__pretrained"] = params.pop("pretrained")
        return super().set_params(**params)

    @override
    def _get_nested(self, name: str) -> Any:
        if name == "encoder":
            self.encoder = self._select_encoder()
        return super()._get_nested(name)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        """Read corpora for :meth:`fit` or :meth:`evaluate`.

        Parameters
        ----------
        paths : files or a store. A translator reads a file or a store of sources and a file of targets, also as one
            text with a comma between them; or one table of both, in which a line without a header has a source and its
            target with a tab or ``|||`` between them
        format, options : as for :func:`~graphattn.builders.readers.read_corpus`, ``skip`` included. Of a translator
            ``text`` and ``second``, the columns of sources and targets in a table, ``header`` and ``skip``

        Returns
        -------
        Inputs, and their labels; None if the inputs contain them
        """
        split = getattr(self, "inputs_", self.inputs).split
        corpus = CorpusFiles(paths, format, options, training=self.corpus_, renew=self.warm_start, split=split)
        X, y, self.corpus_ = self.task_.read(corpus)
        return X, y

    def get_reading_defaults(self) -> dict[str, Any]:
        """Options with which the training corpus was read, to read texts to predict in the same way."""
        return self.task_.describe_reading(self.corpus_)

    @classmethod
    def name_corpora(cls, paths: Sequence[str | Path]) -> dict[str, Sequence[str | Path]]:
        """Name -> paths of each corpus to evaluate; each path is one, except a file of sources and one of targets."""
        joined = cls.task.source_and_target_files and not all("," in str(path) for path in paths)
        corpora = [paths] if joined else [[path] for path in paths]
        return {" ".join(map(str, corpus)): corpus for corpus in corpora if corpus}

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        dev: tuple[Sequence[Any], Sequence[Any]] | Sequence[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on inputs and labels; a call that fails in its first epoch leaves the estimator unchanged.

        With ``warm_start``, a fitted estimator continues from its weights: options that describe the model must be the
        same, labels may be new, and a vocabulary of words grows by the new words (sub-words and characters stay).

        Parameters
        ----------
        X : the inputs, or a :class:`~graphattn.builders.store.Store` of them, which need not fit into memory. Tables of
            pandas, polars, Arrow or datasets, and dictionaries, have the columns ``text``, ``label``, ``second`` for
            pairs, or for taggers ``tokens`` and ``tags``
        y : their labels, or a translator's targets; None if the inputs contain them
        dev : (inputs, labels), or inputs with labels, to choose the best epoch; a translator's target may be several
            texts. When None, ``training.dev_fraction`` of the training set is held out
        sample_weight : weight of each example in the loss and in the metrics of held-out ones: weight k is k copies, as
            docs/train.md explains. A tagger's examples are sentences; a translator's dev metrics ignore weights
        callbacks : Lightning's callbacks for the trainer; picklable for several processes

        Raises
        ------
        DataError
            for invalid inputs or labels
        ConfigError
            for invalid options, or a library that is not installed
        TrainingError
            when the loss is not finite
        """
        from graphattn.models._estimators.fitting import Fit, restore_on_failure  # loads Lightning, which takes seconds
        from graphattn.models._estimators.tuning import choose_tuning

        previous = copy(self) if self.warm_start and hasattr(self, "model_") else None
        with _FITTING, restore_on_failure(self):
            self.prepare(Facts(trained={} if previous is None else list_decided_options(previous)))
            empty, where = "there are no training examples", "training set"
            examples = self.read_examples(X, y, empty=empty, where=where, sample_weight=sample_weight)
            validated = choose_tuning(self, examples, dev, callbacks) if previous is None else None
            self._dev_results = Fit(self, examples, dev, previous, callbacks, validated).run()
        return self

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> Any:
        """One prediction for each input, in their order.

        Parameters
        ----------
        X : the inputs; a generator or another stream of them is read some at a time
        """
        self._check_fitted()
        return self.task_.decode(list(chain.from_iterable(map_parts(self._decide, X))))

    def _decide(self, X: Iterable[Any]) -> list[Any]:
        """Inputs that fit into memory -> texts -> an encoded corpus -> decisions."""
        texts = self.read_texts(X)
        corpus = self.encode_texts(texts)
        return self.task_.predict(self.model_, corpus)

    def read_texts(self, X: Iterable[Any]) -> Texts:
        """Inputs as texts, without HTML if the options say so."""
        return Texts.of(X, self.task_, strip_html=self.inputs_.strip_html)

    def read_examples(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None,
        *,
        empty: str,
        where: str,
        hint: str | None = None,
        sample_weight: Any = None,
    ) -> Texts:
        """Inputs as texts with labels; ``empty`` is the error if there are none, ``where`` what errors call them."""
        task = self.task_
        task.known_columns.require_labels(X, y)
        X = as_list(X, task)
        if not X:
            raise DataError(empty, hint=hint)
        texts, labels = self.read_texts(X), task.resolve_labels(X, y)
        return replace(texts, labels=labels, weights=check_weights(sample_weight, len(labels)), where=where)

    def encode_texts(self, texts: Texts) -> Corpus:
        """Texts as the model reads them, with targets if they have labels."""
        return self.text_inputs_.encode(texts, self.task_.make_targets, self.parsing)

    def encode(self, X: Iterable[Any], y: Iterable[Any] | None = None) -> Corpus:
        """Inputs as the model reads them, with targets if there are labels."""
        self._check_fitted()
        X = as_list(X, self.task_)
        texts = self.read_texts(X)
        return self.encode_texts(texts if y is None else replace(texts, labels=self.task_.resolve_labels(X, y)))

    def predict_details(self, X: Iterable[Any], **options: Any) -> Predictions:
        """Decisions, and the probabilities or scores that options ask for.

        Parameters
        ----------
        X : the inputs
        options : those of :func:`~graphattn.models._prediction.predict_corpus`

        Raises
        ------
        ConfigError
            when the model has no head that scores classes
        """
        self._check_fitted()
        if not isinstance(self.model_, TextModel):
            raise ConfigError(
                f"a model that {self.task.description} has no scores of classes; use a classifier or tagger"
            )
        return Predictions.join(map_parts(lambda part: self.rerun(self.read_texts(part), **options), X))

    def rerun(self, texts: Texts, **options: Any) -> Predictions:
        """Decisions for texts, whatever their labels, and what options of ``predict_corpus`` ask for."""
        return predict_corpus(self.model_, self.encode_texts(texts.unlabelled()), **options)

    def predict_with_probabilities(self, X: Iterable[Any]) -> tuple[Any, list[npt.NDArray[np.float32]]]:
        """Labels as from :meth:`predict`, and the probabilities of each input, in one pass."""
        details = self.predict_details(X, probabilities=True)
        return self.task_.decode(details.decisions), details.probabilities or []

    def predict_rows(
        self, X: Sequence[Any], *, first: int = 1, n_best: int = 1, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """Predictions as rows of JSON, each with its input, as ``graphattn predict`` prints them.

        Parameters
        ----------
        X : the inputs
        first : number of the first input when these are a part of more
        n_best : outputs for each input of a translator
        probabilities : add the probability of each class
        """
        X = as_list(X, self.task_)
        if not probabilities:
            return [self.format_row(x, prediction) for x, prediction in zip(X, self.predict(X), strict=True)]
        labels, rows = self.predict_with_probabilities(X)
        return [self.format_row(*row) for row in zip(X, labels, rows, strict=True)]

    def format_row(self, x: Any, prediction: Any, probabilities: Any = None) -> dict[str, Any]:
        """An input and its prediction as a row of JSON; with ``probabilities``, also those of all classes."""
        return self.task_.format_row(x, prediction, probabilities)

    def format_predictions(self, X: Sequence[Any], output: str) -> list[str]:
        """Predictions as texts, one for each input.

        Parameters
        ----------
        X : the inputs
        output : one of the task's ``output_formats`` other than ``json``

        Raises
        ------
        ConfigError
            when the estimator has no such output
        """
        formats = ", ".join(self.task.output_formats)
        raise ConfigError(
            f"{{output}} is {output!r}; a model that {self.task.description} has: {formats}", options=("output",)
        )

    @property
    def vectors_per_input(self) -> int:
        """Rows of :meth:`sentence_vectors` for each input."""
        return 1 if self.task.joins_pairs(self.options_) else self.task.texts_per_input

    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, F) inputs of a classifier's last layers, for scikit-learn or semantic search; of pairs those of both.

        Raises
        ------
        ConfigError
            when the model has none
        """
        self._check_fitted()
        if not isinstance(self.model_, TextModel) or self.model_.head.per_word:
            raise ConfigError(f"a model that {self.task.description} has no sentence vectors; use a classifier")
        return encode_corpus(self.model_, self.encode_texts(self.read_texts(X)))

    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""
        return self.text_inputs_.count_tokens(text)

    # -- evaluating ----------------------------------------------------------------------------------------------------

    @property
    def main_metric(self) -> str:
        """The metric of :meth:`score`, which chooses the best epoch unless ``training.metric`` names another."""
        return self.task_.main_metric

    def evaluate(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> dict[str, float]:
        """Metrics in percent.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`
        unknown : ``"wrong"`` counts labels that the training set lacks as wrong, with a warning; ``"error"`` rejects
            them; by default, they are rejected if the training set lacks all of them

        Raises
        ------
        DataError
            without examples, or for unknown labels, as ``unknown`` says
        ConfigError
            for weights and a translator, whose metrics are of the whole corpus
        """
        if sample_weight is not None and not self.task.weighted_metrics:
            raise ConfigError(f"sample_weight does not apply to {self.main_metric}; leave it out")
        examples = self._evaluation_set(X, y, unknown, sample_weight)
        weights = () if examples.weights is None else (examples.weights,)
        return self.task_.measure(examples.labels, self._decide(examples.unlabelled()), *weights)

    def _evaluation_set(
        self, X: Iterable[Any], y: Iterable[Any] | None, unknown: str | None, sample_weight: Any = None
    ) -> Texts:
        """The examples with labels in the training set's notation."""
        if unknown not in (None, "wrong", "error"):
            raise ConfigError(f"unknown is {unknown!r}; choose wrong or error")
        self._check_fitted()
        self.task_.list_metrics()  # an error if a library is missing
        empty, where = "there are no examples to evaluate on", "evaluation set"
        examples = self.read_examples(X, y, empty=empty, where=where, sample_weight=sample_weight)
        examples = replace(examples, labels=self.task_.normalize_labels(examples.labels, where))
        self.task_.check_labels(examples, self.text_inputs_, unknown=unknown)
        return examples

    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str | None = None,
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        """:meth:`evaluate`, with the scores of each class, a confidence interval and the mistakes.

        Parameters
        ----------
        X, y, unknown : as for :meth:`evaluate`
        others : name of another translator -> its outputs, to compare with
        """
        examples = self._evaluation_set(X, y, unknown)
        predictions = self.task_.predict_for_report(self.model_, self.encode_texts(examples.unlabelled()))
        return self.task_.report(examples, predictions, inputs=self.text_inputs_, rerun=self.rerun, others=others)

    def score(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> float:
        """The main metric from 0 to 1, of regressors R2, as in scikit-learn; unknown labels count as wrong."""
        metrics = self.evaluate(X, y, unknown="wrong", sample_weight=sample_weight)
        return metrics[self.task.score_metric or self.main_metric] / 100

    def best_epoch(self) -> dict[str, float]:
        """The history's row of the epoch that was kept: the last one with the best dev metric."""
        metric = f"dev_{self.training_.metric or self.main_metric}"
        if metric not in self.history_[-1]:  # no dev set
            return self.history_[-1]
        return max(reversed(self.history_), key=lambda row: row[metric])

    def dev_metrics(self) -> dict[str, float]:
        """Metrics of the model on the dev set; empty without one."""
        kept = {name: value for name, value in self.best_epoch().items() if name.startswith("dev_")}
        return {name.removeprefix("dev_"): self.mixture_.get(name, value) for name, value in kept.items()}

    # -- inspecting ----------------------------------------------------------------------------------------------------

    def attention(self, x: Any, target: str | None = None, *, features: bool = False) -> Attention:
        """Predict one input and return the attention weights.

        A translator's decoder layers follow those of its encoder. Their relation is ``cross``, from the part ``source``
        to the part ``target``, whose position 0 is the end of the text.

        Parameters
        ----------
        x : one input, an element of the argument of :meth:`predict`
        target : a translator's output text; its own output when None
        features : also keep the weights by feature of an encoder that has them (MTSA), in memory of edges times width

        Raises
        ------
        ConfigError
            when the encoder has no attention weights
        DataError
            when there are too many weights, or a translator's source has no words
        """
        from graphattn.models.inspection._attention import attention_of  # loads networkx and pandas

        inputs = self.encode_input(x, target=target)
        with torch.inference_mode():
            return attention_of(self, inputs, self.capture(inputs.first_batch, features=features))

    @override
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        self._check_fitted()
        texts = self.read_texts(X)
        if targets is not None:
            raise ConfigError("{target} is for translators only", options=("target",))
        texts = self.text_inputs_.add_heads(texts, self.parsing)
        sentences = self.text_inputs_.sentences(texts)
        names = ("text",) if len(sentences) == 1 else ("first", "second")
        return self.encode_texts(texts).with_sentences(dict(zip(names, sentences, strict=True)))

    # -- fitted attributes ---------------------------------------------------------------------------------------------

    @property
    @override
    def encoder_name(self) -> str:
        return self.encoder_.name

    @override
    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise make_not_fitted_error(
                f"this {type(self).__name__} is not trained yet; call fit, or graphattn.load a saved one"
            )

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words or subwords of the fitted model."""
        return self.text_inputs_.vocabulary

    @property
    def builder_(self) -> TextGraphBuilder:
        """Builds the graphs of the fitted model."""
        return self.text_inputs_.builder

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | Path,
        *,
        notes: Mapping[str, str] | None = None,
        results: Mapping[str, Report] | None = None,
        corpora: Mapping[str, Sequence[str | Path]] | None = None,
    ) -> Path:
        """Write a self-contained model directory for :func:`graphattn.load`; an old one is replaced atomically.

        Its ``README.md`` is the model card: labels, data, options that differ from the defaults, and results.

        Parameters
        ----------
        path : the directory
        notes : additional text files, name -> content; a loaded model keeps ``train.yaml`` and ``metrics.json``
        results : for the model card, name of a test set -> its :meth:`report`
        corpora : for the model card, files of the ``training`` and ``dev`` set, of which the names are written

        Raises
        ------
        NotFittedError
            before ``fit``
        ModelDirectoryError
            when ``path`` is not a model directory, or cannot be written
        """
        self._check_fitted()
        kept = dict(self._notes)
        if getattr(self.task_, "changed_thresholds", False):  # its scores are those of the old thresholds
            kept.pop(METRICS, None)
        files = self.to_files({**kept, **(notes or {})})
        files.card = self.make_card(results, corpora)
        return write_model(Path(path), files)

    def push_to_hub(self, name: str, *, private: bool = False, message: str = "Upload a model of GraphAttn") -> str:
        """Upload the model to the Hugging Face hub, for :func:`graphattn.load`; return the address of its page.

        Parameters
        ----------
        name : OWNER/NAME of a repository; it is made if there is none
        private : whether a new repository is private; if not, the owner's settings decide, by default it is public
        message : of the commit

        Raises
        ------
        MissingPackageError
            without ``huggingface_hub``
        ModelDirectoryError
            when it cannot be uploaded, such as without a network or a token
        """
        with TemporaryDirectory() as folder:
            return push(self.save(Path(folder, "model")), name, private=private, message=message)

    def make_card(
        self, results: Mapping[str, Report] | None = None, corpora: Mapping[str, Sequence[str | Path]] | None = None
    ) -> str:
        """The model card, in Markdown; of a loaded model its ``README.md``, with results added.

        Parameters
        ----------
        results, corpora : as for :meth:`save`
        """
        card = self.card_
        if not card:
            metrics, options = self.dev_metrics(), self.changed_options()
            dev = Report(metrics, self.main_metric) if metrics else None
            if self._dev_results is not None:
                labels, decisions = self._dev_results
                examples, predictions = Texts([], labels), Predictions(decisions)
                dev = self.task_.report(examples, predictions, inputs=self.text_inputs_, rerun=self.rerun)
            card = format_card(self, options, examples=self.num_examples_, files=corpora or {}, dev=dev)
        elif getattr(self.task_, "changed_thresholds", False):
            card = set_decisions(card, self)
        for name, report in (results or {}).items():
            card = add_results(card, name, report)
        return card

    @classmethod
    def config_types(cls) -> dict[str, Any]:
        """Name -> JSON type of the values that :meth:`save` writes to ``config.json``; optional ones may be null."""
        shared = {"encoder": dict[str, Any], "preset": str, "history": list[dict[str, float]]}
        shared |= {"mixture": dict[str, float], "corpus": dict[str, Any], "set_options": dict[str, list[str]]}
        return {**shared, **cls._groups(), **cls.task.config_types()}

    def to_files(self, notes: Mapping[str, str]) -> ModelFiles:
        """What :meth:`save` writes, with additional text files."""
        groups = {name: getattr(self, f"{name}_", getattr(self, name)).to_dict() for name in self._groups()}
        groups["training"] |= OF_THIS_MACHINE
        groups_as_set = {"encoder": self._select_encoder(), **{name: getattr(self, name) for name in self._groups()}}
        config = {
            "task": self.task.name,
            "encoder": self.encoder_.to_dict(),
            "preset": self.preset,
            **groups,
            "set_options": {name: sorted(vars(options)) for name, options in groups_as_set.items()},
            "history": self.history_,
            "mixture": self.mixture_,
            "corpus": self.corpus_,
            "class_weight": serialize_class_weight(self.task_.class_weight),
            **self.text_inputs_.to_config(),
            **self.task_.to_config(),
        }
        weights = {name: tensor.detach().cpu() for name, tensor in self.model_.state_dict().items()}
        weights |= self.text_inputs_.list_frozen_weights(self.model_)
        tokenizer, source_tokenizer = self.task_.list_tokenizers(self.text_inputs_)
        return ModelFiles(config, self.task_.class_names, tokenizer, weights, notes, source_tokenizer)

    @classmethod
    def from_files(cls, files: ModelFiles) -> Self:
        """Restore an estimator that was saved."""
        config, weights = files.config, files.weights
        arguments = {item.name: config.get(item.name, item.default) for item in fields(cls.option_groups["task"])}
        if "class_weight" in arguments:
            arguments["class_weight"] = deserialize_class_weight(arguments["class_weight"])
        arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
        saved: dict[str, Any] = {name: kind.from_dict(config[name]) for name, kind in cls._groups().items()}
        saved["encoder"] = encoder_options(config["encoder"])
        groups = {name: options.keep(config["set_options"].get(name, ())) for name, options in saved.items()}
        estimator = cls(**groups, **arguments)
        estimator.prepare(saved=saved)
        estimator.corpus_, estimator.history_ = config["corpus"], config["history"]
        inputs, task = estimator.text_inputs_, estimator.task_
        inputs.spelling = inputs.has_branch = (
            "linear_branch.keys" in weights and task.linear_branch is WordFeatureBranch
        )
        task.restore(inputs, files)
        with torch.random.fork_rng():
            estimator.model_, estimator.encoder_ = task.make_model(inputs, estimator.encoder_, estimator.options_)
        inputs.restore_frozen_weights(estimator.model_, weights)
        if task.linear_branch is not None and "linear_branch.keys" in weights:
            of_branch = {name: value for name, value in weights.items() if name.startswith("linear_branch.")}
            estimator.model_.linear_branch = task.linear_branch.like(of_branch)
        estimator.mixture_, estimator.card_, estimator._notes = config["mixture"], files.card, files.notes
        estimator.model_.load_state_dict(weights)
        estimator.model_.eval()
        return estimator

    def to_huggingface(self, directory: str | Path, *, encoder_only: bool = False) -> None:
        """Write the tuned pretrained model for ``transformers`` and ``sentence-transformers``.

        A linear head on ``[CLS]``, or on the first token of each word, is written, too, if nothing else is on top.

        Parameters
        ----------
        directory : a new directory
        encoder_only : leave the head out, also where ``transformers`` has none like it

        Raises
        ------
        ConfigError
            without a pretrained model, for other edges than those of pretraining, when ``transformers`` has no such
            head, or when the directory exists
        """
        self._check_fitted()
        export_estimator(self, directory, encoder_only=encoder_only)

    def to_dense(self) -> DenseModel:
        """A plain PyTorch module of padded ids, for ``torch.export`` and ``torch.compile`` without graph breaks.

        Its inputs are ``input_ids`` and ``attention_mask`` (B, L), and ``token_type_ids`` of pairs. Its output is
        (B, classes) scores of texts or (B, L, classes) of tokens; of a regressor, (B, 1) numbers.

        Raises
        ------
        ConfigError
            naming the parts of the model that padded texts cannot express
        """
        self._check_fitted()
        if not isinstance(self.model_, TextModel):
            raise ConfigError(f"a model that {self.task.description} cannot be exported; use a classifier or tagger")
        return make_dense_model(self.model_, self.task_.rescale)

    def to_onnx(self, path: str | Path) -> None:
        """Write :meth:`to_dense` as an ONNX file, for any number of texts and tokens, and ``tokenizer.json`` beside it.

        The output is ``logits``; the file's metadata has the ``labels`` and ``thresholds``, if any, as JSON.

        Parameters
        ----------
        path : the file

        Raises
        ------
        ConfigError
            as for :meth:`to_dense`, or when another ``tokenizer.json`` is in the folder
        MissingPackageError
            without the packages of ``graphattn[onnx]``
        """
        model, lower, builder = self.to_dense(), find_pretrained(self.model_.encoder), self.builder_
        limit, of_pair = self.text_inputs_.length_limits
        longest, special = of_pair or limit, builder.cls + builder.count_special_tokens(self.task.texts_per_input)
        metadata = {"labels": np.asarray(self.task_.class_names).tolist()}
        if thresholds := getattr(self.task_, "thresholds", None):
            metadata["thresholds"] = list(thresholds)
        write_onnx(
            path,
            model,
            self.vocabulary_,
            segments=lower is not None and lower.architecture.types > 1,
            longest=longest and longest + special,
            metadata=metadata,
            begins_with_cls=builder.cls,
        )

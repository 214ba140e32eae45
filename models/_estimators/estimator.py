"""The estimator: inputs, encoder and task, and how they are trained, used and saved."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from graphattn._devices import find_device
from graphattn.builders import TextGraphBuilder, Vocabulary
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, warn_caller
from graphattn.models._corpus import Corpus, digest_of
from graphattn.models._encoders import EncoderOptions, NoEncoderOptions, encoder_options
from graphattn.models._estimators.class_weights import deserialize_class_weight, serialize_class_weight
from graphattn.models._estimators.inputs import (
    Columns,
    as_list,
    check_weights,
    map_parts,
    name_dev_set_in_errors,
    split_held_out,
    unpack_dev_set,
)
from graphattn.models._estimators.sklearn_protocol import ScikitLearn, make_not_fitted_error
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.tasks.recipes import Recipe
from graphattn.models._estimators.tasks.task import Examples, Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.tuning import (
    FEW,
    FOLDS,
    OF_FINE_TUNING,
    PAIR_TUNINGS,
    TUNINGS,
    Numbers,
    choose_tuning,
    has_enough_classes,
    mark_classes,
)
from graphattn.models._estimators.warm_start import check_same_kind, check_same_options, copy_weights
from graphattn.models._inspectable import Inspectable
from graphattn.models._model_card import OF_THIS_MACHINE, add_results, format_card, set_decisions
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._prediction import Predictions, count_truncation, encode_corpus, predict_corpus
from graphattn.models._reports import Report
from graphattn.models._saving import ModelFiles, write_model
from graphattn.models._text_model import TextModel
from graphattn.models.heads._word_features import WordFeatureBranch
from graphattn.models.pretrained._options import PretrainedOptions, resolve_pretrained_options
from graphattn.models.pretrained._stack import find_pretrained
from graphattn.options import Options, Parameters, ParsingOptions, option

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    from graphattn.models._dense_model import DenseModel
    from graphattn.models.inspection import Attention
    from graphattn.models.training._decisions import ScoredTexts

_UNKNOWN_CLASS = -30.0
"""Score of a class that a model was not trained on."""
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
    _dev_results: tuple[Sequence[Any], list[Any]] | None = None
    """Labels and decisions for the dev set."""

    def __init__(self, encoder: str | EncoderOptions | None = None, **arguments: Any):
        self.encoder = encoder
        vars(self).update(arguments)
        for name, kind in self._groups().items():
            value = arguments.get(name)
            setattr(self, name, kind() if value is None else value)
        self.pretrained = resolve_pretrained_options(arguments.get("pretrained"))

    # -- options -------------------------------------------------------------------------------------------------------

    @classmethod
    def _groups(cls) -> dict[str, type[Options]]:
        """The groups of options that are constructor arguments, without the encoder's."""
        return {name: kind for name, kind in cls.option_groups.items() if name not in ("files", "task", "encoder")}

    def resolve_encoder(self) -> EncoderOptions:
        """The encoder's options, where those that were not set have the defaults of the task and the preset."""
        encoder = self._select_encoder()
        return encoder.with_defaults(vars(self.task.encoder_defaults(type(encoder), self.preset)))

    def _select_encoder(self) -> EncoderOptions:
        """The encoder's options as they were set."""
        default = self.task.default_encoder(pretrained=bool(self.pretrained.pretrained))
        return encoder_options(default if self.encoder is None else self.encoder)

    def resolve_options(self) -> dict[str, Any]:
        """Group -> its options, where those that were not set have the defaults of the preset or pretrained model."""
        return self._resolve_options({})

    def _resolve_options(self, decided: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The same with other defaults: group -> option -> value."""
        defaults = self.task.option_defaults(self.preset, pretrained=bool(self.pretrained.pretrained))
        return {
            name: getattr(self, name).with_defaults({**defaults.get(name, {}), **decided.get(name, {})})
            for name in self._groups()
        }

    def validate(self) -> None:
        """Validate all options.

        Raises
        ------
        ConfigError
            naming the option and a fix
        """
        for name, kind in self._groups().items():
            if not isinstance(getattr(self, name), kind):
                actual = type(getattr(self, name)).__name__
                raise ConfigError(f"{name} of {type(self).__name__} is {actual}; give {kind.__name__}")
        encoder, options = self.resolve_encoder(), self.resolve_options()
        encoder.validate()
        for group in options.values():
            group.validate()
        arguments = self._task_arguments()
        # weights by class are validated with the labels
        plain = {name: None if isinstance(value, Mapping) else value for name, value in arguments.items()}
        self.option_groups["task"](**plain).validate()
        self.task.check_options(encoder, options)
        if encoder.name == NoEncoderOptions.name and not self.pretrained.pretrained:
            raise ConfigError(
                "{encoder=pretrained} needs {pretrained}: a Hugging Face directory, or OWNER/NAME on the hub",
                options=("encoder", "pretrained"),
            )

    def _task_arguments(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self.option_groups["task"])}

    def _prepare_options(self, decided: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Copy the options, so that ``set_params`` does not change a fitted model; make its task and its inputs.

        ``decided`` are defaults that depend on the training set: group -> option -> value.
        """
        self.validate()
        self.encoder_ = self.resolve_encoder().copy()
        resolved = self._resolve_options(decided or {})
        options = {name: group for name, group in resolved.items() if name not in self.late_options}
        vars(self).update({f"{name}_": group for name, group in options.items()})
        if self.inputs_.cls is None:
            self.inputs_.cls = self.encoder_.begins_with_cls
        self.mixture_, self.num_examples_, self.card_, self._dev_results = {}, {}, "", None
        self._fitted_task = self._make_task()
        self.task_.complete_options(self.encoder_, options)
        self.text_inputs_ = self.task_.make_inputs(options)
        self.text_inputs_.texts_per_input, self.text_inputs_.truncates = self.task.texts_per_input, self.task.truncates
        has_branch = "head" in options and options["head"].linear_branch
        self.text_inputs_.spelling = has_branch and self.task.linear_branch is WordFeatureBranch

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
    def _options(self) -> dict[str, Any]:
        """Group -> options of the fitted model, without the encoder's and those that may change."""
        return {name: getattr(self, f"{name}_") for name in self._groups() if name not in self.late_options}

    def non_default_options(self) -> dict[str, Any]:
        """Name -> value of the options of a fitted estimator that differ from the defaults."""
        self._check_fitted()
        preset, pretrained = self.preset, self.pretrained_.pretrained
        reference = type(self)(self.encoder_.name, preset=preset, pretrained=pretrained)
        reference._prepare_options()
        reference.encoder_ = reference.encoder_.for_parts(self.text_inputs_.list_widths(self.encoder_))
        changed: dict[str, Any] = {} if preset == "default" else {"preset": preset}
        if pretrained:  # the reference has the same
            changed["pretrained"] = pretrained
        for name, default in reference.get_params(deep=False).items():
            default = getattr(reference, f"{name}_", default)
            if isinstance(default, Options):
                defaults, values = default.to_dict(), getattr(self, f"{name}_", getattr(self, name)).to_dict()
                changed |= {
                    option: value
                    for option, value in values.items()
                    if value != defaults.get(option) and option not in self.unused_options
                }
            elif getattr(self, name) != default:
                changed[name] = getattr(self, name)
        return changed

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
        sample_weight : weight of each example in the loss and in the metrics of held-out ones; weight k has the effect
            of k copies. A tagger's examples are sentences; a translator's dev metrics ignore weights
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
        previous = copy(self) if self.warm_start and hasattr(self, "model_") else None
        with _FITTING, self._rollback_on_failure():
            self._prepare_options(None if previous is None else previous._list_decided_options())
            examples = self._make_examples(X, y, "there are no training examples", sample_weight=sample_weight)
            validated = None
            if previous is None and self._leaves_choice():
                validated = self._choose_tuning(examples, dev, callbacks)
            self._fit_examples(examples, dev, previous, callbacks, validated)
        return self

    def _list_decided_options(self) -> dict[str, dict[str, Any]]:
        """Group -> options of the fitted model that its training set or the directory of the pretrained one decided."""
        names = ("frozen", "contrastive", "join_pairs")
        decided = {"pretrained": {name: getattr(self.pretrained_, name) for name in names}}
        if self.pretrained_.frozen and self.task.can_be_frozen:
            decided["head"] = {"pooling": self.head_.pooling}
        return decided

    def _leaves_choice(self) -> bool:
        """Whether this is a pretrained classifier, and no option says how to train it."""
        if not self.task.has_contrastive or not self.pretrained.pretrained:
            return False
        is_alone = self.encoder_.name == NoEncoderOptions.name
        return is_alone and not any(vars(getattr(self, group)).keys() & of for group, of in OF_FINE_TUNING.items())

    def _choose_tuning(self, examples: Examples, dev: Any, callbacks: Sequence[Callback]) -> ScoredTexts | None:
        """Choose how to train a pretrained model, if there are few labels; returns scores by cross-validation."""
        from graphattn.models.training._decisions import ScoredTexts, split_folds

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphAttnWarning)  # they are given in training
            self.task_.fit(examples, self._options)
        labels = examples.labels
        if len(labels) >= FEW * len(self.task_.class_names):
            return None
        self.task_.weigh_classes(labels, examples.weights)  # rejects weights of other classes
        targets = np.asarray(self.task_.make_targets(labels, "training set"))
        folds = split_folds(len(labels), self.task_.stratify(labels), FOLDS)
        folds = [(rest, held) for rest, held in folds if has_enough_classes(targets[rest])]
        if not folds:
            return None
        needs_dev_set = dev is not None or self.training.metric is not None or "dev_fraction" in vars(self.training)
        whole = {} if needs_dev_set else {"dev_fraction": 0.0}

        def score(tuning: str, rest: Numbers, held: Numbers) -> npt.NDArray[np.floating]:
            groups = {"pretrained": TUNINGS[tuning], "training": whole}
            params = {f"{group}__{name}": value for group, of in groups.items() for name, value in of.items()}
            return self._score_fold(examples, rest, held, **params)

        tunings = TUNINGS if self.task.texts_per_input == 1 else PAIR_TUNINGS
        choice, shares, scores, numbers = choose_tuning(targets, score, folds, self._make_log(callbacks), tunings)
        self._prepare_options({"pretrained": TUNINGS[choice], "training": whole})
        self.mixture_ = shares
        # a text of a class that its model has not seen says nothing about the scores of others
        known = ~(mark_classes(targets[numbers], scores.shape[1]) & (scores == _UNKNOWN_CLASS)).any(1)
        weights = None if examples.weights is None else examples.weights[numbers][known]
        return ScoredTexts.of(scores[known], targets[numbers][known], weights) if known.any() else None

    def _make_log(self, callbacks: Sequence[Callback]) -> Callable[[str], None]:
        """A function that prints lines to standard error if epochs are shown."""
        from graphattn.models.training.callbacks import shows_epochs

        def log(line: str) -> None:
            if shows_epochs(self.training_, callbacks):
                print(line, file=sys.stderr, flush=True)

        return log

    def _fit_examples(
        self,
        examples: Examples,
        dev: Any = None,
        previous: Self | None = None,
        callbacks: Sequence[Callback] = (),
        validated: ScoredTexts | None = None,
    ) -> None:
        """Train; ``validated`` are scores by cross-validation, if there are some already."""
        device = find_device(self.training_.device)
        if previous is not None:
            previous.model_.cpu()
        training, held_out, metric = self._initialize_model(examples, dev, previous)
        sets = {"training": training, "dev": held_out}
        self.num_examples_ = {name: len(each.labels) for name, each in sets.items() if each is not None}
        corpus, dev_corpus = self._encode_sets(training, held_out)
        self.model_.set_precision("32" if device.type == "cpu" else self.training_.resolve_precision())
        scores = None
        if self.pretrained_.contrastive and self.task.has_contrastive:
            from graphattn.models.training._contrastive import train_contrastive

            train_contrastive(self.model_.to(device), corpus, self.training_, self._make_log(callbacks))
        if self.pretrained_.frozen and self.task.can_be_frozen:
            self.model_.to(device)
            scores = self._fit_frozen(corpus, dev_corpus, held_out, refit=dev is None, callbacks=callbacks)
        else:
            self._train(corpus, dev_corpus, held_out, metric, callbacks, starts_anew=previous is None)
            self.model_.to(device)  # which Lightning left
        mixed, decisions = self._finish_model(corpus, dev_corpus, held_out, refit=dev is None, callbacks=callbacks)
        self.model_.to(device)  # which a linear branch leaves
        scores = scores if mixed is None else mixed
        changed = self._fit_decisions(examples, corpus, dev_corpus, held_out, scores, callbacks, validated)
        self._review(dev_corpus, held_out, changed or decisions)

    @contextmanager
    def _rollback_on_failure(self) -> Iterator[None]:
        """Restore the previous state unless an epoch finished."""
        before, device = dict(vars(self)), self.model_.device if hasattr(self, "model_") else None
        for name in ("model_", "history_"):
            vars(self).pop(name, None)
        try:
            yield
        finally:
            if vars(self).get("history_"):
                self.model_.eval()
                self.text_inputs_.spelling = self.text_inputs_.has_branch
            else:
                vars(self).clear()
                vars(self).update(before)
                if device is not None:
                    self.model_.to(device)

    def _make_examples(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None,
        empty: str,
        *,
        hint: str | None = None,
        sample_weight: Any = None,
    ) -> Examples:
        X = as_list(X, self.task.texts_per_input, self.task_.feature_names)
        if not X:
            raise DataError(empty, hint=hint)
        columns, labels = self._make_columns(X), self.task_.resolve_labels(X, y)
        return Examples(columns, labels, weights=check_weights(sample_weight, len(labels)))

    def _make_columns(self, X: Iterable[Any]) -> Columns:
        return self.task_.make_columns(X, self.inputs_)

    def _initialize_model(
        self, training: Examples, dev: Any, previous: Self | None
    ) -> tuple[Examples, Examples | None, str]:
        """Learn labels and vocabulary, and make the model.

        Returns the training set with words in place of texts, the dev set, and the metric that chooses the best epoch.
        """
        defaults = self.task.default_epochs(pretrained=bool(self.pretrained_.pretrained))
        self.training_.epochs = self.training_.resolve_epochs(len(training.labels), **defaults)
        if previous is not None:
            check_same_kind(self.text_inputs_, previous.text_inputs_)
            labels = previous.task_.normalize_labels(training.labels, "training set")
            training = replace(training, labels=labels)
        with torch.random.fork_rng():
            torch.manual_seed(self.training_.seed)
            self.task_.fit(training, self._options, None if previous is None else previous.task_)
            training, held_out = self._split_dev_set(training, dev)
            metric = self._choose_metric(held_out)
            training = self.task_.fit_inputs(self.text_inputs_, training, self._options, previous)
            self._make_model(self.task_.weigh_classes(training.labels, training.weights))
            self._hint_at_unused_parser()
            if previous is not None:
                self._copy_model(previous)
        return training, held_out, metric

    def _choose_metric(self, held_out: Examples | None) -> str:
        """The metric that chooses the best epoch."""
        if held_out is not None:
            self.training_.metric = self.task_.choose_dev_metric(held_out.labels, self.training_.metric)
        names, main = self.task_.list_metrics(), self.task_.main_metric
        return self.training_.dev_metric(names, main, dev_set=held_out is not None)

    def _split_dev_set(self, training: Examples, dev: Any) -> tuple[Examples, Examples | None]:
        """Training set and dev set; when ``dev`` is None, a part of the training set."""
        if dev is not None:
            hint = "Without a dev set, a share of the training set is held out."
            X, y = unpack_dev_set(dev)
            with name_dev_set_in_errors():
                held_out = self._make_examples(X, y, "there are no examples in it", hint=hint)
            return training, Examples(held_out.columns, self.task_.normalize_labels(held_out.labels, "dev set"))
        size = len(training.labels)
        count = round(self.training_.dev_fraction * size)
        if count < 1:
            return training, None
        if size - count < 2:
            problem = f"dev_fraction {self.training_.dev_fraction} of {size} examples would leave {size - count}"
            remedy = "nothing is held out and the last epoch is kept; lower dev_fraction"
            warn_caller(GraphAttnWarning(f"{problem} to train on, so {remedy}"))
            return training, None
        rest, held = split_held_out(size, count, self.task_.stratify(training.labels), self.training_.seed)
        return training.select(rest), training.select(held)

    def _make_model(self, weights: Tensor | None = None) -> None:
        """Make the model and the builder of its inputs; ``weights`` are those of the classes in the loss."""
        self.model_, self.encoder_ = self.task_.make_model(self.text_inputs_, self.encoder_, self._options, weights)

    def _copy_model(self, previous: Self) -> None:
        """Copy the weights of the model to continue from, whose options must be the same."""
        check_same_options(previous._architecture(), self._architecture())
        copied = self.text_inputs_.copy_vectors(previous.text_inputs_, previous.model_, self.model_)
        classes = self.task_.match_classes(previous.task_)
        copy_weights(previous.model_, self.model_, classes, without=copied)

    def _architecture(self) -> dict[str, Any]:
        """Option -> value of those that describe the fitted model."""
        values = self.encoder_.to_dict()
        for name, options in self._options.items():
            values |= {} if name == "training" else options.to_dict()
        return values

    def _hint_at_unused_parser(self) -> None:
        if self.parsing.parser != "none" and self.builder_.deprel_id is None:
            problem = "no relation of the encoder uses dependencies, so {parser} has no effect"
            warn_caller(Hint(f"{problem}; add the relation dependency", options=("parser",)))

    def _encode_sets(self, training: Examples, held_out: Examples | None) -> tuple[Corpus, Corpus | None]:
        """Encode the training set and the dev set, with one warning of truncation if both are of one corpus."""
        is_one_corpus = held_out is not None and held_out.numbers is not None
        with count_truncation() if is_one_corpus else nullcontext((0, 0)) as truncated:
            corpus = self._encode(training.columns, training.labels, where="training set", numbers=training.numbers)
            if training.weights is not None:
                corpus = corpus.with_weights(training.weights)
            dev = None
            if held_out is not None:
                dev = self.task_.encode_dev_set(self.text_inputs_, held_out, parsing=self.parsing)
                dev = dev if held_out.weights is None else dev.with_weights(held_out.weights)
        count, tokens = truncated
        if count:
            warn_caller(self.describe_truncation(count, tokens, "training set"))
        return corpus, dev

    def _train(
        self,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        metric: str,
        callbacks: Sequence[Callback],
        *,
        starts_anew: bool,
    ) -> None:
        """Train the model."""
        from graphattn.models.training._loop import train  # Lightning takes seconds to load, and only training needs it

        self.history_ = []
        train(
            self.model_,
            corpus,
            self.training_,
            dev=dev,
            evaluate=None if held_out is None else self._make_measure(held_out),
            decide=self.task_.predict_dev_set,
            metric=metric,
            about=self._fingerprint(held_out, starts_anew=starts_anew),
            files=None if self.training_.run_dir is None else self._files({}),
            history=self.history_,
            callbacks=callbacks,
        )

    def _fit_frozen(
        self,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        *,
        refit: bool,
        callbacks: Sequence[Callback],
    ) -> npt.NDArray[np.floating] | None:
        """Fit the head on the vectors of the encoder as it is; returns scores of the dev set by what was not refitted.

        A linear branch is weighed on the dev set, which then has to stay unseen.
        """
        from graphattn.models.training._frozen import fit_frozen
        from graphattn.models.training.callbacks import Tracker

        row, scores = fit_frozen(
            self.model_.eval(),
            corpus,
            dev,
            evaluate=None if held_out is None else self._make_measure(held_out),
            refit=refit and not self.head_.linear_branch,
            encoder_is_tuned=bool(self.pretrained_.contrastive),
            folder=None if self.training_.run_dir is None else Path(self.training_.run_dir),
            about=repr((self._architecture(), self.model_.precision)),
            report=self._make_log(callbacks),
        )
        self.history_ = [row]
        for callback in callbacks:
            if isinstance(callback, Tracker):
                callback.log_epoch(row)
        return scores

    def _make_measure(self, held_out: Examples) -> Any:
        """Make a function that measures decisions for the dev set."""
        measure = partial(self.task_.measure, held_out.labels)
        if held_out.weights is None or not self.task.weighted_metrics:
            return measure
        return partial(measure, weights=held_out.weights)

    def _fingerprint(self, held_out: Examples | None, *, starts_anew: bool) -> dict[str, Any]:
        """Settings that a resumed run must share with the interrupted one, besides training options and corpora."""
        groups = {"encoder": self.encoder_, **{name: o for name, o in self._options.items() if name != "training"}}
        plain = {f"{group}.{name}": v for group, options in groups.items() for name, v in options.to_dict().items()}
        start = {}
        if not starts_anew:
            start = {"initial weights": digest_of(*(tensor.numpy() for tensor in self.model_.state_dict().values()))}
        vectors = self.text_inputs_.describe_vectors(self.model_)
        return {
            "task": self.task.name,
            **plain,
            **start,
            "class_weight": repr(self.task_.class_weight),
            "vectors": digest_of(*vectors) if vectors else None,
            "references": self.task_.describe_references(held_out),
            **self.task_.to_config(),
        }

    def _finish_model(
        self,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        *,
        refit: bool,
        callbacks: Sequence[Callback],
    ) -> tuple[npt.NDArray[np.floating] | None, list[Any] | None]:
        """Add to the model what is fitted after training; ``refit`` also to the dev set, a part of the training set.

        Returns scores of and decisions for the dev set by what was not fitted to it, if they are known.
        """
        self.text_inputs_.finish(corpus)
        head = self._options.get("head")
        if head is None or not head.linear_branch:
            return None, None
        from graphattn.models.training._linear_branch import fit_linear_branch

        metric = self.training_.metric or self.main_metric
        measured: list[list[Any]] = []

        def evaluate(decisions: list[Any]) -> dict[str, float]:
            assert held_out is not None
            measured.append(decisions)
            metrics: dict[str, float] = self._make_measure(held_out)(decisions)
            return metrics

        self.mixture_, scores = fit_linear_branch(
            self.model_,
            corpus,
            dev,
            self.vocabulary_.words,
            metric=metric,
            alone=self.best_epoch().get(f"dev_{metric}"),
            evaluate=evaluate,
            refit=refit,
            training=self.training_,
            callbacks=callbacks,
        )
        self.text_inputs_.has_branch = isinstance(self.model_.linear_branch, WordFeatureBranch)
        return scores, measured[-1] if measured and self.mixture_ else None

    def _fit_decisions(
        self,
        examples: Examples,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        scores: npt.NDArray[np.floating] | None,
        callbacks: Sequence[Callback],
        validated: ScoredTexts | None,
    ) -> list[Any] | None:
        """Fit what turns the model's scores into probabilities and labels, and measure the dev set with it.

        Without a dev set, ``validated`` takes its place. Returns the decisions for the dev set if these have changed.
        """
        if not self.task_.calibrates:
            return None
        from graphattn.models.training._decisions import ScoredTexts

        scored = validated
        if dev is not None:
            scores = np.array(predict_corpus(self.model_, dev, scores=True).scores) if scores is None else scores
            scored = ScoredTexts.of(scores, dev.targets, dev.weights)
        is_validated = dev is None and validated is not None
        decided = self.task_.fit_decisions(
            self.model_,
            corpus,
            scored,
            cross_validate=None if is_validated else lambda: validated or self._cross_validate(examples),
            log=self._make_log(callbacks),
        )
        if decided is not None and held_out is not None:
            metrics = self._make_measure(held_out)(decided)
            self.mixture_ |= {f"dev_{name}": value for name, value in metrics.items()}
        return decided

    def _cross_validate(self, examples: Examples) -> ScoredTexts:
        """The scores of all training texts, each by a model that was trained without its fold."""
        from graphattn.models.training._decisions import ScoredTexts, split_folds

        labels = self.task_.normalize_labels(examples.labels, "training set")  # those of the model to continue from
        examples = replace(examples, labels=labels)
        scores = np.empty((len(labels), len(self.task_.class_names)))
        of_tuning = {f"pretrained__{name}": getattr(self.pretrained_, name) for name in ("frozen", "contrastive")}
        for rest, held in split_folds(len(labels), self.task_.stratify(labels)):
            scores[held] = self._score_fold(examples, rest, held, **of_tuning)
        return ScoredTexts.of(scores, self.task_.make_targets(labels, "training set"), examples.weights)

    def _score_fold(self, examples: Examples, rest: Numbers, held: Numbers, **params: Any) -> npt.NDArray[np.floating]:
        """(held, C) scores of texts by a copy of this estimator with other parameters, trained on the rest."""
        from sklearn.base import clone

        rest_examples = examples.select(rest.tolist())
        params = {"training__run_dir": None, "training__progress": False, "tune_threshold": None, **params}
        class_weight = self.task_.class_weight
        if isinstance(class_weight, Mapping):
            names = self.task_.class_names
            targets = np.asarray(self.task_.make_targets(rest_examples.labels, "training set"))
            present = {names[number] for number in np.flatnonzero(mark_classes(targets, len(names)).any(0))}
            params["class_weight"] = {name: value for name, value in class_weight.items() if name in present}
        fold = clone(self).set_params(**params)
        if round(fold.training.dev_fraction * len(rest)) < 1:  # so that there is nothing to measure
            fold.set_params(training__metric=None)
        with warnings.catch_warnings(), fold._rollback_on_failure():
            warnings.simplefilter("ignore", GraphAttnWarning)  # the model itself gives them, too
            fold._prepare_options()
            fold._fit_examples(rest_examples)
        details = fold._rerun(examples.select(held.tolist()).columns, scores=True)
        scores = np.full((len(held), len(self.task_.class_names)), _UNKNOWN_CLASS)
        scores[:, self.task_.match_classes(fold.task_)] = details.scores
        return scores

    def _review(self, dev: Corpus | None, held_out: Examples | None, decisions: list[Any] | None) -> None:
        """Keep the decisions for the dev set; warn if these or the loss show that training went wrong."""
        from graphattn.models.training._checkpoints import is_first_process
        from graphattn.models.training._hints import hint_at_loss

        if not is_first_process():
            return
        hints: list[Hint | None] = [hint_at_loss(self.history_, self.training_.learning_rate)]
        if dev is not None and held_out is not None:
            decisions = decisions or self.task_.predict_dev_set(self.model_, dev)
            has_vectors = self.text_inputs_.has_vectors
            hints.append(self.task_.hint_at_predictions(held_out.labels, decisions, has_vectors=has_vectors))
            # a report has no weights, and is of the search of `predict`
            if held_out.weights is None and self.task.dev_search is None:
                self._dev_results = held_out.labels, decisions
        for hint in hints:
            if hint is not None:
                warn_caller(hint)

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> Any:
        """One prediction for each input, in their order.

        Parameters
        ----------
        X : the inputs; a generator or another stream of them is read some at a time
        """
        self._check_fitted()
        decisions = map_parts(lambda part: self._decide(self._make_columns(part)), X)
        return self.task_.decode(list(chain.from_iterable(decisions)))

    def encode(self, X: Iterable[Any], y: Iterable[Any] | None = None) -> Corpus:
        """Inputs as the model reads them, with targets if there are labels."""
        self._check_fitted()
        X = as_list(X, self.task.texts_per_input, self.task_.feature_names)
        return self._encode(self._make_columns(X), None if y is None else self.task_.resolve_labels(X, y))

    def _encode(
        self,
        columns: Columns,
        labels: Sequence[Any] | None = None,
        *,
        where: str = "data",
        numbers: Sequence[int] | None = None,
    ) -> Corpus:
        inputs, parsing = self.text_inputs_, self.parsing
        return self.task_.encode(inputs, columns, labels, parsing=parsing, where=where, numbers=numbers)

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
        parts = map_parts(lambda part: self._rerun(self._make_columns(part), **options), X)
        return Predictions.join(parts)

    def _rerun(self, columns: Columns, **options: Any) -> Predictions:
        return predict_corpus(self.model_, self._encode(columns), **options)

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
        X = as_list(X, self.task.texts_per_input, self.task_.feature_names)
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
        return 1 if self.task_.joins_pairs else self.task.texts_per_input

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
        return encode_corpus(self.model_, self._encode(self._make_columns(X)))

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
        return self.task_.measure(examples.labels, self._decide(examples.columns), *weights)

    def _decide(self, columns: Columns) -> list[Any]:
        return self.task_.predict(self.model_, self._encode(columns))

    def _evaluation_set(
        self, X: Iterable[Any], y: Iterable[Any] | None, unknown: str | None, sample_weight: Any = None
    ) -> Examples:
        """The examples with labels in the training set's notation."""
        if unknown not in (None, "wrong", "error"):
            raise ConfigError(f"unknown is {unknown!r}; choose wrong or error")
        self._check_fitted()
        self.task_.list_metrics()  # an error if a library is missing
        examples = self._make_examples(X, y, "there are no examples to evaluate on", sample_weight=sample_weight)
        labels = self.task_.normalize_labels(examples.labels, "evaluation set")
        self.task_.check_labels(labels, examples.columns, self.text_inputs_, unknown=unknown)
        return replace(examples, labels=labels)

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
        predictions = self.task_.predict_for_report(self.model_, self._encode(examples.columns))
        return self.task_.report(examples, predictions, inputs=self.text_inputs_, rerun=self._rerun, others=others)

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

    @property
    def epoch_note(self) -> str | None:
        """What the dev metrics of an epoch measure, if not the final model."""
        head = self.resolve_options().get("head")
        has_branch = head is not None and head.linear_branch and self.task.linear_branch is not None
        return "graph encoder alone" if has_branch else self.task.dev_search

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
            return attention_of(self, inputs, self.capture(inputs.batch, features=features))

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
        notes : additional text files, name -> content
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
        files = self._files(notes or {})
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
        from graphattn.models._hub import push

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
            metrics, options = self.dev_metrics(), self.non_default_options()
            dev = Report(metrics, self.main_metric) if metrics else None
            if self._dev_results is not None:
                labels, decisions = self._dev_results
                examples, predictions = Examples([], labels), Predictions(decisions)
                dev = self.task_.report(examples, predictions, inputs=self.text_inputs_, rerun=self._rerun)
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

    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
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
        groups: dict[str, Any] = {name: kind.from_dict(config[name]) for name, kind in cls._groups().items()}
        estimator = cls(encoder_options(config["encoder"]), **groups, **arguments)
        estimator._prepare_options()
        estimator._forget_unset(config["set_options"])
        estimator.corpus_, estimator.history_ = config["corpus"], config["history"]
        inputs, task = estimator.text_inputs_, estimator.task_
        inputs.spelling = inputs.has_branch = (
            "linear_branch.keys" in weights and task.linear_branch is WordFeatureBranch
        )
        task.restore(inputs, files)
        with torch.random.fork_rng():
            estimator._make_model()
        inputs.restore_frozen_weights(estimator.model_, weights)
        if task.linear_branch is not None and "linear_branch.keys" in weights:
            of_branch = {name: value for name, value in weights.items() if name.startswith("linear_branch.")}
            estimator.model_.linear_branch = task.linear_branch.like(of_branch)
        estimator.mixture_, estimator.card_ = config["mixture"], files.card
        estimator.model_.load_state_dict(weights)
        estimator.model_.eval()
        return estimator

    def _forget_unset(self, set_options: Mapping[str, Sequence[str]]) -> None:
        """Let only options that were set before training count as set in a loaded model."""
        for name in ("encoder", *self._groups()):
            options = getattr(self, name)
            for unset in vars(options).keys() - {*set_options.get(name, ())}:
                delattr(options, unset)

    def to_huggingface(self, directory: str | Path) -> None:
        """Write the tuned pretrained model for ``transformers`` and ``sentence-transformers``.

        A linear head on ``[CLS]``, or on the first token of each word, is written, too, if nothing else is on top; the
        directory's README says what is missing.

        Parameters
        ----------
        directory : a new directory

        Raises
        ------
        ConfigError
            without a pretrained model, for other edges than those of pretraining, or when the directory exists
        """
        from graphattn.models.pretrained._native_head import convert_head, find_missing_layers

        self._check_fitted()
        lower = find_pretrained(self.model_.encoder)
        if not isinstance(self.model_, TextModel):
            raise ConfigError(f"a model that {self.task.description} has no form in transformers; use its save")
        if lower is None:
            raise ConfigError(
                "the model is not built on a pretrained one; train with {pretrained}", options=("pretrained",)
            )
        family = lower.architecture.family
        missing = find_missing_layers(self.model_, family)
        head = None if missing else convert_head(self.model_.head, family, np.asarray(self.task_.class_names).tolist())
        vocabulary: Any = self.vocabulary_
        embedding = self.model_.embedding.trained
        lower.to_huggingface(directory, embedding=embedding, vocabulary=vocabulary, head=head, missing=missing)

    def to_dense(self) -> DenseModel:
        """A plain PyTorch module of padded ids, for ``torch.export`` and ``torch.compile`` without graph breaks.

        Its inputs are ``input_ids`` and ``attention_mask`` (B, L), and ``token_type_ids`` of pairs. Its output is
        (B, classes) scores of texts or (B, L, classes) of tokens; of a regressor, (B, 1) numbers.

        Raises
        ------
        ConfigError
            naming the parts of the model that padded texts cannot express
        """
        from graphattn.models._dense_model import make_dense_model

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
        from graphattn.models._onnx import write_onnx

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

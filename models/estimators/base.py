"""The base of all estimators: options, fit, predict, evaluate and save."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, NotFittedError, TruncationWarning
from graphattn.models.corpus import Corpus, digest_of
from graphattn.models.encoders import EncoderOptions, encoder_options
from graphattn.models.estimators.inputs import (
    Columns,
    as_list,
    check_weights,
    name_dev_set_in_errors,
    split_held_out,
    unpack_dev_set,
)
from graphattn.models.estimators.parsing import check_scheme, count_relations
from graphattn.models.estimators.task import Examples, Task
from graphattn.models.estimators.warm_start import check_same_options, copy_weights
from graphattn.models.reports import Report
from graphattn.models.saving import write_model
from graphattn.options import Options

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    from graphattn.models.inspection import Attention

Predicted = Sequence[Any] | npt.NDArray[Any]
"""One prediction for each input."""
_FITTING = RLock()
"""Held by the thread that fits; its callbacks may fit other estimators."""


class Estimator(Task):
    """Base of the estimators; each subclass is a task.

    Threads may fit and use several estimators: one fits at a time, since PyTorch has one random generator.

    :func:`~graphattn.models.saving.register_task` adds a task to the command line.
    """

    warm_start: bool = False
    """Whether :meth:`fit` continues from the fitted model, if there is one."""
    _previous: Self | None = None
    """The estimator before a fit that continues from it, until training begins."""
    deprels_: list[str] | None = None
    """Dependency relations of the training set, for an encoder that uses dependency arcs."""
    _transient: ClassVar[tuple[str, ...]] = ()
    """Attributes that are deleted after fitting; they may be large."""

    # -- options -------------------------------------------------------------------------------------------------------

    def resolved_encoder(self) -> EncoderOptions:
        """The encoder's options, where those that were not set have the defaults of the task and the preset."""
        encoder = self._named_encoder()
        return encoder.with_defaults(vars(self.encoder_defaults(type(encoder), self._preset)))

    def _named_encoder(self) -> EncoderOptions:
        """The encoder's options as they were set."""
        return encoder_options(self.default_encoder(self._pretrained) if self.encoder is None else self.encoder)

    @property
    def _preset(self) -> str:
        return getattr(self, "preset", "default")

    @property
    def _pretrained(self) -> str | None:
        return getattr(getattr(self, "pretrained", None), "pretrained", None)

    @classmethod
    def default_encoder(cls, pretrained: str | None) -> str:
        """The name of the encoder unless one is chosen, with a pretrained model or without."""
        return "ms-trans"

    @classmethod
    def encoder_defaults(cls, options: type[EncoderOptions], preset: str) -> EncoderOptions:
        """The options of an encoder where they are not set; the preset of a task without presets is "default"."""
        return options()

    def resolved_options(self) -> dict[str, Any]:
        """Group -> its options, where those that were not set have the defaults of the preset or pretrained model."""
        defaults = self.option_defaults(self._preset, self._pretrained)
        return {name: getattr(self, name).with_defaults(defaults.get(name, {})) for name in self._parts()}

    @classmethod
    def option_defaults(cls, preset: str, pretrained: str | None) -> Mapping[str, Mapping[str, Any]]:
        """Group -> option -> default, where it differs from that of the class."""
        return {}

    def validate(self) -> None:
        """Validate all options.

        Raises
        ------
        ConfigError
            naming the option and a fix
        """
        self.resolved_encoder().validate()
        for options in self.resolved_options().values():
            options.validate()
        kind = self.option_groups.get("task", Options)
        arguments = {item.name: getattr(self, item.name) for item in fields(kind)}
        # weights by class are validated with the labels
        kind(**{name: None if isinstance(value, Mapping) else value for name, value in arguments.items()}).validate()

    @classmethod
    def _parts(cls) -> dict[str, type[Options]]:
        """The groups of options that are constructor arguments, without the encoder's."""
        return {name: kind for name, kind in cls.option_groups.items() if name not in ("files", "task", "encoder")}

    @classmethod
    def config_types(cls) -> dict[str, Any]:
        """Name -> JSON type of the values that :meth:`save` writes to ``config.json``; optional ones may be null.

        A class that writes more than its base adds their types.
        """
        groups = {name: kind | None if name in cls.late_options else kind for name, kind in cls._parts().items()}
        shared = {"encoder": dict[str, Any], "history": list[dict[str, float]], "deprels": list[str] | None}
        return {**shared, "set_options": dict[str, list[str]] | None, **groups}

    def _resolve_options(self) -> None:
        """Copy the options, so that ``set_params`` does not change a fitted model."""
        self.validate()
        self.encoder_ = self.resolved_encoder().copy()
        for name, options in self.resolved_options().items():
            if name not in self.late_options:
                setattr(self, f"{name}_", options)
        if self.inputs_.cls is None:
            self.inputs_.cls = self.encoder_.begins_with_cls

    def non_default_options(self) -> dict[str, Any]:
        """Name -> value of the options of a fitted estimator that differ from the defaults."""
        self._check_fitted()
        reference = self._with_defaults()
        reference._resolve_options()
        reference.encoder_ = reference.encoder_.for_parts(self._part_widths())
        changed: dict[str, Any] = {}
        pretrained: Any = getattr(self, "pretrained_", None)
        if pretrained is not None and pretrained.pretrained:  # the reference has the same
            changed["pretrained"] = pretrained.pretrained
        for name, default in reference.get_params(deep=False).items():
            default = getattr(reference, f"{name}_", default)
            if isinstance(default, Options):
                defaults, values = default.to_dict(), getattr(self, f"{name}_", getattr(self, name)).to_dict()
                changed |= {option: value for option, value in values.items() if value != defaults.get(option)}
            elif getattr(self, name) != default:
                changed[name] = getattr(self, name)
        return changed

    def changed_options(self) -> dict[str, Any]:
        """Former name of :meth:`non_default_options`."""
        return self.non_default_options()

    def _with_defaults(self) -> Self:
        return type(self)(self.encoder_.name)

    @abstractmethod
    def _part_widths(self) -> Sequence[int]:
        """Widths of the parts of the encoder's input vectors."""

    @override
    def set_params(self, **params: Any) -> Self:
        """Change parameters; the name of a pretrained model leaves the other options in ``pretrained`` as they are."""
        if "pretrained" in params and not isinstance(params["pretrained"], Options):
            params["pretrained__pretrained"] = params.pop("pretrained")
        return super().set_params(**params)

    @override
    def _get_nested(self, name: str) -> Any:
        if name == "encoder":
            self.encoder = self._named_encoder()
        return super()._get_nested(name)

    # -- scikit-learn's metadata routing ------------------------------------------------------------------------------

    def get_metadata_routing(self) -> Any:
        """Which arguments of ``fit`` and ``score`` are requested, as scikit-learn's ``MetadataRequest``."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):  # this name is copied by sklearn.base.clone
            self._metadata_request = MetadataRequest(owner=type(self).__name__)
            for name in ("sample_weight", "dev", "callbacks"):
                self._metadata_request.fit.add_request(param=name, alias=None)
            self._metadata_request.score.add_request(param="sample_weight", alias=None)
        return self._metadata_request

    def set_fit_request(self, **aliases: bool | str | None) -> Self:
        """Which of ``sample_weight``, ``dev`` and ``callbacks`` a pipeline or search passes to ``fit``, or an alias."""
        return self._set_requests("fit", aliases)

    def set_score_request(self, **aliases: bool | str | None) -> Self:
        """Whether a pipeline or search passes ``sample_weight`` to ``score``, or an alias."""
        return self._set_requests("score", aliases)

    def _set_requests(self, method: str, aliases: Mapping[str, bool | str | None]) -> Self:
        requests = getattr(self.get_metadata_routing(), method)
        unknown = aliases.keys() - requests.requests.keys()
        if unknown:
            raise TypeError(f"{method} has no argument {min(unknown)!r}; it has: {', '.join(requests.requests)}")
        for name, alias in aliases.items():
            requests.add_request(param=name, alias=alias)
        return self

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
        X : the inputs, or a :class:`~graphattn.builders.store.Store` of them, which need not fit into memory
        y : their labels, or a translator's targets; None if the inputs contain them (``Example``, ``Sentence``)
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
            self._previous = previous
            self.deprels_ = None if previous is None else previous.deprels_
            self._resolve_options()
            training = self._examples(X, y, "there are no training examples", sample_weight=sample_weight)
            self.training_.epochs = self.training_.resolve_epochs(len(training.labels), **self._epochs_by_default())
            if previous is not None:
                training = replace(training, labels=self._normalize_labels(training.labels, "training set"))
            with torch.random.fork_rng():
                torch.manual_seed(self.training_.seed)
                self._fit_labels(training)
                training, held_out = self._split_dev_set(training, dev)
                if held_out is not None:
                    self.training_.metric = self._choose_dev_metric(held_out.labels)
                metric = self.training_.dev_metric(self._metric_names(), self.main_metric, dev_set=held_out is not None)
                self._fit_vocabulary(training)
                self.model_ = self._make_model(self._class_weights(training.labels, training.weights))
                if previous is not None:
                    check_same_options(previous._architecture(), self._architecture())
                    self._copy_model(previous)
            corpus, dev_corpus = self._train(training, held_out, metric, callbacks)
            self._finish_model(corpus, dev_corpus, held_out, refit=dev is None, callbacks=callbacks)
            self._give_hints(dev_corpus, held_out)
        return self

    def _epochs_by_default(self) -> Mapping[str, int]:
        """Arguments of :meth:`~graphattn.models.TrainingOptions.resolve_epochs`."""
        return {}

    def _finish_model(
        self,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        *,
        refit: bool,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Add to the model what is fitted after training; ``refit`` also to the dev set, a part of the training set."""

    @contextmanager
    def _rollback_on_failure(self) -> Iterator[None]:
        """Restore the previous state unless an epoch finished."""
        before = dict(vars(self))
        for name in ("model_", "history_"):
            vars(self).pop(name, None)
        try:
            yield
        finally:
            for name in (*self._transient, "_previous"):
                vars(self).pop(name, None)
            if vars(self).get("history_"):
                self.model_.eval()
            else:
                vars(self).clear()
                vars(self).update(before)

    def _examples(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None,
        empty: str,
        *,
        hint: str | None = None,
        sample_weight: Any = None,
    ) -> Examples:
        X = as_list(X, self.texts_per_input)
        if not X:
            raise DataError(empty, hint=hint)
        columns, labels = self._columns(X), self._labels(X, y)
        return Examples(columns, labels, weights=check_weights(sample_weight, len(labels)))

    def _split_dev_set(self, training: Examples, dev: Any) -> tuple[Examples, Examples | None]:
        """Training set and dev set; when ``dev`` is None, a part of the training set."""
        if dev is not None:
            hint = "Without a dev set, a share of the training set is held out."
            X, y = unpack_dev_set(dev)
            with name_dev_set_in_errors():
                held_out = self._examples(X, y, "there are no examples in it", hint=hint)
            return training, Examples(held_out.columns, self._normalize_labels(held_out.labels, "dev set"))
        size = len(training.labels)
        count = round(self.training_.dev_fraction * size)
        if count < 1:
            return training, None
        if size - count < 2:
            warnings.warn(
                f"dev_fraction {self.training_.dev_fraction} of {size} examples would leave {size - count} to train "
                "on, so nothing is held out and the last epoch is kept; lower dev_fraction",
                GraphAttnWarning,
                stacklevel=3,
            )
            return training, None
        rest, held = split_held_out(size, count, self._strata(training.labels), self.training_.seed)
        return training.select(rest), training.select(held)

    def _train(
        self, training: Examples, held_out: Examples | None, metric: str, callbacks: Sequence[Callback]
    ) -> tuple[Corpus, Corpus | None]:
        """Train ``model_``; return the encoded training set and dev set."""
        from graphattn.models.training.loop import train  # Lightning takes seconds to load, and only training needs it

        corpus = self._corpus(training.columns, training.labels, where="training set", numbers=training.numbers)
        if training.weights is not None:
            corpus = corpus.with_weights(training.weights)
        dev = evaluate = None
        if held_out is not None:
            dev = self._dev_corpus(held_out)
            evaluate = partial(self._metrics, held_out.labels)
            if held_out.weights is not None:
                dev = dev.with_weights(held_out.weights)
                if self.weighted_metrics:
                    evaluate = partial(evaluate, weights=held_out.weights)
        self.history_, about = [], self._fingerprint(held_out)
        self._previous = None  # other processes do not need it
        train(
            self.model_,
            corpus,
            self.training_,
            dev=dev,
            evaluate=evaluate,
            decide=self._predict_corpus,
            metric=metric,
            about=about,
            files=None if self.training_.run_dir is None else self._files({}),
            history=self.history_,
            callbacks=callbacks,
        )
        return corpus, dev

    def _give_hints(self, dev: Corpus | None, held_out: Examples | None) -> None:
        """Warn if the loss or the predictions for the dev set show that training went wrong."""
        from graphattn.models.training.checkpoints import is_first_process
        from graphattn.models.training.hints import hint_at_loss

        if not is_first_process():
            return
        hints = [hint_at_loss(self.history_, self.training_.learning_rate)]
        if dev is not None and held_out is not None:
            hints.append(self._hint_at_predictions(held_out.labels, self._predict_corpus(self.model_, dev)))
        for hint in hints:
            if hint is not None:
                warnings.warn(hint, stacklevel=3)

    def _hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any]) -> Hint | None:
        """A hint if the decisions for the dev set are all alike or empty."""
        return None

    def _dev_corpus(self, held_out: Examples) -> Corpus:
        where = "dev set" if held_out.numbers is None else "training set"  # held-out texts are counted there
        return self._corpus(held_out.columns, held_out.labels, where=where, numbers=held_out.numbers)

    def _check_relations(self, columns: Columns, where: str) -> None:
        """Keep the dependency relations of the training set, and reject those of another scheme."""
        if self.builder_.deprel_id is None:
            return
        counts = count_relations(columns)
        if self.deprels_ is None and where == "training set":
            self.deprels_ = sorted(counts)
        elif self.deprels_ is not None:
            check_scheme(counts, self.deprels_)

    def _fingerprint(self, held_out: Examples | None) -> dict[str, Any]:
        """What must be equal to resume a run, besides training options and corpora."""
        groups = {"encoder": self.encoder_, **self._model_options()}
        plain = {f"{group}.{name}": v for group, options in groups.items() for name, v in options.to_dict().items()}
        start = {}
        if self._previous is not None:
            start = {"initial weights": digest_of(*(tensor.numpy() for tensor in self.model_.state_dict().values()))}
        return {"task": self.task, **plain, **start}

    def _model_options(self) -> dict[str, Options]:
        """The groups of options that describe the fitted model, without the encoder's."""
        names = [name for name in self._parts() if name != "training" and name not in self.late_options]
        return {name: getattr(self, f"{name}_") for name in names}

    def _architecture(self) -> dict[str, Any]:
        """Option -> value of those that describe the fitted model."""
        values = self.encoder_.to_dict()
        for options in self._model_options().values():
            values |= options.to_dict()
        return values

    def _copy_model(self, previous: Self) -> None:
        """Copy the weights of the model to continue from."""
        copy_weights(previous.model_, self.model_)

    # -- using ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def predict(self, X: Iterable[Any]) -> Predicted:
        """One prediction for each input, in their order."""

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
        X = as_list(X, self.texts_per_input)
        return [self.format_row(x, prediction) for x, prediction in zip(X, self.predict(X), strict=True)]

    def format_predictions(self, X: Sequence[Any], output: str) -> list[str]:
        """Predictions as texts, one for each input.

        Parameters
        ----------
        X : the inputs
        output : one of :attr:`output_formats` other than ``json``

        Raises
        ------
        ConfigError
            when the estimator has no such output
        """
        raise ConfigError(
            f"{{output}} is {output!r}; a model that {self.description} has: {', '.join(self.output_formats)}",
            options=("output",),
        )

    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, F) sentence vectors of a classifier.

        Raises
        ------
        ConfigError
            when the model has none
        """
        raise ConfigError(f"a model that {self.description} has no sentence vectors; use a classifier")

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        return TruncationWarning(count, getattr(self.inputs_, "max_tokens_per_text", None) or 0, tokens, where)

    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str = "wrong",
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        """:meth:`evaluate`, with the scores of each class, a confidence interval and the mistakes.

        Parameters
        ----------
        X, y, unknown : as for :meth:`evaluate`
        others : name of another translator -> its outputs, to compare with
        """
        return Report(self.evaluate(X, y, unknown=unknown), self.main_metric)

    def evaluate(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str = "wrong",
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> dict[str, float]:
        """Metrics in percent.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`
        unknown : ``"wrong"`` counts labels that the training set lacks as wrong, with a warning; ``"error"`` rejects
            them

        Raises
        ------
        DataError
            without examples, or for an unknown label if ``unknown`` is ``"error"``
        ConfigError
            for weights and a translator, whose metrics are of the whole corpus
        """
        if sample_weight is not None and not self.weighted_metrics:
            raise ConfigError(f"sample_weight does not apply to {self.main_metric}; leave it out")
        examples = self._evaluation_set(X, y, unknown, sample_weight)
        weights = () if examples.weights is None else (examples.weights,)
        return self._metrics(examples.labels, self._predict_columns(examples.columns), *weights)

    def _evaluation_set(
        self, X: Iterable[Any], y: Iterable[Any] | None, unknown: str, sample_weight: Any = None
    ) -> Examples:
        """The examples with labels in the training set's notation."""
        if unknown not in ("wrong", "error"):
            raise ConfigError(f"unknown is {unknown!r}; choose wrong or error")
        self._check_fitted()
        examples = self._examples(X, y, "there are no examples to evaluate on", sample_weight=sample_weight)
        labels = self._normalize_labels(examples.labels, "evaluation set")
        self._check_labels(labels, examples.columns, unknown=unknown)
        return replace(examples, labels=labels)

    def _check_labels(self, labels: Sequence[Any], columns: Columns, *, unknown: str) -> None:
        """Reject labels that cannot be evaluated."""

    def score(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> float:
        """The main metric, from 0 to 1 as in scikit-learn; labels that the training set lacks count as wrong."""
        return self.evaluate(X, y, unknown="wrong", sample_weight=sample_weight)[self.main_metric] / 100

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
        from graphattn.models.inspection.attention import attention_of  # loads networkx and pandas

        inputs = self.encode_input(x, target=target)
        with torch.inference_mode():
            return attention_of(self, inputs, self.capture(inputs.batch, features=features))

    def best_epoch(self) -> dict[str, float]:
        """The history's row of the epoch that was kept: the last one with the best dev metric."""
        metric = f"dev_{self.training_.metric or self.main_metric}"
        if metric not in self.history_[-1]:  # no dev set
            return self.history_[-1]
        return max(reversed(self.history_), key=lambda row: row[metric])

    @property
    def epoch_note(self) -> str | None:
        """What the dev metrics of an epoch measure, if not the final model."""
        return self.dev_search

    def dev_metrics(self) -> dict[str, float]:
        """Metrics of the model on the dev set; empty without one."""
        return {name.removeprefix("dev_"): v for name, v in self.best_epoch().items() if name.startswith("dev_")}

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise _not_fitted_error(
                f"this {type(self).__name__} is not trained yet; call fit, or graphattn.load a saved one"
            )

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, notes: Mapping[str, str] | None = None) -> Path:
        """Write a self-contained model directory for :func:`graphattn.load`; an old one is replaced atomically.

        Parameters
        ----------
        path : the directory
        notes : additional text files, name -> content

        Raises
        ------
        NotFittedError
            before ``fit``
        ModelDirectoryError
            when ``path`` is not a model directory, or cannot be written
        """
        self._check_fitted()
        return write_model(Path(path), self._files(notes or {}))

    def _serialize_options(self) -> dict[str, Any]:
        groups = {name: getattr(self, f"{name}_", getattr(self, name)).to_dict() for name in self._parts()}
        groups["training"] |= {"run_dir": None, "progress": True}  # a folder and the terminal of this machine
        given = {"encoder": self._named_encoder(), **{name: getattr(self, name) for name in self._parts()}}
        set_options = {name: sorted(vars(options)) for name, options in given.items()}
        facts = {"set_options": set_options, "history": self.history_, "deprels": self.deprels_}
        return {"task": self.task, "encoder": self.encoder_.to_dict(), **groups, **facts}

    def _forget_unset(self, set_options: Mapping[str, Sequence[str]] | None) -> None:
        """Let only options that were set before training count as set in a loaded model."""
        if set_options is None:
            return
        for name in ("encoder", *self._parts()):
            options = getattr(self, name)
            for unset in vars(options).keys() - {*set_options.get(name, ())}:
                delattr(options, unset)

    def _state(self) -> dict[str, Tensor]:
        return {name: tensor.detach().cpu() for name, tensor in self.model_.state_dict().items()}


def _not_fitted_error(message: str) -> NotFittedError:
    """Make an error that scikit-learn's tools recognise as theirs."""
    from sklearn.exceptions import NotFittedError as OfScikitLearn  # takes long to import

    class Joint(NotFittedError, OfScikitLearn):  # type: ignore[misc]
        @override
        def __reduce__(self) -> tuple[Any, ...]:
            return _not_fitted_error, (message,)

    Joint.__name__ = Joint.__qualname__ = NotFittedError.__name__
    return Joint(message)

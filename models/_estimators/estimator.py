"""The estimator: inputs, encoder and task, and how they are trained, used and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from graphattn.builders._sentence import Example
from graphattn.exceptions import ConfigError, Hint, TruncationWarning, warn_caller
from graphattn.models._corpus import Corpus
from graphattn.models._estimators.exports import export_dense, export_onnx, write_card
from graphattn.models._estimators.inputs import as_list, has_predict, map_parts, predict_with_others
from graphattn.models._estimators.model_files import collect_files
from graphattn.models._estimators.sklearn_protocol import ScikitLearn
from graphattn.models._estimators.tasks.explain import Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.texts import Texts, collect_fields
from graphattn.models._estimators.warm_start import list_decided_options
from graphattn.models._files.dense_model import DenseModel
from graphattn.models._files.hub import push
from graphattn.models._files.saving import METRICS, write_model
from graphattn.models._prediction import Predictions, encode_corpus
from graphattn.models._results.reports import Report
from graphattn.models._text_model import TextModel
from graphattn.models.defaults import Facts
from graphattn.models.pretrained._native_head import export_estimator

if TYPE_CHECKING:
    from graphattn.models.inspection import Attention
    from graphattn.models.training._callback import AnyCallback

_FITTING = RLock()
"""Held by the thread that fits; its callbacks may fit other estimators."""


class Estimator(ScikitLearn):
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

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        """Read corpora for :meth:`fit` or :meth:`evaluate`.

        Parameters
        ----------
        paths : files or a store. A translator reads a file or a store of sources and a file of targets, also as one
            text with a comma between them; or one table of both, in which a line without a header has a source and its
            target with a tab or ``|||`` between them
        format, options : as for :func:`~graphattn.builders.readers.read_corpus`, with ``skip`` and ``keep_row``. Of a
            translator ``text`` and ``second``, the columns of sources and targets in a table, ``header`` and ``skip``

        Returns
        -------
        Inputs, and their labels; None if the inputs contain them
        """
        split = getattr(self, "inputs_", self.inputs).split
        corpus = CorpusFiles(paths, format, options, training=self.corpus_, renew=self.warm_start, split=split)
        X, y, self.corpus_ = self.task_.read(corpus)
        return X, y

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        dev: tuple[Sequence[Any], Sequence[Any]] | Sequence[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
        callbacks: Sequence[AnyCallback] = (),
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
            docs/labels.md explains. A tagger's examples are sentences; a translator's dev metrics ignore weights
        callbacks : Lightning's callbacks for the trainer; picklable for several processes

        Ctrl-C ends training and keeps the best epoch so far, or the linear model before the first has ended; a second
        one aborts the fit.

        Raises
        ------
        DataError
            for invalid inputs or labels
        ConfigError
            for invalid options, or a library that is not installed
        TrainingError
            when the loss is not finite
        """
        from graphattn.models._estimators.fitting import Fit, restore_on_failure
        from graphattn.models._estimators.tuning import choose_tuning

        previous = copy(self) if self.warm_start and hasattr(self, "model_") else None
        with _FITTING, restore_on_failure(self):
            self.prepare(Facts(trained={} if previous is None else list_decided_options(previous)))
            empty, where = "there are no training examples", "training set"
            examples = self.read_examples(X, y, empty=empty, where=where, sample_weight=sample_weight)
            validated = choose_tuning(self, examples, dev, callbacks) if previous is None else None
            self._dev_results = Fit(self, examples, dev, previous, callbacks, validated, may_stop=True).run()
        return self

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> Any:
        """One prediction for each input, in their order.

        Parameters
        ----------
        X : the inputs; a generator or another stream of them is read some at a time
        """
        self._check_fitted()
        return self.task_.labels.decode(list(chain.from_iterable(map_parts(self._decide, X))))

    def _decide(self, X: Iterable[Any]) -> list[Any]:
        """Inputs that fit into memory -> texts -> an encoded corpus -> decisions."""
        texts = self.read_texts(X)
        corpus = self.encode_texts(texts)
        return self.task_.head.predict(self.model_, corpus)

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

    def predict_with_probabilities(self, X: Iterable[Any]) -> tuple[Any, list[npt.NDArray[np.float32]]]:
        """Labels as from :meth:`predict`, and the probabilities of each input, in one pass."""
        details = self.predict_details(X, probabilities=True)
        return self.task_.labels.decode(details.decisions), details.probabilities or []

    def predict_rows(self, X: Sequence[Any], *, probabilities: bool = False) -> list[dict[str, Any]]:
        """Predictions as rows of JSON, each with its input, as ``graphattn predict`` prints them.

        Parameters
        ----------
        X : the inputs
        probabilities : add the probability of each class
        """
        X = as_list(X, self.task_)
        return self._format_rows(X, *(self.predict_with_probabilities(X) if probabilities else (self.predict(X),)))

    def _format_rows(self, X: Sequence[Any], *columns: Iterable[Any]) -> list[dict[str, Any]]:
        """Inputs with their predictions, and perhaps probabilities, as rows of JSON."""
        rows = self.task_.rows
        return [rows.format(self._show_input(x), *row) for x, *row in zip(X, *columns, strict=True)]

    def _show_input(self, x: Any) -> Any:
        """The input that a row of output has: of a pair of strings, both under their names."""
        is_pair = isinstance(x, tuple) and len(x) == self.task.texts_per_input == 2
        return Example(*x) if is_pair and all(isinstance(text, str) for text in x) else x

    def encode(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, F) inputs of a classifier's last layers, for scikit-learn or semantic search.

        Of pairs there are (2 S, F) vectors, two in a row for each pair, unless the model reads a pair as one sequence,
        as pretrained ones do.

        Raises
        ------
        ConfigError
            when the model has none
        """
        self._check_fitted()
        if not isinstance(self.model_, TextModel) or self.model_.head.per_word:
            raise ConfigError(f"a model that {self.task.description} has no sentence vectors; use a classifier")
        if not (self.pretrained_.pretrained or self.best_epoch()["epoch"]):
            problem = "these vectors are of a graph encoder that was not trained; the linear model decides alone"
            warn_caller(Hint(f"{problem}. {{linear_branch=False}} trains without it", options=("linear_branch",)))
        return encode_corpus(self.model_, self.encode_texts(self.read_texts(X)))

    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""
        return self.text_inputs_.count_tokens(text)

    # -- evaluating ----------------------------------------------------------------------------------------------------

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
        if sample_weight is not None and not self.task_.labels.weighted_metrics:
            raise ConfigError(f"sample_weight does not apply to {self.main_metric}; leave it out")
        examples = self._evaluation_set(X, y, unknown, sample_weight)
        weights = () if examples.weights is None else (examples.weights,)
        return self.task_.labels.measure(examples.labels, self._decide(examples.unlabelled()), *weights)

    def _evaluation_set(
        self, X: Iterable[Any], y: Iterable[Any] | None, unknown: str | None, sample_weight: Any = None
    ) -> Texts:
        """The examples with labels in the training set's notation."""
        if unknown not in (None, "wrong", "error"):
            raise ConfigError(f"unknown is {unknown!r}; choose wrong or error")
        self._check_fitted()
        self.task_.labels.list_metrics()  # an error if a library is missing
        empty, where = "there are no examples to evaluate on", "evaluation set"
        examples = self.read_examples(X, y, empty=empty, where=where, sample_weight=sample_weight)
        examples = replace(examples, labels=self.task_.labels.normalize(examples.labels, where))
        self.task_.labels.check_known(examples, self.text_inputs_, unknown=unknown)
        return examples

    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str | None = None,
        others: Mapping[str, Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> Report:
        """:meth:`evaluate`, with the scores of each class, a confidence interval and the mistakes.

        Parameters
        ----------
        X, y, unknown : as for :meth:`evaluate`
        others : name of another model -> the model, or its predictions for ``X``, to compare with
        columns : a frame, or name -> a value of each input, that tables of mistakes have instead of the texts
        """
        if others and any(map(has_predict, others.values())):
            self._check_fitted()
            X = as_list(X, self.task_)
            others = predict_with_others(others, X)
        examples = self._evaluation_set(X, y, unknown)
        examples = replace(examples, fields=collect_fields(columns, len(examples)))
        task = self.task_
        predictions = task.head.predict_for_report(self.model_, self.encode_texts(examples.unlabelled()))
        return task.labels.report(examples, predictions, inputs=self.text_inputs_, rerun=self.rerun, others=others)

    def score(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> float:
        """The main metric from 0 to 1, of regressors R2, as in scikit-learn; unknown labels count as wrong."""
        metrics = self.evaluate(X, y, unknown="wrong", sample_weight=sample_weight)
        return metrics[self.task_.labels.score_metric or self.main_metric] / 100

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
        from graphattn.models.inspection._attention import predict_attention  # loads networkx and pandas

        return predict_attention(self, x, target=target, features=features)

    @property
    def explainer_(self) -> Explainer:
        """Explains predictions of the fitted model."""
        return self.task_.explain(self.model_)

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        return self.text_inputs_.describe_truncation(count, tokens, where)

    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        """Encode inputs for :attr:`explainer_`; ``targets`` are a translator's, its own outputs when None."""
        self._check_fitted()
        texts = self.read_texts(X)
        if targets is not None:
            raise ConfigError("{target} is for translators only", options=("target",))
        texts = self.text_inputs_.add_heads(texts, self.parsing)
        sentences = self.text_inputs_.sentences(texts)
        names = ("text",) if len(sentences) == 1 else ("first", "second")
        return self.encode_texts(texts).with_sentences(dict(zip(names, sentences, strict=True)))

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
        kept = dict(self.notes_)
        if self.task_.head.changed_thresholds:  # its scores are those of the old thresholds
            kept.pop(METRICS, None)
        files = collect_files(self, {**kept, **(notes or {})})
        files.card = self.make_card(results, corpora)
        return write_model(Path(path), files)

    def push_to_hub(self, name: str, *, private: bool = False, message: str = "Upload a model of GraphAttn") -> str:
        """Upload the model to the Hugging Face hub, for :func:`graphattn.load`; return the address of its page.

        Parameters
        ----------
        name : OWNER/NAME of a repository; it is made if there is none
        private : whether a new repository is private; if not, the owner's settings decide, by default it is public
        message : the message of the commit

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
        return write_card(self, self._report_dev_set, results or {}, corpora or {})

    def _report_dev_set(self) -> Report | None:
        """The report on the dev set of the last ``fit``; its metrics alone if its decisions are not known."""
        if self._dev_results is None:
            metrics = self.dev_metrics()
            return Report(metrics, self.main_metric) if metrics else None
        labels, decisions = self._dev_results
        examples, predictions = Texts([], labels=labels), Predictions(decisions)
        return self.task_.labels.report(examples, predictions, inputs=self.text_inputs_, rerun=self.rerun)

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
        return export_dense(self)

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
        self._check_fitted()
        export_onnx(self, path)

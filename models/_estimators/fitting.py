"""How an estimator is fitted, step by step; and scores of texts by models that were trained without their fold."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn._devices import find_device
from graphattn.exceptions import DataError, GraphAttnWarning, Hint, warn_caller
from graphattn.models._corpus import Corpus, digest_of
from graphattn.models._estimators.encoder_checks import check_encoder
from graphattn.models._estimators.inputs import name_dev_set_in_errors, split_held_out, unpack_dev_set
from graphattn.models._estimators.model_files import collect_files
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.warm_start import check_same_kind, copy_model, describe_architecture
from graphattn.models._options import TrainingOptions
from graphattn.models._prediction import count_truncation, predict_corpus
from graphattn.models.heads._word_features import WordFeatureBranch
from graphattn.models.training._branch_fitting import Start
from graphattn.models.training._budget import count_epochs, make_batches, measure_epoch, read_epochs
from graphattn.models.training._callback import AnyCallback
from graphattn.models.training._contrastive import train_contrastive
from graphattn.models.training._decisions import Numbers, ScoredTexts, split_folds
from graphattn.models.training._frozen import fit_frozen
from graphattn.models.training._hints import hint_at_loss
from graphattn.models.training._mixture import (
    LINEAR_ALONE,
    LinearModel,
    MeasureDevSet,
    fit_linear_model,
    name_metrics,
)
from graphattn.models.training._plain_torch import plain_torch
from graphattn.models.training._processes import is_first_process
from graphattn.models.training.callbacks import Tracker, describe_duration, make_log

Floats = npt.NDArray[np.floating]

UNKNOWN_CLASS = -30.0
"""Score of a class that a model was not trained on."""


class Fit:
    """One fit of an estimator, whose options are prepared.

    ``dev`` is the user's dev set, ``previous`` the estimator to continue from, and ``validated`` are scores of the
    training texts by cross-validation, if the way of training was chosen so. With ``may_stop``, Ctrl-C ends training
    and keeps the best epoch so far.
    """

    model: Any
    corpus: Corpus
    held_out: Texts | None
    """The dev set; ``dev_corpus`` is its encoded form."""
    dev_corpus: Corpus | None = None
    metric: str
    """The dev metric that chooses the best epoch."""
    scores: Floats | None = None
    """(S, C) scores of the dev set by what was not fitted to it; None if they are those of the model."""
    decisions: list[Any] | None = None
    """Decisions for the dev set by what was not fitted to it; None if they are those of the model."""
    linear: LinearModel | None = None
    """The linear model beside the graph encoder."""
    linear_row: dict[str, float] | None = None
    """Its row of the history."""

    def __init__(
        self,
        estimator: EstimatorState,
        examples: Texts,
        dev: Any = None,
        previous: EstimatorState | None = None,
        callbacks: Sequence[AnyCallback] = (),
        validated: ScoredTexts | None = None,
        *,
        may_stop: bool = False,
    ):
        self.estimator, self.examples, self.dev, self.previous = estimator, examples, dev, previous
        self.callbacks, self.validated = callbacks, validated
        self.started, self.may_stop = time.monotonic(), may_stop
        self.task: Task = estimator.task_
        self.inputs: TextInputs = estimator.text_inputs_
        self._read_options()
        self.log = make_log(self.training, callbacks)

    def run(self) -> tuple[Sequence[Any], list[Any]] | None:
        """Fit the estimator; return labels and decisions of the dev set for a report, if it can be made of them."""
        device = find_device(self.training.device)
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            training = self._learn_inputs()
            self._make_model(training)
        self._encode_sets(training)
        check_encoder(self.model, self.corpus)
        self._fit_linear_model()
        try:
            self._train(device)
            self.model.to(device)  # which Lightning left
            self.inputs.finish(self.corpus)
            self._add_linear_model()
        except BaseException:
            self._keep_linear_model()
            raise
        self._fit_decisions()
        return self._review()

    # -- before training -----------------------------------------------------------------------------------------------

    def _read_options(self) -> None:
        self.options: Mapping[str, Any] = self.estimator.options_
        self.training: TrainingOptions = self.options["training"]
        has_branch = "head" in self.options and self.options["head"].linear_branch
        self.inputs.spelling = has_branch and self.task.linear_branch is WordFeatureBranch

    def _learn_inputs(self) -> Texts:
        """Learn labels and vocabulary, and hold out a dev set; return the training set with words in place of texts."""
        task, previous, training = self.task, self.previous, self.examples
        if previous is not None:
            previous.model_.cpu()
            check_same_kind(self.inputs, previous.text_inputs_)
            training = replace(training, labels=previous.task_.labels.normalize(training.labels, "training set"))
        task.fit(training, self.options, None if previous is None else previous.task_)
        training, self.held_out = self._split_dev_set(training)
        facts = task.find_facts(training, self.held_out, self.options)
        facts |= {} if previous is None else self._compare_with(previous)
        self.estimator.decide_options(examples=len(self.examples.labels), **facts)
        self._read_options()
        names, main = task.labels.list_metrics(), task.labels.main_metric
        self.metric = self.training.dev_metric(names, main, dev_set=self.held_out is not None)
        return task.fit_inputs(self.inputs, training, self.options, previous)

    def _compare_with(self, previous: EstimatorState) -> dict[str, Any]:
        """Facts that the model to continue from decides: marks of predicates, and options of it that no longer fit."""
        dropped: dict[str, dict[str, Any]] = {"task": {}}
        if self.held_out is None and self.training.metric == previous.training_.metric is not None:
            problem = "{metric} of the model to continue from is dropped: there is no dev set"
            warn_caller(GraphAttnWarning(problem, options=("metric",)))
            dropped["training"] = {"metric": None}
        if getattr(self.task.head, "tune_threshold", "") is None:  # its task drops it
            dropped["task"] = {"tune_threshold": None}
        return {"has_predicates": previous.text_inputs_.predicates, "dropped": dropped}

    def _split_dev_set(self, training: Texts) -> tuple[Texts, Texts | None]:
        """Training set and dev set, a part of the training set unless the user gives one."""
        if self.dev is not None:
            empty, hint = "there are no examples in it", "Without a dev set, a share of the training set is held out."
            X, y = unpack_dev_set(self.dev)
            with name_dev_set_in_errors():
                dev = self.estimator.read_examples(X, y, empty=empty, hint=hint, where="dev set")
            return training, replace(dev, labels=self.task.labels.normalize(dev.labels, "dev set"))
        weights = np.ones(len(training.labels)) if training.weights is None else training.weights
        counted = np.flatnonzero(weights)  # others are no examples, so that nothing could be measured on them alone
        size = len(counted)
        count = round(self.training.dev_fraction * size)
        if count < 1:
            return training, None
        if size - count < 2:
            problem = f"dev_fraction {self.training.dev_fraction} of {size} examples would leave {size - count}"
            remedy = "nothing is held out and the last epoch is kept; lower dev_fraction"
            warn_caller(GraphAttnWarning(f"{problem} to train on, so {remedy}"))
            return training, None
        strata = self.task.labels.stratify(training.labels)
        strata = None if strata is None else strata[counted]
        held = counted[split_held_out(size, count, strata, self.training.seed)[1]]
        rest, held_out = np.setdiff1d(np.arange(len(weights)), held), training.select(held.tolist())
        try:
            self.task.labels.normalize(held_out.labels, "part that dev_fraction holds out")
        except DataError as error:
            remedy = "so nothing is held out and the last epoch is kept; raise dev_fraction"
            warn_caller(GraphAttnWarning(f"{error.message}, {remedy}"))
            return training, None
        return training.select(rest.tolist()), held_out

    def _make_model(self, training: Texts) -> None:
        """Make the model, with the weights to continue from."""
        estimator, inputs = self.estimator, self.inputs
        weights = self.task.labels.weigh_classes(training.labels, training.weights)
        self.model, encoder = self.task.head.make_model(inputs, estimator.encoder_, self.options, weights)
        estimator.model_, estimator.encoder_ = self.model, encoder
        if estimator.parsing.parser != "none" and inputs.builder.deprel_id is None:
            problem = "no relation of the encoder uses dependencies, so {parser} has no effect"
            warn_caller(Hint(f"{problem}; add the relation dependency", options=("parser",)))
        if self.previous is not None:
            copy_model(self.previous, estimator)

    def _encode_sets(self, training: Texts) -> None:
        """Encode the training set and the dev set, with one warning of truncation if both are of one corpus."""
        held_out = self.held_out
        sets = {"training": training, "dev": held_out}
        if self.inputs.text_columns is not None:
            self.log(f"features beside the text: {self.inputs.text_columns.describe()}")
        self.estimator.num_examples_ = {name: len(each.labels) for name, each in sets.items() if each is not None}
        is_one_corpus = held_out is not None and held_out.numbers is not None
        with count_truncation() if is_one_corpus else nullcontext((0, 0)) as truncated:
            self.corpus = self.estimator.encode_texts(training)
            if held_out is not None:
                searches = self.task.dev_search is not None  # for outputs, of which references may be several
                dev = replace(held_out, labels=None) if searches else held_out
                self.dev_corpus = self.estimator.encode_texts(dev)
        count, tokens = truncated
        if count:
            warn_caller(self.inputs.describe_truncation(count, tokens, training.where))

    # -- training ------------------------------------------------------------------------------------------------------

    def _fit_linear_model(self) -> None:
        """Fit the linear model, if the options ask for one: the first row of the history has its metrics."""
        self.estimator.history_ = []
        if "head" not in self.options or not self.options["head"].linear_branch:
            return
        metric, words = self.training.metric or self.task.labels.main_metric, self.inputs.vocabulary.words
        self.linear = fit_linear_model(self.model.head, self.corpus, self.dev_corpus, words, metric, self._start)
        self.inputs.has_branch = isinstance(self.linear.branch, WordFeatureBranch)
        if self.linear.is_continued:
            self.model.learned_classes = self.linear.learned_classes = self._find_learned_classes()
        self.linear_row = {"epoch": 0, **self.linear.describe_factors()}
        if self._evaluate is not None:
            self.linear_row |= name_metrics(self._evaluate(self.linear.predict_linear_only()))
        key, seconds = f"dev_{self.metric}", f"{self.linear.seconds:.1f} s"
        score = f"dev {self.metric.replace('_', ' ')} {self.linear_row[key]:.2f}, " if key in self.linear_row else ""
        self.log(f"linear model: {score}{seconds}")

    def _find_learned_classes(self) -> torch.Tensor | None:
        """Ids of the classes with examples, if some have none and several have; of one label for each text.

        None as well if a text of the dev set has another class.
        """
        targets = self.corpus.targets
        if self.task.estimator_type != "classifier" or not isinstance(targets, np.ndarray) or targets.ndim == 2:
            return None
        present = np.unique(targets)
        dev = None if self.dev_corpus is None else self.dev_corpus.targets
        if isinstance(dev, np.ndarray) and not np.isin(dev, present).all():
            return None
        return torch.from_numpy(present) if 1 < len(present) < len(self.task.labels.classes) else None

    @property
    def _start(self) -> Start | None:
        """The linear branch to continue from, of the same vocabulary."""
        if self.previous is None:
            return None
        classes = self.task.labels.match_classes(self.previous.task_.labels)
        return Start(getattr(self.previous.model_, "linear_branch", None), classes)

    def _announce_run(self) -> None:
        """Print how to use the linear model, once the folder of the run has it."""
        if self.linear is not None and self.training.run_dir is not None:
            self.log(f"usable from now on: graphattn predict {self.training.run_dir}")

    def _train(self, device: torch.device) -> None:
        """Train the model; of a frozen one only the head is fitted, perhaps after a contrastive start."""
        estimator, run_dir, pretrained = self.estimator, self.training.run_dir, self.options["pretrained"]
        self.model.set_precision("32" if device.type == "cpu" else self.training.resolve_precision())
        if pretrained.contrastive:
            train_contrastive(self.model.to(device), self.corpus, self.training, self.log)
        if pretrained.frozen:
            self.model.to(device)
            self._fit_head(None if run_dir is None else Path(run_dir))
            return
        evaluate = self._evaluate
        measure = None if evaluate is None else MeasureDevSet(self.task.head.predict_dev_set, evaluate, self.linear)
        from graphattn.models.training._loop import CtrlC, train

        ctrl_c = CtrlC()
        try:
            with ctrl_c:
                self._prepare_epochs(measure, device)
        except KeyboardInterrupt:
            if not (self.may_stop and ctrl_c.pressed) or self.linear_row is None:
                raise
            self._stop([self.linear_row])
        if self.linear_row is not None and (estimator.was_stopped_ or not self.training.epochs):
            estimator.history_ = [self.linear_row]
            return
        train(
            self.model,
            self.corpus,
            self.training,
            dev=self.dev_corpus,
            measure=measure,
            metric=self.metric,
            about=self._fingerprint(),
            files=None if run_dir is None else collect_files(estimator, {}),
            linear=self.linear,
            first=self.linear_row,
            announce=self._announce_run,
            history=estimator.history_,
            callbacks=self.callbacks,
            on_interrupt=self._stop if self.may_stop else None,
        )

    def _prepare_epochs(self, measure: MeasureDevSet | None, device: torch.device) -> None:
        """Start the embedding, and decide how many epochs there are, if training takes so many minutes."""
        minutes = self.training.minutes
        if self.training.epochs != 0:  # otherwise the encoder is not trained
            self.inputs.start_embedding(self.model)
        if minutes is None:
            return
        folder = None if self.training.run_dir is None else Path(self.training.run_dir)
        epochs = read_epochs(folder if self.training.resume else None, minutes)
        epochs = self._count_epochs(minutes, measure, device) if epochs is None else epochs
        self.estimator.decide_options(epochs=epochs)
        self._read_options()

    def _count_epochs(self, minutes: float, measure: MeasureDevSet | None, device: torch.device) -> int:
        """Epochs that fit into what the linear model leaves of the minutes, by the speed of the first steps."""
        tenth = 6 * minutes
        end = self.started + 60 * minutes
        if self.linear is not None and self.dev is None and self.dev_corpus is not None:
            end -= self.linear.seconds  # it will learn the dev set, too
        if self.linear is not None and end - time.monotonic() < tenth:
            self.log(f"minutes: {minutes:g} are over but for a tenth, so there is no epoch")
            return 0
        self.model.to(device)
        with torch.random.fork_rng():
            batches = list(make_batches(self.corpus, self.training))
            epoch = measure_epoch(self.model, self.corpus, batches, self.training, tenth)
            dev = self.dev_corpus
            run = None if measure is None or dev is None else partial(measure, self.model, dev)
            epochs, epoch = count_epochs(end - time.monotonic(), epoch, run)
        if not epochs and self.linear is None:
            problem = f"one epoch takes about {describe_duration(epoch)}, longer than {{minutes={minutes:g}}}"
            warn_caller(GraphAttnWarning(f"{problem}; there is at least one", options=("minutes",)))
            return 1
        fit = f"epoch of {epoch:.1f} s fits" if epochs == 1 else f"epochs of {epoch:.1f} s fit"
        self.log(f"minutes: {epochs} {fit} into {minutes:g}; so many epochs repeat this run")
        return epochs

    def _stop(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Say what is kept when Ctrl-C ends training."""
        key, epochs = f"dev_{self.metric}", self.training.epochs
        best = max(reversed(rows), key=lambda row: row.get(key, row["epoch"]))
        kept = f"epoch {best['epoch']} of {epochs}" if best["epoch"] else "the linear model"
        metric = f": dev {self.metric.replace('_', ' ')} {best[key]:.2f}" if key in best else ""
        self.estimator.was_stopped_ = True
        print(f"stopped; kept {kept}{metric}. Ctrl-C again aborts", file=sys.stderr, flush=True)

    def _fit_head(self, folder: Path | None) -> None:
        """Fit the head on the vectors of the encoder as it is.

        A linear branch is weighed on the dev set, which then has to stay unseen.
        """
        row, self.scores = fit_frozen(
            self.model.eval(),
            self.corpus,
            self.dev_corpus,
            evaluate=self._evaluate,
            refit=self.dev is None and not self.options["head"].linear_branch,
            encoder_is_tuned=bool(self.options["pretrained"].contrastive),
            folder=folder,
            about=repr((describe_architecture(self.estimator), self.model.precision)),
            log=self.log,
        )
        if self.linear is not None and self.linear_row is not None:
            if self.dev_corpus is not None and self._evaluate is not None:
                row |= MeasureDevSet(self.task.head.predict_dev_set, self._evaluate, self.linear)(
                    self.model, self.dev_corpus
                )
            self.estimator.history_.append(self.linear_row)
        self.estimator.history_.append(row)
        for callback in self.callbacks:
            if isinstance(callback, Tracker):
                callback.log_epoch(row)

    @property
    def _evaluate(self) -> Callable[[list[Any]], dict[str, float]] | None:
        """A function of decisions for the dev set, picklable for several processes, that returns metrics."""
        if self.held_out is None:
            return None
        weights = self.held_out.weights if self.task.labels.weighted_metrics else None
        return partial(self.task.labels.measure, self.held_out.labels, weights=weights)

    def _fingerprint(self) -> dict[str, Any]:
        """Settings that a resumed run must share with the interrupted one, besides training options and corpora."""
        groups = {"encoder": self.estimator.encoder_, **self.options}
        del groups["training"]
        plain = {f"{group}.{name}": v for group, options in groups.items() for name, v in options.to_dict().items()}
        start = {}
        if self.previous is not None:
            start = {"initial weights": digest_of(*(tensor.numpy() for tensor in self.model.state_dict().values()))}
        vectors = self.inputs.describe_vectors(self.model)
        return {
            "task": self.task.name,
            **plain,
            **start,
            "class_weight": repr(self.task.labels.class_weight),
            "vectors": digest_of(*vectors) if vectors else None,
            "references": self.task.labels.describe_references(self.held_out),
            **self.task.to_config(),
        }

    # -- after training ------------------------------------------------------------------------------------------------

    def _add_linear_model(self) -> None:
        """Add the linear model to that of the best epoch; it also learns the dev set if that was held out."""
        estimator, linear, dev = self.estimator, self.linear, self.dev_corpus
        if linear is None:
            return
        if dev is None:
            linear.factors = linear.typical if estimator.history_[-1]["epoch"] else LINEAR_ALONE
        elif estimator.best_epoch()["epoch"]:
            assert self._evaluate is not None
            self.decisions = linear.decide(self.model, dev, self._evaluate)
        else:
            linear.factors = LINEAR_ALONE
            self.decisions = linear.predict_linear_only()
        if linear.factors[1] and dev is not None and not self.model.head.per_word:
            self.scores = linear.mix_scores()
        self._combine(linear, self.corpus if self.dev is None and dev is not None else None)

    def _keep_linear_model(self) -> None:
        """Add the linear model to that of an epoch that is kept despite an error, as it was weighed there."""
        linear, estimator = self.linear, self.estimator
        if linear is None or not estimator.history_ or self.model.linear_branch is not None:
            return
        best = estimator.best_epoch()
        of_epoch = (best["deep"], best["linear"]) if self.dev_corpus is not None else linear.typical
        linear.factors = of_epoch if best["epoch"] else LINEAR_ALONE
        self._combine(linear, None)

    def _combine(self, linear: LinearModel, training: Corpus | None) -> None:
        """Add the linear model with its factors, fitted anew to the training set and the dev set if it is given."""
        self.estimator.mixture_ = linear.describe_factors()
        linear.add_to(self.model, training, self.log)
        self.inputs.has_branch = isinstance(self.model.linear_branch, WordFeatureBranch)

    def _fit_decisions(self) -> None:
        """Fit what turns the model's scores into probabilities and labels, and measure the dev set with it.

        Without a dev set, scores by cross-validation take its place.
        """
        if not self.task.head.calibrates:
            return
        scored, dev = self.validated, self.dev_corpus
        has_all = dev is None and scored is not None
        if dev is not None:
            scores = predict_corpus(self.model, dev, scores=True).scores if self.scores is None else self.scores
            scored = ScoredTexts.of(np.array(scores), dev.targets, dev.copies)
        cross_validate = None if has_all else self._cross_validate
        decisions = self.task.head.fit_decisions(
            self.model, self.corpus, scored, cross_validate=cross_validate, log=self.log
        )
        if decisions is not None and self._evaluate is not None:
            self.decisions = decisions
            self.estimator.mixture_ |= {f"dev_{name}": value for name, value in self._evaluate(decisions).items()}

    def _cross_validate(self) -> ScoredTexts:
        """The scores of all training texts, each by a model that was trained without its fold."""
        if self.validated is not None:
            return self.validated
        labels = self.task.labels.normalize(self.examples.labels, "training set")  # those of the model to continue from
        examples, pretrained = replace(self.examples, labels=labels), self.options["pretrained"]
        scores = np.empty((len(labels), len(self.task.labels.classes)))
        params = {"pretrained__frozen": pretrained.frozen, "pretrained__contrastive": pretrained.contrastive}
        if self.training.minutes is not None:  # which a fold would take, too
            params |= {"training__minutes": None, "training__epochs": self.training.epochs}
        folds = split_folds(len(labels), self.task.labels.stratify(labels))
        for number, (rest, held) in enumerate(folds, 1):
            start = time.monotonic()
            scores[held] = score_fold(self.estimator, examples, rest, held, **params)
            self.log(f"thresholds: model {number}/{len(folds)}, {time.monotonic() - start:.1f} s")
        return ScoredTexts.of(scores, self.task.labels.make_targets(labels, "training set"), examples.weights)

    def _review(self) -> tuple[Sequence[Any], list[Any]] | None:
        """Warn if the loss or the decisions for the dev set show that training went wrong; return the latter."""
        if not is_first_process(self.training):
            return None
        epochs = [row for row in self.estimator.history_ if "train_loss" in row]
        hints, results = [hint_at_loss(epochs, self.training.learning_rate)], None
        held_out, dev = self.held_out, self.dev_corpus
        if held_out is not None and dev is not None:
            decisions = self.decisions or self.task.head.predict_dev_set(self.model, dev)
            if not self.task.head.has_requested_thresholds:
                has_vectors = self.inputs.has_vectors
                hints.append(self.task.labels.hint_at_predictions(held_out.labels, decisions, has_vectors=has_vectors))
            # a report has no weights, and is of the search of `predict`
            if held_out.weights is None and self.task.dev_search is None:
                results = held_out.labels, decisions
        for hint in filter(None, hints):
            warn_caller(hint)
        return results


@contextmanager
def restore_on_failure(estimator: EstimatorState) -> Iterator[None]:
    """Restore the previous state of an estimator unless an epoch finished; meanwhile PyTorch has its own defaults."""
    state = vars(estimator)
    before, device = dict(state), estimator.model_.device if "model_" in state else None
    for name in ("model_", "history_"):
        state.pop(name, None)
    try:
        with plain_torch():
            yield
    finally:
        if state.get("history_"):
            estimator.model_.eval()
            estimator.text_inputs_.spelling = estimator.text_inputs_.has_branch
        else:
            state.clear()
            state.update(before)
            if device is not None:
                estimator.model_.to(device)


# -- folds -------------------------------------------------------------------------------------------------------------


def score_fold(estimator: EstimatorState, examples: Texts, rest: Numbers, held: Numbers, **params: Any) -> Floats:
    """(held, C) scores of texts by a copy of an estimator with other parameters, trained on the rest."""
    from sklearn.base import clone

    labels, rest_examples = estimator.task_.labels, examples.select(rest.tolist())
    params = {"training__run_dir": None, "training__progress": False, "tune_threshold": None, **params}
    if isinstance(labels.class_weight, Mapping):
        names = labels.classes
        targets = np.asarray(labels.make_targets(rest_examples.labels, "training set"))
        present = {names[number] for number in np.flatnonzero(mark_classes(targets, len(names)).any(0))}
        params["class_weight"] = {name: value for name, value in labels.class_weight.items() if name in present}
    fold = clone(estimator).set_params(**params)
    if round(fold.training.dev_fraction * len(rest)) < 1:  # so that there is nothing to measure
        fold.set_params(training__metric=None)
    with warnings.catch_warnings(), restore_on_failure(fold):
        warnings.simplefilter("ignore", GraphAttnWarning)  # the model itself gives them, too
        fold.prepare()
        Fit(fold, rest_examples).run()
    predictions = fold.rerun(examples.select(held.tolist()), scores=True)
    scores = np.full((len(held), len(labels.classes)), UNKNOWN_CLASS)
    scores[:, labels.match_classes(fold.task_.labels)] = predictions.scores
    return scores


def mark_classes(targets: npt.NDArray[Any], classes: int) -> npt.NDArray[np.bool_]:
    """(S, C) whether a text has a class."""
    return targets > 0 if targets.ndim == 2 else targets[:, None] == np.arange(classes)

"""The linear model of a text, fitted before the graph encoder, and how the dev set weighs one against the other."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn.builders._batch import TextBatch
from graphattn.builders._layout import concatenate
from graphattn.models._corpus import Corpus
from graphattn.models._prediction import prediction_batches, split_rows
from graphattn.models._text_model import TextModel, in_evaluation
from graphattn.models.heads import Head
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.training._branch_fitting import BranchFitter, Start, make_fitter
from graphattn.models.training._linear_models import weights_of

Evaluate = Callable[[list[Any]], dict[str, float]]
"""Decisions for each sentence of the dev set -> metrics."""

TYPICAL = (1 / 3, 2 / 3)
"""Factors of the scores of the graph encoder and of the linear model without a dev set; the encoder's scores grow
during training, so its factor is smaller."""
CONTINUED = (1.0, 1.0)
"""Factors of the model to continue from, whose scores have their size."""
LINEAR_ALONE = (0.0, 1.0)
"""Factors of a model whose encoder is not trained."""
_SIMPLEX = np.array([(0, 0), (-1, 0), (0, -1)])
"""Start of the search for the logarithms of the factors, relative to the typical ones."""


@dataclass
class MeasureDevSet:
    """Measures a model on a dev set, beside the linear model if there is one; picklable for several processes.

    ``decide`` maps model and dev set to decisions, ``evaluate`` decisions to metrics.
    """

    decide: Callable[[Any, Corpus], list[Any]]
    evaluate: Evaluate
    linear: LinearModel | None = None

    def __call__(self, model: Any, dev: Corpus) -> dict[str, float]:
        """The metrics as ``dev_...``, and with a linear model the factors of both parts."""
        if self.linear is None:
            return name_metrics(self.evaluate(self.decide(model, dev)))
        metrics = self.evaluate(self.linear.decide(model, dev, self.evaluate))
        return {**name_metrics(metrics), **self.linear.describe_factors()}


def name_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics of the dev set by their names in the history."""
    return {f"dev_{name}": value for name, value in metrics.items()}


@dataclass
class ScoredBatch:
    """Texts of the dev set with the scores of both parts.

    ``graph`` has no edges; ``numbers`` are those of the texts, ``items`` the words of each, None for one item a text.
    """

    graph: TextBatch
    targets: Tensor
    weights: Tensor | None
    numbers: list[int]
    items: list[int] | None
    deep: Tensor
    linear: Tensor


class LinearModel:
    """A fitted linear branch, and how it is weighed against the graph encoder after each epoch.

    Both are weighed by the likelihood of the dev set: the scores of the model become ``deep * graph + linear *
    branch``, and so do the transitions of a CRF: a product of experts. Where the encoder alone decides better by the
    metric, the branch is left out (``linear`` is 0).

    ``head`` is one with the transitions of the linear branch; ``dev`` has no edges.
    """

    typical = TYPICAL
    """The factors without a dev set, near which the dev set's are searched."""

    def __init__(
        self, branch: LinearBranch, head: Head, fitter: BranchFitter, strength: float, dev: Corpus | None, metric: str
    ):
        self.branch, self.head, self.fitter, self.strength = branch, head, fitter, strength
        self.dev, self.metric = dev, metric
        self.factors = LINEAR_ALONE
        """Of the graph encoder and the branch, as they were last weighed."""
        self.learned_classes: Tensor | None = None
        """Ids of the classes among which the loss of both parts is measured; None for all."""
        self.seconds = 0.0
        """Time that the fit took."""
        self.scored: list[ScoredBatch] = []
        """The dev set, as it was scored last."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "scored": []}

    @property
    def is_continued(self) -> bool:
        """Whether it adds to that of the model to continue from, which tells old classes from new ones."""
        return self.typical is CONTINUED

    def describe_factors(self) -> dict[str, float]:
        """The factors by their names in the history."""
        deep, linear = self.factors
        return {"deep": deep, "linear": linear}

    # -- the linear model alone ----------------------------------------------------------------------------------------

    def predict_linear_only(self) -> list[Any]:
        """Decisions for the dev set without the graph encoder."""
        assert self.dev is not None
        self.factors, self.scored = LINEAR_ALONE, self._score(None, self.dev)
        return _list_results(self.scored, self.factors, lambda mixed, batch: self.head.decide(mixed, batch.graph))

    def measure_loss(self) -> float:
        """The loss of the dev set without the graph encoder, with scores of the best size."""
        from scipy.optimize import minimize_scalar

        assert self.dev is not None
        scored = self._score(None, self.dev)

        def loss(log: float) -> float:
            factors = (0.0, float(np.exp(log)))
            return _measure_loss(_mix_transitions(self.head, self.head, *factors), scored, factors)

        best = minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded", options={"xatol": 0.05, "maxiter": 12})
        return self.dev.mean_weight * float(best.fun)

    # -- beside the graph encoder --------------------------------------------------------------------------------------

    def decide(self, model: TextModel, dev: Corpus, evaluate: Evaluate) -> list[Any]:
        """Weigh both parts, and return the decisions for the dev set."""
        own_head = copy.deepcopy(model.head).cpu()
        self.scored = scored = self._score(model, dev)
        alone = _list_results(scored, (1.0, 0.0), lambda mixed, batch: own_head.decide(mixed, batch.graph))
        self.factors = self._weigh(own_head, scored)
        head = _mix_transitions(own_head, self.head, *self.factors)
        decisions = _list_results(scored, self.factors, lambda mixed, batch: head.decide(mixed, batch.graph))
        if evaluate(decisions)[self.metric] >= evaluate(alone)[self.metric]:
            return decisions
        self.factors = (1.0, 0.0)
        return alone

    def mix_scores(self) -> npt.NDArray[np.floating]:
        """(S, classes) scores of the dev set, for which decisions were made last."""
        return np.array(_list_results(self.scored, self.factors, lambda mixed, batch: mixed))

    def _weigh(self, head: Head, scored: list[ScoredBatch]) -> tuple[float, float]:
        """The factors of the least loss; a normal prior on their logarithms helps where the dev set is small."""
        from scipy.optimize import minimize

        assert self.dev is not None
        start, unit = np.log(self.typical), self.dev.mean_weight

        def loss(logs: npt.NDArray[np.float64]) -> float:
            deep, linear = np.exp(logs).tolist()
            mixed = _mix_transitions(head, self.head, deep, linear)
            prior = 0.5 * float(np.sum((logs - start) ** 2))
            return unit * _measure_loss(mixed, scored, (deep, linear), self.learned_classes) + prior

        options = {"maxfev": 60, "xatol": 0.02, "fatol": 0.01, "initial_simplex": start + _SIMPLEX}
        deep, linear = np.exp(minimize(loss, start, method="Nelder-Mead", options=options).x).tolist()
        return deep, linear

    @torch.no_grad()
    def _score(self, model: TextModel | None, dev: Corpus) -> list[ScoredBatch]:
        """The dev set with the scores of both parts; those of the encoder are 0 without a model."""
        assert self.dev is not None
        head = self.head if model is None else model.head
        device = torch.device("cpu") if model is None else model.device
        batches = list[ScoredBatch]()
        for numbers in prediction_batches(dev, device):
            batch = self.dev.batch(numbers)
            linear = self.branch(batch)
            deep = torch.zeros_like(linear)
            if model is not None:
                with in_evaluation(model), model.autocast():
                    deep = model(dev.batch(numbers)).float().cpu()
            items = head.items(batch.graph).tolist() if head.per_word else None
            assert batch.targets is not None
            weights = batch.item_weights(linear.device)
            batches.append(ScoredBatch(batch.graph, batch.targets, weights, list(numbers), items, deep, linear))
        return batches if head.per_word else [_join_batches(batches)]

    # -- the whole model -----------------------------------------------------------------------------------------------

    def add_to(self, model: TextModel, training: Corpus | None, log: Callable[[str], None]) -> None:
        """Add the branch to a model on the CPU, with the factors; it is fitted anew to ``training`` with the dev set.

        ``training`` is None if the branch stays as it is.
        """
        deep, linear = self.factors
        if not linear:
            return
        branch, head = self.branch, self.head
        if training is not None and self.dev is not None:
            start = time.monotonic()
            prepared = self.fitter.prepare(_join(training.without_edges(), self.dev))
            branch, head = self.fitter.fit(prepared, self.strength)
            log(f"linear model: with the dev set, {time.monotonic() - start:.1f} s")
        combine(model, branch, head, deep, linear)

    def pack(self, model: TextModel) -> dict[str, Any]:
        """What a checkpoint keeps of the linear model, by names of the whole model's weights."""
        transitions = dict(zip(map(id, _transitions(model.head)), _transitions(self.head), strict=True))
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        return {
            "branch": {f"linear_branch.{name}": tensor for name, tensor in self.branch.state_dict().items()},
            "transitions": {names[number]: tensor.detach() for number, tensor in transitions.items()},
            "factors": dict(zip(("deep", "linear"), self.typical, strict=True)),
            "outputs": [names[id(parameter)] for parameter in model.head.output.parameters()],
        }


def fit_linear_model(
    head: Head,
    corpus: Corpus,
    dev: Corpus | None,
    words: Sequence[str],
    metric: str,
    start: Start | None = None,
) -> LinearModel:
    """Fit the linear branch of a model with this head; a dev set chooses the strength of its regularization.

    ``words`` are the texts of the token ids, ``start`` is the branch to continue from.
    """
    began = time.monotonic()
    fitter = make_fitter(head, words, int(corpus.lengths.sum()), start)
    prepared, plain_dev = fitter.prepare(corpus.without_edges()), None if dev is None else dev.without_edges()
    strengths = fitter.strengths
    if dev is None:
        strengths = strengths[1:2] or strengths  # a middle one
    models, losses = list[LinearModel](), list[float]()
    for strength in strengths:
        models.append(LinearModel(*fitter.fit(prepared, strength), fitter, strength, plain_dev, metric))
        losses.append(models[-1].measure_loss() if len(strengths) > 1 else 0.0)
        if losses[-1] > min(losses):  # there is one minimum along the strengths
            break
    best = models[int(np.argmin(losses))]
    best.seconds = time.monotonic() - began
    if start is not None and start.branch is not None:
        best.typical = CONTINUED
    return best


@torch.no_grad()
def _measure_loss(
    head: Head, scored: list[ScoredBatch], factors: tuple[float, float], classes: Tensor | None = None
) -> float:
    """Loss of the dev set for two factors, perhaps among some classes."""
    deep, linear = factors
    total = 0.0
    for batch in scored:
        mixed = deep * batch.deep + linear * batch.linear
        if classes is not None:
            total += float(head.loss_among(classes, mixed, batch.targets, batch.weights))
        else:
            total += float(head.loss(mixed, batch.targets, batch.graph, batch.weights))
    return total


@torch.no_grad()
def _list_results(
    scored: list[ScoredBatch], factors: tuple[float, float], compute: Callable[[Tensor, ScoredBatch], Tensor]
) -> list[Any]:
    """What is computed from the mixed scores of each sentence of the dev set."""
    deep, linear = factors
    results: list[Any] = [None] * sum(len(batch.numbers) for batch in scored)
    for batch in scored:
        computed = compute(deep * batch.deep + linear * batch.linear, batch)
        for number, result in zip(batch.numbers, split_rows(computed, batch.items), strict=True):
            results[number] = result
    return results


def _join_batches(batches: list[ScoredBatch]) -> ScoredBatch:
    """All texts of a dev set as one batch; its graph, which a head with one item a text does not read, is the first."""
    weights = [batch.weights for batch in batches if batch.weights is not None]
    return ScoredBatch(
        batches[0].graph,
        torch.cat([batch.targets for batch in batches]),
        torch.cat(weights) if weights else None,
        [number for batch in batches for number in batch.numbers],
        None,
        torch.cat([batch.deep for batch in batches]),
        torch.cat([batch.linear for batch in batches]),
    )


def _transitions(head: Head) -> list[nn.Parameter]:
    return [] if head.crf is None else list(head.crf.parameters())


@torch.no_grad()
def _mix_transitions(head: Head, branch_head: Head, deep: float, linear: float) -> Head:
    """A head with the weighted sum of both heads' transitions; the first head itself if it has none."""
    if not _transitions(head):
        return head
    mixed = copy.deepcopy(head)
    for target, first, second in zip(*map(_transitions, (mixed, head, branch_head)), strict=True):
        target.copy_(deep * first + linear * second)
    return mixed


@torch.no_grad()
def combine(model: TextModel, branch: LinearBranch, branch_head: Head, deep: float, linear: float) -> None:
    """Scale both branches, and add the linear one to the model."""
    for target, added in zip(_transitions(model.head), _transitions(branch_head), strict=True):
        target.copy_(deep * target + linear * added.to(target.device))
    for parameter in model.head.output.parameters():
        parameter.mul_(deep)
    branch.scale(linear)
    model.linear_branch = branch


def _join(first: Corpus, second: Corpus) -> Corpus:
    """Both corpora as one."""
    types, others = first.token_types, second.token_types
    layouts = second.layouts
    if types is not None and others is not None:
        layouts = tuple(
            layout.with_feature("token_type", layout.features["token_type"] + len(types)) for layout in layouts
        )
        types = types.concatenate(others)
    targets: Any
    if isinstance(first.targets, tuple) and isinstance(second.targets, tuple):
        targets = tuple(map(np.concatenate, zip(first.targets, second.targets, strict=True)))
    else:
        targets = np.concatenate([first.targets, second.targets])
    joined = [concatenate(list(pair)) for pair in zip(first.layouts, layouts, strict=True)]
    both = Corpus(first.builder, joined, token_types=types, targets=targets)
    both.cells = None if first.cells is None or second.cells is None else np.concatenate([first.cells, second.cells])
    if first.copies is None and second.copies is None:
        return both
    return both.with_weights(np.concatenate([weights_of(first), weights_of(second)]))

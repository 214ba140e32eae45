"""Linear models on fixed features of texts: logistic regression and ridge regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from graphattn.models._corpus import Corpus
from graphattn.models.heads import Head

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Design: TypeAlias = "npt.NDArray[np.floating] | csr_matrix"
Floats = npt.NDArray[np.floating]

_MOST_AXES = 1500
"""Most texts whose features are replaced by principal axes."""


@dataclass
class Offset:
    """A fitted linear model, to whose scores another one is added.

    ``scores`` are (S, classes). ``precisions`` are (features,): how strongly the texts of the earlier fit hold each
    coefficient, the second derivative of their loss; ``bias_precision`` likewise.
    """

    scores: Floats
    precisions: Floats
    bias_precision: float


def fit_linear(
    head: Head,
    design: Design,
    targets: npt.NDArray[Any],
    weights: Floats,
    strength: float,
    offset: Offset | None = None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(classes, features) coefficients and (classes,) biases for the scores of a head.

    Logistic regression, or ridge regression for numbers; see :func:`fit_logistic_regression`. A weight of k has the
    effect of k copies of a text, and one of 0 that of none. With an ``offset``, the result is added to the earlier
    model; its coefficients are regularized by their precisions, too (Laplace's approximation of the earlier loss).
    """
    if not weights.all():
        counted = np.flatnonzero(weights)
        design, targets, weights = design[counted], targets[counted], weights[counted]
        offset = None if offset is None else replace(offset, scores=offset.scores[counted])
    if offset is not None:
        from scipy.sparse import csr_matrix

        scales = 1 / np.sqrt(1 + strength * offset.precisions)
        design = csr_matrix(design).multiply(scales).tocsr()
    if head.is_regression:
        targets = targets if offset is None else targets - offset.scores[:, 0]
        coefficients, bias = fit_ridge_regression(design, targets, weights, strength)
        return (coefficients if offset is None else coefficients * scales.astype(np.float32)), bias
    classes = head.output.out_features
    class_weights: Tensor | Literal["balanced"] | None = "balanced" if head.is_balanced else head.class_weights
    if offset is not None:
        constant = float(1 / np.sqrt(1 + strength * offset.bias_precision))
        coefficients, bias = add_logistic_regression(
            design, targets, weights, offset.scores, strength, class_weights, constant
        )
        return coefficients * scales.astype(np.float32), bias
    return fit_logistic_regression(design, targets, weights, classes, strength, class_weights)


def fit_logistic_regression(
    design: Design,
    targets: npt.NDArray[Any],
    weights: Floats,
    classes: int,
    strength: float,
    class_weights: Tensor | Literal["balanced"] | None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(classes, features) coefficients and (classes,) biases; a class without examples has no coefficients.

    ``design`` is (S, features), ``targets`` are (S,) class ids or (S, classes) zeros and ones, ``weights`` are (S,);
    ``strength`` is the inverse of the regularization. ``class_weights`` are (classes,), of several labels those of the
    texts with the class; ``"balanced"`` ones are those of scikit-learn for the weighted texts. With sparse features
    each class is fitted against the others, which takes a tenth of the time of all together.
    """
    from scipy.sparse import issparse
    from sklearn.linear_model import LogisticRegression

    coefficients = np.zeros((classes, design.shape[1]), np.float32)
    bias = np.zeros(classes, np.float32)
    is_balanced, total = isinstance(class_weights, str), weights.sum()
    of_classes = class_weights.cpu().numpy() if isinstance(class_weights, Tensor) else np.ones(classes)
    options: dict[str, Any] = {"C": strength, "max_iter": 1000}
    if issparse(design):
        design = design.astype(np.float64)  # liblinear's, so that it is not copied for each class
        # the dual takes many times longer where C is large
        options |= {"solver": "liblinear", "tol": 0.001}
    if targets.ndim == 2:
        for number, column in enumerate(targets.T):
            positives = np.average(column, weights=weights)
            bias[number] = np.log((positives + 1e-3) / (1 - positives + 1e-3))
            if 0 < positives < 1:
                sides = {0: 1.0, 1: of_classes[number]}
                if is_balanced:  # with the same weight of all texts, so that the strength means the same
                    sides = {0: 0.5 / (1 - positives), 1: 0.5 / positives}
                model = LogisticRegression(class_weight=sides, **options)
                _fit_unseen(model, design, column, weights)
                coefficients[number], bias[number] = model.coef_[0], model.intercept_[0]
        return coefficients, bias
    present = np.unique(targets)
    bias[np.setdiff1d(np.arange(classes), present)] = -np.log(total + 1)
    if is_balanced:
        of_classes[present] = total / (len(present) * np.bincount(targets, weights)[present])
    weights = weights * of_classes[targets]
    if len(present) == 2:  # they share one vector
        model = LogisticRegression(**options)
        _fit_unseen(model, design, targets, weights)
        coefficients[present] = np.concatenate([-model.coef_, model.coef_]) / 2
        bias[present] = np.concatenate([-model.intercept_, model.intercept_]) / 2
    elif len(present) > 2 and issparse(design):
        for number in present:
            model = LogisticRegression(**options)
            _fit_unseen(model, design, targets == number, weights)
            coefficients[number], bias[number] = model.coef_[0], model.intercept_[0]
    elif len(present) > 2:
        model = LogisticRegression(**options)
        _fit_unseen(model, design, targets, weights)
        coefficients[present], bias[present] = model.coef_, model.intercept_
    return coefficients, bias


def add_logistic_regression(
    design: csr_matrix,
    targets: npt.NDArray[Any],
    weights: Floats,
    scores: Floats,
    strength: float,
    class_weights: Tensor | Literal["balanced"] | None,
    bias_feature: float = 1.0,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(classes, features) coefficients and (classes,) biases that are added to the (S, classes) scores of a model.

    The logistic regression of :func:`fit_logistic_regression`, of all classes together, with an offset: biases are
    regularized, too, as coefficients of a constant feature, so that the scores change as little as the examples permit.
    """
    from scipy.optimize import minimize
    from scipy.special import expit, logsumexp

    classes = scores.shape[1]
    is_multilabel = targets.ndim == 2
    gold = targets if is_multilabel else np.eye(classes, dtype=np.float32)[targets]
    of_classes = class_weights.cpu().numpy() if isinstance(class_weights, Tensor) else np.ones(classes)
    shares = np.average(gold, axis=0, weights=weights)
    if isinstance(class_weights, str):
        seen = shares.clip(1e-9)
        of_classes = 0.5 / seen if is_multilabel else 1 / (np.count_nonzero(shares) * seen)
    weights = weights[:, None]
    if is_multilabel:
        others = 0.5 / (1 - shares).clip(1e-9) if isinstance(class_weights, str) else 1.0
        weights = weights * np.where(gold, of_classes, others)
    else:
        weights = weights * of_classes[targets][:, None]
    reduced, expand = _reduce(design)
    constant = np.full((len(targets), 1), bias_feature)

    def measure(flat: Floats) -> tuple[float, Floats]:
        added = flat.reshape(-1, classes)
        logits = scores + reduced @ added[:-1] + constant * added[-1]
        if is_multilabel:
            losses, predicted = np.logaddexp(0, logits) - gold * logits, expit(logits)
        else:
            logs = logits - logsumexp(logits, axis=1, keepdims=True)
            losses, predicted = -gold * logs, np.exp(logs)
        errors = weights * (predicted - gold)
        gradient = np.concatenate([reduced.T @ errors, constant.T @ errors]) + added / strength
        return float((weights * losses).sum() + (added**2).sum() / (2 * strength)), gradient.ravel()

    start, options = np.zeros((reduced.shape[1] + 1) * classes), {"maxiter": 200, "maxcor": 5}
    added = minimize(measure, start, jac=True, method="L-BFGS-B", options=options).x.reshape(-1, classes)
    return expand(added[:-1]).astype(np.float32), (bias_feature * added[-1]).astype(np.float32)


def _reduce(design: csr_matrix) -> tuple[Design, Callable[[Floats], Floats]]:
    """Features with the same inner products, of which there are few, and what maps their coefficients to all.

    The result of ``expand`` is (classes, features). With few texts these are their principal axes, otherwise the
    features that occur.
    """
    if design.shape[0] > _MOST_AXES:
        used = np.flatnonzero(np.asarray(abs(design).sum(axis=0)))

        def insert(coefficients: Floats) -> Floats:
            whole = np.zeros((coefficients.shape[1], design.shape[1]))
            whole[:, used] = coefficients.T
            return whole

        return design[:, used].astype(np.float64), insert
    values, vectors = np.linalg.eigh((design.astype(np.float64) @ design.T).toarray())
    kept = values > 1e-9 * values.max(initial=1e-9)
    lengths, axes = np.sqrt(values[kept]), vectors[:, kept]
    return axes * lengths, lambda coefficients: (design.T @ (axes / lengths @ coefficients)).T


def fit_ridge_regression(
    design: Design, targets: npt.NDArray[Any], weights: Floats, strength: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(1, features) coefficients and (1,) bias."""
    from sklearn.linear_model import Ridge

    # the squared error has about four times the curvature of the logistic loss
    model = Ridge(alpha=4 / strength)
    _fit_unseen(model, design, targets, weights)
    return model.coef_.reshape(1, -1).astype(np.float32), np.array([model.intercept_], np.float32)


def weights_of(corpus: Corpus) -> Floats:
    """(S,) weights of the texts in a sum of losses: how many copies of it each one stands for."""
    return np.ones(len(corpus)) if corpus.copies is None else corpus.copies


def _fit_unseen(model: Any, design: Design, targets: npt.NDArray[Any], weights: Floats) -> None:
    """Fit without the wrappers of trackers such as MLflow, which would take this model for the user's."""
    unwrap(type(model).fit)(model, design, targets, sample_weight=weights)

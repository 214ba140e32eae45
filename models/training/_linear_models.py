"""Linear models on fixed features of texts: logistic regression and ridge regression."""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from graphattn.models._corpus import Corpus
from graphattn.models.heads import ClassificationHead, RegressionHead

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Design: TypeAlias = "npt.NDArray[np.floating] | csr_matrix"
Floats = npt.NDArray[np.floating]


def fit_linear(
    head: ClassificationHead, design: Design, targets: npt.NDArray[Any], weights: Floats, strength: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(classes, features) coefficients and (classes,) biases for the scores of a head.

    Logistic regression, or ridge regression for numbers; see :func:`fit_logistic_regression`. A weight of k has the
    effect of k copies of a text, and one of 0 that of none.
    """
    if not weights.all():
        counted = np.flatnonzero(weights)
        design, targets, weights = design[counted], targets[counted], weights[counted]
    if isinstance(head, RegressionHead):
        return fit_ridge_regression(design, targets, weights, strength)
    classes = head.output.out_features
    class_weights: Tensor | Literal["balanced"] | None = "balanced" if head.is_balanced else head.class_weights
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

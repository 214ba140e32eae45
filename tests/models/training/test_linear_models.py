"""Linear models against scikit-learn, and weights of texts against copies of them."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from graphattn.models import HeadOptions
from graphattn.models.heads import ClassificationHead, RegressionHead
from graphattn.models.training._linear_models import Offset, fit_linear, fit_logistic_regression

COUNT, FEATURES, CLASSES = 60, 8, 3
RANDOM = np.random.default_rng(0)
DESIGN = RANDOM.normal(size=(COUNT, FEATURES))
IDS = RANDOM.choice(CLASSES, COUNT, p=[0.6, 0.3, 0.1])
SEVERAL = (RANDOM.random((COUNT, CLASSES)) < [0.1, 0.5, 0.8]).astype(np.float32)
WEIGHTS = RANDOM.integers(0, 5, COUNT).astype(np.float64)
REPEATED = np.repeat(np.arange(COUNT), WEIGHTS.astype(int))
KINDS = {"classes": IDS, "two classes": IDS % 2, "several labels": SEVERAL, "numbers": DESIGN[:, 0] + SEVERAL[:, 0]}


def make_head(kind, class_weights):
    options = HeadOptions(head_hidden=0)
    if kind == "numbers":
        return RegressionHead(FEATURES, 1, options)
    classes = 2 if kind == "two classes" else CLASSES
    weights = None if class_weights is None else torch.ones(classes)
    head = ClassificationHead(FEATURES, classes, options, multilabel=kind == "several labels", class_weights=weights)
    head.is_balanced = class_weights == "balanced"
    return head


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("class_weights", [None, "balanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_is_a_number_of_copies(kind, class_weights, sparse):
    design, head = csr_matrix(DESIGN) if sparse else DESIGN, make_head(kind, class_weights)
    for factor in (1, 5):
        weighted = fit_linear(head, design, KINDS[kind], factor * WEIGHTS, 0.03)
        numbers = np.tile(REPEATED, factor)
        copies = fit_linear(head, design[numbers], KINDS[kind][numbers], np.ones(len(numbers)), 0.03)
        for ours, theirs in zip(weighted, copies, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-3)
    once = fit_linear(head, design, KINDS[kind], WEIGHTS, 0.03)
    assert np.abs(once[0] - weighted[0]).max() > 0.02, "the penalty weighs less"


def test_classes_of_weight_zero_are_classes_without_examples():
    weights = np.where(IDS == 2, 0.0, 1.0)
    coefficients, bias = fit_linear(make_head("classes", None), DESIGN, IDS, weights, 1.0)
    kept = IDS != 2
    expected = fit_linear(make_head("classes", None), DESIGN[kept], IDS[kept], np.ones(kept.sum()), 1.0)
    assert not coefficients[2].any()
    np.testing.assert_array_equal(coefficients, expected[0])
    np.testing.assert_array_equal(bias, expected[1])


@pytest.mark.parametrize("strength", [1.0, 100.0])
@pytest.mark.parametrize("kind", ["classes", "two classes", "several labels"])
def test_balanced_classes_are_those_of_scikit_learn(kind, strength):
    targets = KINDS[kind]
    coefficients, bias = fit_logistic_regression(
        DESIGN, targets, np.ones(COUNT), make_head(kind, None).output.out_features, strength, "balanced"
    )
    scores = DESIGN @ coefficients.T + bias
    reference = {"C": strength, "class_weight": "balanced", "max_iter": 1000}
    if kind == "several labels":
        expected = np.stack([LogisticRegression(**reference).fit(DESIGN, y).predict_proba(DESIGN)[:, 1]
                             for y in targets.T], 1)  # fmt: skip
        ours = 1 / (1 + np.exp(-scores))
    else:
        expected = LogisticRegression(**reference).fit(DESIGN, targets).predict_proba(DESIGN)
        ours = torch.from_numpy(scores).softmax(1).numpy()
    np.testing.assert_allclose(ours, expected, atol=2e-3)


SCORES = np.random.default_rng(1).normal(size=(COUNT, CLASSES))
PRECISIONS, BIAS_PRECISION = np.linspace(0, 2, FEATURES), 5.0


@pytest.mark.parametrize("class_weights", [None, "balanced"])
@pytest.mark.parametrize("kind", ["classes", "several labels"])
@pytest.mark.parametrize("axes", [0, COUNT])
def test_scores_of_another_model_are_an_offset(kind, class_weights, axes, monkeypatch):
    """Against minimization of the same loss by PyTorch."""
    monkeypatch.setattr("graphattn.models.training._linear_models._MOST_AXES", axes)
    strength, targets, scores = 2.0, KINDS[kind], torch.from_numpy(SCORES)
    design = torch.from_numpy(np.hstack([DESIGN, np.ones((COUNT, 1))]))  # the bias is regularized, too
    added = torch.zeros(FEATURES + 1, CLASSES, dtype=torch.float64, requires_grad=True)
    weights, gold = torch.from_numpy(WEIGHTS), torch.from_numpy(targets)
    optimizer = torch.optim.LBFGS([added], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        logits = scores + design @ added
        if kind == "classes":
            counts = np.bincount(targets, WEIGHTS)
            of_classes = torch.from_numpy(WEIGHTS.sum() / (CLASSES * counts)) if class_weights else torch.ones(CLASSES)
            losses = of_classes[gold] * torch.nn.functional.cross_entropy(logits, gold, reduction="none")
        else:
            share = (weights @ gold.double() / weights.sum()).expand_as(gold)
            balance = torch.where(gold > 0, 0.5 / share, 0.5 / (1 - share)) if class_weights else torch.ones(())
            terms = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold.double(), reduction="none")
            losses = (balance * terms).sum(1)
        held = torch.from_numpy(np.append(PRECISIONS, BIAS_PRECISION))[:, None]
        total = (weights * losses).sum() + ((1 / strength + held) * added**2).sum() / 2
        total.backward()
        return total

    optimizer.step(loss)
    offset = Offset(SCORES, PRECISIONS, BIAS_PRECISION)
    ours = fit_linear(make_head(kind, class_weights), csr_matrix(DESIGN), targets, WEIGHTS, strength, offset)
    np.testing.assert_allclose(np.column_stack([ours[0], ours[1]]), added.detach().T, atol=1e-3)


def test_without_scores_to_add_to_it_is_scikit_learns():
    offset = Offset(np.zeros((COUNT, CLASSES)), np.zeros(FEATURES), 0.0)
    ours = fit_linear(make_head("classes", None), csr_matrix(DESIGN), IDS, np.ones(COUNT), 2.0, offset)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-8).fit(np.hstack([DESIGN, np.ones((COUNT, 1))]), IDS)
    np.testing.assert_allclose(np.column_stack(ours), theirs.coef_, atol=1e-3)


def test_numbers_are_fitted_on_top_of_scores():
    numbers = KINDS["numbers"]
    offset = Offset(SCORES[:, :1], np.zeros(FEATURES), 0.0)
    ours = fit_linear(make_head("numbers", None), csr_matrix(DESIGN), numbers, np.ones(COUNT), 2.0, offset)
    theirs = fit_linear(make_head("numbers", None), DESIGN, numbers - SCORES[:, 0], np.ones(COUNT), 2.0)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-3)

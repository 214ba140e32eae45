"""Linear models against scikit-learn, and weights of texts against copies of them."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from graphattn.models import HeadOptions
from graphattn.models.heads import ClassificationHead, RegressionHead
from graphattn.models.training._linear_models import fit_linear, fit_logistic_regression

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

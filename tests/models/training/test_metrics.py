"""Metrics on cases small enough to count by hand."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import IOB2, IOBES
from sklearn.metrics import mean_squared_error, r2_score

from graphattn.models.training._metrics import (
    classification_metrics,
    multilabel_metrics,
    regression_metrics,
    tagging_metrics,
)


def test_classification():
    figures = classification_metrics(["a", "a", "b", "c"], ["a", "b", "b", "b"])
    expected = {
        "accuracy": 50.0,
        "macro_precision": 100 * (1 + 1 / 3 + 0) / 3,
        "macro_recall": 100 * (1 / 2 + 1 + 0) / 3,
        "macro_f1": 100 * (2 / 3 + 1 / 2 + 0) / 3,
    }
    assert figures == pytest.approx(expected)


@pytest.mark.parametrize("labels", [[0, 1, 1], [True, False, True], ["x", "y", "y"]])
def test_kinds_of_labels(labels):
    assert classification_metrics(labels, labels) == dict.fromkeys(
        ("accuracy", "macro_precision", "macro_recall", "macro_f1"), 100.0
    )


def test_several_labels():
    gold = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    predicted = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    # true positives 2, one missed, one too many; classes: 1, 1, 0
    expected = {"micro_f1": 100 * 2 / 3, "macro_f1": 100 * 2 / 3, "exact_match": 100 / 3}
    assert multilabel_metrics(gold, predicted) == pytest.approx(expected)


def test_a_single_optional_class():
    """Texts without the class are not a second class."""
    gold, actual = np.array([[1], [0], [0], [1]]), np.array([[1], [0], [1], [0]])
    assert multilabel_metrics(gold, actual) == {"micro_f1": 50.0, "macro_f1": 50.0, "exact_match": 50.0}
    assert multilabel_metrics(gold, 0 * actual)["micro_f1"] == 0
    with_nothing = [np.hstack([part, 0 * part]) for part in (gold, actual)]
    assert multilabel_metrics(*with_nothing)["micro_f1"] == 50


@pytest.mark.parametrize(
    ("scheme", "gold", "predicted", "right", "found", "there", "accuracy"),
    [
        ("IOB2", ["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "I-PER", "O", "B-PER"], 1, 2, 2, 75),
        ("IOB2", ["B-PER", "B-PER", "O"], ["B-PER", "I-PER", "O"], 0, 1, 2, 200 / 3),
        ("IOB2", ["O", "B-PER"], ["O", "I-PER"], 0, 0, 1, 50),  # strict: I without B marks nothing
        ("IOB1", ["I-PER", "B-PER", "O"], ["I-PER", "B-PER", "O"], 2, 2, 2, 100),
        ("IOB1", ["I-PER", "B-PER", "I-LOC"], ["I-PER", "I-PER", "I-LOC"], 1, 2, 3, 200 / 3),
        ("BIOES", ["B-PER", "E-PER", "S-LOC"], ["B-PER", "E-PER", "S-PER"], 1, 2, 2, 200 / 3),
        ("BIOES", ["B-PER", "E-PER"], ["B-PER", "I-PER"], 0, 0, 1, 50),  # strict: never closed
        ("IOB2", ["O", "O"], ["O", "B-PER"], 0, 1, 0, 50),
        ("IOB2", ["B-PER"], ["O"], 0, 0, 1, 0),
    ],
)
def test_entities(scheme, gold, predicted, right, found, there, accuracy):
    precision, recall = right / found if found else 0, right / there if there else 0
    f1 = 2 * precision * recall / (precision + recall) if right else 0
    expected = {"accuracy": accuracy, "precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}
    assert tagging_metrics([gold], [predicted], scheme) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "prefixes", "theirs"), [("IOB2", "BI", IOB2), ("BIOES", "BIES", IOBES)])
def test_entities_equal_seqevals_strict_mode(scheme, prefixes, theirs):
    tags = st.sampled_from(["O", *(f"{prefix}-{name}" for prefix in prefixes for name in ("PER", "creative-work"))])

    @given(st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=8), min_size=1, max_size=4))
    def check(sentences):
        gold, predicted = ([[pair[side] for pair in pairs] for pairs in sentences] for side in (0, 1))
        figures = tagging_metrics(gold, predicted, scheme)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("precision", "recall", "f1"):
                score = getattr(seqeval_metrics, f"{name}_score")
                expected = 100 * score(gold, predicted, mode="strict", scheme=theirs, zero_division=0)
                assert figures[name] == pytest.approx(expected), name

    check()


@pytest.mark.parametrize("types", [("ion", "ion-"), ("ion", "-ion"), ("", "_"), ("a-b", "a-b-")])
@pytest.mark.parametrize("weights", [None, np.ones(2)])
def test_types_that_differ_in_hyphens_are_different(types, weights):
    gold = [[f"B-{name}" if name else "B", "O"] for name in types]
    predicted = gold[::-1]
    assert tagging_metrics(gold, predicted, "IOB2", weights)["f1"] == 0
    assert tagging_metrics(gold, gold, "IOB2", weights)["f1"] == 100


def test_entities_end_with_their_sentence():
    gold = [["B-PER"], ["B-PER", "I-PER"], []]
    assert tagging_metrics(gold, [["B-PER"], ["B-PER", "O"], []], "IOB2")["f1"] == 50.0


def test_plain_tags_have_an_accuracy():
    assert tagging_metrics([["DT", "NN"], ["VB"]], [["DT", "VB"], ["VB"]], "none") == pytest.approx(
        {"accuracy": 200 / 3}
    )


@pytest.mark.parametrize("scheme", ["IOB2", "none"])
def test_only_empty_sentences(scheme):
    assert set(tagging_metrics([[], []], [[], []], scheme).values()) == {0.0}


@pytest.mark.parametrize("scheme", ["IOB2", "none"])
def test_weights_equal_repeated_sentences(scheme):
    gold = [["B-PER", "I-PER", "O"], ["O", "B-LOC"], ["B-LOC"], [], ["O", "O"]]
    predicted = [["B-PER", "I-PER", "B-LOC"], ["O", "O"], ["B-LOC"], [], ["I-PER", "O"]]
    weights = [2, 3, 1, 4, 0]
    repeated = [
        [own for own, count in zip(part, weights, strict=True) for _ in range(count)] for part in (gold, predicted)
    ]
    expected = tagging_metrics(*repeated, scheme)
    assert tagging_metrics(gold, predicted, scheme, np.array(weights, float)) == pytest.approx(expected)
    assert tagging_metrics(gold, predicted, scheme) != pytest.approx(expected)


def test_weights_equal_repeated_texts():
    gold, predicted, weights = np.array([0, 1, 2, 1]), np.array([0, 1, 1, 0]), np.array([1, 3, 2, 0])
    repeated = np.repeat(gold, weights), np.repeat(predicted, weights)
    assert classification_metrics(gold, predicted, weights) == pytest.approx(classification_metrics(*repeated))
    one_hot = [np.eye(3, dtype=int)[part] for part in (gold, predicted)]
    expected = multilabel_metrics(*(np.repeat(part, weights, axis=0) for part in one_hot))
    assert multilabel_metrics(*one_hot, weights) == pytest.approx(expected)


def test_regression_metrics_equal_scipys_and_scikit_learns():
    random = np.random.default_rng(2)
    gold = random.integers(0, 6, 50).astype(float)  # with ties
    predicted = np.round(gold + random.normal(size=50), 1)
    expected = {
        "pearson": 100 * pearsonr(gold, predicted).statistic,
        "spearman": 100 * spearmanr(gold, predicted).statistic,
        "r2": 100 * r2_score(gold, predicted),
        "mse": mean_squared_error(gold, predicted),
    }
    assert regression_metrics(gold, predicted) == pytest.approx(expected)
    weights = random.integers(0, 4, 50)
    copies = np.repeat(np.arange(50), weights)
    weighted = regression_metrics(gold, predicted, weights.astype(float))
    assert weighted == pytest.approx(regression_metrics(gold[copies], predicted[copies]))


@pytest.mark.parametrize(("gold", "predicted"), [([1.0, 2.0], [3.0, 3.0]), ([2.0, 2.0], [1.0, 2.0])])
def test_correlations_of_constant_numbers_are_zero(gold, predicted):
    metrics = regression_metrics(np.array(gold), np.array(predicted))
    assert metrics["pearson"] == metrics["spearman"] == 0.0

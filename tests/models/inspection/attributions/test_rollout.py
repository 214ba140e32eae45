"""Rollout against products of dense matrices, flow against linear programming."""

import numpy as np
import pytest
from scipy.optimize import linprog

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attributions import _rollout as rollout
from graphattn.models.inspection.attributions import attention_flow, attention_rollout
from graphattn.models.inspection.attributions._rollout import layer_matrices

TEXT = "fine and never dull"


def dense_rollout(table, count, residual):
    """Abnar & Zuidema's product, computed from the table."""
    product = np.eye(count)
    for _, layer in table.groupby("layer"):
        heads = []
        for _, own in layer.groupby("head"):
            matrix = np.zeros((count, count))
            matrix[own.target, own.source] = own.weight
            heads.append(matrix + np.diag(1 - matrix.sum(1)))
        product = (residual * np.eye(count) + (1 - residual) * np.mean(heads, axis=0)) @ product
    return product


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.8])
def test_it_equals_dense_products(residual, classifier):
    attention = classifier.attention(TEXT)
    expected = dense_rollout(attention.table(), 5, residual)
    for target in range(5):
        actual = attention_rollout(attention, target=target, residual=residual)
        np.testing.assert_allclose(actual.attribution, expected[target], atol=1e-7)
    mean = attention_rollout(attention, residual=residual)
    np.testing.assert_allclose(mean.attribution, expected.mean(0), atol=1e-7)
    assert mean.token.tolist() == ["[CLS]", *TEXT.split()]
    assert mean.attribution.sum() == pytest.approx(1)


@pytest.mark.parametrize("function", [attention_rollout, attention_flow])
def test_an_estimator_and_a_text_take_the_place_of_weights(function, classifier):
    assert function(classifier, TEXT, target=1).equals(function(classifier.attention(TEXT), target=1))


def test_texts_of_a_pair_do_not_mix(pair_classifier):
    actual = attention_rollout(pair_classifier.attention(("a fine film", "dull")), target=1)
    assert actual.groupby("part").attribution.sum().to_dict() == pytest.approx({"first": 0.5, "second": 0.5})


@pytest.mark.parametrize("target", [None, 0, 2])
def test_rollout_of_a_translator_ends_in_its_output(target, translators, source):
    attention = translators("transformer").attention(source, "Ein hund!")
    lengths = [len(attention.tokens[part]) for part in ("source", "target")]
    table = attention.table()
    for name in ("source", "target"):
        table[name] += (table[f"{name}_part"] == "target") * lengths[0]
    written = dense_rollout(table, sum(lengths), 0.5)[lengths[0] :]
    expected = written.mean(0) if target is None else written[target]
    actual = attention_rollout(attention, target=target)
    np.testing.assert_allclose(actual.attribution, expected, atol=1e-7)
    assert actual.part.tolist() == ["source"] * lengths[0] + ["target"] * lengths[1]


@pytest.mark.parametrize("arguments", [{"target": 5}, {"residual": 1.0}, {"x": "a film"}], ids=str)
def test_invalid_arguments(arguments, classifiers):
    with pytest.raises(ConfigError) as caught:
        attention_rollout(classifiers["ms-trans"].attention(TEXT), **arguments)
    assert caught.value.options == tuple(arguments)


def test_heads_between_words_have_no_path_to_tokens(word_classifier):
    attention = word_classifier.attention(TEXT)
    for actual in (attention_rollout, attention_flow):
        with pytest.raises(ConfigError, match="between words"):
            actual(attention)


def largest_flow(matrices, source, ends):
    """Maximise the flow into the last layer: one variable per edge; inflow equals outflow at each inner node."""
    edges = [
        (layer, s, t, matrix[t, s])
        for layer, matrix in enumerate(matrices)
        for t, s in zip(*matrix.nonzero(), strict=True)
    ]
    count, top = len(ends), len(matrices)
    gains = [-1.0 if layer == top - 1 else 0.0 for layer, *_ in edges]
    balance, limits = [], []
    for layer in range(1, top):
        for node in range(count):
            into = [int((edge[0], edge[2]) == (layer - 1, node)) for edge in edges]
            out_of = [int(edge[:2] == (layer, node)) for edge in edges]
            balance.append(np.subtract(into, out_of))
    for node in range(count):
        limits.append([float((edge[0], edge[2]) == (top - 1, node)) for edge in edges])
    starts = [float(edge[0] == 0 and edge[1] != source) for edge in edges]
    equal = np.array([*balance, starts])
    actual = linprog(gains, limits, ends, equal, np.zeros(len(equal)), bounds=[(0, edge[3]) for edge in edges])
    assert actual.success
    return -actual.fun


@pytest.mark.parametrize("target", [None, 0, 3])
def test_flow_equals_linear_programming(target, classifier):
    attention = classifier.attention(TEXT)
    matrices = [matrix.toarray() for matrix in layer_matrices(attention, 0.5)]
    ends = np.full(5, 1 / 5) if target is None else (np.arange(5) == target).astype(float)
    actual = attention_flow(attention, target=target)
    expected = [largest_flow(matrices, source, ends) for source in range(5)]
    np.testing.assert_allclose(actual.attribution, expected, atol=1e-6)


def test_flow_rejects_long_texts(classifiers, monkeypatch):
    attention = classifiers["transformer"].attention(TEXT)
    monkeypatch.setattr(rollout, "MOST_EDGES", 49)
    with pytest.raises(ConfigError, match="50 edges"):
        attention_flow(attention)

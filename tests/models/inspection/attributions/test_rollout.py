"""Rollout against products of dense matrices."""

import numpy as np
import pytest

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attributions import attention_flow, attention_rollout

TEXT = "fine and never dull"


def dense_rollout(table, count, residual):
    """Abnar & Zuidema's product, from the table alone."""
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
        found = attention_rollout(attention, target=target, residual=residual)
        np.testing.assert_allclose(found.attribution, expected[target], atol=1e-7)
    mean = attention_rollout(attention, residual=residual)
    np.testing.assert_allclose(mean.attribution, expected.mean(0), atol=1e-7)
    assert mean.token.tolist() == ["[CLS]", *TEXT.split()]
    assert mean.attribution.sum() == pytest.approx(1)


def test_texts_of_a_pair_do_not_mix(pair_classifier):
    found = attention_rollout(pair_classifier.attention(("a fine film", "dull")), target=1)
    assert found.groupby("part").attribution.sum().to_dict() == pytest.approx({"first": 0.5, "second": 0.5})


@pytest.mark.parametrize("target", [None, 0, 2])
def test_a_translator_ends_in_what_it_writes(target, translators, source):
    attention = translators("transformer").attention(source, "Ein hund!")
    lengths = [len(attention.tokens[part]) for part in ("source", "target")]
    table = attention.table()
    for name in ("source", "target"):
        table[name] += (table[f"{name}_part"] == "target") * lengths[0]
    written = dense_rollout(table, sum(lengths), 0.5)[lengths[0] :]
    expected = written.mean(0) if target is None else written[target]
    found = attention_rollout(attention, target=target)
    np.testing.assert_allclose(found.attribution, expected, atol=1e-7)
    assert found.part.tolist() == ["source"] * lengths[0] + ["target"] * lengths[1]


@pytest.mark.parametrize("arguments", [{"target": 5}, {"residual": 1.0}], ids=["target", "residual"])
def test_what_cannot_be(arguments, classifiers):
    with pytest.raises(ConfigError) as caught:
        attention_rollout(classifiers["ms-trans"].attention(TEXT), **arguments)
    assert caught.value.options == tuple(arguments)


def test_heads_from_word_to_word_have_no_path_to_tokens(word_classifier):
    attention = word_classifier.attention(TEXT)
    for found in (attention_rollout, attention_flow):
        with pytest.raises(ConfigError, match="between words"):
            found(attention)

"""Sentence vectors and their gradients against formulas, for any lengths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.models.heads._pooling import Source2TokenPooling, count_pooled_features, pool

FORMULAS = {
    "cls+max": lambda own: 0.5 * (own[0] + own.amax(0)),
    "concat": lambda own: torch.cat([own[0], own.amax(0)]),
    "max": lambda own: own.amax(0),
    "mean": lambda own: own.sum(0) / len(own),
    "mean-max": lambda own: torch.cat([own.sum(0) / len(own), own.amax(0)]),
    "cls": lambda own: own[0],
    "unit-mean": lambda own: own.sum(0) / own.sum(0).norm(),
    "unit-cls": lambda own: own[0] / own[0].norm(),
}


@pytest.mark.slow
@pytest.mark.parametrize("pooling", FORMULAS)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_values_and_gradients_follow_the_formula(pooling, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(sum(lengths), 3, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(len(lengths), count_pooled_features(pooling, 3), generator=generator, dtype=torch.float64)
    ours = pool(tokens, torch.tensor(lengths), pooling)
    expected = torch.stack([FORMULAS[pooling](own) for own in tokens.split(lengths)])
    torch.testing.assert_close(ours, expected)
    (gradient,) = torch.autograd.grad((ours * weight).sum(), tokens)
    (reference,) = torch.autograd.grad((expected * weight).sum(), tokens)
    torch.testing.assert_close(gradient, reference)


@pytest.mark.parametrize("pooling", FORMULAS)
def test_gradcheck(pooling):
    tokens = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pool(x, torch.tensor([1, 3, 2]), pooling), (tokens,))


def test_sums_of_half_precision_are_float32():
    torch.manual_seed(0)
    tokens = torch.rand(3000, 2).bfloat16()
    pooled = pool(tokens, torch.tensor([3000]), "mean")
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, tokens.float().mean(0, keepdim=True), rtol=1e-6, atol=0)


def test_negative_maximum():
    """The maximum is over the sentence's tokens only, not over an initial zero."""
    assert pool(torch.tensor([[-3.0], [-1.0], [-2.0]]), torch.tensor([2, 1]), "max").tolist() == [[-1.0], [-2.0]]


def test_bfloat16():
    tokens = torch.randn(5, 2).bfloat16()
    assert pool(tokens, torch.tensor([2, 3]), "cls+max").dtype == torch.bfloat16


def test_source2token_pooling_has_a_softmax_for_each_feature():
    torch.manual_seed(0)
    pooling = Source2TokenPooling(4).double()
    lengths = (1, 5, 2)
    tokens = torch.randn(8, 4, dtype=torch.float64)
    expected = []
    for own in tokens.split(lengths):
        inner = torch.nn.functional.elu(own @ pooling.inner.weight.T + pooling.inner.bias)
        weights = (inner @ pooling.outer.weight.T + pooling.outer.bias).softmax(0)
        expected.append((weights * own).sum(0))
    torch.testing.assert_close(pooling(tokens, torch.tensor(lengths)), torch.stack(expected), rtol=0, atol=1e-6)
    assert sum(parameter.numel() for parameter in Source2TokenPooling(600).parameters()) == 721_200

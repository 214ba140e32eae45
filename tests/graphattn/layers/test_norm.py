"""Layer norm against PyTorch's, and its gradients in half precision."""

import pytest
import torch

from graphattn.layers._norm import LayerNorm

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_pytorch(dtype, bias):
    ours, theirs = (kind(6, 1e-3, bias=bias, dtype=dtype) for kind in (LayerNorm, torch.nn.LayerNorm))
    inputs = torch.randn(2, 5, 6, dtype=dtype)
    assert torch.equal(ours(inputs), theirs(inputs))
    assert repr(ours) == repr(theirs)


@HALVES
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_summed_in_float32(dtype, bias):
    norm = LayerNorm(4, bias=bias, dtype=dtype)
    row = torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=dtype)  # its own norm
    out = norm(row.repeat(10_000, 1))
    assert out.dtype == dtype
    out.backward(torch.full_like(out, 0.01))
    torch.testing.assert_close(norm.weight.grad, 100 * row, rtol=0.01, atol=0)
    if bias:
        torch.testing.assert_close(norm.bias.grad, torch.full((4,), 100, dtype=dtype), rtol=0.01, atol=0)


@HALVES
def test_sums_in_float32_enter_norms_of_half_precision(dtype):
    norm, inputs = LayerNorm(6, dtype=dtype), torch.randn(5, 6)
    torch.testing.assert_close(norm(inputs), norm(inputs.to(dtype)), rtol=0.02, atol=0.02)
    assert norm(inputs).dtype == dtype


def test_without_parameters():
    inputs = torch.randn(5, 6)
    ours, theirs = (kind(6, elementwise_affine=False)(inputs) for kind in (LayerNorm, torch.nn.LayerNorm))
    assert torch.equal(ours, theirs)

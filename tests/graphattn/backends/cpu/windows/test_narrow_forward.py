"""Chunks, heads, NaN and dropout of the kernels for narrow ranges; test_attention.py checks them against formulas."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from graphattn import Edges, attend
from graphattn._backends.cpu import plan as fused_plan
from graphattn._backends.cpu.plan import is_narrow
from graphattn._backends.cpu.windows.narrow_rows import lowest_finite


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_lowest_finite(kind):
    assert lowest_finite(np.zeros(1, kind)) == np.finfo(kind).min


@pytest.mark.parametrize("size", [20, 100])
def test_chunks_that_share_keys(windows, mask_of, dense_attention, monkeypatch, size):
    monkeypatch.setattr(fused_plan, "NARROW_ROWS", size)
    edges = windows([900, 30, 500], 23)
    inputs = [torch.randn(1430, 2, 7, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    upper = torch.randn(1430, 2, 7, dtype=torch.float64)
    got = torch.autograd.grad(attend(edges, *inputs, backend="fused"), inputs, upper)
    expected = torch.autograd.grad(dense_attention(mask_of(edges), *inputs), inputs, upper)
    for one, two in zip(got, expected, strict=True):
        assert_close(one, two, rtol=0, atol=1e-12)


def test_results_of_a_sentence_do_not_depend_on_its_neighbours(windows):
    lengths = [5, 40, 17, 1]
    inputs = [torch.randn(63, 2, 9, requires_grad=True) for _ in range(3)]
    upper = torch.randn(63, 2, 9)

    def results(rows):
        own = [tensor[rows].detach().requires_grad_() for tensor in inputs]
        out = attend(windows(lengths[1:2] if rows.start else lengths, 13), *own, backend="fused")
        return [out, *torch.autograd.grad(out, own, upper[rows])]

    for whole, alone in zip(results(slice(0, 63)), results(slice(5, 45)), strict=True):
        assert torch.equal(whole[5:45], alone)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_affect_only_rows_that_see_them(windows, which, bad):
    edges = windows([60], 5)
    assert is_narrow(edges)
    torch.manual_seed(0)
    inputs = [torch.randn(60, 1, 5) for _ in range(3)]
    clean = attend(edges, *inputs, backend="fused")
    inputs[which][30] = bad
    own = [tensor.clone().requires_grad_() for tensor in inputs]
    out = attend(edges, *own, backend="fused")
    touched = torch.arange(60).sub(30).abs() <= (0 if which == 0 else 2)
    assert torch.equal(out[~touched], clean[~touched])
    assert not out[touched].isfinite().all(dim=(1, 2)).any()
    gradients = torch.autograd.grad(out[~touched].sum(), own)
    far = torch.arange(60).sub(30).abs() > 4
    for gradient in gradients:
        assert gradient[far].isfinite().all()


def test_dropout_against_its_mask(windows):
    edges = windows([40, 9], 7)
    query, key, value = inputs = [torch.randn(49, 2, 6, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    same = torch.zeros(49, 2, 6, dtype=torch.float64)
    torch.manual_seed(5)
    which = torch.eye(49, dtype=torch.float64).unsqueeze(1).expand(-1, 2, -1).contiguous()
    drawn = attend(edges, same, same, which, dropout=0.3, backend="fused")  # (destination, head, source)
    plain = attend(edges, same, same, which, backend="fused")
    keep = torch.where(plain > 0, drawn / plain, 0.0)
    assert 0.2 < (keep[plain > 0] == 0).double().mean() < 0.4
    assert_close(keep[keep > 0], torch.full_like(keep[keep > 0], 1 / 0.7))
    torch.manual_seed(5)
    out = attend(edges, *inputs, dropout=0.3, backend="fused")
    weights = attend(edges, query, key, which, backend="fused")
    expected = torch.einsum("ihj,jhd->ihd", weights * keep, value)
    assert_close(out, expected, rtol=0, atol=1e-12)
    upper = torch.randn(49, 2, 6, dtype=torch.float64)
    for one, two in zip(
        torch.autograd.grad(out, inputs, upper), torch.autograd.grad(expected, inputs, upper), strict=True
    ):
        assert_close(one, two, rtol=0, atol=1e-12)


def test_nodes_without_keys_get_zeros(mask_of, dense_attention):
    low = torch.tensor([0, 1, 1, 3])
    edges = Edges.of_ranges(low, torch.tensor([2, 1, 4, 3]), 4)
    inputs = [torch.randn(4, 1, 3, requires_grad=True) for _ in range(3)]
    out = attend(edges, *inputs, backend="fused")
    assert (out[[1, 3]] == 0).all()
    assert_close(out, dense_attention(mask_of(edges), *inputs), rtol=0, atol=1e-6)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(out.sum(), inputs))

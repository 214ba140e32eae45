"""Chunks, heads, NaN and dropout of the kernels for narrow ranges; test_attention.py checks them against formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphattn import Edges, attend
from graphattn._attention import attend_heads
from graphattn._backends.cpu import plan as fused_plan
from graphattn._backends.cpu.plan import is_narrow
from graphattn._backends.cpu.windows.narrow_rows import lowest_finite


def windows(lengths, reach):
    """Windows in consecutive sentences."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    ends = starts + np.repeat(lengths, lengths)
    here = np.arange(int(np.sum(lengths)))
    low, high = np.maximum(here - reach, starts), np.minimum(here + reach + 1, ends)
    return Edges.of_ranges(torch.from_numpy(low), torch.from_numpy(high), len(here))


def reference(edges, query, key, value, keep=None):
    """Dense attention; ``keep`` (N, H, N) multiplies the weights."""
    seen = torch.zeros(len(query), len(key), dtype=torch.bool)
    seen[edges.destinations, edges.sources] = True
    scores = torch.einsum("ihd,jhd->ihj", query, key) / query.shape[2] ** 0.5
    weights = torch.softmax(scores.masked_fill(~seen[:, None], -torch.inf), dim=2).nan_to_num(0.0)
    return torch.einsum("ihj,jhd->ihd", weights if keep is None else weights * keep, value)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_lowest_finite(kind):
    assert lowest_finite(np.zeros(1, kind)) == np.finfo(kind).min


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 70), min_size=1, max_size=6),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_all_heads_of_a_layer(lengths, reaches, width, dtype):
    relations, heads = [windows(np.array(lengths), reach) for reach in reaches], [2] * len(reaches)
    torch.manual_seed(0)
    projected = torch.randn(sum(lengths), 3, sum(heads), width, dtype=torch.float64)
    upper = torch.randn(sum(lengths), sum(heads), width, dtype=torch.float64)
    given = projected.to(dtype).requires_grad_()
    out = attend_heads(relations, heads, given, backend="fused")
    (gradient,) = torch.autograd.grad(out, given, upper.to(dtype))
    exact = given.detach().double().requires_grad_()
    parts = [reference(one, *part.unbind(1)) for one, part in zip(relations, exact.split(heads, dim=2), strict=True)]
    (expected,) = torch.autograd.grad(torch.cat(parts, dim=1), exact, upper)
    tolerance = {"rtol": 2e-6, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0, "atol": 1e-12}
    assert_close(out.double(), torch.cat(parts, dim=1), **tolerance)
    assert_close(gradient.double(), expected, **tolerance)


@pytest.mark.parametrize("size", [20, 100])
def test_chunks_that_share_keys(monkeypatch, size):
    monkeypatch.setattr(fused_plan, "NARROW_ROWS", size)
    edges = windows(np.array([900, 30, 500]), 11)
    inputs = [torch.randn(1430, 2, 7, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    upper = torch.randn(1430, 2, 7, dtype=torch.float64)
    got = torch.autograd.grad(attend(edges, *inputs, backend="fused"), inputs, upper)
    expected = torch.autograd.grad(reference(edges, *inputs), inputs, upper)
    for one, two in zip(got, expected, strict=True):
        assert_close(one, two, rtol=0, atol=1e-12)


def test_results_of_a_sentence_do_not_depend_on_its_neighbours():
    lengths, reach = np.array([5, 40, 17, 1]), 6
    inputs = [torch.randn(63, 2, 9, requires_grad=True) for _ in range(3)]
    upper = torch.randn(63, 2, 9)

    def results(rows):
        own = [tensor[rows].detach().requires_grad_() for tensor in inputs]
        out = attend(windows(lengths[1:2], reach) if rows.start else windows(lengths, reach), *own, backend="fused")
        return [out, *torch.autograd.grad(out, own, upper[rows])]

    for whole, alone in zip(results(slice(0, 63)), results(slice(5, 45)), strict=True):
        assert torch.equal(whole[5:45], alone)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_affect_only_rows_that_see_them(which, bad):
    edges = windows(np.array([60]), 2)
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


@pytest.mark.parametrize("dropout", [0.3])
def test_dropout_against_its_mask(dropout):
    edges = windows(np.array([40, 9]), 3)
    inputs = [torch.randn(49, 2, 6, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    same = torch.zeros(49, 2, 6, dtype=torch.float64)
    torch.manual_seed(5)
    which = torch.eye(49, dtype=torch.float64).unsqueeze(1).expand(-1, 2, -1).contiguous()
    drawn = attend(edges, same, same, which, dropout=dropout, backend="fused")  # (destination, head, source)
    plain = attend(edges, same, same, which, backend="fused")
    keep = torch.where(plain > 0, drawn / plain, 0.0)
    assert 0.2 < (keep[plain > 0] == 0).double().mean() < 0.4
    assert_close(keep[keep > 0], torch.full_like(keep[keep > 0], 1 / (1 - dropout)))
    torch.manual_seed(5)
    out = attend(edges, *inputs, dropout=dropout, backend="fused")
    expected = reference(edges, *inputs, keep)
    assert_close(out, expected, rtol=0, atol=1e-12)
    upper = torch.randn(49, 2, 6, dtype=torch.float64)
    for one, two in zip(
        torch.autograd.grad(out, inputs, upper), torch.autograd.grad(expected, inputs, upper), strict=True
    ):
        assert_close(one, two, rtol=0, atol=1e-12)


def test_wide_and_narrow_heads_in_one_call():
    relations, heads = [windows(np.array([700, 20]), reach) for reach in (300, 0, 5)], [1, 2, 1]
    assert [is_narrow(edges) for edges in relations] == [False, True, True]
    given = torch.randn(720, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    upper = torch.randn(720, 4, 5, dtype=torch.float64)
    out = attend_heads(relations, heads, given, backend="fused")
    parts = [reference(one, *part.unbind(1)) for one, part in zip(relations, given.split(heads, dim=2), strict=True)]
    expected = torch.cat(parts, dim=1)
    assert_close(out, expected, rtol=0, atol=1e-12)
    (one,), (two,) = (torch.autograd.grad(made, given, upper) for made in (out, expected))
    assert_close(one, two, rtol=0, atol=1e-12)


def test_nodes_without_keys_get_zeros():
    low = torch.tensor([0, 1, 1, 3])
    edges = Edges.of_ranges(low, torch.tensor([2, 1, 4, 3]), 4)
    inputs = [torch.randn(4, 1, 3, requires_grad=True) for _ in range(3)]
    out = attend(edges, *inputs, backend="fused")
    assert (out[[1, 3]] == 0).all()
    assert_close(out, reference(edges, *inputs), rtol=0, atol=1e-6)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(out.sum(), inputs))

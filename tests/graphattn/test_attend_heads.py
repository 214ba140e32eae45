"""``attend_heads`` equals ``attend`` for each relation, gradients included."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphattn import Edges, attend
from graphattn._attention import attend_heads
from graphattn._backends.cpu import plan
from graphattn.exceptions import ConfigError, DoubleBackwardError, GraphError


def random_edges(count, seed=0):
    """Three edges from random sources into each node."""
    random = torch.Generator().manual_seed(seed)
    return Edges(torch.arange(0, 3 * count + 1, 3), torch.randint(0, count, (3 * count,), generator=random), count)


def draw(count, heads, seed=0, dtype=torch.float64, width=5):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, heads, width, generator=random, dtype=torch.float64).to(dtype).requires_grad_()


def attend_separately(edges, heads, inputs):
    parts = zip(*(tensor.split(heads, dim=1) for tensor in inputs.unbind(1)), strict=True)
    return torch.cat([attend(one, *part, backend="torch") for one, part in zip(edges, parts, strict=True)], dim=1)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.lists(st.sampled_from(["1", "3", "7", "N/4", "N/2", "any"]), min_size=1, max_size=4),
    st.integers(0, 99),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.float64]),
)
@example([700, 20], ["601", "1", "11"], 0, 5, torch.float64)
def test_equals_separate_calls(windows, lengths, scales, seed, width, dtype):
    count = sum(lengths)
    edges = [random_edges(count, seed) if scale == "any" else windows(lengths, scale) for scale in scales]
    heads = [1 + (seed + number) % 3 for number in range(len(scales))]
    inputs = draw(count, sum(heads), seed, dtype, width)
    exact = inputs.detach().double().requires_grad_()
    actual, expected = attend_heads(edges, heads, inputs), attend_separately(edges, heads, exact)
    tolerance = {"rtol": 2e-6, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-11}
    torch.testing.assert_close(actual.double(), expected, **tolerance)
    upstream = torch.randn(actual.shape, dtype=torch.float64)
    (gradient,), (expected_gradient,) = (
        torch.autograd.grad(out, rows, upstream.to(out.dtype)) for out, rows in ((actual, inputs), (expected, exact))
    )
    torch.testing.assert_close(gradient.double(), expected_gradient, **tolerance)


def windows_and_first_tokens(lengths, reach, dtype=torch.int32):
    """Windows in sentences, whose first tokens see their sentence and are seen by it; the last node has no edge."""
    sources, start = [], 0
    for length in lengths:
        tokens = range(length)
        sources += [[start + j for j in tokens if i == 0 or j == 0 or abs(i - j) <= reach] for i in tokens]
        start += length
    degrees = torch.tensor([0, *map(len, sources), 0])
    return Edges(degrees.cumsum(0).to(dtype), torch.tensor([j for row in sources for j in row], dtype=dtype), start + 1)


@pytest.mark.slow
@pytest.mark.parametrize(("lengths", "reach"), [([60], 8), ([90, 1, 70], 9), ([700], 130)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_windows_with_other_edges_are_computed_in_two_parts(windows, monkeypatch, lengths, reach, dropout):
    monkeypatch.setattr(plan, "MIN_SPLIT_EDGES", 0)
    mixed, window = windows_and_first_tokens(lengths, reach), windows([sum(lengths) + 1], "3")
    assert plan.split_runs(mixed) is not None
    edges, heads = [window, mixed, mixed], [1, 2, 1]
    inputs = draw(sum(lengths) + 1, 4)
    upstream = torch.randn(len(inputs), 4, 5, dtype=torch.float64)

    def compute(inputs, dropout=dropout):
        torch.manual_seed(0)
        return attend_heads(edges, heads, inputs, dropout=dropout)

    actual = compute(inputs)
    (gradient,) = torch.autograd.grad(actual, inputs, upstream)
    if dropout:  # masks are not those of other backends: compare with differences
        step = 1e-6 * torch.randn_like(inputs)
        change = ((compute(inputs + step) - compute(inputs - step)) * upstream).sum() / 2
        torch.testing.assert_close((gradient * step).sum(), change, rtol=1e-5, atol=0)
        assert not torch.allclose(actual, compute(inputs, 0.0))
    else:
        expected = attend_separately(edges, heads, inputs)
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
        expected_gradient = torch.autograd.grad(expected, inputs, upstream)[0]
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-11, atol=1e-11)


def test_parts_of_edges_without_numbers_or_with_infinite_ones(monkeypatch):
    monkeypatch.setattr(plan, "MIN_SPLIT_EDGES", 0)
    edges = windows_and_first_tokens([60], 8)
    for value in (float("nan"), float("inf")):
        inputs = draw(61, 2).detach()
        inputs[40] = value
        actual, expected = attend_heads([edges], [2], inputs), attend_separately([edges], [2], inputs)
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("backend", ["auto", "fused", "torch", "dgl"])
@pytest.mark.parametrize(
    "scales", [("1", "3", "N/4"), ("3", "1"), ("1", "1"), ("1", "any"), ("N/2", "1", "3", "1")], ids=str
)
def test_identities_need_no_queries_and_keys(windows, scales, backend):
    lengths, heads = [400, 30, 30], [1 + number % 2 for number in range(len(scales))]
    edges = [random_edges(460) if scale == "any" else windows(lengths, scale) for scale in scales]
    full = draw(460, sum(heads))
    scored = [head for scale, count in zip(scales, heads, strict=True) for head in [scale != "1"] * count]
    needed = torch.tensor([*scored, *scored, *[True] * sum(heads)])
    upstream = torch.randn(460, sum(heads), 5, dtype=torch.float64)
    expected = attend_separately(edges, heads, full)
    (gradient,) = torch.autograd.grad(expected, full, upstream)
    compact = full.detach().flatten(1, 2)[:, needed].requires_grad_()
    actual = attend_heads(edges, heads, compact, backend=backend)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    (own,) = torch.autograd.grad(actual, compact, upstream)
    torch.testing.assert_close(own, gradient.flatten(1, 2)[:, needed], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scales", [("1", "3", "N/4"), ("1", "1"), ("3", "any"), ("1", "N/2")])
@pytest.mark.parametrize("length", [30, 700])
def test_backward_pass_drops_the_same_edges(windows, scales, length):
    edges = [random_edges(length) if scale == "any" else windows([length], scale) for scale in scales]
    inputs = draw(length, 2 * len(scales))

    def run(inputs):
        torch.manual_seed(4)
        return attend_heads(edges, [2] * len(scales), inputs, dropout=0.4)

    upstream = torch.randn(length, 2 * len(scales), 5, dtype=torch.float64)
    step = 1e-6 * torch.randn_like(inputs)
    difference = ((run(inputs + step) - run(inputs - step)) * upstream).sum() / 2
    slope = (torch.autograd.grad(run(inputs), inputs, upstream)[0] * step).sum()
    torch.testing.assert_close(difference, slope, rtol=1e-6, atol=1e-12)


def test_dropout_on_the_identity(windows):
    count = 4000
    inputs = torch.ones(count, 3, 2, 1)
    edges = [windows([1] * count, "1"), windows([2] * (count // 2), "3")]
    torch.manual_seed(0)
    out = attend_heads(edges, [1, 1], inputs, dropout=0.25)[:, 0, 0]
    assert sorted(set(out.tolist())) == [0.0, pytest.approx(4 / 3)]
    assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)


def test_bfloat16(windows):
    edges, heads = [windows([9, 30], "1"), windows([9, 30], "N/4")], [2, 1]
    inputs = draw(39, 3, dtype=torch.bfloat16)
    actual = attend_heads(edges, heads, inputs)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.double(), attend_separately(edges, heads, inputs.double()), rtol=2e-2, atol=1e-2)


def test_nan_and_infinity_affect_only_rows_that_see_them(windows):
    inputs = draw(60, 2, dtype=torch.float32).detach()
    inputs[20, :, 1] = float("nan")
    inputs[40, 2, 1] = float("inf")
    out = attend_heads([windows([30, 30], "3"), windows([30, 30], "5")], [1, 1], inputs)
    seen = [*range(18, 23), *range(38, 43)]
    assert not out[seen, 1].isfinite().all(1).any()
    others = [token for token in range(60) if token not in seen]
    assert out[others].isfinite().all()
    assert out[:, 0].isfinite().all()


def test_second_derivatives_are_rejected(windows):
    inputs = draw(6, 2)
    first = torch.autograd.grad(attend_heads([windows([6], "3")], [2], inputs).sum(), inputs, create_graph=True)[0]
    with pytest.raises(DoubleBackwardError):
        torch.autograd.grad(first.sum(), inputs)


def test_invalid_arguments(windows):
    edges, inputs = [windows([6], "3")], draw(6, 2)
    with pytest.raises(GraphError) as caught:
        attend_heads(edges, [3], inputs)
    assert str(caught.value) == (
        "projected has shape (6, 3, 2, 5); expected (N, 3, 3, features), or (N, 9, features) without queries and "
        "keys of identities, for 1 relations with heads (3,)"
    )
    with pytest.raises(GraphError, match=r"projected has shape \(6, 5, 5\)"):
        attend_heads([windows([6], "1")], [2], inputs.flatten(1, 2)[:, :5])
    with pytest.raises(GraphError, match="query has shape"):
        attend_heads([windows([5], "3")], [2], inputs)
    with pytest.raises(ConfigError, match=r"dropout is 1\.0"):
        attend_heads(edges, [2], inputs, dropout=1.0)


def reference_weights(edges, query, key):
    """(E, H) softmax weights, destination by destination."""
    scores = (query[edges.destinations] * key[edges.sources]).sum(2) / query.shape[2] ** 0.5
    return torch.cat([own.softmax(0) for own in scores.split(edges.indptr.diff().tolist())])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "fused", "torch", "dgl"])
@pytest.mark.parametrize(
    "scales", [("1", "3", "N/4"), ("1", "1"), ("3", "any", "1"), ("N", "5"), ("N/2", "1", "3", "1")], ids=str
)
@pytest.mark.parametrize("lengths", [(9, 1, 30), (700, 20)], ids=str)
def test_weights_of_all_relations(windows, lengths, scales, backend):
    count, heads = sum(lengths), [1 + number % 2 for number in range(len(scales))]
    edges = [random_edges(count) if scale == "any" else windows(lengths, scale) for scale in scales]
    inputs = 3 * draw(count, sum(heads)).detach()
    out, weights = attend_heads(edges, heads, inputs, backend=backend, return_weights=True)
    torch.testing.assert_close(out, attend_separately(edges, heads, inputs), rtol=1e-11, atol=1e-11)
    queries, keys, _ = (part.split(heads, dim=1) for part in inputs.unbind(1))
    for one, own, query, key in zip(edges, weights, queries, keys, strict=True):
        torch.testing.assert_close(own, reference_weights(one, query, key), rtol=1e-10, atol=1e-14)


def test_weights_are_ordered_by_edge_id():
    ids = torch.tensor([2, 0, 1, 3])
    edges = Edges(torch.tensor([0, 2, 3, 4]), torch.tensor([0, 2, 1, 0]), 3, ids)
    inputs = draw(3, 2).detach()
    _, (weights,) = attend_heads([edges], [2], inputs, return_weights=True)
    assert torch.equal(weights, attend(edges, *inputs.unbind(1), return_weights=True)[1])
    torch.testing.assert_close(weights[ids[2:]], torch.ones(2, 2, dtype=torch.float64))


def test_weights_with_nan(windows):
    edges = [windows([20, 20], "3"), windows([600], "N")]
    for one in edges:
        count = one.num_destinations
        inputs = draw(count, 2).detach()
        inputs[5, 1, 0] = float("nan")
        _, (weights,) = attend_heads([one], [2], inputs, return_weights=True)
        sees = torch.zeros(count, dtype=torch.bool).index_fill(0, one.destinations[one.sources == 5], True)
        assert torch.equal(weights[:, 0].isnan(), sees[one.destinations])
        assert weights[:, 1].isfinite().all()


def test_weights_are_returned_before_dropout(windows):
    edges, inputs = [windows([40, 300], "3"), windows([40, 300], "N")], draw(340, 3).detach()
    torch.manual_seed(0)
    out, weights = attend_heads(edges, [2, 1], inputs, dropout=0.5, return_weights=True)
    plain, expected = attend_heads(edges, [2, 1], inputs, return_weights=True)
    assert not torch.allclose(out, plain)
    for own, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-11, atol=1e-14)


def test_gradients_by_weights(windows):
    edges, heads = [windows([6, 3], "1"), windows([6, 3], "3")], [1, 2]
    inputs = draw(9, 3)
    out, weights = attend_heads(edges, heads, inputs, return_weights=True)
    slopes = torch.autograd.grad(out.sum(), weights)
    for one, own, value in zip(edges, slopes, inputs[:, 2].detach().split(heads, dim=1), strict=True):
        torch.testing.assert_close(own, value.sum(2)[one.sources])


@pytest.mark.parametrize("backend", ["auto", "torch", "dgl"])
def test_gradients_by_weights_of_a_relation_without_heads(windows, backend):
    edges, inputs = [windows([6, 3], "3"), random_edges(9)], draw(9, 2)
    out, weights = attend_heads(edges, (2, 0), inputs, backend=backend, return_weights=True)
    alone, (expected,) = attend_heads(edges[:1], (2,), inputs, backend=backend, return_weights=True)
    torch.testing.assert_close((out, weights[0]), (alone, expected))
    assert weights[1].shape == (27, 0)
    slopes, by_alone = (torch.autograd.grad(result.square().sum(), inputs)[0] for result in (out, alone))
    torch.testing.assert_close(slopes, by_alone)


@pytest.mark.parametrize("backend", ["auto", "torch", "dgl"])
def test_gradient_of_the_scale(windows, backend):
    edges, inputs = [windows([6, 3], "1"), windows([6, 3], "3"), random_edges(9)], draw(9, 5)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    compact = torch.cat([part[:, 1 - keeps :] for part, keeps in zip(inputs.unbind(1), (0, 0, 1), strict=True)], dim=1)

    def compute(inputs, scale):
        return attend_heads(edges, (1, 2, 2), inputs, scale=scale, backend=backend)

    for rows in (inputs, compact):
        torch.testing.assert_close(compute(rows, scale), compute(rows, 0.7))
        assert torch.autograd.gradcheck(compute, (rows.detach().requires_grad_(), scale), fast_mode=True)

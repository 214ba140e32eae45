"""Widths of windows, and the allocation of heads to scales as in the paper."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn import Scale, allocate_heads
from graphattn.exceptions import ConfigError


@given(divisor=st.integers(1, 64), length=st.integers(0, 5_000))
def test_relative_widths(divisor, length):
    share = max(1, math.floor(length / divisor))
    expected = share if share % 2 else share + 1
    assert Scale(f"N/{divisor}").width(length) == expected


@given(width=st.integers(0, 1_000).map(lambda half: 2 * half + 1), length=st.integers(0, 5_000))
def test_fixed_widths(width, length):
    assert Scale(width).width(length) == Scale(str(width)).width(length) == width


@given(scale=st.sampled_from(["1", "3", "N", "N/2", "N/16"]), lengths=st.lists(st.integers(0, 300)))
def test_widths_of_many_lengths(scale, lengths):
    widths = Scale(scale).widths(np.array(lengths, dtype=np.int32))
    assert widths.dtype == np.int64
    assert widths.tolist() == [Scale(scale).width(length) for length in lengths]


def test_widths_of_the_paper():
    lengths = (1, 15, 16, 31, 32, 47, 48, 64, 100, 201)
    assert [Scale("N/16").width(n) for n in lengths] == [1, 1, 1, 1, 3, 3, 3, 5, 7, 13]
    assert [Scale("N").width(n) for n in (1, 2, 3)] == [1, 3, 3]


@pytest.mark.parametrize(
    ("spec", "text"),
    [(3, "3"), (" 3 ", "3"), (np.int64(5), "5"), ("N/16", "N/16"), ("n / 8", "N/8"), ("N", "N"), ("N/1", "N")],
)
def test_spellings(spec, text):
    scale = Scale(spec)
    assert str(scale) == text
    assert repr(scale) == f"Scale({text!r})"
    assert scale == Scale(text) == Scale(scale) == copy.deepcopy(scale)
    assert hash(scale) == hash(Scale(text))


def test_scales_sort_from_small_to_large():
    order = ["1", "3", "11", "N/16", "N/8", "N/2", "N"]
    assert [str(scale) for scale in sorted(map(Scale, reversed(order)))] == order
    assert Scale(3) != 3
    with pytest.raises(TypeError):
        _ = Scale(3) < 5


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (4, "scale 4 is even; a window has the same reach on both sides: use 5"),
        ("0", "scale 0 is even; a window has the same reach on both sides: use 1"),
        *(
            (spec, f"scale {str(spec)!r} is neither an odd number of tokens such as 3 nor a share such as N/16")
            for spec in (-3, 2.5, 3.0, True, None, "", "N/0", "N/-2", "N/2.5", "16/N", "M/4", "N/", 10**10 + 1)
        ),
    ],
)
def test_invalid_scales(spec, message):
    with pytest.raises(ConfigError) as caught:
        Scale(spec)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("num_heads", "alpha", "rows"),
    [
        (10, 0.5, [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]),  # as the paper prints them
        (10, 1.0, [[7, 2, 1, 0, 0], [5, 2, 2, 1, 0], [2, 2, 2, 2, 2]]),
        (5, -0.5, [[1, 0, 1, 1, 2], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]),
    ],
)
def test_rows_of_the_paper(num_heads, alpha, rows):
    assert allocate_heads(num_heads, 3, 5, alpha) == rows


layer_options = {
    "num_heads": st.integers(1, 40),
    "num_layers": st.integers(1, 8),
    "num_scales": st.integers(1, 12),
    "alpha": st.floats(-50, 50),
}


@given(**layer_options)
def test_all_heads_are_allocated_within_one_of_the_exact_shares(num_heads, num_layers, num_scales, alpha):
    rows = allocate_heads(num_heads, num_layers, num_scales, alpha)
    assert [len(row) for row in rows] == [num_scales] * num_layers
    assert [sum(row) for row in rows] == [num_heads] * num_layers
    assert min(map(min, rows)) >= 0
    assert max(rows[-1]) - min(rows[-1]) <= 1, "the last layer spreads its heads evenly"
    for layer, row in enumerate(rows, start=1):
        z = [(num_scales - k) * alpha / layer if layer < num_layers else 0.0 for k in range(num_scales)]
        shares = [num_heads / sum(math.exp(other - mine) for other in z) for mine in z]
        assert all(abs(count - share) < 1 + 1e-6 for count, share in zip(row, shares, strict=True))


@given(num_heads=st.integers(1, 40), num_layers=st.integers(2, 8), num_scales=st.integers(1, 12), alpha=st.floats(0, 9))
def test_a_positive_alpha_favours_small_scales_in_shallow_layers(num_heads, num_layers, num_scales, alpha):
    rows = np.cumsum(allocate_heads(num_heads, num_layers, num_scales, alpha), axis=1)
    assert (np.diff(rows, axis=0) <= 0).all(), "the number of heads with a scale up to any limit decreases with depth"
    mirrored = np.cumsum(allocate_heads(num_heads, num_layers, num_scales, -alpha), axis=1)
    assert (np.diff(mirrored, axis=0) >= 0).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_heads", 0), ("num_layers", -1), ("num_scales", 0), ("alpha", math.nan), ("alpha", -math.inf)],
)
def test_invalid_allocations(name, value):
    with pytest.raises(ConfigError) as caught:
        allocate_heads(**{"num_heads": 10, "num_layers": 3, "num_scales": 5, "alpha": 0.5, name: value})
    assert caught.value.options == (name,)


@pytest.mark.parametrize(("alpha", "shallowest"), [(1000.0, [10, 0, 0, 0, 0]), (-1000.0, [0, 0, 0, 0, 10])])
def test_extreme_alpha(alpha, shallowest):
    assert allocate_heads(10, 2, 5, alpha) == [shallowest, [2, 2, 2, 2, 2]]

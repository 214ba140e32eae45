"""Numbers of any magnitude keep the digits that float32 has, and differ where they differ."""

import math

import numpy as np
import pytest

from graphattn.models._results.numbers import (
    choose_format,
    format_number,
    name_numbers,
    shorten,
    split_ranges,
    spread,
)


@pytest.mark.parametrize("scale", [1e-37, 3e-7, 1.0, 30.0, 1e12, 1e37])
@pytest.mark.parametrize("offset", [0, 1, 1e8])
def test_data_are_as_exact_as_the_model(scale, offset):
    for share in (-1.2345678, 0.31830987, 2.0):
        value = scale * (offset + share)
        assert abs(shorten(value, scale) - value) <= max(scale, abs(value) if offset < 2 else 0) * 2**-23
        assert len(repr(shorten(value, scale)).partition("e")[0].replace(".", "").strip("-0")) <= 9 + len(str(offset))


def test_data_are_the_shortest_numbers():
    for value in (3.25, 1e-30, -2e20):
        assert shorten(float(np.float32(value))) == value
    assert shorten(1e39) == 1e39  # beyond float32
    assert math.isnan(shorten(math.nan))


def test_names_differ_as_the_numbers_do():
    values = [1.6e9, 1.6e9 + 1, 1.6e9 + 1.5]
    assert name_numbers(values) == ["1600000000", "1600000001", "1600000001.5"]
    assert name_numbers([0.1, math.nextafter(0.1, 1)]) == ["0.10000000000000001", "0.10000000000000002"]


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.5, None, "0.50"),
        (0.012, None, "0.0120"),
        (3.21e-7, None, "3.21e-07"),
        (3.21e-7, 1e-9, "3.2100e-07"),
        (1600000020.25, 20.0, "1600000020.25"),
        (0.0, 1e-9, "0.00e+00"),
        (0.0, None, "0.00"),
        (math.nan, None, "nan"),
    ],
)
def test_readers_see_differences(value, step, text):
    assert format_number(value, step) == text


def test_a_format_for_all_numbers():
    assert choose_format([0.02, -3.0], 3) == ".3f"
    assert choose_format([2e-7, -1e-9], 3, "+") == "+.3e"
    assert choose_format([], 2) == choose_format([0.0], 2) == ".2f"
    assert (spread([]), spread([-2.0]), spread([3.0, 5.0])) == (0.0, 2.0, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_ranges_of_whole_numbers_have_whole_bounds(seed):
    values = np.random.default_rng(seed).poisson(12, 200).astype(float)
    ranges, last = split_ranges(values, 5), -1
    assert sum(map(len, ranges.values())) == len(values)
    for name, inside in ranges.items():
        low, _, high = name.partition(" to ")
        assert last < int(low) <= values[inside].min() <= values[inside].max() <= int(high or low)
        last = int(high or low)
    assert min(map(len, ranges.values())) > 10


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([5.0, 5.0, 5.0], ["5"]),
        ([1.0] * 9 + [2.0], ["1 to 2"]),
        ([1.0, 2.0, 3.0, 3.0, 3.0], ["1", "2", "3"]),
        ([0.5, 1.5, 2.5], ["0.5 to 0.9", "1.3 to 1.7", "2.1 to 2.5"]),
    ],
)
def test_names_of_ranges(values, names):
    assert list(split_ranges(np.array(values), 5)) == names

"""Each vector operation against NumPy."""

import numba
import numpy as np
import pytest

from graphattn._backends.cpu.simd import registers as simd
from graphattn._backends.cpu.simd.registers import (
    broadcast,
    dropout_factors,
    dropout_factors_of_key,
    exp,
    fetch_add,
    load,
    load_masked,
    mask_key,
    mask_lanes,
    maximum,
    reciprocal,
    reduce_add,
    reduce_max,
    store,
    store_masked,
)

KINDS = [np.float32, np.float64]


@pytest.fixture(params=KINDS, ids=["float32", "float64"])
def kind(request):
    """A type of numbers."""
    return request.param


@pytest.fixture
def count(kind):
    """Numbers in one register."""
    return simd.simd_width(np.zeros(1, kind))


@numba.njit
def _exp(given, made, count):
    for place in range(0, len(given), count):
        store(made, place, exp(load(given, place)))


def test_exp(kind, count):
    given = -np.geomspace(1e-6, 700 if kind is np.float64 else 86, 64 * count).astype(kind)
    made = np.empty_like(given)
    _exp(given, made, count)
    expected = np.exp(given.astype(np.longdouble))
    assert np.abs(made / expected - 1).max() < (2e-7 if kind is np.float32 else 1e-15)


def test_exp_of_zero_infinity_nan_and_underflow(kind, count):
    given = np.zeros(count, kind)
    given[:4] = 0, -np.inf, np.nan, -1000
    made = np.empty_like(given)
    _exp(given, made, count)
    assert made[0] == 1
    assert made[1] == made[3] == 0
    assert np.isnan(made[2])


@numba.njit
def _masked_copy(source, target, start, stop, other):
    store_masked(target, 0, load_masked(source, 0, start, stop), start, stop)
    store(target, len(target) // 2, mask_lanes(load(source, 0), start, stop, other))


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, 5), (-4, 100), (3, 3), (5, 2), (200, 300)])
def test_masked_operations_change_only_their_lanes(kind, count, start, stop):
    source = np.arange(1, count + 1, dtype=kind)
    target = np.full(2 * count, -1, kind)
    _masked_copy(source, target, start, stop, kind(7))
    inside = (np.arange(count) >= start) & (np.arange(count) < stop)
    np.testing.assert_array_equal(target[:count], np.where(inside, source, -1))
    np.testing.assert_array_equal(target[count:], np.where(inside, source, 7))


@numba.njit
def _reduce(source):
    return (
        reduce_add(load(source, 0)),
        reduce_max(load(source, 0)),
        reduce_max(maximum(load(source, 0), broadcast(source[1]))),
    )


def test_reductions(kind, count):
    source = np.random.default_rng(0).normal(size=count).astype(kind)
    added, most, other = _reduce(source)
    assert added == pytest.approx(source.sum(), rel=1e-5)
    assert most == other == source.max()


@numba.njit
def _dropout_factors(made, counter, seed, limit, factor):
    store(made, 0, dropout_factors(load(made, 0), counter, seed, limit, factor))


def murmur_twice(number, seed):
    """MurmurHash3's finalizer, twice, in Python's integers."""
    mask = 0xFFFFFFFF
    bits = (number * 0x9E3779B9 & mask) ^ seed
    for _ in range(2):
        bits ^= bits >> 16
        bits = bits * 0x85EBCA6B & mask
        bits ^= bits >> 13
        bits = bits * 0xC2B2AE35 & mask
        bits ^= bits >> 16
    return bits


@pytest.mark.parametrize("counter", [0, 5, 2**32 - 3, 2**33 + 1])
def test_dropout_factors_depend_on_number_and_seed(kind, count, counter):
    made = np.zeros(count, kind)
    _dropout_factors(made, counter, np.uint32(0xDEADBEEF), np.uint32(1 << 31), kind(2))
    expected = [2 * (murmur_twice(number % 2**32, 0xDEADBEEF) >= 1 << 31) for number in range(counter, counter + count)]
    assert made.tolist() == expected


@numba.njit
def _mask_key(made, rows, number, seed, limit, factor):
    store(made, 0, mask_key(load(made, 0), rows, number, factor))
    store(made, len(made) // 2, dropout_factors_of_key(load(made, 0), rows, number, seed, limit, factor))


def test_ranges_and_edge_numbers_differ_by_lane(kind, count):
    low, high = np.arange(count) - 2, np.arange(count) + 3
    shifts = 100 * np.arange(count)
    made = np.full(2 * count, -1, kind)
    _mask_key(made, np.concatenate([low, high, shifts]).astype(np.int32), 4, np.uint32(7), np.uint32(1 << 31), kind(2))
    assert made[:count].tolist() == [-1 if first <= 4 < last else 2 for first, last in zip(low, high, strict=True)]
    assert made[count:].tolist() == [2 * (murmur_twice(int(shift) + 4, 7) >= 1 << 31) for shift in shifts]


@numba.njit
def _reciprocal(made):
    store(made, 0, reciprocal(load(made, 0)))


def test_reciprocal_of_zero_is_zero(kind, count):
    made = np.zeros(count, kind)
    made[:2] = 4, np.nan
    _reciprocal(made)
    assert made[0] == 0.25
    assert np.isnan(made[1])
    assert (made[2:] == 0).all()


@numba.njit
def _count(counter, times):
    seen = 0
    for _ in range(times):
        seen = fetch_add(counter)
    return seen


def test_fetch_add_counts_up():
    counter = np.zeros(1, np.int64)
    assert _count(counter, 5) == 4
    assert counter[0] == 5

"""Squares turned over and products of blocks, against NumPy."""

import numba
import numpy as np
import pytest

from graphattn.backends.cpu.simd.blocks import BLOCK_ROWS, multiply_pair, multiply_panel, multiply_single, transpose
from graphattn.backends.cpu.simd.registers import simd_width


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def kind(request):
    """A type of numbers."""
    return request.param


@pytest.fixture
def count(kind):
    """Numbers in one register."""
    return simd_width(np.zeros(1, kind))


@numba.njit
def _turned(target, rows, columns, source, source_rows, source_columns, count):
    transpose(target, 3, count + 1, rows, columns, source, 1, count + 2, source_rows, source_columns)


@pytest.mark.parametrize("rows", [0, 1, 5, 99])
@pytest.mark.parametrize("columns", [1, 3, 99])
def test_turned_squares_and_parts_of_them(kind, count, rows, columns):
    source = np.arange(1, 2 + count * (count + 2), dtype=kind)
    square = source[1:].reshape(count, count + 2)[:, :count].copy()
    target = np.full(3 + count * (count + 1), -1, kind)
    _turned(target, count, count, source, rows, columns, count)
    read = np.where((np.arange(count)[:, None] < rows) & (np.arange(count) < columns), square, 0)
    np.testing.assert_array_equal(target[3:].reshape(count, count + 1)[:, :count], read.T)
    target[:] = -1
    _turned(target, rows, columns, source, count, count, count)
    written = np.full((count, count + 1), -1, kind)
    written[:rows, : min(columns, count)] = square.T[:rows, :columns]
    np.testing.assert_array_equal(target[3:].reshape(count, count + 1), written)
    assert (target[:3] == -1).all()


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 30])
@pytest.mark.parametrize("length", [0, 1, 21])
def test_rows_of_one_register(kind, count, rows, length):
    random = np.random.default_rng(2)
    a, b = random.normal(size=(length, rows)).astype(kind), random.normal(size=(length, count)).astype(kind)
    c = np.full((rows + 1, count), np.nan, kind)
    _columns(c.ravel(), rows, a.ravel(), b.ravel(), length)
    np.testing.assert_allclose(c[:rows], a.T @ b, rtol=1e-4 if kind is np.float32 else 1e-12, atol=1e-5)
    assert np.isnan(c[rows]).all()


@numba.njit
def _columns(c, rows, a, b, length):
    multiply_panel(c, 0, rows, a, 0, 1, rows, b, 0, length)


@numba.njit
def _product(c, a, b, length, count, fresh, pair):
    if pair:
        multiply_pair(c, 0, 2 * count, a, 0, length, 1, b, 0, 2 * count, count, length, fresh)
    else:
        multiply_single(c, 0, 2 * count, a, 0, length, 1, b, 0, 2 * count, count, length, fresh)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_products(kind, count, length, fresh, pair):
    random = np.random.default_rng(1)
    a, b = random.normal(size=(BLOCK_ROWS, length)).astype(kind), random.normal(size=(length, 2 * count)).astype(kind)
    c = random.normal(size=(BLOCK_ROWS, 2 * count)).astype(kind)
    expected = c.copy()
    written = slice(None) if pair else slice(count)
    expected[:, written] = (0 if fresh else c[:, written]) + (a @ b)[:, written]
    _product(c.ravel(), a.ravel(), b.ravel(), length, count, fresh, pair)
    np.testing.assert_allclose(c, expected, rtol=1e-4 if kind is np.float32 else 1e-12)

"""Transposed squares and products of blocks, against NumPy."""

import numba
import numpy as np
import pytest

from graphattn._backends.cpu.simd.blocks import (
    BLOCK_ROWS,
    Matrix,
    multiply_pair,
    multiply_panel,
    multiply_single,
    transpose,
)
from graphattn._backends.cpu.simd.registers import simd_width


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def kind(request):
    """A type of numbers."""
    return request.param


@pytest.fixture
def count(kind):
    """Numbers in one register."""
    return simd_width(np.zeros(1, kind))


@numba.njit
def _transpose(target, rows, columns, source, source_rows, source_columns, count):
    square = Matrix(source, 1, count + 2, 1)
    transpose(Matrix(target, 3, count + 1, 1), rows, columns, square, source_rows, source_columns)


@pytest.mark.parametrize("rows", [0, 1, 5, 99])
@pytest.mark.parametrize("columns", [1, 3, 99])
def test_transpose_of_squares_and_parts(kind, count, rows, columns):
    source = np.arange(1, 2 + count * (count + 2), dtype=kind)
    square = source[1:].reshape(count, count + 2)[:, :count].copy()
    target = np.full(3 + count * (count + 1), -1, kind)
    _transpose(target, count, count, source, rows, columns, count)
    read = np.where((np.arange(count)[:, None] < rows) & (np.arange(count) < columns), square, 0)
    np.testing.assert_array_equal(target[3:].reshape(count, count + 1)[:, :count], read.T)
    target[:] = -1
    _transpose(target, rows, columns, source, count, count, count)
    written = np.full((count, count + 1), -1, kind)
    written[:rows, : min(columns, count)] = square.T[:rows, :columns]
    np.testing.assert_array_equal(target[3:].reshape(count, count + 1), written)
    assert (target[:3] == -1).all()


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 30])
@pytest.mark.parametrize("length", [0, 1, 21])
def test_multiply_panel(kind, count, rows, length):
    random = np.random.default_rng(2)
    a, b = random.normal(size=(length, rows)).astype(kind), random.normal(size=(length, count)).astype(kind)
    work = np.concatenate([np.full((rows + 1) * count, np.nan, kind), b.ravel()])
    _multiply_panel(work, rows, a.ravel(), (rows + 1) * count, length)
    c = work[: (rows + 1) * count].reshape(-1, count)
    np.testing.assert_allclose(c[:rows], a.T @ b, rtol=1e-4 if kind is np.float32 else 1e-12, atol=1e-5)
    assert np.isnan(c[rows]).all()


@numba.njit
def _multiply_panel(work, rows, a, panel, length):
    multiply_panel(work, 0, rows, a, 0, 1, rows, panel, length)


@numba.njit
def _product(c, a, b, length, count, fresh, pair):
    target, left, right = Matrix(c, 0, 2 * count, 1), Matrix(a, 0, length, 1), Matrix(b, 0, 2 * count, count)
    if pair:
        multiply_pair(target, left, right, length, fresh)
    else:
        multiply_single(target, left, right, length, fresh)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_multiply_pair_and_single(kind, count, length, fresh, pair):
    random = np.random.default_rng(1)
    a, b = random.normal(size=(BLOCK_ROWS, length)).astype(kind), random.normal(size=(length, 2 * count)).astype(kind)
    c = random.normal(size=(BLOCK_ROWS, 2 * count)).astype(kind)
    expected = c.copy()
    written = slice(None) if pair else slice(count)
    expected[:, written] = (0 if fresh else c[:, written]) + (a @ b)[:, written]
    _product(c.ravel(), a.ravel(), b.ravel(), length, count, fresh, pair)
    np.testing.assert_allclose(c, expected, rtol=1e-4 if kind is np.float32 else 1e-12)

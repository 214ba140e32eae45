"""Upsampling of words to tokens: the membership matrix, and interpolation as in image resizing."""

from fractions import Fraction
from math import floor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from graphattn import Edges
from graphattn.exceptions import ConfigError
from graphattn.layers._upsampling import Upsampling

texts = st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=4)
"""Sizes of the words of each text."""


def upsampling_of(kind, sizes_of_texts, **options):
    sizes = torch.tensor([size for sizes in sizes_of_texts for size in sizes], dtype=torch.int32)
    ends = sizes.cumsum(0, dtype=torch.int32)
    members = Edges.of_ranges(ends - sizes, ends, int(sizes.sum()))
    counts = torch.tensor([sum(sizes) for sizes in sizes_of_texts]), torch.tensor([len(own) for own in sizes_of_texts])
    return Upsampling.of(kind, members, *counts, **options)


def dense(kind, sizes):
    """U of one text: rows are tokens, columns are words."""
    tokens, words = sum(sizes), len(sizes)
    matrix = torch.zeros(tokens, words, dtype=torch.float64)
    if kind == "membership":
        word_of = [word for word, size in enumerate(sizes) for _ in range(size)]
        for token, word in enumerate(word_of):
            matrix[token, word] = 1
        return matrix
    for token in range(tokens):
        if kind == "nearest":
            matrix[token, floor(Fraction(token * words, tokens))] = 1
            continue
        place = max(Fraction(2 * token + 1, 2) * Fraction(words, tokens) - Fraction(1, 2), Fraction(0))
        left = floor(place)
        matrix[token, left] += float(1 - (place - left))
        matrix[token, min(left + 1, words - 1)] += float(place - left)
    return matrix


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["membership", "nearest", "linear"])
@settings(max_examples=25, deadline=None)
@given(sizes=texts, seed=st.integers(0, 9))
def test_products_with_the_dense_matrix(kind, normalize, sizes, seed):
    torch.manual_seed(seed)
    upsampling = upsampling_of(kind, sizes, normalize=normalize)
    matrix = (
        torch.block_diag(*(dense(kind, own) for own in sizes))
        .double()
        .reshape(sum(map(sum, sizes)), sum(map(len, sizes)))
    )
    tokens = torch.randn(matrix.shape[0], 3, dtype=torch.float64)
    words = torch.randn(matrix.shape[1], 3, dtype=torch.float64)
    torch.testing.assert_close(upsampling.expand_to_tokens(words), matrix @ words, rtol=0, atol=1e-9)
    down = matrix / matrix.sum(0) if normalize else matrix
    torch.testing.assert_close(upsampling.sum_to_words(tokens), down.T @ tokens, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "mode"), [("nearest", "nearest"), ("linear", "bilinear")])
@pytest.mark.parametrize("sizes", [[1], [3], [2, 1], [1, 1, 1], [2, 1, 3, 1, 1], [4, 4, 4], [1, 2, 1, 1, 2, 1, 3]])
def test_interpolation_equals_pytorch_image_resizing(kind, mode, sizes):
    attention = torch.rand(len(sizes), len(sizes), dtype=torch.float64)
    options = {"align_corners": False} if mode == "bilinear" else {}
    expected = F.interpolate(attention[None, None], (sum(sizes), sum(sizes)), mode=mode, **options)[0, 0]
    upsampling = upsampling_of(kind, [sizes])
    values = torch.eye(sum(sizes), dtype=torch.float64)
    enlarged = upsampling.expand_to_tokens(attention @ upsampling.sum_to_words(values))
    torch.testing.assert_close(enlarged, expected, rtol=0, atol=1e-9)


def test_unknown_kind():
    with pytest.raises(ConfigError) as caught:
        upsampling_of("cubic", [[1]])
    assert caught.value.options == ("upsampling",)

"""Windows: total width, or reach to each side, clipped at the ends; and Longformer's dilated windows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn import Scale
from graphattn.builders import Dilated, Sentence, Window
from graphattn.builders._layout import Layout
from graphattn.exceptions import ConfigError

SCALES = (1, 3, 5, "N", "N/2", "N/3", "N/4", "N/8", "N/16")


def layout_of(*lengths):
    words = np.concatenate([np.arange(length) for length in (0, *lengths)])
    return Layout(np.array(lengths, int), np.array(lengths, int), words)


@settings(max_examples=60)
@given(scale=st.sampled_from(SCALES), lengths=st.lists(st.integers(0, 200), max_size=4))
def test_windows_of_long_sentences(scale, lengths):
    arrays = Window(scale).edges(layout_of(*lengths))
    expected, start = [], 0
    for length in lengths:
        width = scale if isinstance(scale, int) else max(1, length // int(scale[2:] or 1))
        reach = (width + (width % 2 == 0) - 1) // 2
        for here in range(length):
            expected.append([start + there for there in range(length) if abs(here - there) <= reach])
        start += length
    assert [arrays.indices[first:stop].tolist() for first, stop in pairwise(arrays.indptr)] == expected


def test_lengths_include_cls():
    layout = layout_of(32)
    assert Window("N/16").num_edges(layout).tolist() == [31 * 3 + 1]  # 32 // 16 = 2, made odd: width 3
    layout = layout_of(31)
    assert Window("N/16").num_edges(layout).tolist() == [31]


@pytest.mark.parametrize("make", [lambda: Window(4), lambda: Window(4, as_radius=True), lambda: Dilated(4, 2)])
def test_widths_of_scales_are_odd(make):
    with pytest.raises(ConfigError, match="4 is even"):
        make()


@settings(max_examples=60)
@given(
    scale=st.sampled_from([1, 3, 5, 7, "N", "N/2", "N/4"]),
    dilation=st.integers(1, 6),
    length=st.integers(0, 25),
    cls=st.booleans(),
)
def test_dilated_windows(follows, scale, dilation, length, cls):
    tokens = range(length + cls)
    reach = (Scale(scale).width(len(tokens)) - 1) // 2 * dilation
    expected = [(i, j) for i in tokens for j in tokens if (i - j) % dilation == 0 and abs(i - j) <= reach]
    relation = Dilated(scale, dilation)
    follows(relation, [Sentence(["x"] * length)], lambda _: {relation.canonical: expected}, cls=cls)

"""Windows: total width in tokens, clipped at the ends; or the reach to each side, as Eq. 7 literally says."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn import Scale
from graphattn.builders import Window
from graphattn.builders.layout import Layout
from graphattn.exceptions import ConfigError

SCALES = (1, 3, 5, "N", "N/2", "N/3", "N/4", "N/8", "N/16")


def layout_of(*lengths):
    words = np.concatenate([np.arange(length) for length in (0, *lengths)])
    return Layout(np.array(lengths, int), np.array(lengths, int), words)


@settings(max_examples=100)
@given(
    scale=st.sampled_from(SCALES), as_radius=st.booleans(), random=st.randoms(use_true_random=False), cls=st.booleans()
)
def test_windows_equal_the_table(agrees, sentences_of_many_lengths, scale, as_radius, random, cls):
    agrees(Window(scale, as_radius=as_radius), sentences_of_many_lengths(random), cls)


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


def test_cls_counts_for_the_length():
    layout = layout_of(32)
    assert Window("N/16").num_edges(layout).tolist() == [31 * 3 + 1]  # 32 // 16 = 2, made odd: width 3
    layout = layout_of(31)
    assert Window("N/16").num_edges(layout).tolist() == [31]


@pytest.mark.parametrize(
    ("window", "name", "text"),
    [
        (Window(3), "window:3", "Window('3')"),
        (Window("n / 16"), "window:N/16", "Window('N/16')"),
        (Window(Scale("N")), "window:N", "Window('N')"),
        (Window(1, as_radius=True), "radius:1", "Window('1', as_radius=True)"),
    ],
)
def test_names(window, name, text):
    assert window.canonical == ("token", name, "token")
    assert repr(window) == text


def test_even_widths_are_refused():
    with pytest.raises(ConfigError) as caught:
        Window(4)
    assert str(caught.value) == "scale 4 is even; a window has the same reach on both sides: use 5"
    with pytest.raises(ConfigError) as caught:
        Window(4, as_radius=True)
    assert str(caught.value) == (
        "radius 4 is even, and the paper's scales are odd in either reading; for so many tokens to each side write "
        "window:9"
    )

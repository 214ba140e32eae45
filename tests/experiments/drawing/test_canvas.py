"""Printable texts, widths and the style of all pictures."""

import re
from pathlib import Path

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.experiments.drawing._canvas import (
    GREY,
    INK,
    PALETTE,
    TOKEN_SIZE,
    default_style,
    isolate,
    text_width,
    token_centres,
)
from graphattn.models.inspection import page
from graphattn.models.inspection.notebook import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$x_1^2$", "$x_1^2$"),
        ("a\nb\tc\x00", r"a\nb\tc\x00"),
        ("\ud800", r"\ud800"),
        ("", "''"),
        (" ", "␣"),
        ("\u200b", r"\u200b"),
        ("x" * 24, "x" * 24),
        ("a" * 20 + "b" * 20, "a" * 16 + "…" + "b" * 7),
    ],
)
def test_printable_texts(text, expected):
    assert printable(text) == expected


@given(st.text())
def test_printable_texts_are_one_short_line(text):
    shown = printable(text)
    assert shown.strip()
    assert shown.isprintable()
    assert len(shown) <= 24


def test_tokens_of_a_word_are_closer():
    centres = token_centres(["un", "do", "it"], [0, 0, 1])
    assert 0 < centres[1] - centres[0] < centres[2] - centres[1]
    assert token_centres([], []) == []


def test_wide_tokens_do_not_touch():
    texts = ["W" * 20, "i", "W" * 20]
    centres = token_centres(texts, [0, 1, 2])
    half = [text_width(text, TOKEN_SIZE) / 2 for text in texts]
    assert centres[0] + half[0] < centres[1] - half[1]
    assert centres[1] + half[1] < centres[2] - half[2]


def test_the_style_of_the_user_is_restored():
    with matplotlib.rc_context({"text.usetex": True, "savefig.bbox": "tight"}):
        before = dict(matplotlib.rcParams)
        with default_style():
            assert matplotlib.rcParams["text.usetex"] is False
            assert matplotlib.rcParams["savefig.bbox"] is None
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("words", ["הכלב רץ BBC .", "الكلب يجري", "[CLS] 12 שלום !"])
def test_sentences_of_scripts_from_right_to_left_begin_at_the_right(words):
    texts = words.split()
    centres = token_centres(texts, range(len(texts)))
    assert centres == sorted(centres, reverse=True)
    assert centres[-1] - max(text_width(texts[-1], TOKEN_SIZE), 0.16) / 2 == pytest.approx(0)


@pytest.mark.parametrize("words", ["the שלום dog", "12 ."])
def test_other_sentences_begin_at_the_left(words):
    centres = token_centres(words.split(), [0, 1, 2])
    assert centres == sorted(centres)


@pytest.mark.parametrize(("text", "expected"), [("a 1", "a 1"), ("كتب", "\u2068كتب\u2069"), ("a כ", "\u2068a כ\u2069")])
def test_parts_from_right_to_left_are_isolated(text, expected):
    assert isolate(text) == expected


def test_colours_are_those_of_the_page():
    """In its light scheme, in the same order."""
    style = (Path(page.__file__).parent / "sources" / "page.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}),", style))
    assert list(PALETTE) == [colours[f"relation-{number}"] for number in range(len(PALETTE))]
    assert (colours["ink"], colours["soft"]) == (INK, GREY)

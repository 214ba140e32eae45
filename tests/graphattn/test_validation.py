"""Checks of values: what passes, and the message and options of each error."""

import math

import pytest
import torch

from graphattn._validation import require_choice, require_heads, require_multiple, require_range
from graphattn.exceptions import ConfigError


@pytest.mark.parametrize(
    ("value", "bounds", "rule"),
    [
        (0, {"min": 1}, "at least 1"),
        (1.0, {"min": 0, "below": 1}, "at least 0 and below 1"),
        (0.0, {"above": 0}, "above 0"),
        (2, {"max": 1}, "at most 1"),
        (math.nan, {"min": 0}, "at least 0"),
        (math.inf, {"min": 0}, "at least 0 and finite"),
        (-math.inf, {}, "finite"),
    ],
)
def test_numbers_out_of_range(value, bounds, rule):
    with pytest.raises(ConfigError) as caught:
        require_range("clip", value, **bounds)
    assert str(caught.value) == f"clip is {value}; it must be {rule}"
    assert caught.value.options == ("clip",)


def test_numbers_that_would_get_no_gradient():
    with pytest.raises(ConfigError):
        require_range("clip", torch.tensor(1.0, requires_grad=True), min=0)
    require_range("clip", torch.tensor(1.0), min=0)


@pytest.mark.parametrize(
    ("value", "bounds"), [(1, {"min": 1}), (0.0, {"min": 0, "below": 1}), (1, {"max": 1}), (-5.0, {})]
)
def test_numbers_in_range(value, bounds):
    require_range("clip", value, **bounds)


def test_choices():
    require_choice("level", "word", ("word", "bpe"))
    with pytest.raises(ConfigError, match="level is 'text'; choose one of: word, bpe"):
        require_choice("level", "text", ("word", "bpe"))
    with pytest.raises(ConfigError, match=r"level is 'words'; did you mean 'word'\? choose one of: word, bpe"):
        require_choice("level", "words", ("word", "bpe"))


@pytest.mark.parametrize(
    ("other", "fix", "rule"),
    [(None, None, "4"), ("heads", None, "heads (4)"), ("heads", "head_feats", "heads (4), or set head_feats")],
)
def test_multiples(other, fix, rule):
    require_multiple("hidden", 8, 4, other, fix=fix)
    with pytest.raises(ConfigError) as caught:
        require_multiple("hidden", 6, 4, other, fix=fix)
    assert str(caught.value) == f"hidden is 6; it must be a multiple of {rule}"
    assert caught.value.options == ("hidden", *(name for name in (other, fix) if name))


def test_heads():
    assert require_heads({"all": 2, "group": 0}) == {"all": 2}
    for heads in ({}, {"all": 0}, {"all": 2, "group": -1}):
        with pytest.raises(ConfigError) as caught:
            require_heads(heads)
        assert str(caught.value) == f"heads are {heads}; give at least one relation a positive number of heads"


def test_heads_are_a_mapping():
    with pytest.raises(ConfigError) as caught:
        require_heads(["near"])
    assert str(caught.value) == "heads are ['near']; give the number of each relation's heads, such as {'window:3': 2}"

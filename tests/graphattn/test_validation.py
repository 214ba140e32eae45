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


@pytest.mark.parametrize(
    ("value", "bounds"),
    [(1, {"min": 1}), (0.0, {"min": 0, "below": 1}), (1, {"max": 1}), (-5.0, {}), (torch.tensor(1.0), {"min": 0})],
)
def test_numbers_in_range(value, bounds):
    require_range("clip", value, **bounds)


@pytest.mark.parametrize(
    ("check", "arguments", "options", "message"),
    [
        (
            require_range,
            ("clip", torch.tensor(1.0, requires_grad=True)),
            ("clip",),
            "clip is a tensor that would get no gradient; give a number",
        ),
        (require_choice, ("level", "text", ("word", "bpe")), ("level",), "level is 'text'; choose one of: word, bpe"),
        (
            require_choice,
            ("level", "words", ("word", "bpe")),
            ("level",),
            "level is 'words'; did you mean 'word'? choose one of: word, bpe",
        ),
        (require_multiple, ("hidden", 6, 4), ("hidden",), "hidden is 6; it must be a multiple of 4"),
        (
            require_multiple,
            ("hidden", 6, 4, "heads"),
            ("hidden", "heads"),
            "hidden is 6; it must be a multiple of heads (4)",
        ),
        *(
            (
                require_heads,
                (heads,),
                ("heads",),
                f"heads are {heads}; give at least one relation a positive number of heads",
            )
            for heads in ({}, {"all": 0}, {"all": 2, "group": -1})
        ),
        (
            require_heads,
            (["near"],),
            ("heads",),
            "heads are ['near']; give the number of each relation's heads, such as {'window:3': 2}",
        ),
    ],
)
def test_errors_name_the_options(check, arguments, options, message):
    with pytest.raises(ConfigError) as caught:
        check(*arguments)
    assert (caught.value.options, str(caught.value)) == (options, message)


def test_valid_values():
    require_choice("level", "word", ("word", "bpe"))
    require_multiple("hidden", 8, 4, "heads")
    assert require_heads({"all": 2, "group": 0}) == {"all": 2}

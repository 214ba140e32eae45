"""Windows with gaps: Longformer's dilated sliding window."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn import Scale
from graphattn.builders import Dilated, Sentence
from graphattn.exceptions import ConfigError


def text(length):
    return Sentence(["x"] * length)


@settings(max_examples=60)
@given(
    scale=st.sampled_from([1, 3, 5, 7, "N", "N/2", "N/4"]),
    dilation=st.integers(1, 6),
    lengths=st.lists(st.integers(0, 25), max_size=4),
    cls=st.booleans(),
)
def test_a_token_sees_tokens_a_multiple_of_the_dilation_away(follows, scale, dilation, lengths, cls):
    def definition(length):
        reach = (Scale(scale).width(length) - 1) // 2
        return {
            ("token", f"dilated:{scale}:{dilation}", "token"): [
                (i, j)
                for i in range(length)
                for j in range(length)
                if (i - j) % dilation == 0 and abs(i - j) <= reach * dilation
            ]
        }

    follows(Dilated(scale, dilation), [text(length) for length in lengths], definition, cls=cls)


def test_name():
    assert Dilated("n/16", 2).canonical == ("token", "dilated:N/16:2", "token")
    assert repr(Dilated(5, 2)) == "Dilated('5', 2)"


def test_what_cannot_be():
    with pytest.raises(ConfigError) as caught:
        Dilated(5, 0)
    assert str(caught.value) == "dilation is 0; it must be at least 1, which is a window without gaps"
    with pytest.raises(ConfigError, match=r"^scale 4 is even"):
        Dilated(4, 2)

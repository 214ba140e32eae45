"""Encoders by name, by plain values, by options."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.models.encoders import ENCODERS, MSTransOptions, encoder_options


def test_lists_become_tuples():
    options = encoder_options({"name": "ms-trans", "scales": ["1", "N/4"], "relations": ["group:1"]})
    assert options == MSTransOptions(scales=("1", "N/4"), relations=("group:1",))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lstm", "encoder 'lstm' does not exist; choose one of: " + ", ".join(ENCODERS)),
        ({"hidden": 3}, "encoder None does not exist; choose one of: " + ", ".join(ENCODERS)),
        (3, f"encoder is 3; give one of {', '.join(ENCODERS)}, or its options"),
        (
            {"name": "bilstm", "heads": 3},
            "BiLSTMOptions has no option 'heads'; it has: dropout, hidden, layers",
        ),
    ],
)
def test_unknown_encoders(given, message):
    with pytest.raises(ConfigError) as caught:
        encoder_options(given)
    assert str(caught.value) == message

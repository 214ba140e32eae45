"""Position vectors against the paper's formula."""

import math

import pytest
import torch

from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import Complete
from graphattn.models.encoders.base import position_vectors, sinusoids


def positions_by_formula(length, width):
    """Vaswani et al. 2017, section 3.5, element by element."""
    rows = [
        [
            (math.sin if column % 2 == 0 else math.cos)(position / 10000 ** (2 * (column // 2) / width))
            for column in range(width)
        ]
        for position in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("width", [2, 6, 7, 300])
def test_sinusoids_follow_the_formula(width):
    expected = positions_by_formula(400, width)
    torch.testing.assert_close(sinusoids(torch.arange(400), width).double(), expected, rtol=0, atol=5e-5)
    torch.testing.assert_close(sinusoids(torch.arange(400), width, torch.float64), expected, rtol=0, atol=1e-12)


def test_positions_start_at_zero_in_each_text():
    graph = TextGraphBuilder([Complete()]).text_batch([["a", "b"], [], ["c"]])
    expected = sinusoids(torch.tensor([0, 1, 2, 0, 0, 1]), 4)
    assert torch.equal(position_vectors(graph, 4, torch.empty(0)), expected)

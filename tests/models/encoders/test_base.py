"""Position vectors against the paper's formula; layers on long texts against the same layers one by one."""

import math

import pytest
import torch

from graphattn._edges import edges_of
from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import Complete
from graphattn.models._encoders import MSTransOptions, make_encoder
from graphattn.models._encoders.base import position_vectors, run_layers, sinusoids


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


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [100, 16_500])
def test_training_on_a_long_text_keeps_less_for_the_same_gradients(tokens):
    options = MSTransOptions(hidden=8, heads=2, layers=3, scales=("1", "3"), dropout=0.2)
    encoder = make_encoder(options).train()
    graph = TextGraphBuilder(encoder.relations()).text_batch([["a"] * tokens])
    edges = edges_of(graph, [relation.name for relation in encoder.relations()], torch.device("cpu"))
    states = torch.randn(graph.num_nodes("token"), 8, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def one_by_one():
        output = states
        for layer in encoder.layers:
            output = layer(edges, output)
        return output

    def train(compute):
        kept = {}
        torch.manual_seed(2)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: kept.update({tensor.data_ptr(): tensor.nbytes}) or tensor, lambda tensor: tensor
        ):
            output = compute()
        gradients = torch.autograd.grad(output.square().sum(), [states, *encoder.parameters()])
        return [output, *gradients], sum(kept.values())

    (expected, most), (actual, kept) = train(one_by_one), train(lambda: run_layers(encoder.layers, edges, states, None))
    assert all(map(torch.equal, actual, expected))
    assert kept < most / 2 if tokens > 16_384 else kept == most

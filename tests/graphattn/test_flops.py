"""PyTorch's counter of operations sees attention, forward and backward."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from graphattn import attend, tensorized_attend
from graphattn._attention import attend_heads
from graphattn.builders import Complete, Order, TextGraphBuilder, Window
from graphattn.layers import MultiScaleAttention

LENGTHS = [5, 3]
GRAPH = TextGraphBuilder([Complete(), Window(1), Window(3), Order("forward")], cls=False).text_batch(
    [["a"] * length for length in LENGTHS]
)
HEADS, FEATS = 2, 4


def count(function, *inputs):
    """Operations forward, and backward."""
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    with FlopCounterMode(display=False) as forward:
        outputs = function(*leaves)
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def dense(query, key, value):
    texts = zip(*(tensor.split(LENGTHS) for tensor in (query, key, value)), strict=True)
    triples = ([part.transpose(0, 1) for part in text] for text in texts)
    return torch.cat([((q @ k.mT).softmax(-1) @ v).transpose(0, 1) for q, k, v in triples])


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_a_complete_graph_counts_as_dense_attention(backend):
    inputs = torch.randn(3, sum(LENGTHS), HEADS, FEATS)
    expected = count(dense, *inputs)
    assert expected == (2 * 2 * HEADS * FEATS * 34, 4 * 2 * HEADS * FEATS * 34)
    assert count(lambda *rows: attend(GRAPH, *rows, etype="all", backend=backend), *inputs) == expected


@pytest.mark.parametrize("return_weights", [False, True])
def test_all_heads_of_a_layer(return_weights):
    edges = [GRAPH.edges["token", name, "token"] for name in ("all", "window:1", "window:3")]
    forward = 2 * 2 * FEATS * (1 * 34 + 2 * 20)  # a window of one token multiplies nothing

    def run(rows):
        out = attend_heads(edges, [1, 3, 2], rows, return_weights=return_weights)
        return out[0] if return_weights else out

    assert count(run, torch.randn(sum(LENGTHS), 3, 6, FEATS)) == (forward, 2 * forward)


@pytest.mark.slow
def test_tensorized_attention():
    inputs = torch.randn(4, sum(LENGTHS), HEADS, FEATS)
    forward = 2 * 3 * HEADS * FEATS * 13  # strictly earlier tokens
    run = lambda *rows: tensorized_attend(GRAPH, *rows, etype="forward", backend="fused")  # noqa: E731
    assert count(run, *inputs) == (forward, 2 * forward)


def test_linear_layers_of_many_rows_count():
    graph = TextGraphBuilder([Complete()], cls=False).text_batch([["a"] * 30] * 50)
    layer = MultiScaleAttention(64, 16, {"all": 4})
    linear = sum(2 * 1500 * module.weight.numel() for module in layer.modules() if isinstance(module, nn.Linear))
    forward, _ = count(lambda rows: layer(graph, rows), torch.randn(1500, 64))
    assert forward == linear + 2 * 2 * 50 * 30**2 * 64

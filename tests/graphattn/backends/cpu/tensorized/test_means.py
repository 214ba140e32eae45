"""Mean weights by blocks against a dense tensor, also where denominators underflow."""

import pytest
import torch
from torch.nn import functional as F

from graphattn import Edges, tensorized_attend
from graphattn._backends.cpu.tensorized import plan as tensorized_plan
from graphattn._backends.cpu.tensorized.plan import block_plan_of
from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import Complete, Order, Window

FUNCTIONS = {"identity": lambda x: x, "log-sigmoid": F.logsigmoid, "tanh": lambda x: 5 * torch.tanh(x / 5)}
RELATIONS = (Order("forward"), Order("backward"), Complete(), Window(7))
LENGTHS = {"unlike": (5, 1, 0, 9, 17, 9), "alike": (6, 6, 6), "one": (40,)}


def draw(count, spread, dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    query, key, value, scores = (torch.randn(count, 2, 4, generator=random, dtype=dtype) for _ in range(4))
    return query * spread, key, value, scores * spread


@pytest.mark.parametrize("strip", [4, 128])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_means_equal_dense_means(relation, lengths, strip, mask_of, dense_tensorized_attention, monkeypatch):
    monkeypatch.setattr(tensorized_plan, "STRIP_QUERIES", strip)
    edges = Edges.of(TextGraphBuilder([relation]).text_batch([["x"] * length for length in LENGTHS[lengths]]))
    assert (block_plan_of(edges) is None) == (
        relation.name == "window:7" and lengths == "one" and edges.num_edges < 41**2 / 8
    )
    for name, function in FUNCTIONS.items():
        inputs = draw(edges.num_destinations, 1.0)
        _, means = tensorized_attend(edges, *inputs, scale_function=name, return_weights=True)
        _, expected = dense_tensorized_attention(mask_of(edges), *inputs, function=function)
        torch.testing.assert_close(means, expected[edges.destinations, edges.sources], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread", [30.0, 300.0])
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_means_when_the_best_key_is_outside_the_range(relation, spread, mask_of, dense_tensorized_attention):
    edges = Edges.of(TextGraphBuilder([relation]).text_batch([["x"] * length for length in LENGTHS["unlike"]]))
    inputs = draw(edges.num_destinations, spread)
    expected = dense_tensorized_attention(mask_of(edges), *inputs)[1][edges.destinations, edges.sources]
    torch.testing.assert_close(
        tensorized_attend(edges, *inputs, return_weights=True)[1], expected, atol=1e-9, rtol=1e-7
    )
    single = tensorized_attend(edges, *(tensor.float() for tensor in inputs), return_weights=True)[1]
    torch.testing.assert_close(single.double(), expected, rtol=0, atol=1e-5 * spread)
    sums = torch.zeros(edges.num_destinations, 2).index_add(0, edges.destinations, single)
    seeing = edges.indptr.diff() > 0
    torch.testing.assert_close(sums[seeing], torch.ones_like(sums[seeing]), atol=1e-4, rtol=0)

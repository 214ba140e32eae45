"""Maps and norms of two streams, against their formulas."""

import pytest
import torch

from graphattn.models.encoders.duo_streams import DuoNorm, StreamMaps

STREAMS = torch.randn(5, 2, 6, dtype=torch.float64)


@pytest.mark.parametrize("shared", [True, False])
def test_maps(shared):
    maps = StreamMaps(6, 4, shared=shared).double()
    torch.nn.init.normal_(maps.bias)
    found = maps(STREAMS)
    for number in range(2):
        own = 0 if shared else number
        expected = STREAMS[:, number] @ maps.weight[own].T + maps.bias[own]
        torch.testing.assert_close(found[:, number], expected, rtol=0, atol=1e-12)
    assert sum(p.numel() for p in maps.parameters()) == (1 if shared else 2) * (6 * 4 + 4)


@pytest.mark.parametrize("crossed", [True, False])
def test_norm(crossed):
    norm = DuoNorm(6, crossed=crossed).double()
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    added = torch.randn(5, 2, 6, dtype=torch.float64)
    found = norm(STREAMS, added)
    for own, other in ((0, 1), (1, 0)):
        x = STREAMS[:, own] + added[:, own]
        if crossed:
            x = x + norm.factors[own] * STREAMS[:, other]
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        torch.testing.assert_close(found[:, own], x * norm.weight[own] + norm.bias[own], rtol=0, atol=1e-12)

"""Every order of a weight has the products of the weight, also those that this processor does not choose."""

import pickle

import pytest
import torch
from torch.nn import functional as F

from graphattn.layers._packed_weights import HAS_ORDER, OneDNNWeight, Panels, PlainWeight

needs_order = pytest.mark.skipif(not HAS_ORDER, reason="this PyTorch has no order of weights")


@pytest.mark.parametrize("order", [pytest.param(OneDNNWeight, marks=needs_order), Panels, PlainWeight])
def test_products_in_every_order(order):
    torch.manual_seed(0)
    weight, bias, rows = torch.randn(45, 40), torch.randn(45), torch.randn(300, 40)
    stored = order(weight)
    with torch.inference_mode():
        for each in (stored, pickle.loads(pickle.dumps(stored))):
            assert each.unpack().equal(weight)
            for count in (1, 9, 300):
                sums = F.linear(rows[:count], weight, bias)
                torch.testing.assert_close(each.multiply(rows[:count], bias), sums, rtol=1e-4, atol=1e-4)
                torch.testing.assert_close(
                    each.multiply(rows[:count], bias, gelu=True), F.gelu(sums), rtol=1e-4, atol=1e-4
                )
        torch.testing.assert_close(stored.multiply(rows, None), F.linear(rows, weight), rtol=1e-4, atol=1e-4)

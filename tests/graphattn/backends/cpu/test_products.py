"""Products with panels, and chains of them, against float64."""

import numpy as np
import pytest
import torch

from graphattn._backends.cpu.products import PANEL, ROWS, Attention, Product, can_attend, run_chain
from graphattn.layers._packed_weights import Panels

RANDOM = np.random.default_rng(0)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def make_product(outputs, inputs, **options):
    """A product with random weights, and its weight."""
    weight = draw(outputs, inputs)
    return Product(Panels(torch.from_numpy(weight)).panels.view(-1).numpy(), draw(outputs), **options), weight


def multiply(rows, link):
    out = np.full((len(rows), len(link.bias)), np.nan, np.float32)
    run_chain(rows, [link], None, out)
    return out


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request):
    """A number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("outputs", [1, PANEL - 1, PANEL, 3 * PANEL + 5])
@pytest.mark.parametrize("inputs", [1, 37])
def test_products_do_not_depend_on_other_rows(outputs, inputs):
    link, weight = make_product(outputs, inputs)
    rows = draw(2 * ROWS + 7, inputs)
    products = multiply(rows, link)
    exact = rows.astype(np.float64) @ weight.T.astype(np.float64) + link.bias
    np.testing.assert_allclose(products, exact, rtol=1e-4, atol=1e-4)
    for count in (*range(14), ROWS, ROWS + 1):
        np.testing.assert_array_equal(multiply(rows[:count], link), products[:count])


@pytest.mark.parametrize("count", [3, ROWS + 3])
def test_a_chain_of_products(count):
    gain, shift, epsilon = draw(24), draw(24), np.float32(1e-5)
    norm = gain, shift, epsilon
    (end, first), (widen, second), (narrow, third) = (
        make_product(24, 24, norm=norm), make_product(96, 24, gelu=True), make_product(24, 96, norm=norm)
    )  # fmt: skip
    rows, residual, out = draw(count, 24), draw(count, 24), np.full((count, 24), np.nan, np.float32)
    before = rows.copy(), residual.copy()
    run_chain(rows, [end, widen, narrow], residual, out)
    np.testing.assert_array_equal((rows, residual), before)

    def add_norm(x, link, weight, residual):
        sums = x @ torch.from_numpy(weight).double().T + torch.from_numpy(link.bias) + residual
        return torch.nn.functional.layer_norm(sums, (24,), *map(torch.from_numpy, (gain, shift)), float(epsilon))

    gain, shift = gain.astype(np.float64), shift.astype(np.float64)
    normed = add_norm(torch.from_numpy(rows).double(), end, first, torch.from_numpy(residual))
    wide = torch.nn.functional.gelu(normed @ torch.from_numpy(second).double().T + torch.from_numpy(widen.bias))
    np.testing.assert_allclose(out, add_norm(wide, narrow, third, normed), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [[1], [7], [40], [ROWS], [3, 1, 70], [ROWS - 1, 2 * ROWS + 3, 30], [33] * 20])
def test_attention_between_products(sizes):
    heads, width, count = 3, 3 * PANEL, sum(sizes)
    (project, first), (end, second) = make_product(3 * width, 11), make_product(5, width)
    rows, out = draw(count, 11), np.full((count, 5), np.nan, np.float32)
    links, texts = [project, Attention(heads, 0.1), end], np.cumsum([0, *sizes])
    run_chain(rows, links, None, out, texts)
    projected = torch.from_numpy(rows).double() @ torch.from_numpy(first).double().T + torch.from_numpy(project.bias)
    for start, size in zip(texts.tolist(), sizes, strict=False):
        text, alone = slice(start, start + size), np.full((size, 5), np.nan, np.float32)
        query, key, value = projected[text].view(size, 3, heads, PANEL).permute(1, 2, 0, 3).unbind()
        attended = (query @ key.mT * 0.1).softmax(-1) @ value
        exact = attended.transpose(0, 1).flatten(1) @ torch.from_numpy(second).double().T + torch.from_numpy(end.bias)
        np.testing.assert_allclose(out[text], exact, rtol=1e-3, atol=1e-3)
        run_chain(rows[text], links, None, alone)
        np.testing.assert_array_equal(alone, out[text])  # a text does not depend on the others


def test_attention_takes_heads_of_whole_panels():
    assert can_attend(PANEL)
    assert not can_attend(PANEL + 1)

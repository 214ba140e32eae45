"""Linear layers against float64, below and above the sizes at which they switch; embeddings against PyTorch's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from graphattn._backends.cpu.buffer_pool import MIN_BYTES
from graphattn.layers import _linear as products
from graphattn.layers._linear import (
    BLOCK,
    MIN_ROWS,
    MOST_ROWS,
    Embedding,
    Linear,
    by_head,
    embedding,
    forget_gradients,
    linear,
    pad_rows,
    sum_embedding_gradients,
)


@pytest.fixture(autouse=True, params=["oneDNN", "panels", "BLAS"])
def kernels(request, monkeypatch):
    """What multiplies many rows, whichever this processor would choose."""
    monkeypatch.setattr(products, "HAS_FAST_BLAS", request.param == "BLAS")
    monkeypatch.setattr(products, "HAS_AVX2", request.param == "panels")
    monkeypatch.setattr(products, "MIN_PRODUCTS_OF_PANELS", MIN_ROWS)


ROWS = [0, 1, MIN_ROWS - 1, MIN_ROWS, 5 * BLOCK + 1, 6 * BLOCK]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def gradients(function, *inputs):
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]  # a copy would lose the strides
    out = function(*leaves)
    weights = draw(*out.shape, seed=9).to(out.dtype)
    return out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)


def assert_equal_results(ours, reference, tolerance=1e-4):
    for own, exact in zip(ours, reference, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("rows", "width", "out"), [*((rows, 30, 20) for rows in ROWS), (300, 512, 600)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_its_gradients(rows, width, out, bias):
    """The last shape has few rows and many products."""
    inputs, weight = draw(rows, width), draw(out, width)
    given = [inputs, weight, draw(out)] if bias else [inputs, weight]
    assert_equal_results(gradients(linear, *given), gradients(F.linear, *(tensor.double() for tensor in given)))


@pytest.mark.parametrize("rows", [1, *ROWS[2:]])
@pytest.mark.parametrize("bias", ["none", "one", "per row"])
def test_by_head_and_its_gradients(rows, bias):
    inputs = draw(rows, 3, 16).transpose(0, 1)  # the memory layout of heads in a layer
    given = [inputs, draw(3, 16, 12)]
    if bias != "none":
        given.append(draw(3, 1 if bias == "one" else rows, 12))

    def exact(inputs, weight, bias=0):
        return torch.einsum("hni,hio->hno", inputs, weight) + bias

    assert_equal_results(gradients(by_head, *given), gradients(exact, *(tensor.double() for tensor in given)))


@pytest.mark.parametrize(
    "inputs", [draw(30, 40 * BLOCK).t(), draw(8, 5 * BLOCK, 60)[..., :30], draw(8 * BLOCK, 30)[::2]]
)
def test_strided_inputs_with_more_dimensions(inputs):
    weight = draw(20, 30)
    reference = gradients(F.linear, inputs.double(), weight.double())
    assert_equal_results(gradients(linear, inputs, weight), reference, tolerance=1e-3)


@pytest.mark.parametrize("bias", [draw(40)[::2], draw(1).expand(20), draw(20).flip(0)])
def test_strided_bias(bias):
    inputs, weight = draw(2 * MIN_ROWS, 30), draw(20, 30)
    assert_equal_results(
        gradients(linear, inputs, weight, bias), gradients(F.linear, inputs.double(), weight.double(), bias.double())
    )


def test_rows_are_independent():
    inputs, weight = draw(4 * MIN_ROWS, 30), draw(20, 30)
    torch.testing.assert_close(linear(inputs, weight)[-5:], linear(inputs[-5:], weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_use_pytorch(dtype):
    inputs, weight = draw(MIN_ROWS, 30).to(dtype), draw(20, 30).to(dtype)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))
    assert torch.equal(by_head(inputs[None], weight.t()[None]), torch.bmm(inputs[None], weight.t()[None]))


def test_autocast():
    inputs, weight = draw(MIN_ROWS, 30), draw(20, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(inputs, weight).dtype == torch.bfloat16
        assert by_head(inputs[None], weight.t()[None]).dtype == torch.bfloat16


def in_bfloat16(inputs, weight, bias=None):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return linear(inputs, weight, bias)


@pytest.mark.parametrize(
    ("function", "exact", "inputs", "weight", "tolerance"),
    [
        (linear, F.linear, draw(3, 6), draw(4, 6), 1e-4),
        (linear, F.linear, draw(MIN_ROWS, 6), draw(4, 6), 1e-4),
        (by_head, torch.bmm, draw(2, MIN_ROWS, 6), draw(2, 6, 4), 1e-4),
        (in_bfloat16, F.linear, draw(40, 6), draw(4, 6), 0.02),
    ],
)
def test_second_derivatives(function, exact, inputs, weight, tolerance):
    def penalty(apply, *tensors):
        inputs, weight = (tensor.detach().clone().requires_grad_() for tensor in tensors)
        (slope,) = torch.autograd.grad(apply(inputs, weight).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), weight)[0]

    expected = penalty(exact, inputs.double(), weight.double())
    assert (penalty(function, inputs, weight) - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("shape", [(0, 30), (1, 30), (5000, 30), (2, 2500, 30), (30,)])
@pytest.mark.parametrize("bias", [True, False])
def test_training_in_bfloat16(shape, bias):
    inputs, weight = draw(*shape), draw(20, 30)
    given = [inputs, weight, draw(20)] if bias else [inputs, weight]
    ours = gradients(in_bfloat16, *given)
    assert [tensor.dtype for tensor in ours] == [torch.bfloat16, *[torch.float32] * len(given)]
    for own, exact in zip(ours, gradients(F.linear, *(tensor.double() for tensor in given)), strict=True):
        assert (own - exact).norm() <= 0.02 * exact.norm()


@pytest.mark.parametrize("function", [linear, in_bfloat16])
def test_training_multiplies_few_different_numbers_of_rows(monkeypatch, function):
    monkeypatch.setattr(products, "HAS_FAST_BLAS", False)
    monkeypatch.setattr(products, "HAS_AVX2", False)
    sizes, multiply = set(), products.onednn

    def record(inputs, weight, bias):
        sizes.add(max(*inputs.shape, *weight.shape))
        return multiply(inputs, weight, bias)

    monkeypatch.setattr(products, "onednn", record)
    for rows in range(MIN_ROWS, 3 * MOST_ROWS, 501):
        gradients(function, draw(rows, 2), draw(3, 2))
    assert len(sizes) <= 9
    assert sizes or function is in_bfloat16  # which other code multiplies on processors without instructions for it


def step_by_fused_optimizer(layer):
    layer(torch.ones(1, 30)).sum().backward()
    torch.optim.AdamW(layer.parameters(), lr=0.5, fused=True).step()


@pytest.mark.parametrize(
    "change",
    [
        step_by_fused_optimizer,
        lambda layer: layer.weight.detach().__setitem__((3, 7), 5),
        lambda layer: layer.weight.data.mul_(-2),
        lambda layer: layer.weight.data.__setitem__((0, 5), 1000),
        lambda layer: layer.load_state_dict(Linear(30, 20).state_dict()),
        lambda layer: setattr(layer.weight, "data", draw(20, 30)),
    ],
)
@pytest.mark.parametrize("shape", [(7, 30), (0, 30), (2, 500, 30), (30,)])
def test_predictions_in_bfloat16_follow_the_weight(shape, change):
    layer, inputs = Linear(30, 20), draw(*shape)
    for _ in range(2):
        with torch.inference_mode():
            out = in_bfloat16(inputs, layer.weight, layer.bias)
        exact = F.linear(inputs.double(), layer.weight.detach().double(), layer.bias.detach().double())
        torch.testing.assert_close(out.double(), exact, rtol=0.02, atol=0.1)
        change(layer)


def test_prediction_in_bfloat16_with_a_layer_made_in_inference_mode():
    with torch.inference_mode():
        layer, inputs = Linear(30, 20), draw(7, 30)
        out = in_bfloat16(inputs, layer.weight, layer.bias)
        torch.testing.assert_close(out.float(), layer(inputs), rtol=0.02, atol=0.1)


def test_padded_rows():
    sizes = [len(pad_rows(torch.ones(count, 2))) for count in range(2049)]
    assert all(count <= size < max(count + 16, 17 * count / 16) for count, size in enumerate(sizes))
    assert len({size for size in sizes if 1024 < size <= 2048}) == 16
    assert torch.equal(pad_rows(torch.ones(40, 3)), torch.cat([torch.ones(40, 3), torch.zeros(8, 3)]))
    assert torch.equal(pad_rows(torch.arange(15)), torch.tensor([*range(15), 0]))


def test_pytorch_without_onednn(monkeypatch):
    monkeypatch.setattr(products, "HAS_ONEDNN", False)
    monkeypatch.setattr(products, "HAS_AVX2", False)
    inputs, weight = draw(MIN_ROWS, 30), draw(20, 30)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))


def test_frozen_inputs_get_no_gradient():
    inputs, weight = draw(MIN_ROWS, 30), draw(20, 30).requires_grad_()
    linear(inputs, weight).sum().backward()
    assert inputs.grad is None
    torch.testing.assert_close(weight.grad, inputs.sum(0).expand(20, -1), rtol=1e-3, atol=1e-3)


def test_state_dict_of_pytorch_loads():
    own, theirs = Linear(30, 20), torch.nn.Linear(30, 20)
    own.load_state_dict(theirs.state_dict())
    inputs = draw(2, MIN_ROWS, 30)
    torch.testing.assert_close(own(inputs), theirs(inputs), rtol=1e-5, atol=1e-5)
    assert repr(own) == repr(theirs)


def test_in_place_change_of_results():
    inputs, weight = draw(4, MIN_ROWS // 4, 30).requires_grad_(), draw(20, 30)
    linear(inputs, weight).relu_().sum().backward()
    reference = inputs.detach().double().requires_grad_()
    F.linear(reference, weight.double()).relu().sum().backward()
    torch.testing.assert_close(inputs.grad.double(), reference.grad, rtol=1e-4, atol=1e-4)


WIDTH = 40
LARGE = MIN_BYTES // 4 // WIDTH + 1


def make_table(rows=LARGE, dtype=torch.float32):
    return torch.randn(rows, WIDTH, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()


def output_and_gradient(function, vectors, ids, upper):
    out = function(vectors, ids)
    (actual,) = torch.autograd.grad((out * upper).sum(), vectors)
    return out.detach(), actual


@given(
    st.lists(st.integers(0, LARGE - 1), max_size=60),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([3, LARGE]),
)
@settings(max_examples=40)
def test_embedding_equals_pytorch(numbers, dtype, rows):
    ids = torch.tensor(numbers, dtype=torch.long) % rows
    upper = torch.randn(len(ids), WIDTH, dtype=dtype)
    for _ in range(2):  # the second time in memory of the first
        ours = output_and_gradient(embedding, make_table(rows, dtype), ids, upper)
        theirs = output_and_gradient(
            lambda vectors, ids: F.embedding(ids, vectors), make_table(rows, dtype), ids, upper
        )
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


def test_embedding_of_ids_of_any_shape():
    ids = torch.arange(12).view(2, 3, 2)
    vectors = make_table()
    out, actual = output_and_gradient(embedding, vectors, ids, torch.ones(2, 3, 2, WIDTH))
    assert torch.equal(out, vectors.detach()[:12].view(2, 3, 2, WIDTH))
    assert torch.equal(actual[:13].sum(1), torch.tensor([*[float(WIDTH)] * 12, 0.0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [3, LARGE])
def test_gradients_of_embeddings_are_summed_in_float32(rows, dtype):
    vectors, ids = make_table(rows, dtype), torch.ones(10_000, dtype=torch.long)
    for create_graph in (False, True):
        out = embedding(vectors, ids)
        (actual,) = torch.autograd.grad(out, vectors, torch.full_like(out, 0.01), create_graph=create_graph)
        assert out.dtype == actual.dtype == dtype
        torch.testing.assert_close(actual[1].float(), torch.full((WIDTH,), 100.0), rtol=0.01, atol=0)
        assert not actual[0].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_padding_of_an_embedding_has_no_gradient(dtype):
    ours = Embedding(4, 3, padding_idx=2).to(dtype)
    theirs = torch.nn.Embedding(4, 3, padding_idx=2, _weight=ours.weight.detach().float())
    ids = torch.tensor([[2, 0], [3, 2]])
    for module in (ours, theirs):
        module(ids).sum().backward()
    assert torch.equal(ours.weight.grad.float(), theirs.weight.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_in_float32_enter_layers_of_half_precision(dtype):
    layer, inputs = Linear(30, 20).to(dtype), draw(2, 3, 30)
    assert torch.equal(layer(inputs), layer(inputs.to(dtype)))
    assert layer(inputs).dtype == dtype


def test_embedding_derivatives(monkeypatch):
    monkeypatch.setattr(products, "MIN_BYTES", 0)
    vectors, ids = make_table(4, torch.float64)[:, :2].detach().requires_grad_(), torch.tensor([1, 3, 1])
    assert "_Embedding" in embedding(vectors, ids).grad_fn.name()
    assert torch.autograd.gradcheck(lambda rows: embedding(rows, ids) ** 3, vectors)
    assert torch.autograd.gradgradcheck(lambda rows: embedding(rows, ids) ** 3, vectors)


def test_gradients_of_embeddings_reuse_memory():
    forget_gradients()
    vectors, places = torch.nn.Parameter(make_table().detach()), set()
    for step in range(6):
        vectors.grad = None
        embedding(vectors, torch.tensor([step])).sum().backward()
        places.add(vectors.grad.data_ptr())
        assert vectors.grad.sum() == vectors.grad[step].sum() == WIDTH
    assert len(places) == 1
    held = vectors.grad
    vectors.grad = None
    embedding(vectors, torch.tensor([7])).sum().backward()
    assert held.data_ptr() != vectors.grad.data_ptr()
    assert held[5].sum() == held.sum() == WIDTH


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_several_passes_add_to_one_gradient_of_a_table(dtype):
    tables = [torch.nn.Parameter(make_table(dtype=dtype).detach()) for _ in range(3)]
    first, second, unused = tables
    steps = [([1, 2], first), ([2, 2], first), ([0], second)]
    with sum_embedding_gradients(tables) as sums:
        for ids, table in steps:
            loss = embedding(table, torch.tensor(ids)).sum() + (table[3] * 2).sum()  # also used in another way
            (other,) = torch.autograd.grad(loss, table)
            assert other.sum() == 2 * WIDTH
            other = embedding(table * 1, torch.tensor(ids))  # not this table: it needs its own gradient
            assert torch.autograd.grad(other.sum(), table)[0].sum() == len(ids) * WIDTH
    assert sums.keys() == {id(first), id(second)}
    assert sums[id(first)].dtype == torch.float32
    assert (sums[id(first)].sum(1) / WIDTH)[:4].tolist() == [0, 1, 3, 0]
    assert (sums[id(second)].sum(1) / WIDTH)[:4].tolist() == [1, 0, 0, 0]
    embedding(unused, torch.tensor([1])).sum().backward()
    assert unused.grad.sum() == WIDTH


def test_forget_gradients_empties_the_pool():
    vectors = torch.nn.Parameter(make_table().detach())
    embedding(vectors, torch.tensor([1])).sum().backward()
    vectors.grad = None
    assert products.gradient_pool.unused
    forget_gradients()
    assert products.gradient_pool.unused == []


def test_embedding_of_an_id_out_of_range():
    with pytest.raises(IndexError):
        embedding(make_table(), torch.tensor([LARGE]))


@pytest.mark.parametrize("options", [{"max_norm": 0.1}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_other_options_of_embeddings_are_those_of_pytorch(options):
    ids, vectors = torch.tensor([0, 0, 1]), torch.randn(4, 3)
    outputs, gradients = [], []
    for kind in (Embedding, torch.nn.Embedding):
        module = kind(4, 3, _weight=vectors.clone(), **options)
        outputs.append(module(ids))
        outputs[-1].sum().backward()
        gradients.append(module.weight.grad.to_dense())
    assert torch.equal(*outputs)
    assert torch.equal(*gradients)

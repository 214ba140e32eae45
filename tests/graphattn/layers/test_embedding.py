"""Looking rows up: PyTorch's own embedding is the reference, for values, gradients and what happens to memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from graphattn.backends.cpu.buffer_pool import MIN_BYTES, Pool
from graphattn.layers import linear as lookup
from graphattn.layers.linear import embedding, forget_gradients

WIDTH = 40
LARGE = MIN_BYTES // 4 // WIDTH + 1


@pytest.fixture(autouse=True)
def fresh_pool(monkeypatch):
    monkeypatch.setattr(lookup, "_gradients", Pool(1 << 24))


def table(rows=LARGE, dtype=torch.float32):
    return torch.randn(rows, WIDTH, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()


def gradient(function, vectors, ids, upper):
    out = function(vectors, ids)
    (found,) = torch.autograd.grad((out * upper).sum(), vectors)
    return out.detach(), found


@given(
    st.lists(st.integers(0, LARGE - 1), max_size=60),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([3, LARGE]),
)
@settings(max_examples=40)
def test_it_equals_the_embedding_of_pytorch(numbers, dtype, rows):
    ids = torch.tensor(numbers, dtype=torch.long) % rows
    upper = torch.randn(len(ids), WIDTH, dtype=dtype)
    for _ in range(2):  # the second time in memory of the first
        ours = gradient(embedding, table(rows, dtype), ids, upper)
        theirs = gradient(lambda vectors, ids: F.embedding(ids, vectors), table(rows, dtype), ids, upper)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


def test_ids_of_any_shape():
    ids = torch.arange(12).view(2, 3, 2)
    vectors = table()
    out, found = gradient(embedding, vectors, ids, torch.ones(2, 3, 2, WIDTH))
    assert torch.equal(out, vectors.detach()[:12].view(2, 3, 2, WIDTH))
    assert torch.equal(found[:13].sum(1), torch.tensor([*[float(WIDTH)] * 12, 0.0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types_go_to_pytorch(dtype):
    vectors = table(dtype=dtype)
    out = embedding(vectors, torch.tensor([1]))
    assert out.grad_fn.name() == "EmbeddingBackward0"
    assert torch.autograd.grad(out.sum(), vectors)[0].dtype == dtype


def test_gradients_of_both_orders_equal_finite_differences(monkeypatch):
    monkeypatch.setattr(lookup, "MIN_BYTES", 0)
    vectors, ids = table(4, torch.float64)[:, :2].detach().requires_grad_(), torch.tensor([1, 3, 1])
    assert "_Embedding" in embedding(vectors, ids).grad_fn.name()
    assert torch.autograd.gradcheck(lambda rows: embedding(rows, ids) ** 3, vectors)
    assert torch.autograd.gradgradcheck(lambda rows: embedding(rows, ids) ** 3, vectors)


def test_steps_share_memory_but_a_gradient_that_is_held_stays():
    vectors, places = torch.nn.Parameter(table().detach()), set()
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


def test_gradients_add_up():
    vectors = torch.nn.Parameter(table().detach())
    for ids in ([1, 2], [2, 2], [0]):
        embedding(vectors, torch.tensor(ids)).sum().backward()
    assert (vectors.grad.sum(1) / WIDTH)[:4].tolist() == [1, 1, 3, 0]
    assert vectors.grad.sum() == 5 * WIDTH


def test_memory_goes_back_to_the_system():
    vectors = torch.nn.Parameter(table().detach())
    embedding(vectors, torch.tensor([1])).sum().backward()
    vectors.grad = None
    assert len(lookup._gradients._free) == 1
    forget_gradients()
    assert lookup._gradients._free == []


def test_a_number_without_a_row_is_an_error():
    with pytest.raises(IndexError):
        embedding(table(), torch.tensor([LARGE]))

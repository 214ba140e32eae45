"""Which backend there is, and which one ``auto`` takes."""

from importlib import import_module

import pytest
import torch

import graphattn.attention
from graphattn import Edges, attend
from graphattn.backends.registry import BACKENDS, choose_backend, load_backend
from graphattn.exceptions import BackendError

WINDOW = Edges(torch.tensor([0, 2, 4, 6]), torch.tensor([0, 1, 0, 2, 1, 2]), 3)
COMPLETE = Edges(torch.tensor([0, 2, 4, 5]), torch.tensor([0, 1, 0, 1, 2]), 3)
IDENTITY = Edges(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2]), 3)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_is_a_module_with_attend(name):
    assert load_backend(name) is import_module(BACKENDS[name]).attend


def test_an_unknown_backend_is_refused():
    with pytest.raises(BackendError) as caught:
        load_backend("auto")
    assert str(caught.value) == "backend 'auto' does not exist; choose one of: auto, dgl, fused, torch"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float32, "fused"), (torch.float64, "fused"), (torch.bfloat16, "fused"), (torch.float16, "torch")],
)
def test_auto_on_a_processor(dtype, name):
    assert choose_backend(torch.zeros(3, 1, 2, dtype=dtype)) == name


def test_auto_elsewhere():
    assert choose_backend(torch.zeros(3, 1, 2, device="meta")) == "torch"


@pytest.fixture
def taken(monkeypatch):
    """The names of the backends that `attend` loads."""
    names = []

    def watch(name):
        names.append(name)
        return load_backend(name)

    monkeypatch.setattr(graphattn.attention, "load_backend", watch)
    return names


def test_attend_takes_the_chosen_backend(taken, random_tensors):
    tensors = random_tensors(3, 3)
    bias = torch.zeros(5, 2, dtype=torch.float64)
    attend(WINDOW, *tensors)
    attend(COMPLETE, *tensors)
    attend(COMPLETE, *tensors, bias=bias)
    attend(WINDOW, *tensors, backend="dgl")
    assert taken == ["fused", "fused", "fused", "dgl"]


def test_a_window_of_one_token_needs_no_backend(taken, random_tensors):
    query, key, value = random_tensors(3, 3)
    assert torch.equal(attend(IDENTITY, query, key, value), value)
    assert taken == []
    attend(IDENTITY, query, key, value, bias=torch.zeros(3, 2, dtype=torch.float64))
    attend(IDENTITY, query, key, value, backend="torch")
    assert taken == ["fused", "torch"]

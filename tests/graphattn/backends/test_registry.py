"""The backends by name, the choice of ``auto``, and backends that users register."""

import sys
from importlib import import_module

import pytest
import torch

import graphattn.attention
from graphattn import Edges, attend, attend_heads, register_backend, tensorized_attend
from graphattn.backends import registry
from graphattn.backends import torch as segments
from graphattn.backends.registry import BACKENDS, choose_backend, load_backend
from graphattn.exceptions import BackendError, ConfigError, MissingPackageError

WINDOW = Edges(torch.tensor([0, 2, 4, 6]), torch.tensor([0, 1, 0, 2, 1, 2]), 3)
COMPLETE = Edges(torch.tensor([0, 2, 4, 5]), torch.tensor([0, 1, 0, 1, 2]), 3)
IDENTITY = Edges(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2]), 3)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_is_a_module_with_attend(name):
    assert load_backend(name) is import_module(BACKENDS[name]).attend


@pytest.fixture
def registered(monkeypatch):
    """A registered backend that records the number of edges of each call."""
    monkeypatch.setattr(registry, "_registered", {})
    calls = []

    def attend_and_record(edges, query, key, value, **options):
        calls.append(edges.num_edges)
        return segments.attend(edges, query, key, value, **options)

    register_backend("mine", attend_and_record)
    register_backend("mine", attend_and_record)
    return calls


def test_an_unknown_backend_lists_the_known_ones(registered, random_tensors):
    tensors = random_tensors(3, 3)
    with pytest.raises(BackendError, match=r"choose one of: auto, dgl, fused, torch, mine$"):
        attend(WINDOW, *tensors, backend="other")
    with pytest.raises(BackendError, match=r"choose one of: auto, blocks, fused, edges, mine$"):
        tensorized_attend(WINDOW, *tensors, tensors[2], backend="other")


@pytest.mark.parametrize("name", ["mine", "torch", "auto", "edges"])
def test_a_name_belongs_to_one_function(registered, name):
    with pytest.raises(ConfigError, match=f"backend '{name}' (belongs|is registered already, by .*attend_and_record)"):
        register_backend(name, segments.attend)


def test_attend_uses_a_registered_backend(registered, random_tensors):
    tensors = random_tensors(3, 3)
    ours = attend(WINDOW, *tensors, backend="mine", return_weights=True)
    torch.testing.assert_close(ours, attend(WINDOW, *tensors, backend="torch", return_weights=True))
    assert registered == [6]


def test_attend_heads_calls_a_registered_backend_for_each_relation(registered):
    projected = torch.randn(3, 3, 4, 5)
    ours = attend_heads([WINDOW, COMPLETE], [1, 3], projected, backend="mine")
    torch.testing.assert_close(ours, attend_heads([WINDOW, COMPLETE], [1, 3], projected))
    assert registered == [6, 5]


@pytest.mark.parametrize("function", ["identity", "tanh"])
@pytest.mark.parametrize("biased", [False, True])
def test_tensorized_attention_by_a_registered_backend(registered, random_tensors, function, biased):
    query, key, value = (tensor.requires_grad_() for tensor in random_tensors(3, 3))
    scores = torch.randn_like(value).requires_grad_()
    bias = torch.randn(6, 2, dtype=torch.float64) if biased else None

    def results(backend):
        options = {"scale_function": function, "bias": bias, "return_weights": True}
        out, weights = tensorized_attend(WINDOW, query, key, value, scores, backend=backend, **options)
        return (
            out,
            weights,
            *torch.autograd.grad(out.square().sum() + weights[0, 0], (query, key, value, scores, weights)),
        )

    torch.testing.assert_close(results("mine"), results("edges"))
    assert registered == [6, 6]  # once for each head


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float32, "fused"), (torch.float64, "fused"), (torch.bfloat16, "fused"), (torch.float16, "torch")],
)
def test_auto_on_a_cpu(dtype, name):
    assert choose_backend(torch.zeros(3, 1, 2, dtype=dtype)) == name


def test_auto_on_other_devices():
    assert choose_backend(torch.zeros(3, 1, 2, device="meta")) == "torch"


@pytest.fixture
def loaded(monkeypatch):
    """The names of the backends that `attend` loads."""
    names = []

    def watch(name):
        names.append(name)
        return load_backend(name)

    monkeypatch.setattr(graphattn.attention, "load_backend", watch)
    return names


def test_attend_loads_the_chosen_backend(loaded, random_tensors):
    tensors = random_tensors(3, 3)
    bias = torch.zeros(5, 2, dtype=torch.float64)
    attend(WINDOW, *tensors)
    attend(COMPLETE, *tensors)
    attend(COMPLETE, *tensors, bias=bias)
    attend(WINDOW, *tensors, backend="torch")
    assert loaded == ["fused", "fused", "fused", "torch"]


def test_the_backend_dgl_needs_dgl(monkeypatch, random_tensors):
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(MissingPackageError, match=r"^DGL graphs need the package dgl, which is not installed"):
        attend(WINDOW, *random_tensors(3, 3), backend="dgl")


def test_identity_needs_no_backend(loaded, random_tensors):
    query, key, value = random_tensors(3, 3)
    assert torch.equal(attend(IDENTITY, query, key, value), value)
    assert loaded == []
    attend(IDENTITY, query, key, value, bias=torch.zeros(3, 2, dtype=torch.float64))
    attend(IDENTITY, query, key, value, backend="torch")
    assert loaded == ["fused", "torch"]

"""The backends by name, the choice of ``auto``, and backends that users register."""

import sys
from importlib.util import find_spec

import pytest
import torch

from graphattn import Edges, attend, attend_heads, register_backend, tensorized_attend
from graphattn._backends import registry
from graphattn._backends.registry import find_gpu_problem, load_backend
from graphattn._backends.torch import attend_group
from graphattn.exceptions import BackendError, ConfigError, MissingPackageError

WINDOW = Edges(torch.tensor([0, 2, 4, 6]), torch.tensor([0, 1, 0, 2, 1, 2]), 3)
COMPLETE = Edges(torch.tensor([0, 2, 4, 5]), torch.tensor([0, 1, 0, 1, 2]), 3)
IDENTITY = Edges(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2]), 3)
CALLS = []


def record(call):
    """Record the heads of each call, and the number of edges of each relation, and compute it."""
    CALLS.append([value.shape[1] for _, _, _, value, _ in call.groups])
    for group in call.groups:
        CALLS.append(group.edges.num_edges)
        yield attend_group(call, group)


@pytest.fixture
def registered(monkeypatch):
    """The calls of the registered backend ``mine``."""
    monkeypatch.setattr(registry, "REGISTERED", {})
    CALLS.clear()
    register_backend("mine", record)
    register_backend("mine", record)
    return CALLS


def test_an_unknown_backend_lists_the_known_ones(registered, random_tensors):
    tensors = random_tensors(3, 3)
    with pytest.raises(BackendError, match=r"choose one of: auto, dgl, fused, torch, triton, mine$"):
        attend(WINDOW, *tensors, backend="other")
    with pytest.raises(BackendError, match=r"choose one of: auto, blocks, fused, edges, triton, mine$"):
        tensorized_attend(WINDOW, *tensors, tensors[2], backend="other")


@pytest.mark.parametrize("name", ["mine", "torch", "auto", "edges"])
def test_a_name_belongs_to_one_function(registered, name):
    with pytest.raises(ConfigError, match=f"backend '{name}' (belongs|is registered already, by .*record)"):
        register_backend(name, lambda call: record(call))


def test_a_backend_is_no_class(registered):
    with pytest.raises(ConfigError, match="backend 'other' is a class; give a function"):
        register_backend("other", type("Other", (), {"attend": record}))


def test_attend_uses_a_registered_backend(registered, random_tensors):
    tensors = random_tensors(3, 3)
    ours = attend(WINDOW, *tensors, backend="mine", return_weights=True)
    torch.testing.assert_close(ours, attend(WINDOW, *tensors, backend="torch", return_weights=True))
    assert registered == [[2], 6]


def test_a_registered_backend_gets_all_heads_of_a_layer_at_once(registered):
    projected = torch.randn(3, 3, 4, 5)
    ours = attend_heads([WINDOW, COMPLETE], [1, 3], projected, backend="mine")
    torch.testing.assert_close(ours, attend_heads([WINDOW, COMPLETE], [1, 3], projected))
    assert registered == [[1, 3], 6, 5]


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
    assert registered == [[3], 6] * 2  # once for each head, with features as heads


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float32, "fused"), (torch.float64, "fused"), (torch.bfloat16, "fused"), (torch.float16, "torch")],
)
def test_auto_on_a_cpu(dtype, name):
    rows = torch.zeros(3, 1, 2, dtype=dtype)
    assert load_backend("auto", rows) is load_backend(name, rows)


def test_auto_on_other_devices():
    rows = torch.zeros(3, 1, 2, device="meta")
    assert load_backend("auto", rows) is load_backend("torch", rows)


@pytest.mark.parametrize(
    ("capability", "has_triton", "problem"),
    [
        ((9, 0), True, None),
        ((7, 5), True, None),
        ((7, 0), True, "the GPU has compute capability 7.0, and Triton needs 7.5"),
        ((8, 0), False, "the package triton is not installed (pip install 'graphattn[triton]')"),
    ],
)
def test_what_triton_needs(capability, has_triton, problem):
    assert find_gpu_problem(capability, has_triton=has_triton) == problem


def test_a_copy_of_edges_to_an_old_gpu_has_neither_plan_nor_warning(monkeypatch, recwarn):
    """Which backend attends is not known yet, and the copy may be made in a thread."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    edges = Edges(torch.tensor([0, 1]), torch.tensor([0]), 1)
    assert edges.arrays_for(torch.device("cuda", 99)) == [edges.indptr, edges.indices]
    assert not recwarn.list


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton has wheels for Linux only")
@pytest.mark.parametrize(
    "function", [attend, lambda *inputs, **options: tensorized_attend(*inputs, inputs[3], **options)]
)
def test_the_backend_triton_needs_a_gpu(random_tensors, function):
    with pytest.raises(BackendError, match="'triton' computes on a GPU, not on cpu; use backend='auto'"):
        function(WINDOW, *random_tensors(3, 3), backend="triton")


def test_the_backend_dgl_needs_dgl(monkeypatch, random_tensors):
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(MissingPackageError, match=r"^DGL graphs need the package dgl, which is not installed"):
        attend(WINDOW, *random_tensors(3, 3), backend="dgl")


def test_a_backend_that_leaves_out_a_group(registered, random_tensors):
    register_backend("lazy", lambda call: [])
    with pytest.raises(BackendError, match="fewer results than the call has groups"):
        attend(WINDOW, *random_tensors(3, 3), backend="lazy")


def test_backends_do_not_compute_identities_without_a_bias(registered, random_tensors):
    rows = random_tensors(3, 3)
    for bias in (None, torch.zeros(3, 2, dtype=torch.float64)):
        assert torch.equal(attend(IDENTITY, *rows, bias=bias, backend="mine"), rows[2])
    assert registered == [[2], 3]
    registered.clear()
    projected = torch.randn(3, 3, 4, 5)
    ours = attend_heads([WINDOW, IDENTITY, COMPLETE], [1, 2, 1], projected, backend="mine")
    torch.testing.assert_close(ours, attend_heads([WINDOW, IDENTITY, COMPLETE], [1, 2, 1], projected))
    assert torch.equal(ours[:, 1:3], projected[:, 2, 1:3])
    assert registered == [[1, 1], 6, 5]

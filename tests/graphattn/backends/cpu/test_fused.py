"""Threads, forks, dropout and special values of the fused kernels; test_attention.py checks their results."""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from graphattn import Edges, attend, attend_heads
from graphattn._backends.cpu import plan as fused_plan
from graphattn._backends.cpu import tasks as fused_tasks
from graphattn._backends.registry import choose_backend
from graphattn.exceptions import BackendError


def random_edges(nodes: int, edges: int, seed: int) -> Edges:
    random = np.random.default_rng(seed)
    degrees = np.bincount(random.integers(0, nodes, edges), minlength=nodes)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return Edges(torch.from_numpy(indptr), torch.from_numpy(random.integers(0, nodes, edges)), nodes)


def outputs_and_gradients(edges: Edges, seed: int, **options) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    inputs = [torch.randn(edges.num_sources, 3, 5, requires_grad=True) for _ in range(3)]
    out = attend(edges, *inputs, backend="fused", **options)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), inputs)]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_results_do_not_depend_on_the_number_of_threads(threads, monkeypatch, dropout):
    monkeypatch.setattr(fused_plan, "TASK_EDGES", 64)  # many tasks
    monkeypatch.setattr(fused_tasks, "SMALL_WORK", 0)
    edges = random_edges(200, 3000, seed=1)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(outputs_and_gradients(edges, seed=2, dropout=dropout))
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


def test_concurrent_python_threads(threads):
    threads(2)
    graphs = [random_edges(100, 900, seed) for seed in range(4)]
    expected = [attend(edges, *inputs_of(edges, 5), backend="fused") for edges in graphs]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda edges: attend(edges, *inputs_of(edges, 5), backend="fused"), graphs * 5))
    assert all(torch.equal(one, expected[index % 4]) for index, one in enumerate(got))


def inputs_of(edges: Edges, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(edges.num_sources, 2, 4, generator=generator) for _ in range(3)]


def _in_child(queue) -> None:
    edges = random_edges(50, 400, seed=3)
    queue.put(attend(edges, *inputs_of(edges, 7), backend="fused").sum().item())


def test_forked_process(threads, monkeypatch):
    monkeypatch.setattr(fused_plan, "TASK_EDGES", 16)
    monkeypatch.setattr(fused_tasks, "SMALL_WORK", 0)
    threads(2)
    edges = random_edges(50, 400, seed=3)
    expected = attend(edges, *inputs_of(edges, 7), backend="fused").sum().item()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == expected


def test_dropout_rate_and_expectation():
    count = 300
    complete = Edges(torch.arange(0, count * count + 1, count), torch.arange(count).repeat(count), count)
    same = torch.zeros(count, 2, 4)
    which = count * torch.eye(count).unsqueeze(1).expand(-1, 2, -1).contiguous()  # column j is 1 when edge j is kept
    out = attend(complete, same, same, which, backend="fused", dropout=0.3)  # (destination, head, source)
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.005)
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)
    assert (out == 0).float().mean(dim=(0, 1)).std().item() < 0.03  # no source is favoured
    assert (out == 0).float().mean(dim=(1, 2)).std().item() < 0.03  # no destination either
    both = ((out[:, 0] == 0) & (out[:, 1] == 0)).float().mean().item()
    assert both == pytest.approx(0.09, abs=0.01)  # heads are independent


def test_dropout_depends_on_the_seed():
    edges = random_edges(40, 300, seed=4)
    first, again, other = (outputs_and_gradients(edges, seed, dropout=0.5)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    inputs = inputs_of(edges, 3)
    torch.manual_seed(1)
    one, two = (attend(edges, *inputs, backend="fused", dropout=0.5) for _ in range(2))
    assert not torch.equal(one, two)
    assert not torch.equal(first, other)


def test_backward_pass_drops_the_same_edges():
    edges = random_edges(6, 25, seed=5)
    inputs = [torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    bias = torch.randn(25, 2, dtype=torch.float64, requires_grad=True)

    def run(query, key, value, bias):
        torch.manual_seed(8)
        return attend(edges, query, key, value, bias=bias, dropout=0.4, backend="fused", return_weights=True)

    assert torch.autograd.gradcheck(run, (*inputs, bias), fast_mode=True)


def test_tasks_cover_all_destinations():
    starts = np.array([0, 0, 5, 5, 100_000, 100_000, 100_001])
    tasks = fused_plan.EdgePlan(starts, np.zeros(100_001, np.int32)).tasks
    assert (tasks[0], tasks[-1]) == (0, 6)
    assert (np.diff(tasks) > 0).all()


def test_float16_is_rejected_and_auto_avoids_it():
    edges = random_edges(4, 8, seed=6)
    half = [tensor.half() for tensor in inputs_of(edges, 1)]
    with pytest.raises(BackendError) as caught:
        attend(edges, *half, backend="fused")
    assert str(caught.value) == (
        "backend 'fused' takes float32, float64 and bfloat16 on a CPU, not torch.float16 on cpu. Use backend='torch'"
    )
    assert choose_backend(half[0]) == "torch"


FORK = """
import os, sys
import graphattn, torch
torch.set_num_threads(2)
torch.randn(400, 400) @ torch.randn(400, 400)
if os.fork() == 0:
    torch.set_num_threads(2)
    from graphattn import Edges, attend
    count = 200
    edges = Edges.of_ranges(torch.zeros(count, dtype=torch.int64), torch.full((count,), count), count)
    values = torch.ones(count, 2, 16)
    os._exit(0 if bool((attend(edges, values, values, values) - 1).abs().max() < 1e-5) else 3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_first_call_in_a_forked_process():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)


@pytest.mark.parametrize("kind", ["edges", "ranges", "narrow"])
def test_scores_that_overflow_leave_no_weights(kind):
    low = torch.zeros(9, dtype=torch.int64)
    edges = Edges.of_ranges(low, low + 9, 9)
    if kind == "edges":
        edges = Edges(edges.indptr, edges.indices.flip(0), 9)
    query = torch.full((9, 2, 4), 1e30)
    query[3:] = 1
    key, value = torch.full_like(query, -1e30), torch.ones_like(query)
    torch.full((10_000,), -7.0)  # leave arbitrary numbers in freed memory
    options = {"return_weights": True}
    with torch.no_grad():
        if kind == "narrow":
            rows = torch.stack([query, key, value], dim=1)
            out, (weights,) = attend_heads([edges], [2], rows, backend="fused", **options)
        else:
            out, weights = attend(edges, query, key, value, backend="fused", **options)
    assert (out[:3] == 0).all()
    assert (weights.view(9, 9, 2)[:3] == 0).all()
    assert torch.allclose(weights.view(9, 9, 2)[3:].sum(1), torch.ones(6, 2))


@pytest.mark.parametrize("heads", [[2, 0], [0, 2]])
def test_relation_without_heads(heads):
    wide, other = random_edges(50, 400, seed=3), random_edges(50, 200, seed=5)
    rows = torch.randn(50, 3, 2, 4, requires_grad=True)
    relation = wide if heads[0] else other
    out = attend_heads([wide, other], heads, rows, backend="fused")
    assert torch.equal(out, attend(relation, *rows.unbind(1), backend="fused"))
    out.sum().backward()
    assert rows.grad.isfinite().all()


def test_nan_gives_no_gradient_to_rows_without_edges():
    count = 600
    low, high = torch.zeros(count, dtype=torch.int64), torch.full((count,), 400)
    low[0], high[0] = 599, 600  # the only key with NaN
    low[1:8] = high[1:8] = 0  # no edges
    low[100:], high[100:] = 0, 590
    edges = Edges.of_ranges(low, high, count)
    query, key, value = (torch.randn(count, 2, 8, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        value[599] = float("nan")
    attend(edges, query, key, value, backend="fused").nansum().backward()
    assert (query.grad[1:8] == 0).all()
    assert query.grad[8:].isfinite().all()

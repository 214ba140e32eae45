"""Results of the compiled kernels do not depend on threads and forks."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from graphattn import Edges, attend, tensorized_attend
from graphattn._backends.cpu import plan, tasks

OPERATORS = {
    "attend": lambda edges, rows: attend(edges, *rows[:3], backend="fused"),
    "attend with dropout": lambda edges, rows: attend(edges, *rows[:3], dropout=0.4, backend="fused"),
    "tensorized_attend": lambda edges, rows: tensorized_attend(edges, *rows, backend="fused"),
}


@pytest.fixture(params=OPERATORS)
def operator(request):
    return OPERATORS[request.param]


@pytest.fixture
def threads(monkeypatch):
    """Set the number of threads; the kernels divide their work into many tasks."""
    monkeypatch.setattr(plan, "TASK_EDGES", 64)
    monkeypatch.setattr(tasks, "SMALL_WORK", 0)
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def random_edges(sentences, length, seed):
    """Sentences whose tokens see each other at random."""
    random = np.random.default_rng(seed)
    mask = np.kron(np.eye(sentences, dtype=int), np.ones((length, length), dtype=int)).astype(bool)
    mask &= random.random(mask.shape) < 0.4
    indptr = np.concatenate([[0], mask.sum(1).cumsum()])
    return Edges(torch.from_numpy(indptr), torch.from_numpy(mask.nonzero()[1]), sentences * length)


def compute(operator, edges, seed=5):
    """Outputs and gradients."""
    random = torch.Generator().manual_seed(seed)
    rows = [torch.randn(edges.num_sources, 3, 5, generator=random).requires_grad_() for _ in range(4)]
    torch.manual_seed(seed)
    out = operator(edges, rows)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), rows, materialize_grads=True)]


def test_number_of_threads(operator, threads):
    edges = random_edges(20, 12, seed=1)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(compute(operator, edges))
    for one, *others in zip(*results, strict=True):
        assert all(torch.equal(one, other) for other in others)


@pytest.mark.parametrize("name", ["attend", "tensorized_attend"])  # seeds of dropout come from a global generator
def test_concurrent_python_threads(threads, name):
    threads(2)
    graphs = [random_edges(10, 9, seed) for seed in range(4)]
    expected = [compute(OPERATORS[name], edges) for edges in graphs]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda edges: compute(OPERATORS[name], edges), graphs * 5))
    for index, result in enumerate(results):
        assert all(torch.equal(one, two) for one, two in zip(result, expected[index % 4], strict=True))


def test_forked_process(operator, threads, run_in_fork):
    threads(2)
    edges = random_edges(5, 10, seed=3)
    random = torch.Generator().manual_seed(7)
    rows = [torch.randn(50, 2, 4, generator=random) for _ in range(4)]

    def run():
        torch.manual_seed(7)
        return operator(edges, rows)

    expected = run()

    def compare():
        assert torch.equal(run(), expected)

    assert run_in_fork(compare) == 0


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


@pytest.mark.slow
def test_first_call_in_a_forked_process():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=600)

"""Threads, forks and tasks of the tensorised kernels; test_tensorized.py checks their results."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch

from graphattn import Edges, tensorized_attend
from graphattn._backends.cpu.tensorized import fused as tensorized_fused


def random_edges(sentences: int, length: int, seed: int) -> Edges:
    """Sentences whose tokens see each other at random."""
    random = np.random.default_rng(seed)
    mask = np.kron(np.eye(sentences, dtype=int), np.ones((length, length), dtype=int)).astype(bool)
    mask &= random.random(mask.shape) < 0.4
    indptr = np.concatenate([[0], mask.sum(1).cumsum()])
    return Edges(torch.from_numpy(indptr), torch.from_numpy(mask.nonzero()[1]), sentences * length)


def inputs_of(edges: Edges, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(edges.num_sources, 2, 5, generator=generator) for _ in range(4)]


def outputs_and_gradients(edges: Edges, seed: int) -> list[torch.Tensor]:
    inputs = [tensor.requires_grad_() for tensor in inputs_of(edges, seed)]
    out = tensorized_attend(edges, *inputs, backend="fused")
    return [out.detach(), *torch.autograd.grad(out.square().sum(), inputs)]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_results_do_not_depend_on_the_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr(tensorized_fused, "CHUNK", 64)  # many tasks
    edges = random_edges(20, 10, seed=1)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(outputs_and_gradients(edges, seed=2))
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


def test_concurrent_python_threads(threads):
    threads(2)
    graphs = [random_edges(10, 9, seed) for seed in range(4)]
    expected = [outputs_and_gradients(edges, 5) for edges in graphs]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda edges: outputs_and_gradients(edges, 5), graphs * 5))
    for index, own in enumerate(got):
        assert all(torch.equal(one, two) for one, two in zip(own, expected[index % 4], strict=True))


def _in_child(queue) -> None:
    edges = random_edges(5, 10, seed=3)
    queue.put(tensorized_attend(edges, *inputs_of(edges, 7), backend="fused").sum().item())


def test_forked_process(threads, monkeypatch):
    monkeypatch.setattr(tensorized_fused, "CHUNK", 16)
    threads(2)
    edges = random_edges(5, 10, seed=3)
    expected = tensorized_attend(edges, *inputs_of(edges, 7), backend="fused").sum().item()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,), daemon=True)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == expected


def test_tasks_are_consecutive_and_complete(monkeypatch):
    monkeypatch.setattr(tensorized_fused, "CHUNK", 4)
    indptr, cuts = np.array([0, 0, 5, 5, 9, 12, 13]), np.array([0, 3, 5, 6])
    tasks = tensorized_fused.cut_into_tasks(indptr, cuts)
    assert {place for task in tasks for place in task} <= set(cuts.tolist())
    assert (tasks[0][0], tasks[-1][1]) == (0, 6)
    assert all(one[1] == two[0] for one, two in pairwise(tasks))
    assert len(tasks) > 1
    assert tensorized_fused.cut_into_tasks(np.array([0]), np.array([0])) == []

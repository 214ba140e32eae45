"""Everybody computes the attention they are timed for, forward and backward."""

import pytest
import torch

from graphattn.experiments.benchmarks.attention_contenders import (
    AttentionProblem,
    DenseAttention,
    DGLOperators,
    Flex,
    Ours,
    PyGTransformerConv,
    TorchSegments,
)
from graphattn.experiments.benchmarks.clock import Job
from graphattn.experiments.benchmarks.contenders import Unable
from graphattn.experiments.benchmarks.workloads import uniform
from graphattn.models.padding import unpad

FLAT = [Ours, DGLOperators, TorchSegments, PyGTransformerConv]


@pytest.fixture(scope="module")
def problem(workload, small):
    return AttentionProblem(workload, small)


def run(job: Job):
    return job.run(job.fresh())


def slow_outputs(problem, attend_slowly, reaches=None):
    """(N, H, D) for each batch and layer; with ``reaches`` every head sees that far."""
    outputs = []
    for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True):
        for reach, (query, key, value) in zip(problem.heads.reaches(batch), layers, strict=True):
            parts, start = [], 0
            for sentence, length in enumerate(batch):
                own = slice(start, start + length)
                heads = [
                    attend_slowly(
                        *(t[own, head] for t in (query, key, value)),
                        int(reach[sentence, head]) if reaches is None else reaches,
                    )
                    for head in range(query.shape[1])
                ]
                parts.append(torch.stack(heads, dim=1))
                start += length
            outputs.append(torch.cat(parts))
    return outputs


def flat(problem, padded):
    lengths = [batch for batch in problem.workload.batches for _ in problem.heads.layers]
    return [unpad(own.transpose(1, 2), torch.tensor(batch)) for own, batch in zip(padded, lengths, strict=True)]


def joined(problem, outputs):
    """(N, H, D) for each batch and layer, from one output for each of them or for each relation."""
    if len(outputs) == len(problem.workload.batches) * len(problem.heads.layers):
        return outputs
    waiting = iter(outputs)
    return [
        torch.cat([next(waiting) for _ in heads], dim=1)
        for _ in problem.workload.batches
        for heads in problem.heads.layers
    ]


@pytest.mark.parametrize("kind", FLAT)
def test_edges_of_windows_forward(problem, attend_slowly, kind):
    if kind().missing():
        pytest.skip(kind().missing())
    for found, expected in zip(
        joined(problem, run(kind().job(problem, backward=False))), slow_outputs(problem, attend_slowly), strict=True
    ):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", FLAT)
def test_edges_of_windows_backward(problem, attend_slowly, kind):
    if kind().missing():
        pytest.skip(kind().missing())
    leaves = [t.double().requires_grad_() for layers in problem.inputs for triple in layers for t in triple]
    copy = AttentionProblem(problem.workload, problem.heads.options)
    triples = iter(zip(*[iter(leaves)] * 3, strict=True))
    copy.inputs = [[next(triples) for _ in layers] for layers in problem.inputs]
    upstream = [triple[2].detach() for layers in copy.inputs for triple in layers]
    expected = torch.autograd.grad(slow_outputs(copy, attend_slowly), leaves, upstream, allow_unused=True)
    found = run(kind().job(problem, backward=True))
    assert len(expected) == 3 * 2 * 2
    if kind is Ours:  # all in one tensor, without queries and keys of heads on single tokens, whose gradients are zero
        triples = iter(zip(*[iter(expected)] * 3, strict=True))
        copy.inputs = [[next(triples) for _ in layers] for layers in problem.inputs]
        everything, expected = expected, [rows for layers in Ours().inputs(copy) for (rows,) in layers]
        left_out = sum(map(torch.count_nonzero, everything)) - sum(map(torch.count_nonzero, expected))
        assert left_out == 0
        assert sum(rows.numel() for rows in expected) < sum(rows.numel() for rows in everything)
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own.double(), other, rtol=1e-4, atol=1e-5)


def test_dense_attention_sees_everything(problem, attend_slowly):
    found = flat(problem, run(DenseAttention().job(problem, backward=False)))
    for own, expected in zip(found, slow_outputs(problem, attend_slowly, reaches=1000), strict=True):
        torch.testing.assert_close(own.double(), expected, rtol=1e-5, atol=1e-5)


def test_dense_attention_has_gradients_of_all_inputs(problem):
    found = run(DenseAttention().job(problem, backward=True))
    assert len(found) == 3 * 2 * 2
    assert all(bool(gradient.isfinite().all()) for gradient in found)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_masks_the_same_windows(problem, attend_slowly):
    """Not compiled here: its result is the same, and compiling takes half a minute."""
    found = flat(problem, run(Flex(compiled=False).job(problem, backward=False)))
    for own, expected in zip(found, slow_outputs(problem, attend_slowly), strict=True):
        torch.testing.assert_close(own.double(), expected, rtol=1e-5, atol=1e-5)


def test_flex_attention_needs_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert Flex().missing() == "there is no C++ compiler"
    assert Flex(compiled=False).missing() is None
    compiler = tmp_path / "mine"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", "mine")
    assert Flex().missing() is None
    assert not Flex.has_backward


def test_flex_attention_that_does_not_compile_is_told(problem, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("C++ compile error\nand a long story")

    monkeypatch.setattr(torch, "compile", lambda function, **options: broken)
    with pytest.raises(Unable, match=r"^does not compile here \(C\+\+ compile error\)$"):
        Flex().job(problem, backward=False)


def test_every_run_of_ours_gets_new_graphs(problem):
    job = Ours().job(problem, backward=False)
    first, second = job.fresh(), job.fresh()
    assert len(first) == len(second) == 2
    assert all(a is not b for a, b in zip(first, second, strict=True))


def test_long_texts_need_more_memory_with_arrays_of_the_edges_size():
    short, long = AttentionProblem(uniform(1, 64)), AttentionProblem(uniform(1, 256))
    for kind in (DGLOperators, TorchSegments, PyGTransformerConv, Flex):
        assert kind().needs(long, backward=False) > 5 * kind().needs(short, backward=False) > 0
    assert Ours().needs(long, backward=True) == DenseAttention().needs(long, backward=True) == 0
    assert PyGTransformerConv().needs(long, backward=True) > DGLOperators().needs(long, backward=True)
    assert DGLOperators().needs(long, backward=True) > TorchSegments().needs(long, backward=True)


def test_the_papers_heads_are_the_default():
    problem = AttentionProblem(uniform(2, 3))
    assert [list(heads.values()) for heads in problem.heads.layers] == [[5, 2, 2, 1], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    assert [tuple(t.shape) for t in problem.inputs[0][0]] == [(6, 10, 30)] * 3
    assert torch.equal(problem.inputs[0][0][0], AttentionProblem(uniform(2, 3)).inputs[0][0][0])

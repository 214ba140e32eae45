"""``bench attention``: contenders compute the same attention, and the cost of an edge."""

from dataclasses import replace

import pytest
import torch
from packaging.version import Version

from graphattn.experiments.benchmarks import _attention as attention
from graphattn.experiments.benchmarks._attention import CONTENDERS, TORCH, AttentionProblem, DenseAttention, Flex
from graphattn.experiments.benchmarks._contenders import Job, Placement, Settings, UnableError
from graphattn.experiments.benchmarks._workloads import uniform
from graphattn.models._padding import unpad

BY_NAME = {contender.name: contender for contender in (*CONTENDERS, TORCH)}
OURS, DENSE, FLEX, DGL, PYG = (BY_NAME[name] for name in ("ours", "dense", "flex", "dgl", "pyg"))
# Not compiled here: the result is the same, and compiling takes half a minute.
UNCOMPILED = [replace(each, compiled=False) for each in CONTENDERS if isinstance(each, Flex)]
OVER_EDGES = [each for each in BY_NAME.values() if not isinstance(each, DenseAttention)]
OVER_ALL = [each for each in CONTENDERS if isinstance(each, DenseAttention) and not isinstance(each, Flex)]

needs_current_flex = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="FlexAttention before PyTorch 2.13 does not take our masks"
)


@pytest.fixture(scope="module")
def problem(workload, small):
    return AttentionProblem(workload, small)


def run(job: Job):
    return job.run(job.prepare())


def compute_reference(problem, reference_attention, reaches=None):
    """(N, H, D) for each batch and layer; with ``reaches`` every head sees that far."""
    outputs = []
    for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True):
        for reach, (query, key, value) in zip(problem.heads.reaches(batch), layers, strict=True):
            parts, start = [], 0
            for sentence, length in enumerate(batch):
                tokens = slice(start, start + length)
                heads = [
                    reference_attention(
                        *(t[tokens, head] for t in (query, key, value)),
                        int(reach[sentence, head]) if reaches is None else reaches,
                    )
                    for head in range(query.shape[1])
                ]
                parts.append(torch.stack(heads, dim=1))
                start += length
            outputs.append(torch.cat(parts))
    return outputs


def flatten_outputs(problem, contender, outputs):
    """(N, H, D) for each batch and layer, from padded rows, or from one output for each of them or each relation."""
    if isinstance(contender, DenseAttention):
        lengths = [torch.tensor(batch) for batch in problem.workload.batches for _ in problem.heads.layers]
        return [unpad(rows.transpose(1, 2), batch) for rows, batch in zip(outputs, lengths, strict=True)]
    layers = [heads for _ in problem.workload.batches for heads in problem.heads.layers]
    if len(outputs) == len(layers):
        return outputs
    remaining = iter(outputs)
    return [torch.cat([next(remaining) for _ in heads], dim=1) for heads in layers]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("contender", "reaches"),
    [
        *((contender, None) for contender in OVER_EDGES),
        *(pytest.param(contender, None, marks=needs_current_flex) for contender in UNCOMPILED),
        *((contender, 1000) for contender in OVER_ALL),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_attention_is_that_of_a_loop_over_tokens(problem, reference_attention, require, contender, reaches):
    outputs = run(require(contender).make_job(problem, backward=False))
    expected = compute_reference(problem, reference_attention, reaches)
    for output, reference in zip(flatten_outputs(problem, contender, outputs), expected, strict=True):
        torch.testing.assert_close(output.double(), reference, rtol=1e-5, atol=1e-5)


def regroup(problem, tensors):
    """The tensors of queries, keys and values in the shape of ``problem.inputs``."""
    triples = iter(zip(*[iter(tensors)] * 3, strict=True))
    return [[next(triples) for _ in layers] for layers in problem.inputs]


@pytest.mark.slow
@pytest.mark.parametrize("contender", OVER_EDGES, ids=lambda contender: contender.name)
def test_gradients_are_those_of_a_loop_over_tokens(problem, reference_attention, require, contender):
    copy = AttentionProblem(problem.workload, problem.heads.options)
    leaves = [t.double().requires_grad_() for layers in problem.inputs for triple in layers for t in triple]
    copy.inputs = regroup(problem, leaves)
    upstream = [value.detach() for layers in copy.inputs for _, _, value in layers]
    outputs = compute_reference(copy, reference_attention)
    expected = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True)
    assert len(expected) == 3 * 2 * 2
    if isinstance(contender, type(OURS)):
        copy.inputs = regroup(problem, expected)
        expected = join_scoring_heads(copy, expected)
    gradients = run(require(contender).make_job(problem, backward=True))
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient.double(), reference, rtol=1e-4, atol=1e-5)


def join_scoring_heads(problem, gradients):
    """One tensor per layer, as in our inputs: without queries and keys of heads on single tokens (zero gradients)."""
    joined = [rows for layers in OURS.make_inputs(problem) for (rows,) in layers]
    assert sum(map(torch.count_nonzero, gradients)) == sum(map(torch.count_nonzero, joined))
    assert sum(rows.numel() for rows in joined) < sum(rows.numel() for rows in gradients)
    return joined


def test_flex_attention_needs_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UnableError, match=r"^there is no C\+\+ compiler$"):
        FLEX.check_requirements()
    UNCOMPILED[0].check_requirements()
    compiler = tmp_path / "mine"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", "mine")
    FLEX.check_requirements()


@needs_current_flex
def test_a_failed_compilation_of_flex_attention_is_reported(problem, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("C++ compile error\nand a long story")

    monkeypatch.setattr(torch, "compile", lambda function, **options: broken)
    with pytest.raises(UnableError, match=r"^does not compile here \(C\+\+ compile error\)$"):
        FLEX.make_job(problem, backward=False)


def test_arrays_per_edge_need_memory_in_long_texts():
    short, long = AttentionProblem(uniform(1, 64)), AttentionProblem(uniform(1, 256))
    for contender in (DGL, TORCH, PYG, FLEX):
        assert contender.estimate_bytes(long, backward=False) > 5 * contender.estimate_bytes(short, backward=False) > 0
    assert OURS.estimate_bytes(long, backward=True) == DENSE.estimate_bytes(long, backward=True) == 0
    assert PYG.estimate_bytes(long, backward=True) > DGL.estimate_bytes(long, backward=True)
    assert DGL.estimate_bytes(long, backward=True) > TORCH.estimate_bytes(long, backward=True)


def test_the_papers_heads_are_the_default():
    problem = AttentionProblem(uniform(2, 3))
    assert [list(heads.values()) for heads in problem.heads.layers] == [[5, 2, 2, 1], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    assert [tuple(t.shape) for t in problem.inputs[0][0]] == [(6, 10, 30)] * 3
    assert torch.equal(problem.inputs[0][0][0], AttentionProblem(uniform(2, 3)).inputs[0][0][0])


def test_rows_of_all_passes():
    report = attention.measure(Settings(("2x6",), repeats=2, peers=("dense",)))
    assert [(row["task"], row["contender"]) for row in report.rows] == [
        (task, who) for task in ("forward", "forward + backward") for who in ("ours", "dense")
    ]
    # of the heads only those of width 3 have anything to score at 6 tokens
    assert {row["pairs"] for row in report.rows} == {6 * 2 * 16}
    assert report.left_out == report.notes == []


def test_cost_of_an_edge_between_long_texts():
    names = ("workload", "length", "median_ms", "pairs", "contender", "task")
    both = "forward + backward"
    rows = [
        dict(zip(names, values, strict=True))
        for values in (
            ("9x201", 201, 50.0, 1, "ours", "forward"),
            ("mr", None, 1.0, 9, "ours", "forward"),
            ("8x2048", 2048, 2.0, 10_000_000, "ours", "forward"),
            ("1x9000", 9000, 3.0, 10_000_000, "ours", "forward"),
            ("1x32768", 32768, 12.0, 30_000_000, "ours", "forward"),
            ("8x2048", 2048, 99.0, 10_000_000, "dgl", "forward"),
            ("8x2048", 2048, 99.0, 10_000_000, "ours", both),
            ("4x2048", 2048, 99.0, 10_000_000, "ours", both),
        )
    ]
    assert attention.summarize_pair_cost(rows, "forward") == (
        "forward, cost of one edge of one head: 8x2048 0.200 ns, 1x9000 0.300 ns, "
        "1x32768 0.400 ns; largest over smallest 2.00"
    )
    assert attention.summarize_pair_cost(rows, both) is None, "there is one length only"


def test_all_tensors_are_on_the_device_in_the_number_format(problem):
    """Tensors without data stand for a GPU's."""
    problem = AttentionProblem(problem.workload, problem.heads.options)
    problem.placement = Placement(torch.device("meta"), in_bfloat16=True)
    for backward in (False, True):
        outputs = run(DENSE.make_job(problem, backward=backward))
        assert {(output.device.type, output.dtype) for output in outputs} == {("meta", torch.bfloat16)}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_contenders_have_times_and_memory():
    report = attention.measure(Settings(("2x64",), repeats=2, peers=("dense", "torch"), device="cuda:0"))
    assert all(row["median_ms"] > 0 and row["memory"] >= row["added"] > 0 for row in report.rows)
    assert "added by a run, MiB" in report.to_markdown()

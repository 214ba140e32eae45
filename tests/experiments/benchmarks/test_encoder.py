"""``bench encoder`` and ``bench train-step``: contenders compute what they claim, and the arithmetic limit."""

from importlib.util import find_spec

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphattn.experiments.benchmarks import _encoder as encoder
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._encoder import CONTENDERS, EncoderProblem
from graphattn.experiments.benchmarks._workloads import uniform
from graphattn.models._padding import unpad

BY_NAME = {contender.name: contender for contender in CONTENDERS}
COMPILED = pytest.param("transformer-compiled", marks=pytest.mark.slow)


@pytest.fixture
def problem(workload, small):
    return EncoderProblem(workload, small)


def encode(name, problem):
    torch.manual_seed(0)
    job = BY_NAME[name].make_job(problem, backward=False)
    return job.run(job.prepare())


@pytest.mark.parametrize("name", ["masked", "masked-additive", "dgl"])
def test_other_ways_equal_the_graph(problem, require, name):
    require(BY_NAME[name])
    outputs = (encode(each, problem) for each in ("ours", name))
    for ours, theirs, batch in zip(*outputs, problem.workload.batches, strict=True):
        flat = theirs if theirs.dim() == 2 else unpad(theirs, torch.tensor(batch))
        torch.testing.assert_close(ours, flat, rtol=1e-5, atol=1e-5)


class Calls(TorchDispatchMode):
    """Records the names of PyTorch's operators."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "is_fast"), [("transformer-fast-path", True), ("transformer", False)])
def test_each_transformer_runs_on_its_path(name, is_fast):
    problem = EncoderProblem(uniform(2, 5))
    with Calls() as calls:
        encode(name, problem)
    assert ("_transformer_encoder_layer_fwd" in calls.names) == is_fast


@pytest.mark.parametrize("name", ["transformer-fast-path", COMPILED])
def test_all_paths_of_the_transformer_compute_the_same(problem, name):
    for expected, output, batch in zip(
        encode("transformer", problem), encode(name, problem), problem.workload.batches, strict=True
    ):
        lengths = torch.tensor(batch)
        torch.testing.assert_close(unpad(output, lengths), unpad(expected, lengths), rtol=1e-4, atol=1e-5)


def test_the_transformer_is_pytorchs_and_padding_changes_nothing(problem):
    contender = BY_NAME["transformer"]
    torch.manual_seed(0)
    transformer = contender.make_module(problem).eval()
    assert len(transformer.layers) == problem.options.layers
    assert transformer.layers[0].linear1.out_features == 1200
    assert not any(module.p for module in transformer.modules() if isinstance(module, torch.nn.Dropout))
    outputs = encode("transformer", problem)
    for tokens, rows, batch in zip(problem.tokens, outputs, problem.workload.batches, strict=True):
        flat = unpad(rows, torch.tensor(batch))
        for output, sentence in zip(flat.split(batch), tokens.split(batch), strict=True):
            torch.testing.assert_close(output, transformer(sentence.unsqueeze(0)).squeeze(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [each.name for each in CONTENDERS if each.has_backward and not each.is_trial])
def test_a_training_step_changes_the_weights_and_is_in_training_mode(problem, name, monkeypatch):
    contender = BY_NAME[name]
    module = contender.make_module(problem).eval()
    monkeypatch.setattr(type(contender), "make_module", lambda contender, problem: module)
    job = contender.make_job(problem, backward=True)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    job.run(job.prepare())
    assert module.training
    changed = [not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)]
    assert sum(changed) > 0.7 * len(changed)  # biases of keys cancel in the softmax
    assert all(parameter.grad is None for parameter in module.parameters())


def test_masks_of_long_texts_need_memory():
    problem = EncoderProblem(uniform(1, 4096))
    inference, training = (
        {name: each.estimate_bytes(problem, backward=backward) for name, each in BY_NAME.items()}
        for backward in (False, True)
    )
    assert training["masked"] > inference["masked"] >= 3 * 10 * 4096**2
    assert inference["dgl"] > 0
    assert training["ours"] == training["transformer"] == 0


@pytest.mark.parametrize(
    ("measure", "name", "task", "transformers"),
    [
        (encoder.measure, "encoder", "inference", ["transformer", "transformer-fast-path"]),
        (encoder.measure_training, "train-step", "training step", ["transformer"]),
    ],
)
def test_rows_of_all_encoders(measure, name, task, transformers):
    report = measure(Settings(("2x6",), repeats=1))
    assert report.name == name
    names = ["ours", *transformers, "masked", *(["dgl"] if find_spec("dgl") else [])]
    assert [(row["contender"], row["task"]) for row in report.rows] == [(who, task) for who in names]
    limits = [report.columns["limit"](row) for row in report.rows]
    limit = f"{encoder.arithmetic_limit(uniform(2, 6)):.2f}"
    assert limits == [limit if who in transformers else "" for who in names]


def test_the_limit_grows_with_length():
    limits = [encoder.arithmetic_limit(uniform(2, length)) for length in (109, 201, 2048, 8192)]
    assert limits == sorted(limits)
    # without end: 30 heads x n^2 pairs, against heads on N/16, N/8 and N/4 (6, 4, 3 of them less the clipped ends)
    endless = encoder.arithmetic_limit(uniform(1, 10**7))
    shares = {16: 6, 8: 4, 4: 3}
    expected = 30 / sum(heads * (1 / part - 1 / (2 * part) ** 2) for part, heads in shares.items())
    assert endless == pytest.approx(expected, rel=0.01)

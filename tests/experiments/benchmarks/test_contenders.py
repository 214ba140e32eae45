"""The contract of contenders, over the tables of all benchmarks of modules and operators."""

import json
from dataclasses import replace

import pytest
import torch
from packaging.version import Version

from graphattn.experiments.benchmarks import _attention as attention
from graphattn.experiments.benchmarks import _encoder as encoder
from graphattn.experiments.benchmarks import _memory as memory
from graphattn.experiments.benchmarks import _mtsa as mtsa
from graphattn.experiments.benchmarks import _umst as umst
from graphattn.experiments.benchmarks._workloads import uniform

TABLES = (attention.CONTENDERS, memory.CONTENDERS[1:2], encoder.CONTENDERS, mtsa.CONTENDERS, umst.CONTENDERS)


def mark(contender):
    """Leave compiling to slow tests; FlexAttention takes half a minute to compile, and has the same result without."""
    if isinstance(contender, attention.Flex):
        old = Version(torch.__version__) < Version("2.13")
        marks = pytest.mark.skipif(old, reason="FlexAttention before PyTorch 2.13 does not take our masks")
        contender = replace(contender, compiled=False)
    else:
        marks = pytest.mark.slow if getattr(contender, "is_compiled", False) else ()
    return pytest.param(contender, marks=marks, id=f"{type(contender).__module__.rpartition('.')[2]} {contender.name}")


@pytest.fixture(params=[mark(contender) for table in TABLES for contender in table])
def contender(request, require):
    return require(request.param)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_contender_runs_in_inference_and_with_gradients(contender):
    problem = contender.problem(uniform(2, 9))
    job = contender.make_job(problem, backward=False)
    outputs = job.run(job.prepare())
    assert outputs
    assert not any(output.requires_grad for output in outputs), "no tensors are saved for gradients"
    if contender.has_backward:
        job = contender.make_job(problem, backward=True)
        gradients = job.run(job.prepare())
        assert all(bool(gradient.isfinite().all()) for gradient in gradients or ())
    if contender.name == "ours":
        first, second = job.prepare(), job.prepare()
        assert all(a is not b for a, b in zip(first, second, strict=True)), "each run gets new graphs"


def test_another_process_gets_the_same_contender(contender):
    settings = json.loads(json.dumps(vars(contender)))
    assert type(contender)(**settings) == contender


@pytest.mark.parametrize("table", TABLES)
def test_names_are_different_and_ours_is_first(table):
    names = [each.name for each in table]
    assert len(set(names)) == len(names)
    assert "ours" not in names[1:]
    assert not table[0].is_trial

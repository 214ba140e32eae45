"""``bench shapes``: each run of a contender has a new shape, or that of the run before."""

import pytest
import torch

from graphattn.experiments.benchmarks import _shapes as shapes
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._harness import OURS
from graphattn.experiments.benchmarks._workloads import uniform


def list_lengths(name, *, backward):
    """The lengths of the texts in three runs of a contender."""
    (contender,) = (each for each in shapes.CONTENDERS if each.name == name)
    job = contender.make_job(shapes.Problem(uniform(2, 5)), backward=backward)
    lengths = []
    for _ in range(3):
        rows, mask = job.prepare()
        job.run((rows, mask))
        assert {tuple(tensor.shape[:2]) for tensor in rows} == {(2, shapes.HEADS)}
        assert mask is None or mask.shape == (2, 1, 1, rows[0].shape[2])
        lengths.append(rows[0].shape[2])
    return lengths


@pytest.mark.parametrize("suffix", ["", "-masked"])
@pytest.mark.parametrize("name", [OURS, "default"])
def test_lengths(name, suffix):
    assert list_lengths(f"{name}{suffix}", backward=False) == [5, 6, 7]
    assert list_lengths(f"{name}{suffix}", backward=True) == [35, 36, 37]
    assert list_lengths(f"{name}-known{suffix}", backward=False) == [5] * 3


def test_the_table():
    report = shapes.measure(Settings(("2x3",), repeats=1, peers=("default", "flash")))
    assert [(row["task"], row["contender"]) for row in report.rows] == [
        (task, name) for task in ("forward", "forward + backward") for name in (OURS, "default")
    ]
    assert report.left_out == ["flash, new shape: a kernel of GPUs (2x3, forward; 2x3, forward + backward)"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_each_contender_has_times_and_memory():
    report = shapes.measure(Settings(("2x8",), repeats=2, device="cuda:0", precision="bf16"))
    assert report.left_out == []
    assert all(row["median_ms"] > 0 and row["memory"] >= row["added"] >= 0 for row in report.rows)
    assert len(report.rows) == 2 * len(shapes.CONTENDERS)

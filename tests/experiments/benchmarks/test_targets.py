"""Targets: what was promised, met or short."""

import pytest

from graphattn.experiments.benchmarks import targets
from graphattn.experiments.benchmarks.targets import Target, ratio_target


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target(5), 5, ">= 5: met"),
        (Target(5), 4.99, ">= 5: short"),
        (Target(2, at_least=False, unit="times"), 2, "<= 2 times: met"),
        (Target(4, at_least=False, unit="GiB"), 4.01, "<= 4 GiB: short"),
    ],
)
def test_verdicts(target, value, verdict):
    assert target.verdict(value) == verdict


@pytest.mark.parametrize(
    ("task", "peer", "workload", "bound"),
    [
        ("forward", "dense", "128x22", 5),
        ("forward", "dense", "2x8192", 11),
        ("forward + backward", "dgl", "128x201", 6),
        ("inference", "transformer", "8x2048", 4),
        ("training step", "transformer", "2x8192", 5),
    ],
)
def test_promised_ratios(task, peer, workload, bound):
    assert ratio_target(task, peer, workload) == Target(bound)


@pytest.mark.parametrize(
    ("task", "peer", "workload"),
    [("forward", "pyg", "128x22"), ("forward", "dense", "32x512"), ("forward + backward", "flex", "128x22")],
)
def test_nothing_was_promised_elsewhere(task, peer, workload):
    assert ratio_target(task, peer, workload) is None


def test_every_promise_has_all_shapes():
    assert {len(bounds) for bounds in targets.RATIOS.values()} == {len(targets.SHAPES)}

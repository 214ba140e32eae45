"""``bench pretrained --families``: contenders compute the same vectors, and each family has its rows."""

import pytest
import torch

from graphattn.experiments.benchmarks import _families as families
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._pretrained import TextProblem
from graphattn.experiments.benchmarks._workloads import Workload

pytest.importorskip("transformers", reason="the peers are models of transformers")

RAGGED = Workload("some", ((5, 9, 3), (12, 4)))


@pytest.mark.parametrize("family", families.FAMILIES)
def test_contenders_compute_the_same_vectors(family):
    problem = TextProblem(RAGGED)
    packed, padded, by_length = families.list_contenders(family, 16)
    expected = padded.vectors(problem)
    torch.testing.assert_close(by_length.vectors(problem), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.vectors(problem), expected, rtol=1e-4, atol=1e-5)


def test_every_family_has_rows():
    report = families.measure(Settings(("2x6",), repeats=1), divisor=16)
    rows = [(row["task"], row["contender"]) for row in report.rows]
    for family in families.FAMILIES:
        found = [name for task, name in rows if task == f"inference, {family}"]
        assert found == ["ours", "transformers"]
    assert any("one length" in line for line in report.left_out)

"""``bench mtsa``: a row for each layer, with its memory, and contenders that compute what they claim."""

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import _mtsa as mtsa
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._mtsa import DenseMultiDim
from graphattn.experiments.benchmarks._workloads import Workload, uniform


def test_rows_with_time_and_memory(fix_memory):
    fix_memory({"ours": 2, "multihead": 3, "cnn": 3})
    report = mtsa.measure(Settings(("2x6", "1x128"), repeats=1, peers=("multihead", "cnn")))
    assert [(row["workload"], row["contender"]) for row in report.rows] == [
        (workload, name) for workload in ("2x6", "1x128") for name in ("ours", "multihead", "cnn")
    ]
    cells = [report.columns["memory, peer / ours"](row) for row in report.rows]
    assert cells == ["", "1.50", "1.50"] * 2


def test_disa_attends_in_one_direction_per_half():
    torch.manual_seed(0)
    tokens = torch.randn(1, 6, 600)
    layer = DenseMultiDim("dense", "").make_module(None)
    perturbed = tokens.clone()
    perturbed[0, 3] += 1
    differs = (layer(tokens) - layer(perturbed))[0].abs() > 1e-6
    forward, backward = (half.any(1) for half in differs.chunk(2, -1))
    assert forward[4:].all()
    assert not forward[1:3].any()  # the first token attends to none, so it takes the mean of all
    assert backward[:3].all()
    assert not backward[4].any()


def test_different_lengths_are_an_error_before_anything_is_measured(monkeypatch):
    varied = [uniform(64, 2), Workload("mr", ((3, 4),))]
    monkeypatch.setattr(mtsa, "parse_workloads", lambda names: (varied, []))
    monkeypatch.setattr(mtsa, "compare", lambda *arguments, **options: pytest.fail("it measured"))
    with pytest.raises(ConfigError) as caught:
        mtsa.measure(Settings(("64x2", "mr")))
    assert str(caught.value) == "--lengths has 'mr'; give batches of one length, 64x128 for example"

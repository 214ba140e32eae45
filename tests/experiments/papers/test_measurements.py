"""Mirrored summation: targets, data and training."""

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._measurements import (
    MirroredModel,
    MirroredOptions,
    draw_batches,
    make_batcher,
    make_mirrored_options,
    run_mirrored,
)

SMALL = {"length": 6, "features": 3, "samples": 40, "batch_size": 16, "terms": 2}


def test_batches_depend_on_the_seed_alone():
    task = MirroredOptions(**SMALL)
    first, again, other = (list(draw_batches(task, seed)) for seed in (0, 0, 1))
    assert [tuple(batch.shape) for batch in first] == [(16, 6, 3), (16, 6, 3), (8, 6, 3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("encoder", ["bilstm", "transformer", "ms-trans"])
def test_a_sequence_alone_and_in_a_batch(encoder):
    task, options = make_mirrored_options(encoder, {"task": SMALL, "encoder": {"hidden": 20}})
    model = MirroredModel(task, options).eval()
    inputs, batch = torch.rand(3, 6, 3), make_batcher(model, task)
    whole = model(batch(3), inputs)
    for number in range(3):
        torch.testing.assert_close(model(batch(1), inputs[[number]])[0], whole[number])


@pytest.mark.slow
def test_a_run_learns_more_than_the_mean_and_is_repeatable():
    changes = {"task": {**SMALL, "samples": 800, "epochs": 8}, "encoder": {"hidden": 20, "layers": 1}}
    row = run_mirrored("ms-trans", 0, changes)
    assert row["mse"] < row["mse_of_mean"]
    assert row["mse_of_mean"] == pytest.approx(2 * 7 / 144, rel=0.1)  # each product has variance 1/9 - 1/16
    short = {**changes, "task": {**SMALL, "epochs": 2}}
    assert run_mirrored("ms-trans", 0, short)["mse"] == run_mirrored("ms-trans", 0, short)["mse"]


def test_more_terms_than_vectors():
    with pytest.raises(ConfigError, match="terms is 7; a sequence has 6 vectors"):
        make_mirrored_options("bilstm", {"task": {**SMALL, "terms": 7}})

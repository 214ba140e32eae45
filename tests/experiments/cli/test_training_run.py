"""What is told of a finished run."""

from types import SimpleNamespace

import pytest

from graphattn.experiments.cli.training_run import best_epoch


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([80.0, 90.0, 85.0], 1),
        ([90.0, 80.0, 90.0], 2),  # the weights of the last of equal epochs are kept
        ([None, None, None], 2),
    ],
)
def test_the_epoch_whose_weights_were_kept(figures, expected):
    rows = [{"epoch": epoch, **({} if one is None else {"dev_accuracy": one})} for epoch, one in enumerate(figures)]
    made = SimpleNamespace(history_=rows, training=SimpleNamespace(metric=None), main_metric="accuracy")
    assert best_epoch(made)["epoch"] == expected

"""Learning rates over the steps of a training."""

import math

import pytest

from graphattn.models import TrainingOptions
from graphattn.models.training._optimizer import relative_rate


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # 4 epochs of 5 batches: 20 steps, 4 of them warm-up
        ("linear", [0.25, 0.5, 0.75, 1, *(1 - k / 16 for k in range(16)), 0, 0]),
        ("constant", [0.25, 0.5, 0.75, 1, *[1] * 16, 1, 1]),
        ("cosine", [0.25, 0.5, 0.75, 1, *((1 + math.cos(math.pi * k / 16)) / 2 for k in range(16)), 0, 0]),
        ("inverse-sqrt", [0.25, 0.5, 0.75, 1, *(2 / math.sqrt(step) for step in range(5, 23))]),
    ],
)
def test_schedule(schedule, expected):
    options = TrainingOptions(warmup=0.2, schedule=schedule)
    assert [relative_rate(step, 20, options) for step in range(22)] == pytest.approx(expected)


def test_warmup_steps_override_warmup():
    options = TrainingOptions(warmup=0.2, warmup_steps=2, schedule="inverse-sqrt")
    assert [relative_rate(step, 20, options) for step in range(8)] == pytest.approx(
        [0.5, *(math.sqrt(2 / k) for k in range(2, 9))]
    )


def test_no_warmup():
    options = TrainingOptions(warmup=0.0)
    assert [relative_rate(step, 4, options) for step in range(4)] == pytest.approx([1, 1, 2 / 3, 1 / 3])

"""Learning rates over the steps of a training."""

import math

import pytest
import torch
from torch import nn

from graphattn.models import TrainingOptions
from graphattn.models.training._optimizer import clip_gradients, count_parameters, make_optimizer, relative_rate


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


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("exponential", [1, 1, 0.9, 0.9, 0.81, 0.81]),
        ("inverse", [1, 1, 1 / 1.1, 1 / 1.1, 1 / 1.2, 1 / 1.2]),
    ],
)
def test_schedules_that_fall_after_each_epoch(schedule, expected):
    options = TrainingOptions(warmup=0.0, schedule=schedule, decay=0.1, epochs=3)
    assert [relative_rate(step, 6, options) for step in range(6)] == pytest.approx(expected)
    rising = TrainingOptions(warmup_steps=2, schedule=schedule, decay=0.1, epochs=3)
    assert [relative_rate(step, 6, rising) for step in range(6)] == pytest.approx([0.5, *expected[1:]])


def test_gradient_descent_with_momentum():
    """Two steps against the formula; the bias has no weight decay."""
    layer = nn.Linear(1, 1)
    weight, bias = layer.weight.item(), layer.bias.item()
    options = TrainingOptions(optimizer="sgd", learning_rate=0.1, weight_decay=0.5)
    optimizer = make_optimizer(layer, {}, options)
    velocities = [0.0, 0.0]
    for gradient in (2.0, -1.0):
        velocities = [0.9 * velocities[0] + gradient + 0.5 * weight, 0.9 * velocities[1] + gradient]
        weight, bias = weight - 0.1 * velocities[0], bias - 0.1 * velocities[1]
        layer.weight.grad, layer.bias.grad = torch.tensor([[gradient]]), torch.tensor([gradient])
        optimizer.step()
    assert [layer.weight.item(), layer.bias.item()] == pytest.approx([weight, bias], rel=1e-5)


def test_warmup_steps_override_warmup():
    options = TrainingOptions(warmup=0.2, warmup_steps=2, schedule="inverse-sqrt")
    assert [relative_rate(step, 20, options) for step in range(8)] == pytest.approx(
        [0.5, *(math.sqrt(2 / k) for k in range(2, 9))]
    )


def test_no_warmup():
    options = TrainingOptions(warmup=0.0)
    assert [relative_rate(step, 4, options) for step in range(4)] == pytest.approx([1, 1, 2 / 3, 1 / 3])


def test_parameters_are_counted(parts):
    model, _ = parts()
    model.embedding.trained.requires_grad_(False)
    expected = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.trained")
    assert count_parameters(model) == expected


@pytest.mark.parametrize("size", [0.0, 1.0, 5.0, 5.001, 80.0, math.inf, math.nan])
def test_clipped_gradients_are_those_of_pytorch(size):
    """Bit by bit, for gradients that are shorter and longer than the maximum, which is 5."""

    def draw():
        layers = nn.ModuleList([nn.Linear(3, 2), nn.Linear(2, 2)])
        for number, parameter in enumerate(layers[0].parameters()):
            direction = torch.arange(parameter.numel(), dtype=torch.float32).add(number).view_as(parameter)
            parameter.grad = direction * (size / math.sqrt(60))
        return layers

    ours, theirs = draw(), draw()
    clip_gradients(ours.parameters(), 5.0)
    nn.utils.clip_grad_norm_(theirs.parameters(), 5.0)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad, rtol=0, atol=0, equal_nan=True)

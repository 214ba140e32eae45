"""The average of the weights against its formula, and its independence of training."""

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, LearningRateFinder, StochasticWeightAveraging

from graphattn.exceptions import ConfigError
from graphattn.models import TrainingOptions
from graphattn.models.training._averaging import WeightAverage
from graphattn.models.training._loop import train
from graphattn.models.training._module import TrainingModule

DECAY = 0.4


def trained(model):
    return [p.detach().double().clone() for p in model.parameters() if p.requires_grad]


class Steps(Callback):
    """Record the weights before the first step and after each one."""

    def __init__(self):
        self.seen = []

    def on_fit_start(self, trainer, pl_module):
        self.seen.append(trained(pl_module.model))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == len(self.seen):
            self.seen.append(trained(pl_module.model))


def average_steps(steps):
    """a_n = d_n a_(n-1) + (1 - d_n) w_n with d_n = min(decay, (1 + n) / (10 + n))."""
    average = steps[0]
    for n, weights in enumerate(steps[1:], 1):
        kept = min(DECAY, (1 + n) / (10 + n))
        average = [kept * old + (1 - kept) * new for old, new in zip(average, weights, strict=True)]
    return average


def average_as_lightning(steps):
    average = steps[1]
    for weights in steps[2:]:
        average = [DECAY * old + (1 - DECAY) * new for old, new in zip(average, weights, strict=True)]
    return average


def average_epochs(steps):
    """The mean after the last two epochs of three steps."""
    ends = steps[3::3][-2:]
    return [sum(weights) / len(ends) for weights in zip(*ends, strict=True)]


AVERAGES = {
    "steps": ({"average": DECAY}, average_steps),
    "steps of several batches": ({"average": DECAY, "batch_size": 4, "accumulate": 2}, average_steps),
    "epochs": ({"average_epochs": 2}, average_epochs),
    "lightning's": ({"average": None}, average_as_lightning),
    "lightning's in place of ours": ({"average": 0.9}, average_as_lightning),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AVERAGES)
def test_the_average_is_evaluated_and_the_best_is_kept(name, parts):
    (settings, average), (model, corpus) = AVERAGES[name], parts()
    steps, kept, figures = Steps(), [], iter([50.0, 80.0, 70.0])

    def measure(model, dev):
        kept.append((trained(model), len(steps.seen)))
        return {"dev_accuracy": next(figures)}

    options = TrainingOptions(**{"epochs": 3, "batch_size": 8, **settings})
    callbacks = [steps, *([EMAWeightAveraging(decay=DECAY)] if average is average_as_lightning else [])]
    train(model, corpus, options, dev=corpus, measure=measure, callbacks=callbacks)
    assert [count for _, count in kept] == [4, 7, 10]
    assert (1 + 4) / (10 + 4) < DECAY < (1 + 6) / (10 + 6)  # both parts of the minimum
    for measured, count in kept:
        for actual, expected in zip(measured, average(steps.seen[:count]), strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
    assert all(map(torch.equal, trained(model), kept[1][0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", AVERAGES)
def test_without_a_dev_set_the_average_after_the_last_epoch_is_kept(name, parts):
    (settings, average), (model, corpus), steps = AVERAGES[name], parts(), Steps()
    callbacks = [steps, *([EMAWeightAveraging(decay=DECAY)] if average is average_as_lightning else [])]
    train(model, corpus, TrainingOptions(**{"epochs": 3, "batch_size": 8, **settings}), callbacks=callbacks)
    for actual, expected in zip(trained(model), average(steps.seen), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("callback", "option"),
    [(StochasticWeightAveraging(swa_lrs=1e-2), "average_epochs"), (LearningRateFinder(), "learning_rate")],
    ids=["averaging", "learning rate"],
)
def test_callbacks_that_change_the_schedule_name_what_to_use(callback, option, corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("classifier").fit(*corpus("classifier"), callbacks=[callback])
    assert caught.value.options == (option,)


@pytest.mark.parametrize("callback", [Callback, print])
def test_what_is_no_callback_is_named(callback, corpus, tiny):
    with pytest.raises(ConfigError, match=f"callbacks has .*{callback.__name__}.*; give instances of Lightning's"):
        tiny("classifier").fit(*corpus("classifier"), callbacks=[callback])


@pytest.mark.slow
def test_the_average_does_not_affect_training(corpus, tiny):
    texts, labels = corpus("classifier")
    settings = {"epochs": 3, "dev_fraction": 0.2}
    plain, averaged = (
        tiny("classifier", training={**settings, **more}).fit(texts, labels) for more in ({}, {"average": DECAY})
    )
    losses = [[row["train_loss"] for row in estimator.history_] for estimator in (plain, averaged)]
    assert losses[0] == losses[1]
    assert np.abs(plain.predict_proba(texts) - averaged.predict_proba(texts)).max() > 1e-4


def test_frozen_weights_are_not_copied(parts):
    model, _ = parts()
    module = TrainingModule(model, TrainingOptions(epochs=1), [], None, None)
    model.embedding.trained.requires_grad_(False)
    average = WeightAverage(DECAY)
    average.on_fit_start(None, module)
    assert len(average.average) == len(list(model.parameters())) - 1


def test_an_error_inside_swap_in_restores_the_weights():
    model = torch.nn.Linear(2, 1)
    average = WeightAverage(DECAY)
    average.average = [torch.full_like(weight, 7.0) for weight in model.parameters()]
    before = [weight.detach().clone() for weight in model.parameters()]

    def interrupted():
        with average.swap_in(model):
            assert model.weight.detach().eq(7).all()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(map(torch.equal, model.parameters(), before))

"""The average of the weights against its formula, its independence of training, and resuming."""

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, LearningRateFinder, StochasticWeightAveraging

from graphattn.exceptions import ConfigError
from graphattn.models import TrainingOptions
from graphattn.models.training._averaging import WeightAverage
from graphattn.models.training._loop import train
from graphattn.models.training._module import TrainingModule

DECAY = 0.4


def trained(model):
    return [p.detach().double().clone() for p in model.parameters() if p.requires_grad]


@pytest.fixture
def weights_of_steps(monkeypatch):
    """Record the weights before the first step and after each one."""
    seen = []
    original = torch.optim.Adam.step

    def step(self, closure=None):
        result = original(self, closure)
        seen.append({id(p): p.detach().double().clone() for group in self.param_groups for p in group["params"]})
        return result

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    return seen


def expected_average(model, start, steps):
    """a_n = d_n a_(n-1) + (1 - d_n) w_n with d_n = min(decay, (1 + n) / (10 + n))."""
    average = start
    for n, weights in enumerate(steps, 1):
        kept = min(DECAY, (1 + n) / (10 + n))
        own = [weights[id(p)] for p in model.parameters() if p.requires_grad]
        average = [kept * old + (1 - kept) * new for old, new in zip(average, own, strict=True)]
    return average


def close(some, others):
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_model_ends_with_the_average(accumulate, parts, weights_of_steps):
    model, corpus = parts()
    weights_of_steps.clear()
    start = trained(model)
    train(model, corpus, TrainingOptions(epochs=4, batch_size=4, accumulate=accumulate, average=DECAY))
    assert len(weights_of_steps) == 4 * 6 // accumulate
    assert (1 + 4) / (10 + 4) < DECAY < (1 + 6) / (10 + 6)  # both parts of the minimum
    close(trained(model), expected_average(model, start, weights_of_steps))
    with pytest.raises(AssertionError):
        close(trained(model), [weights_of_steps[-1][id(p)] for p in model.parameters() if p.requires_grad])


def test_the_average_is_evaluated_and_the_best_is_kept(parts, weights_of_steps):
    model, corpus = parts()
    weights_of_steps.clear()
    start, kept, figures = trained(model), [], iter([50.0, 80.0, 70.0])

    def evaluate(decisions):
        kept.append((trained(model), len(weights_of_steps)))
        return {"accuracy": next(figures)}

    train(model, corpus, TrainingOptions(epochs=3, batch_size=8, average=DECAY), dev=corpus, evaluate=evaluate)
    for measured, steps in kept:
        close(measured, expected_average(model, start, weights_of_steps[:steps]))
    assert [steps for _, steps in kept] == [3, 6, 9]
    assert all(torch.equal(one, other) for one, other in zip(trained(model), kept[1][0], strict=True))


@pytest.mark.parametrize("average", [None, 0.9], ids=["", "in place of ours"])
def test_the_average_of_lightnings_callback_is_evaluated_and_the_best_is_kept(average, parts, weights_of_steps):
    model, corpus = parts()
    weights_of_steps.clear()
    kept, figures = [], iter([50.0, 80.0, 70.0])

    def evaluate(decisions):
        kept.append((trained(model), len(weights_of_steps)))
        return {"accuracy": next(figures)}

    options = TrainingOptions(epochs=3, batch_size=8, average=average)
    callbacks = [EMAWeightAveraging(decay=DECAY)]
    train(model, corpus, options, dev=corpus, evaluate=evaluate, callbacks=callbacks)
    steps = [[weights[id(p)] for p in model.parameters() if p.requires_grad] for weights in weights_of_steps]
    for measured, count in kept:
        expected = steps[0]
        for own in steps[1:count]:
            expected = [DECAY * old + (1 - DECAY) * new for old, new in zip(expected, own, strict=True)]
        close(measured, expected)
    assert [count for _, count in kept] == [3, 6, 9]
    assert all(torch.equal(one, other) for one, other in zip(trained(model), kept[1][0], strict=True))


def test_a_killed_run_with_lightnings_callback_resumes(corpus, tiny, tmp_path, killed_at, same_weights):
    texts, labels = corpus("classifier")
    settings = {"epochs": 3, "dev_fraction": 0.2}
    undisturbed = tiny("classifier", training=settings).fit(texts, labels, callbacks=[EMAWeightAveraging(decay=DECAY)])
    disturbed = tiny("classifier", training={**settings, "run_dir": str(tmp_path), "logs": False})
    with killed_at(2, 1):
        disturbed.fit(texts, labels, callbacks=[EMAWeightAveraging(decay=DECAY)])
    disturbed.fit(texts, labels, callbacks=[EMAWeightAveraging(decay=DECAY)])
    assert disturbed.history_ == undisturbed.history_
    assert same_weights(disturbed, undisturbed)


@pytest.mark.parametrize(
    ("callback", "option"),
    [(StochasticWeightAveraging(swa_lrs=1e-2), "average_epochs"), (LearningRateFinder(), "learning_rate")],
    ids=["averaging", "learning rate"],
)
def test_callbacks_that_change_the_schedule_name_what_to_use(callback, option, corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("classifier").fit(*corpus("classifier"), callbacks=[callback])
    assert caught.value.options == (option,)


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


@pytest.mark.parametrize("at", [(0, 3), (2, 1)], ids=["first epoch", "last epoch"])
@pytest.mark.parametrize("batches", [{}, {"batch_size": 4, "accumulate": 2}], ids=["", "several batches a step"])
def test_a_killed_run_resumes_with_identical_results(batches, at, corpus, tiny, tmp_path, killed_at):
    """Identical bits, also with checkpoints inside epochs."""
    texts, labels = corpus("classifier")
    settings = {"epochs": 3, "dev_fraction": 0.2, "average": DECAY, **batches}
    undisturbed = tiny("classifier", training=settings).fit(texts, labels)
    settings |= {"run_dir": str(tmp_path), "logs": False, "checkpoint_minutes": 0.0}
    disturbed = tiny("classifier", training=settings)
    with killed_at(*at):
        disturbed.fit(texts, labels)
    disturbed.fit(texts, labels)
    assert disturbed.history_ == undisturbed.history_
    ours, theirs = disturbed.model_.state_dict(), undisturbed.model_.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_with_another_average_is_not_resumed(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier", 16)
    settings = {"epochs": 1, "run_dir": str(tmp_path), "logs": False}
    tiny("classifier", training={**settings, "average": 0.9}).fit(texts, labels)
    with pytest.raises(ConfigError) as caught:
        tiny("classifier", training={**settings, "average": 0.8}).fit(texts, labels)
    assert "average: 0.9, now 0.8" in str(caught.value)


def test_the_mean_of_the_last_epochs_is_evaluated_and_kept(parts, weights_of_steps):
    model, corpus = parts()
    weights_of_steps.clear()
    kept, figures = [], iter([50.0, 60.0, 80.0, 70.0])

    def evaluate(decisions):
        kept.append((trained(model), len(weights_of_steps)))
        return {"accuracy": next(figures)}

    train(model, corpus, TrainingOptions(epochs=4, batch_size=8, average_epochs=3), dev=corpus, evaluate=evaluate)
    ends = [[weights_of_steps[steps - 1][id(p)] for p in model.parameters() if p.requires_grad] for _, steps in kept]
    for epoch, (measured, _) in enumerate(kept):
        last = ends[max(0, epoch - 2) : epoch + 1]
        close(measured, [sum(own) / len(last) for own in zip(*last, strict=True)])
    assert all(torch.equal(one, other) for one, other in zip(trained(model), kept[2][0], strict=True))


def test_a_killed_run_keeps_the_weights_of_epochs(corpus, tiny, tmp_path, killed_at):
    texts, labels = corpus("classifier")
    settings = {"epochs": 4, "dev_fraction": 0.2, "average_epochs": 3}
    undisturbed = tiny("classifier", training=settings).fit(texts, labels)
    disturbed = tiny("classifier", training={**settings, "run_dir": str(tmp_path), "logs": False})
    with killed_at(2, 1):
        disturbed.fit(texts, labels)
    disturbed.fit(texts, labels)
    assert disturbed.history_ == undisturbed.history_
    expected = undisturbed.model_.state_dict()
    assert all(torch.equal(own, expected[name]) for name, own in disturbed.model_.state_dict().items())


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
    assert all(torch.equal(own, old) for own, old in zip(model.parameters(), before, strict=True))

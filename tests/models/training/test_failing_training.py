"""Failing and interrupted training: errors, and the weights that are kept."""

import re
import signal
import sys

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from graphattn.exceptions import DeviceMemoryError, NotFittedError, TrainingError
from graphattn.models import TrainingOptions, load
from graphattn.models.training import _lightning
from graphattn.models.training._loop import train


class Interruption(Callback):
    """Call a function with the module before a batch of an epoch, or after it."""

    def __init__(self, epoch, batch, act, *, after=False):
        self.place, self.act, self.after = (epoch, batch), act, after

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if not self.after and self.place == (trainer.current_epoch, batch_idx):
            self.act(pl_module)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if self.after and self.place == (trainer.current_epoch, batch_idx):
            self.act(pl_module)


def spoil(module):
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))


def interrupt(module):
    raise KeyboardInterrupt


def test_nan_loss(corpus, tiny, tmp_path, same_weights):
    texts, labels = corpus("classifier", 24)
    settings = {"dev_fraction": 0.0, "batch_size": 8, "schedule": "constant", "warmup": 0.0}
    good = tiny("classifier", training={"epochs": 2, **settings}).fit(texts, labels)
    estimator = tiny("classifier", training={"epochs": 9, **settings})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(texts, labels, callbacks=[Interruption(2, 1, spoil)])
    assert str(caught.value) == (
        "the loss is nan in epoch 3, batch 2; the weights of the best epoch so far are kept. "
        "Lower learning_rate or clip, or set precision=32"
    )
    assert same_weights(estimator, good)
    assert not estimator.model_.training
    assert [row["epoch"] for row in estimator.history_] == [1, 2]
    chances = estimator.predict_proba(texts)
    assert np.array_equal(load(estimator.save(tmp_path / "model")).predict_proba(texts), chances)


class ShortMemory(Callback):
    """Raises PyTorch's error before the second step."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total ...")


def test_a_batch_that_does_not_fit_is_named(corpus, tiny):
    texts, labels = corpus("classifier", 24)
    estimator = tiny("classifier", training={"dev_fraction": 0.0, "batch_size": 8})
    with pytest.raises(DeviceMemoryError) as caught:
        estimator.fit(texts, labels, callbacks=[ShortMemory()])
    assert re.fullmatch(
        r"the GPU's memory is too small for batch 2 of epoch 1 \(8 texts, \d+ tokens\) \(the last tensor: 2.00 GiB\). "
        "Lower batch_size or max_tokens and raise accumulate, or give device=cpu",
        str(caught.value),
    )


def test_a_nan_loss_in_the_first_epoch_leaves_no_model(corpus, tiny):
    estimator = tiny("classifier", training={"learning_rate": 1e30, "clip": None, "warmup": 0.0})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(*corpus("classifier", 24))
    assert str(caught.value).startswith("the loss is ")
    assert str(caught.value).endswith(
        " in epoch 1, batch 2; no epoch has ended. Lower learning_rate or clip, or set precision=32"
    )
    with pytest.raises(NotFittedError):
        estimator.predict(["film"])


def test_nan_weights_after_the_last_step(corpus, tiny):
    estimator = tiny("classifier", training={"epochs": 1, "batch_size": 24, "dev_fraction": 0.0})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(*corpus("classifier", 24), callbacks=[Interruption(0, 0, spoil, after=True)])
    assert str(caught.value) == (
        "weights are not finite after epoch 1; no epoch has ended. Lower learning_rate or clip, or set precision=32"
    )


def test_ctrl_c_keeps_the_best_epoch(corpus, tiny):
    texts, labels = corpus("classifier", 24)
    handler = signal.getsignal(signal.SIGINT)
    estimator = tiny("classifier", training={"epochs": 5})
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(texts, labels, callbacks=[Interruption(2, 0, interrupt)])
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(estimator.history_) == 2
    assert len(estimator.predict(texts)) == 24


def test_ctrl_c_works_again_after_lightning_ignored_it(parts, monkeypatch):
    """As PyTorch does when it waits for other processes."""
    handler = signal.getsignal(signal.SIGINT)

    def fit(self, *arguments, **keywords):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(1)

    model, corpus = parts()
    monkeypatch.setattr(_lightning.pl.Trainer, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        train(model, corpus, TrainingOptions(epochs=1), callbacks=[Callback()])
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(("first", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, RuntimeError)])
def test_a_clean_up_error_hides_other_errors_but_not_ctrl_c(parts, monkeypatch, first, raised):
    def fit(self, *arguments, **keywords):
        try:
            raise first
        finally:
            raise RuntimeError("there is no loader yet")

    model, corpus = parts()
    monkeypatch.setattr(_lightning.pl.Trainer, "fit", fit)
    with pytest.raises(raised):
        train(model, corpus, TrainingOptions(epochs=1), callbacks=[Callback()])

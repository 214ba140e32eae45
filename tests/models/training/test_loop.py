"""Training: reproducibility, the selected epoch, optimiser steps and batches."""

import logging
import math
from collections import Counter

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from graphattn.builders import _batching as batching
from graphattn.models import TrainingOptions
from graphattn.models._encoders import ENCODERS
from graphattn.models.training._loop import train

NO_DROPOUT = {"encoder__dropout": 0.0, "head__head_dropout": 0.0, "inputs__embedding_dropout": 0.0}


@pytest.fixture
def steps(monkeypatch):
    """Record the learning rate and the gradient norm of every step."""
    seen = []
    original = torch.optim.Adam.step

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        seen.append((self.param_groups[0]["lr"], norm))
        original(self)
        return loss

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    return seen


class Batches(Callback):
    """Record the epoch and the shards of each training batch."""

    def __init__(self):
        self.seen = []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.seen.append((trainer.current_epoch, batch))


def read(path):
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"accumulate": 3},
        {"precision": "bf16", "average": 0.9, "clip": None, "schedule": "linear"},
        {"optimizer": "sgd", "patience": 1, "average_epochs": 2},
    ],
)
def test_the_loop_for_one_device_does_what_lightning_does(settings, corpus, tiny, tmp_path, same_weights):
    training = {"epochs": 3, "batch_size": 4, "logs": True, **settings}
    texts, labels = corpus("classifier", 24)
    ours, lightnings = (
        tiny("classifier", training={**training, "run_dir": str(tmp_path / name)}).fit(texts, labels, callbacks=others)
        for name, others in (("ours", []), ("lightnings", [Callback()]))
    )
    assert ours.history_ == lightnings.history_
    assert same_weights(ours, lightnings)
    saved, expected = (read(tmp_path / name / "last.ckpt") for name in ("ours", "lightnings"))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "losses", "epoch", "global_step", "stopped"):
        torch.testing.assert_close(saved[part], expected[part], rtol=0, atol=0)
    of_ours = saved["callbacks"]
    torch.testing.assert_close(of_ours, {name: expected["callbacks"][name] for name in of_ours}, rtol=0, atol=0)
    assert {path.name for path in (tmp_path / "ours").rglob("*.csv")} == {"metrics.csv"}


@pytest.mark.parametrize("goes_on", ["ours", "lightning's"])
@pytest.mark.parametrize("place", [(1, 0), (1, 3)])
def test_either_loop_continues_the_other(goes_on, place, corpus, tiny, tmp_path, same_weights, killed_at):
    texts, labels = corpus("classifier", 24)
    training = {"epochs": 3, "batch_size": 4, "accumulate": 2, "run_dir": str(tmp_path), "checkpoint_minutes": 1e-9}
    whole = tiny("classifier", training={**training, "run_dir": None, "checkpoint_minutes": None}).fit(texts, labels)
    before, after = ([Callback()], []) if goes_on == "ours" else ([], [Callback()])
    with killed_at(*place):
        tiny("classifier", training=training).fit(texts, labels, callbacks=before)
    steps = Batches()
    resumed = tiny("classifier", training=training).fit(texts, labels, callbacks=[*after, *([steps] if after else [])])
    assert resumed.history_ == whole.history_
    assert same_weights(resumed, whole)
    assert not steps.seen or steps.seen[0][0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "crf", "translator"])
def test_results_are_deterministic_for_a_seed(kind, corpus, tiny, same_weights):
    first, second, other = (
        tiny(kind, training={"epochs": 1, "seed": seed}).fit(*corpus(kind, 16)) for seed in (0, 0, 1)
    )
    assert same_weights(first, second)
    assert first.history_ == second.history_
    assert not same_weights(first, other)


def test_steps_follow_the_schedule(parts, steps):
    model, corpus = parts()
    steps.clear()
    options = TrainingOptions(epochs=3, batch_size=4, learning_rate=0.02, accumulate=4, warmup=0.5)
    train(model, corpus, options)  # 6 batches make 2 steps an epoch, 6 in all
    assert [rate for rate, _ in steps] == pytest.approx([0.02 * x for x in (1 / 3, 2 / 3, 1, 1, 2 / 3, 1 / 3)])


@pytest.mark.parametrize("clip", [0.01, None])
def test_clipping(clip, parts, steps):
    model, corpus = parts()
    steps.clear()
    train(model, corpus, TrainingOptions(epochs=1, batch_size=8, clip=clip))
    norms = [norm for _, norm in steps]
    if clip is None:
        assert max(norms) > 0.1
    else:
        assert norms == pytest.approx([clip] * len(norms), rel=1e-3)


@pytest.mark.slow
def test_label_smoothing_reaches_the_head(corpus, tiny):
    for kind in ("classifier", "multilabel", "pair", "tagger"):
        estimator = tiny(kind, training={"epochs": 1, "label_smoothing": 0.3}).fit(*corpus(kind, 12))
        assert estimator.model_.head.label_smoothing == 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patience", "values", "epochs"),
    [
        (None, [50, 70, 60, 70], 4),
        (None, [50, 80, 80, 70], 4),
        (1, [50, 60, 60, 70], 3),
        (2, [50, 60, 55, 60, 90], 4),
        (2, [10, 9, 20, 19, 30, 29], 6),
        (1, [0, 0, 0, 5, 0, 9], 5),  # epochs before the first success do not count
    ],
)
def test_the_best_epoch_is_kept(patience, values, epochs, parts, same_weights):
    model, corpus = parts()
    left, kept = iter(values), []

    def measure(model, dev):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"dev_accuracy": next(left)}

    options = TrainingOptions(epochs=len(values), patience=patience)
    rows = train(model, corpus, options, dev=corpus, measure=measure)
    assert [row["dev_accuracy"] for row in rows] == values[:epochs]
    assert [row["epoch"] for row in rows] == [*range(1, epochs + 1)]
    best = max(range(epochs), key=lambda epoch: (values[epoch], epoch))  # ties go to the last epoch
    assert same_weights(dict(model.state_dict()), kept[best])
    assert not same_weights(kept[best], kept[best - 1])


def test_patience_needs_a_dev_set(parts):
    assert len(train(*parts(), TrainingOptions(epochs=3, patience=1))) == 3


@pytest.mark.slow
def test_two_half_batches_give_the_step_of_one_batch(corpus, tiny):
    texts, labels = corpus("classifier", 16)
    runs = [
        tiny("classifier", training={"epochs": 6, "dev_fraction": 0.0, **sizes}).set_params(**NO_DROPOUT)
        for sizes in ({"batch_size": 16}, {"batch_size": 8, "accumulate": 2}, {"batch_size": 8})
    ]
    whole, halves, more_steps = (run.fit(texts, labels) for run in runs)
    losses = [[row["train_loss"] for row in run.history_] for run in (whole, halves, more_steps)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(whole.predict_proba(texts), halves.predict_proba(texts), rtol=0, atol=1e-4)
    assert np.abs(np.subtract(losses[0], losses[2])).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "encoder"),
    [
        *(("tagger", encoder) for encoder in ENCODERS),
        *((kind, "ms-trans") for kind in ("classifier", "multilabel", "pair", "crf")),
        ("classifier", "duo"),  # which computes means before its last layer
        ("translator", "transformer"),
    ],
)
def test_bfloat16(kind, encoder, corpus, tiny):
    estimator = tiny(kind, encoder, training={"precision": "bf16", "epochs": 1}).fit(*corpus(kind, 24))
    losses = [row["train_loss"] for row in estimator.history_]
    assert {parameter.dtype for parameter in estimator.model_.parameters()} == {torch.float32}
    exact = tiny(kind, encoder, training={"epochs": 1}).fit(*corpus(kind, 24))
    assert losses != [row["train_loss"] for row in exact.history_]
    assert losses == pytest.approx([row["train_loss"] for row in exact.history_], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "size"),
    [
        ({"max_tokens": 30}, lambda graph: graph.num_nodes("token")),
        ({"max_edges": 150}, lambda graph: sum(edges.num_edges for edges in graph.edges.values())),
        ({"batch_size": 5}, lambda graph: len(graph.batch_num_nodes())),
    ],
    ids=["tokens", "edges", "sentences"],
)
def test_budgets(budget, size, corpus, tiny, monkeypatch):
    """Each sentence once per epoch, within the budget, although the number of batches changes between epochs."""
    monkeypatch.setattr(batching, "POOL", 2)
    texts, labels = corpus("classifier", 60)
    limit = next(iter(budget.values()))
    training = {"batch_size": 100, "epochs": 5, "dev_fraction": 0.0, "seed": 2, **budget}
    tiny("classifier", training=training).fit(texts, labels, callbacks=[batches := Batches()])
    lengths = Counter(len(text.split()) + 1 for text in texts)
    for epoch in range(5):
        own = [shard for number, shards in batches.seen if number == epoch for shard in shards]
        assert Counter(n for batch in own for n in batch.graph.batch_num_nodes("token").tolist()) == lengths
        assert all(size(batch.graph) <= limit or batch.size == 1 for batch in own)
    counts = [sum(number == epoch for number, _ in batches.seen) for epoch in range(5)]
    assert "batch_size" in budget or max(counts[1:]) > counts[0]


@pytest.mark.slow
def test_long_texts_fill_a_batch_before_there_are_32(corpus, tiny):
    texts, labels = corpus("classifier")
    budgets = {"batch_size": TrainingOptions().batch_size, "max_tokens": TrainingOptions().max_tokens}
    model = tiny("classifier", training={"epochs": 1, "dev_fraction": 0.0, **budgets})
    model.fit([*texts, *["slow " * 1_100] * 40], labels * 2, callbacks=[batches := Batches()])
    sizes = [sum(shard.graph.num_nodes("token") for shard in shards) for _, shards in batches.seen]
    assert 30_000 < max(sizes) <= 32_768


def test_the_order_differs_between_epochs(corpus, tiny):
    training = {"epochs": 2, "dev_fraction": 0.0}
    tiny("classifier", training=training).fit(*corpus("classifier"), callbacks=[batches := Batches()])
    first, second = ([shard.targets.tolist() for n, (shard,) in batches.seen if n == epoch] for epoch in (0, 1))
    assert first != second


def test_a_trained_model_has_no_gradients(corpus, tiny):
    estimator = tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier"))
    assert [parameter.grad for parameter in estimator.model_.parameters() if parameter.grad is not None] == []


class Seeds(Callback):
    """Record the seed of each step."""

    def __init__(self):
        self.seen = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(torch.initial_seed())


@pytest.mark.slow
def test_every_step_has_a_different_dropout_seed(corpus, tiny):
    callback = Seeds()
    for seed in (0, 1):
        tiny("classifier", training={"epochs": 3, "seed": seed}).fit(*corpus("classifier"), callbacks=[callback])
    seeds = callback.seen
    assert len(set(seeds)) == len(seeds) == 2 * 3 * 5


def test_nothing_is_printed_except_hints(corpus, tiny, tmp_path, capfd, recwarn):
    tiny("crf", training={"run_dir": str(tmp_path)}).fit(*corpus("crf")).predict(corpus("crf")[0])
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in recwarn if warning.category.__name__ != "Hint"] == []


def test_the_log_level_of_lightning_is_restored(corpus, tiny):
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier", 12))
    assert logger.level == before


class Losses(Callback):
    """Record the loss of each batch by epoch."""

    def __init__(self):
        self.seen = {}

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.setdefault(trainer.current_epoch, []).append(float(outputs["loss"]))


def test_the_loss_of_an_epoch_is_the_mean_of_its_batches(parts):
    options = TrainingOptions(epochs=3, batch_size=8, learning_rate=0.02)
    rows = train(*parts(), options, callbacks=[losses := Losses()])
    assert [row["train_loss"] for row in rows] == pytest.approx([np.mean(own) for own in losses.seen.values()])

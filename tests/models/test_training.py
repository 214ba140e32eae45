"""Training: what repeats, what is chosen, what the optimiser does, and what happens when it goes wrong."""

import json
import logging
import math
import signal
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.multiprocessing import ProcessRaisedException

from graphattn.builders import batching
from graphattn.exceptions import ConfigError, DataError, NotFittedError, TrainingError
from graphattn.models import TrainingOptions, load, training
from graphattn.models.encoders import ENCODERS
from graphattn.models.text_model import TextModel
from graphattn.models.training import count_parameters, train
from graphattn.models.training_module import TrainingModule

NO_DROPOUT = {"encoder__dropout": 0.0, "head__head_dropout": 0.0, "inputs__embedding_dropout": 0.0}


@pytest.fixture
def steps(monkeypatch):
    """Records the learning rate and the norm of the gradient of every step."""
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


@pytest.fixture
def batches(monkeypatch):
    """Records every batch that is trained on."""
    seen = []
    original = TrainingModule.training_step

    def step(self, batch, batch_idx):
        seen.append((self.current_epoch, batch))
        return original(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", step)
    return seen


def weights_of(estimator):
    return {name: tensor.clone() for name, tensor in estimator.model_.state_dict().items()}


def same(some, others):
    return some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)


def scripted(values, model=None, kept=None):
    """An evaluation that gives these accuracies, one for each epoch, and keeps the weights of that moment."""
    left = iter(values)

    def evaluate(decisions):
        if kept is not None:
            kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"accuracy": next(left)}

    return evaluate


def test_of_equal_epochs_the_last_is_kept(parts):
    model, corpus = parts()
    kept = []
    evaluate = scripted([0.5, 0.8, 0.8, 0.7], model, kept)
    train(model, corpus, TrainingOptions(epochs=4), dev=corpus, evaluate=evaluate)
    assert same(model.state_dict(), kept[2])
    assert not same(kept[1], kept[2])


@pytest.mark.parametrize("kind", ["classifier", "crf"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_same_seed_same_bits(kind, encoder, corpus, tiny):
    first, second = (tiny(kind, encoder).fit(*corpus(kind)) for _ in range(2))
    other = tiny(kind, encoder, training={"seed": 1}).fit(*corpus(kind))
    assert same(weights_of(first), weights_of(second))
    assert first.history_ == second.history_
    assert not same(weights_of(first), weights_of(other))
    inputs = corpus(kind)[0]
    for one, two in zip(first.predict_proba(inputs), second.predict_proba(inputs), strict=True):
        assert np.array_equal(one, two)


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


def test_label_smoothing_reaches_the_head(corpus, tiny):
    for kind in ("classifier", "multilabel", "pair", "tagger"):
        estimator = tiny(kind, training={"epochs": 1, "label_smoothing": 0.3}).fit(*corpus(kind, 12))
        assert estimator.model_.head.label_smoothing == 0.3


def test_best_epoch_is_kept(parts):
    model, corpus = parts()
    kept = []
    rows = train(model, corpus, TrainingOptions(epochs=4), dev=corpus, evaluate=scripted([50, 70, 60, 70], model, kept))
    assert [row["dev_accuracy"] for row in rows] == [50, 70, 60, 70]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert same(dict(model.state_dict()), kept[3])  # the last of two equals
    assert not same(kept[1], kept[3])


@pytest.mark.parametrize(
    ("patience", "values", "epochs"),
    [(1, [50, 60, 60, 70], 3), (2, [50, 60, 55, 60, 90], 4), (2, [10, 9, 20, 19, 30, 29], 6)],
)
def test_patience(patience, values, epochs, parts):
    model, corpus = parts()
    kept = []
    options = TrainingOptions(epochs=len(values), patience=patience)
    rows = train(model, corpus, options, dev=corpus, evaluate=scripted(values, model, kept))
    assert len(rows) == epochs
    best = max(range(epochs), key=lambda epoch: (values[epoch], epoch))  # the last of equals
    assert same(dict(model.state_dict()), kept[best])


def test_patience_needs_a_dev_set(parts):
    assert len(train(*parts(), TrainingOptions(epochs=3, patience=1))) == 3


def test_two_half_batches_make_the_step_of_one(corpus, tiny):
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


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [
        *[(kind, encoder) for encoder in ENCODERS for kind in ("classifier", "crf")],  # of a text, of each token
        *[(kind, "ms-trans") for kind in ("multilabel", "pair")],  # they get what a classifier gets
    ],
)
def test_bfloat16(kind, encoder, corpus, tiny):
    estimator = tiny(kind, encoder, training={"precision": "bf16", "epochs": 3}).fit(*corpus(kind))
    losses = [row["train_loss"] for row in estimator.history_]
    assert {parameter.dtype for parameter in estimator.model_.parameters()} == {torch.float32}
    exact = tiny(kind, encoder, training={"epochs": 3}).fit(*corpus(kind))
    assert losses != [row["train_loss"] for row in exact.history_]
    assert losses == pytest.approx([row["train_loss"] for row in exact.history_], rel=0.1)


@pytest.mark.parametrize(
    ("budget", "size"),
    [
        ({"max_tokens": 30}, lambda graph: graph.num_nodes("token")),
        ({"max_edges": 150}, lambda graph: sum(graph.num_edges(etype) for etype in graph.canonical_etypes)),
        ({"batch_size": 5}, lambda graph: graph.batch_size),
    ],
    ids=["tokens", "edges", "sentences"],
)
def test_budgets(budget, size, corpus, tiny, batches, monkeypatch):
    """Each sentence once an epoch, within the budget, though the number of batches changes from epoch to epoch."""
    monkeypatch.setattr(batching, "POOL", 2)
    texts, labels = corpus("classifier", 60)
    limit = next(iter(budget.values()))
    tiny("classifier", training={"batch_size": 100, "epochs": 5, "dev_fraction": 0.0, "seed": 2, **budget}).fit(
        texts, labels
    )
    lengths = Counter(len(text.split()) + 1 for text in texts)
    for epoch in range(5):
        own = [batch for number, batch in batches if number == epoch]
        assert Counter(n for batch in own for n in batch.graph.batch_num_nodes("token").tolist()) == lengths
        assert all(size(batch.graph) <= limit or batch.size == 1 for batch in own)
    counts = [sum(number == epoch for number, _ in batches) for epoch in range(5)]
    assert "batch_size" in budget or max(counts[1:]) > counts[0]


def test_long_texts_fill_a_batch_before_there_are_32(corpus, tiny, batches):
    texts, labels = corpus("classifier")
    budgets = {"batch_size": TrainingOptions().batch_size, "max_tokens": TrainingOptions().max_tokens}
    model = tiny("classifier", training={"epochs": 1, "dev_fraction": 0.0, **budgets})
    model.fit([*texts, *["slow " * 1_100] * 40], labels * 2)
    sizes = [batch.graph.num_nodes("token") for _, batch in batches]
    assert 30_000 < max(sizes) <= 32_768


def test_epochs_differ_in_order(corpus, tiny, batches):
    tiny("classifier", training={"epochs": 2, "dev_fraction": 0.0}).fit(*corpus("classifier"))
    first, second = ([batch.targets.tolist() for n, batch in batches if n == epoch] for epoch in (0, 1))
    assert first != second


def test_a_trained_model_holds_no_gradients(corpus, tiny):
    estimator = tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier"))
    assert [parameter.grad for parameter in estimator.model_.parameters() if parameter.grad is not None] == []


def test_every_step_draws_its_own_dropout(corpus, tiny, monkeypatch):
    seeds = []
    original = TrainingModule.training_step

    def step(self, batch, batch_idx):
        seeds.append(torch.initial_seed())
        return original(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", step)
    for seed in (0, 1):
        tiny("classifier", training={"epochs": 3, "seed": seed}).fit(*corpus("classifier"))
    assert len(set(seeds)) == len(seeds) == 2 * 3 * 5


def test_parameters_are_counted(parts):
    model, _ = parts()
    model.embedding.trained.requires_grad_(False)
    expected = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.trained")
    assert count_parameters(model) == expected


def test_nothing_is_printed(corpus, tiny, tmp_path, capfd, recwarn):
    tiny("crf", training={"run_dir": str(tmp_path)}).fit(*corpus("crf")).predict(corpus("crf")[0])
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in recwarn] == []


def test_lightning_may_speak_again_afterwards(corpus, tiny):
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier", 12))
    assert logger.level == before


# When it goes wrong.


@pytest.fixture
def broken_after(monkeypatch):
    """Lets the loss be no number from the batch after so many on."""

    def install(count):
        original, seen = TextModel.loss, []

        def loss(self, batch):
            seen.append(batch)
            value, scores = original(self, batch)
            return (value * float("nan") if len(seen) > count else value), scores

        monkeypatch.setattr(TextModel, "loss", loss)

    return install


def test_loss_that_is_no_number(corpus, tiny, broken_after, tmp_path):
    texts, labels = corpus("classifier", 24)
    settings = {"dev_fraction": 0.0, "batch_size": 8, "schedule": "constant", "warmup": 0.0}
    good = tiny("classifier", training={"epochs": 2, **settings}).fit(texts, labels)
    broken_after(7)  # 3 batches an epoch: the second batch of the third
    estimator = tiny("classifier", training={"epochs": 9, **settings})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(texts, labels)
    assert str(caught.value) == (
        "the loss is nan in epoch 3, batch 2; the weights of the best epoch so far are kept. "
        "Lower the learning rate, clip gradients, or use precision 32"
    )
    assert same(weights_of(estimator), weights_of(good))
    assert not estimator.model_.training
    assert [row["epoch"] for row in estimator.history_] == [0, 1]
    chances = estimator.predict_proba(texts)
    assert np.array_equal(load(estimator.save(tmp_path / "model")).predict_proba(texts), chances)


def test_no_number_in_the_first_epoch_leaves_no_model(corpus, tiny):
    estimator = tiny("classifier", training={"learning_rate": 1e30, "clip": None, "warmup": 0.0})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(*corpus("classifier", 24))
    assert str(caught.value).startswith("the loss is ")
    assert str(caught.value).endswith(
        " in epoch 1, batch 2; no epoch of this training has ended. Lower the learning rate, clip gradients, or use "
        "precision 32"
    )
    with pytest.raises(NotFittedError):
        estimator.predict(["film"])


def test_a_last_step_that_breaks_the_weights(corpus, tiny, monkeypatch):
    texts, labels = corpus("classifier", 24)
    step = torch.optim.Adam.step

    def breaking(self, *args, **kwargs):
        step(self, *args, **kwargs)
        with torch.no_grad():
            self.param_groups[0]["params"][0].mul_(float("inf"))

    monkeypatch.setattr(torch.optim.Adam, "step", breaking)
    estimator = tiny("classifier", training={"epochs": 1, "batch_size": 24, "dev_fraction": 0.0})
    with pytest.raises(TrainingError) as caught:
        estimator.fit(texts, labels)
    assert str(caught.value) == (
        "weights are not finite after epoch 1; no epoch of this training has ended. "
        "Lower the learning rate, clip gradients, or use precision 32"
    )


def test_ctrl_c_keeps_the_best_so_far(corpus, tiny, monkeypatch):
    texts, labels = corpus("classifier", 24)
    handler = signal.getsignal(signal.SIGINT)
    original = TrainingModule.training_step

    def step(self, batch, batch_idx):
        if self.current_epoch == 2:
            raise KeyboardInterrupt
        return original(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", step)
    estimator = tiny("classifier", training={"epochs": 5})
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(texts, labels)
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(estimator.history_) == 2
    assert len(estimator.predict(texts)) == 24


def test_ctrl_c_works_again_after_lightning_ignored_it(parts, monkeypatch):
    """As it does when it waits for other processes."""
    handler = signal.getsignal(signal.SIGINT)

    def fit(self, *arguments, **keywords):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(1)

    model, corpus = parts()
    monkeypatch.setattr(training.pl.Trainer, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        train(model, corpus, TrainingOptions(epochs=1))
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_is_not_hidden_by_an_error_of_clearing_up(parts, monkeypatch):
    def fit(self, *arguments, **keywords):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("there is no loader yet")

    model, corpus = parts()
    monkeypatch.setattr(training.pl.Trainer, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        train(model, corpus, TrainingOptions(epochs=1))


def test_errors_of_training_stay_what_they_are(parts, monkeypatch):
    def fit(self, *arguments, **keywords):
        try:
            raise ValueError("first")
        finally:
            raise RuntimeError("second")

    model, corpus = parts()
    monkeypatch.setattr(training.pl.Trainer, "fit", fit)
    with pytest.raises(RuntimeError, match="second"):
        train(model, corpus, TrainingOptions(epochs=1))


def test_errors_of_other_processes_are_raised_as_what_they_are():
    text = "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  ...\n{}\n"

    def raised(last_line):
        return training._as_raised(ProcessRaisedException(text.format(last_line), 1, 4711))

    failed = raised("graphattn.exceptions.TrainingError: the loss is nan: lower it")
    assert type(failed) is TrainingError
    assert str(failed) == "the loss is nan: lower it"
    assert type(raised("graphattn.exceptions.ConfigError: no")) is ConfigError
    assert type(raised("graphattn.exceptions.DataError: x")) is DataError
    assert type(raised("MemoryError")) is ProcessRaisedException
    assert type(raised("os.PathLike: x")) is ProcessRaisedException


@pytest.mark.parametrize(
    ("options", "interactive", "strategy"),
    [
        ({}, False, "auto"),
        ({"devices": 2}, False, "ddp_spawn"),
        ({"devices": 2}, True, "ddp_notebook"),
        ({"devices": 2, "nodes": 2}, False, "auto"),
        ({"devices": 2, "strategy": "ddp"}, False, "ddp"),
    ],
)
def test_strategy(options, interactive, strategy, monkeypatch):
    if interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.delattr(sys, "ps1", raising=False)
    assert training._strategy(TrainingOptions(**options)) == strategy


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"accelerator": "tpux"}, "You selected an invalid accelerator name: `accelerator='tpux'`."),
        ({"strategy": "many"}, "You selected an invalid strategy name: `strategy='many'`."),
    ],
)
def test_devices_that_do_not_exist(options, reason, corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("classifier", training=options).fit(*corpus("classifier", 12))
    expected = f"accelerator, devices, nodes or strategy do not fit this machine: {reason}"
    assert str(caught.value).startswith(expected)


# Several processes.


@pytest.mark.slow
def test_two_processes_train_as_one(corpus, tiny, capfd):
    """Two CPU processes with gloo make the steps of one: batch_size counts the sentences of both."""
    texts, labels = corpus(
        "classifier", 37
    )  # batches of 8 and one of a single sentence, which one process goes without
    settings = {"epochs": 3, "batch_size": 8, "dev_fraction": 0.1, "average": 0.9}
    one, two = (
        tiny("classifier", training={**settings, **more}).set_params(**NO_DROPOUT).fit(texts, labels)
        for more in ({}, {"devices": 2, "accelerator": "cpu"})
    )
    assert [set(row) for row in two.history_] == [set(row) for row in one.history_]
    for ours, theirs in zip(one.history_, two.history_, strict=True):
        assert theirs == pytest.approx(ours, rel=0, abs=1e-5)
    np.testing.assert_allclose(two.predict_proba(texts), one.predict_proba(texts), rtol=0, atol=1e-4)
    assert two.predict(texts).tolist() == one.predict(texts).tolist()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_failure_of_two_processes(corpus, tiny, described, fresh_process):
    """The error is our own, and the best epoch's weights come back from the processes that had them."""
    words, tags = corpus("crf", 13)
    settings = {"epochs": 9, "batch_size": 4, "dev_fraction": 0.0, "devices": 2, "accelerator": "cpu"}
    estimator = tiny("crf", "bilstm", training={**settings, "strategy": "ddp_fork"})
    script = """
from graphattn.exceptions import TrainingError
from graphattn.models.text_model import TextModel

original, seen = TextModel.loss, []

def loss(self, batch):
    seen.append(batch)
    value, scores = original(self, batch)
    return value * (float("nan") if len(seen) > 9 else 1), scores

TextModel.loss = loss
estimator = estimator_from(given["estimator"])
try:
    estimator.fit(given["words"], given["tags"])
except TrainingError as error:
    print(json.dumps([str(error), estimator.history_, [len(own) for own in estimator.predict(given["words"])]]))
"""
    done = fresh_process(script, estimator=described(estimator), words=words, tags=tags)
    assert done.returncode == 0, done.stderr
    message, history, lengths = json.loads(done.stdout)
    assert message == (
        "the loss is nan in epoch 3, batch 2; the weights of the best epoch so far are kept. "
        "Lower the learning rate, clip gradients, or use precision 32"
    )
    assert [row["epoch"] for row in history] == [0, 1]
    assert lengths == [len(own) for own in words]


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_bits(corpus, tiny, described, fresh_process, tmp_path):
    """The same weights, and not a word on stdout or stderr."""
    kinds = ("classifier", "crf")
    estimators = {kind: tiny(kind) for kind in kinds}
    script = """
from safetensors.torch import save_file

for kind, (values, inputs, labels) in given["runs"].items():
    save_file(estimator_from(values).fit(inputs, labels).model_.state_dict(), kind + ".safetensors")
"""
    runs = {kind: (described(estimators[kind]), *corpus(kind)) for kind in kinds}
    done = fresh_process(script, runs=runs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for kind in kinds:
        there = load_file(tmp_path / f"{kind}.safetensors")
        assert same(there, weights_of(estimators[kind].fit(*corpus(kind))))

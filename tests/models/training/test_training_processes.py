"""Training in several processes and in a new one: equal steps, identical results, and types of errors."""

import sys

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from safetensors.torch import load_file
from torch.multiprocessing import ProcessRaisedException

from graphattn.exceptions import ConfigError, DataError, TrainingError
from graphattn.models import TrainingOptions
from graphattn.models.training._lightning import unwrap_error
from graphattn.models.training._processes import choose_strategy
from graphattn.models.training.callbacks import EpochLines

NO_DROPOUT = {"encoder__dropout": 0.0, "head__head_dropout": 0.0, "inputs__embedding_dropout": 0.0}


def test_errors_of_other_processes_keep_their_type():
    text = "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  ...\n{}\n"

    def raised(last_line):
        return unwrap_error(ProcessRaisedException(text.format(last_line), 1, 4711))

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
    assert choose_strategy(TrainingOptions(**options)) == strategy


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"strategy": "many"}, "You selected an invalid strategy name: `strategy='many'`."),
    ],
)
def test_missing_devices(options, reason, corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("classifier", training=options).fit(*corpus("classifier", 12))
    expected = f"device, devices, nodes or strategy do not fit this machine: {reason}"
    assert str(caught.value).startswith(expected)


@pytest.mark.slow
def test_two_processes_give_the_steps_of_one(corpus, tiny, capfd):
    """Two CPU processes with gloo give the steps of one: batch_size counts the sentences of both.

    Callbacks reach them, and one of them prints the lines.
    """
    texts, labels = corpus("classifier", 37)  # batches of 8, the last of one sentence: one process gets none
    settings = {"epochs": 3, "batch_size": 8, "dev_fraction": 0.1, "average": 0.9}
    one, two = (
        tiny("classifier", training={**settings, **more}).set_params(**NO_DROPOUT).fit(texts, labels, callbacks=lines)
        for more, lines in (({}, []), ({"devices": 2, "device": "cpu"}, [EpochLines()]))
    )
    assert [set(row) for row in two.history_] == [set(row) for row in one.history_]
    for ours, theirs in zip(one.history_, two.history_, strict=True):
        assert theirs == pytest.approx(ours, rel=0, abs=1e-5)
    np.testing.assert_allclose(two.predict_proba(texts), one.predict_proba(texts), rtol=0, atol=1e-4)
    assert two.predict(texts).tolist() == one.predict(texts).tolist()
    out, err = capfd.readouterr()
    assert (out, [line[:9] for line in err.splitlines()]) == ("", ["epoch 1/3", "epoch 2/3", "epoch 3/3"])


@pytest.fixture
def may_fork_again(monkeypatch):
    """PyTorch with CUDA takes a fork of this process for one that cannot fork again, even without a GPU."""
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)


@pytest.mark.usefixtures("may_fork_again")
def test_one_new_process(corpus, tiny, run_in_fork):
    """The parent process gets the weights."""
    texts, labels = corpus("classifier", 12)

    def fit():
        training = {"epochs": 2, "strategy": "ddp_fork", "device": "cpu"}
        estimator = tiny("classifier", training=training).fit(texts, labels)
        assert [len(estimator.history_), len(estimator.predict(texts))] == [2, 12]

    assert run_in_fork(fit) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("may_fork_again")
def test_errors_in_two_processes(corpus, tiny, run_in_fork, monkeypatch):
    """The error has our type, and the parent process gets the weights of the best epoch.

    Variables that another launcher has set are not about these processes.
    """
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    words, tags = corpus("crf", 13)
    settings = {"epochs": 9, "batch_size": 4, "dev_fraction": 0.0, "devices": 2, "device": "cpu"}
    estimator = tiny("crf", "bilstm", training={**settings, "strategy": "ddp_fork"})

    class Spoil(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (2, 1):
                next(pl_module.parameters()).data.fill_(float("nan"))

    def fit():
        with pytest.raises(TrainingError) as caught:
            estimator.fit(words, tags, callbacks=[Spoil()])
        assert str(caught.value) == (
            "the loss is nan in epoch 3, batch 2; the weights of the best epoch so far are kept. "
            "Lower learning_rate or clip, or set precision=32"
        )
        assert [row["epoch"] for row in estimator.history_] == [1, 2]
        assert [len(own) for own in estimator.predict(words)] == [len(own) for own in words]

    assert run_in_fork(fit) == 0


@pytest.mark.slow
def test_a_new_process_gives_identical_results(corpus, tiny, described, fresh_process, tmp_path, same_weights):
    """The same weights, and except for hints no output on stdout or stderr."""
    estimator, (words, tags) = tiny("crf"), corpus("crf")
    script = """
import warnings

from graphattn.exceptions import Hint
from safetensors.torch import save_file

warnings.simplefilter("ignore", Hint)
estimator = estimator_from(given["values"]).fit(given["words"], given["tags"])
save_file(estimator.model_.state_dict(), "weights.safetensors")
"""
    done = fresh_process(script, values=described(estimator), words=words, tags=tags)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert same_weights(load_file(tmp_path / "weights.safetensors"), estimator.fit(words, tags))

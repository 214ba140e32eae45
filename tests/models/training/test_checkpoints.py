"""Killed runs resume with identical results, and only with the same options and data."""

import json
import os
import signal
import tempfile
import time
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.utilities import rank_zero_only
from sklearn.base import clone

from graphattn import load
from graphattn.builders._atomic import write_with_checksum
from graphattn.exceptions import ConfigError, GraphAttnWarning, ModelDirectoryError, TrainingError
from graphattn.models import TrainingOptions
from graphattn.models._files.saving import check_notes
from graphattn.models.training._checkpoints import checkpoint_to_resume, run_folder
from graphattn.models.training._lightning import AtomicCheckpointIO


class Steps(pl.Callback):
    """Record the epoch and the number of each batch, and kill this process at one of them."""

    def __init__(self, killed_at=None):
        self.killed_at, self.seen = killed_at, []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.seen.append((trainer.current_epoch, batch_idx))
        if self.seen[-1] == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Weights(pl.Callback):
    """Keep the weights of each epoch."""

    def __init__(self):
        self.of_epochs = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.of_epochs.append({name: value.clone() for name, value in pl_module.model.state_dict().items()})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "crf", "pair regressor", "translator"])
def test_the_best_epoch_of_an_interrupted_run_can_be_loaded(kind, corpus, tiny, killed_at, tmp_path, recwarn):
    run, kept = tmp_path / "model.run", Weights()
    settings = {"epochs": 4, "run_dir": str(run), "logs": False}
    estimator = tiny(kind, training=settings)
    with killed_at(3, 0):
        estimator.fit(*corpus(kind), callbacks=[kept])
    best = max(reversed(estimator.history_), key=lambda row: row[f"dev_{estimator.main_metric}"])["epoch"]
    loaded = load(run)
    check_notes(run)
    assert loaded.history_ == estimator.history_
    assert any(f"epoch {best}, the best of 3, is used" in str(warning.message) for warning in recwarn)
    for name, value in loaded.model_.state_dict().items():
        torch.testing.assert_close(value, kept.of_epochs[best - 1][name], rtol=0, atol=0)
    check_notes(run)  # it has none
    inputs = corpus(kind)[0][:4]
    again = load(loaded.save(tmp_path / "exported"))
    assert again.predict_rows(inputs) == loaded.predict_rows(inputs) == estimator.predict_rows(inputs)


def test_a_run_that_cannot_be_loaded(corpus, tiny, killed_at, tmp_path, monkeypatch):
    texts, labels = corpus("classifier")
    run = tmp_path / "model.run"
    training = {"epochs": 2, "run_dir": str(run), "logs": False, "checkpoint_minutes": 0, "batch_size": 4}
    with killed_at(0, 2):
        tiny("classifier", training=training).fit(texts, labels)
    with pytest.raises(ModelDirectoryError, match="no epoch has ended"):
        load(run)
    with pytest.raises(ModelDirectoryError, match=r"resume, or use the best epoch so far: give .*model\.run"):
        load(tmp_path / "model")
    checkpoint = run / "last.ckpt"
    with monkeypatch.context() as patch:
        patch.setattr("graphattn.models._files.saving.is_run", lambda path: True)
        with pytest.raises(ModelDirectoryError, match="is damaged"):
            load(tmp_path / "ended")
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(ModelDirectoryError, match="damaged"):
        load(run)
    checkpoint.unlink()
    with pytest.raises(ModelDirectoryError, match="whose model is saved"):
        load(run)


def test_a_run_keeps_vectors_that_are_not_tuned(corpus, tiny, killed_at, vectors_file, tmp_path):
    texts, labels = corpus("classifier")
    inputs = {"vectors": str(vectors_file), "tune_vectors": False}
    estimator = tiny("classifier", inputs=inputs, training={"epochs": 2, "run_dir": str(tmp_path / "run")})
    with killed_at(1, 0):
        estimator.fit(texts, labels)
    np.testing.assert_array_equal(load(tmp_path / "run").predict_proba(texts), estimator.predict_proba(texts))


STEPS_OF_TWO = {"epochs": 3, "accumulate": 2, "schedule": "cosine"}
AVERAGED = {"epochs": 3, "dev_fraction": 0.2, "average": 0.4}
RESUMED = {
    "first epoch": ("classifier", STEPS_OF_TWO, {}, (0, 1)),
    "middle epoch": ("classifier", STEPS_OF_TWO, {}, (1, 1)),
    "last epoch": ("classifier", STEPS_OF_TWO, {}, (2, 1)),
    "pair": ("pair", STEPS_OF_TWO, {}, (1, 1)),
    "translator": ("translator", STEPS_OF_TWO, {}, (1, 1)),
    "crf": ("crf", {"epochs": 4, "dev_fraction": 0.2, "patience": 3}, {}, (2, 1)),
    "average": ("classifier", AVERAGED, {"checkpoint_minutes": 0.0}, (0, 3)),
    "average, several batches a step": (
        "classifier",
        {**AVERAGED, "batch_size": 4, "accumulate": 2},
        {"checkpoint_minutes": 0.0},
        (2, 1),
    ),
    "average of epochs": ("classifier", {"epochs": 4, "dev_fraction": 0.2, "average_epochs": 3}, {}, (2, 1)),
    "lightning's average": ("classifier", {"epochs": 3, "dev_fraction": 0.2}, {}, (2, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("middle epoch", "crf") else pytest.mark.slow) for name in RESUMED],
)
def test_a_killed_run_resumes_with_identical_results(name, corpus, tiny, tmp_path, killed_at, same_weights):
    """Of the epochs before the one in which it was killed, none is trained again."""
    (kind, settings, more, place), steps = RESUMED[name], Steps()

    def fit(estimator):
        averages = [EMAWeightAveraging(decay=0.4)] if name == "lightning's average" else []
        return estimator.fit(*corpus(kind), callbacks=[*averages, steps])

    undisturbed = fit(tiny(kind, training=settings))
    disturbed = tiny(kind, training={**settings, **more, "run_dir": str(tmp_path), "logs": False})
    with killed_at(*place):
        fit(disturbed)
    steps.seen.clear()
    fit(disturbed)
    assert not list(tmp_path.glob("*.new"))
    assert steps.seen[0][0] == place[0]
    assert disturbed.history_ == undisturbed.history_
    assert same_weights(disturbed, undisturbed)


@pytest.mark.slow
def test_a_run_killed_inside_an_epoch_resumes_there(corpus, tiny, run_in_fork, tmp_path, same_weights):
    """Resumed at the batch after the last checkpoint, the run gives identical weights and metrics."""
    texts, labels = corpus("classifier")
    settings = {"epochs": 3, "batch_size": 4, "dev_fraction": 0.2, "accumulate": 2, "schedule": "cosine"}
    undisturbed = tiny("classifier", training=settings).fit(texts, labels)
    settings |= {"run_dir": str(tmp_path / "run"), "checkpoint_minutes": 0.0}
    disturbed = tiny("classifier", training=settings)
    for at in ((0, 3), (1, 5)):
        assert run_in_fork(lambda at=at: disturbed.fit(texts, labels, callbacks=[Steps(at)])) == -signal.SIGKILL
    disturbed.fit(texts, labels, callbacks=[steps := Steps()])
    assert steps.seen[:2] == [(1, 4), (1, 5)]  # each step has two batches
    assert disturbed.history_ == undisturbed.history_
    assert same_weights(disturbed, undisturbed)


@pytest.mark.slow
def test_checkpoints_inside_an_epoch_follow_the_interval(corpus, tiny, tmp_path, monkeypatch):
    texts, labels = corpus("classifier", 24)
    clock, saved = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Minutes(pl.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            clock[0] += 60.0

        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            saved.append((trainer.current_epoch, trainer.fit_loop.epoch_loop.batch_idx))

    def epochs_saved(minutes):
        saved.clear()
        run = tmp_path / f"{minutes}"
        settings = {"epochs": 2, "batch_size": 4, "dev_fraction": 0.0, "run_dir": str(run), "logs": False}
        estimator = tiny("classifier", training={**settings, "checkpoint_minutes": minutes})
        estimator.fit(texts, labels, callbacks=[Minutes()])
        return list(saved)

    assert epochs_saved(None) == [(0, 5), (1, 5)]
    assert epochs_saved(3.0) == [(0, 2), (0, 5), (1, 2), (1, 5)]
    assert epochs_saved(4.0) == [(0, 3), (0, 5), (1, 3), (1, 5)]


@pytest.mark.slow
def test_a_kill_while_writing_a_checkpoint(corpus, tiny, tmp_path, monkeypatch, same_weights):
    """A checkpoint is written atomically; leftover files are ignored."""
    texts, labels = corpus("classifier")
    undisturbed = tiny("classifier", training={"epochs": 3}).fit(texts, labels)
    disturbed = tiny("classifier", training={"epochs": 3, "run_dir": str(tmp_path)})
    original, checkpoints = os.replace, []

    def replace(source, target):
        if str(target).endswith("last.ckpt"):
            checkpoints.append(target)
        if len(checkpoints) == 2:
            raise RuntimeError("killed")
        return original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(RuntimeError, match="killed"):
            disturbed.fit(texts, labels)
    (tmp_path / ".last.ckpt.1.new").write_bytes(b"half a checkpoint")
    disturbed.fit(texts, labels)
    assert disturbed.history_ == undisturbed.history_
    assert same_weights(disturbed, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("training", [{"epochs": 3}, {"epochs": 9, "patience": 1}], ids=["all epochs", "early stop"])
def test_a_complete_run_is_not_trained_again(training, corpus, tiny, tmp_path, same_weights):
    texts, labels = corpus("classifier")
    first = tiny("classifier", training={**training, "run_dir": str(tmp_path)}).fit(texts, labels)
    assert len(first.history_) < 9
    second = tiny("classifier", training={**training, "run_dir": str(tmp_path)})
    second.fit(texts, labels, callbacks=[steps := Steps()])
    assert steps.seen == []
    assert second.history_ == first.history_
    assert same_weights(second, first)


def test_an_interrupted_resume_leaves_no_model(corpus, tiny, tmp_path, monkeypatch):
    """Nor its metrics: the weights would be untrained."""
    texts, labels = corpus("classifier")
    settings = {"run_dir": str(tmp_path), "logs": False}
    tiny("classifier", training=settings).fit(texts, labels)

    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    again = tiny("classifier", training=settings)
    with monkeypatch.context() as patch:
        patch.setattr("graphattn.models.training._loop.read_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            again.fit(texts, labels)
    assert not hasattr(again, "model_")
    assert not hasattr(again, "history_")


def test_resume_false_starts_again(corpus, tiny, tmp_path, same_weights):
    texts, labels = corpus("classifier")
    first = tiny("classifier", training={"run_dir": str(tmp_path)}).fit(texts, labels)
    settings = {"run_dir": str(tmp_path), "resume": False, "epochs": 1, "seed": 3}
    second = tiny("classifier", training=settings).fit(texts, labels, callbacks=[steps := Steps()])
    assert steps.seen[0] == (0, 0)
    assert len(second.history_) == 1
    assert not same_weights(second, first)


@pytest.fixture(scope="module")
def ended(corpus, tiny, tmp_path_factory):
    """A classifier whose run has ended."""
    training = {"run_dir": str(tmp_path_factory.mktemp("ended"))}
    return tiny("classifier", training=training).fit(*corpus("classifier"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"training__epochs": 3}, "epochs: 2, now 3"),
        ({"training__learning_rate": 0.5}, "learning_rate: 0.01, now 0.5"),
        ({"encoder__alpha": 0.0}, "alpha: 1.0, now 0.0"),
        ({"encoder__dropout": 0.5}, "dropout: 0.3, now 0.5"),
        ({"head__pooling": "max"}, "pooling: 'cls+max', now 'max'"),
        ({"inputs__word_dropout": 0.1}, "word_dropout: 0.0, now 0.1"),
        ({"class_weight": "balanced"}, "class_weight: 'None', now \"'balanced'\""),
    ],
)
def test_other_options_are_rejected(changes, difference, corpus, ended):
    with pytest.raises(ConfigError) as caught:
        clone(ended).set_params(**changes).fit(*corpus("classifier"))
    assert str(caught.value) == (
        f"a run with other options ({difference}) is in {ended.training.run_dir}; resume=False discards it, another "
        "run_dir keeps it"
    )


def test_changed_vectors_in_the_same_file_are_rejected(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier")
    words = sorted({word.lower() for text in texts for word in text.split()})

    def fit(value):
        (tmp_path / "v.txt").write_text("".join(f"{word} {value} {number}\n" for number, word in enumerate(words)))
        inputs = {"vectors": str(tmp_path / "v.txt"), "tune_vectors": False}
        return tiny("classifier", inputs=inputs, training={"run_dir": str(tmp_path / "run")}).fit(texts, labels)

    fit(1.0)
    fit(1.0)
    with pytest.raises(ConfigError, match=r"^a run with other data \(vectors\) is in "):
        fit(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["training set", "dev set"])
def test_other_data_are_rejected(what, corpus, tiny, tmp_path):
    """So folds of a cross-validation do not resume each other's runs."""
    texts, labels = corpus("classifier")
    estimator = tiny("classifier", training={"run_dir": str(tmp_path)}).fit(texts, labels, dev=(texts, labels))
    data = (texts[1:], labels[1:]) if what == "training set" else (texts, labels)
    dev = (texts[1:], labels[1:]) if what == "dev set" else (texts, labels)
    with pytest.raises(ConfigError, match=rf"other data \({what}\) is in ") as caught:
        estimator.fit(*data, dev=dev)
    assert {"run_dir", "resume"} <= {*caught.value.options}


def test_folder_and_logging_options_do_not_matter(corpus, tiny, tmp_path):
    settings = {"run_dir": str(tmp_path / "one")}
    tiny("classifier", training=settings).fit(*corpus("classifier"))
    (tmp_path / "one").rename(tmp_path / "two")
    settings = {"run_dir": str(tmp_path / "two"), "progress": False, "logs": False}
    tiny("classifier", training=settings).fit(*corpus("classifier"), callbacks=[steps := Steps()])
    assert steps.seen == []


def test_logs(corpus, tiny, tmp_path, killed_at):
    texts, labels = corpus("classifier")
    estimator = tiny("classifier", training={"run_dir": str(tmp_path), "epochs": 3})
    with killed_at(2, 1):
        estimator.fit(texts, labels)
    estimator.fit(texts, labels)
    tables = [pd.read_csv(path) for path in sorted(tmp_path.glob("logs/csv/*/metrics.csv"))]
    logged = pd.concat(tables)
    assert logged.train_loss.dropna().tolist() == pytest.approx([row["train_loss"] for row in estimator.history_])
    assert logged.dev_accuracy.dropna().tolist() == pytest.approx([row["dev_accuracy"] for row in estimator.history_])
    assert list(tmp_path.glob("logs/tensorboard/events.out.tfevents.*"))
    written = json.loads((tmp_path / "history.json").read_text())
    assert written["epochs"] == estimator.history_
    assert written["best"] == max(row["dev_accuracy"] for row in estimator.history_)


def test_no_logs(corpus, tiny, tmp_path):
    tiny("classifier", training={"run_dir": str(tmp_path), "logs": False}).fit(*corpus("classifier"))
    assert {path.name for path in tmp_path.iterdir()} == {"last.ckpt", "history.json", "training.json"}


def test_without_a_folder_no_files_remain(corpus, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tiny("classifier").fit(*corpus("classifier"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_run_with_advice(corpus, tiny, tmp_path, monkeypatch):
    def full(checkpoint, file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(TrainingError) as caught:
        tiny("classifier", training={"run_dir": str(tmp_path)}).fit(*corpus("classifier"))
    assert str(caught.value) == (
        f"{tmp_path} cannot be written (No space left on device); make room and train again "
        "to resume from the last checkpoint"
    )


def test_a_full_temporary_folder(corpus, tiny, tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TrainingError, match=r"training\.json cannot be written .*; make room and set TMPDIR"):
        tiny("classifier").fit(*corpus("classifier"))
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught, run_folder(TrainingOptions(run_dir=str(tmp_path / "file" / "run"))):
        pass
    assert str(caught.value) == (f"run_dir {tmp_path}/file/run is not writable (Not a directory); give another folder")


def test_two_runs_in_one_folder(corpus, tiny, tmp_path):
    """The second would overwrite the checkpoints of the first, even if it is the same run."""
    options = TrainingOptions(run_dir=str(tmp_path))
    with run_folder(options), pytest.raises(ConfigError) as caught:
        tiny("classifier", training={"run_dir": str(tmp_path)}).fit(*corpus("classifier"))
    assert str(caught.value) == (
        f"{tmp_path} is being written by another process ({os.getpid()}); wait for it, or give another run_dir"
    )
    assert list(tmp_path.iterdir()) == []
    tiny("classifier", training={"run_dir": str(tmp_path)}).fit(*corpus("classifier"))


def test_processes_of_one_run_share_its_folder(tmp_path, monkeypatch):
    """Like processes that torchrun starts: each calls this function."""
    options = TrainingOptions(run_dir=str(tmp_path), devices=2, strategy="ddp")
    with run_folder(options):
        monkeypatch.setattr(rank_zero_only, "rank", 1)
        with run_folder(options) as folder:
            assert folder == tmp_path


def test_a_checkpoint_holds_no_code(corpus, tiny, tmp_path):
    tiny("crf", training={"run_dir": str(tmp_path)}).fit(*corpus("crf"))
    checkpoint = AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    assert checkpoint["epoch"] == 1
    assert not any("table" in name for name in checkpoint["state_dict"])


def test_only_the_training_options_that_matter_are_compared(tmp_path):
    options = TrainingOptions(run_dir=str(tmp_path))
    assert checkpoint_to_resume(tmp_path, options, {"a": (1, 2), "b": Path("x")}) is None
    write_with_checksum(tmp_path / "last.ckpt", b"")
    assert checkpoint_to_resume(tmp_path, options, {"a": [1, 2], "b": "x"}) == tmp_path / "last.ckpt"
    with pytest.raises(ConfigError, match=r"^an unfinished run with other options \(a: "):
        checkpoint_to_resume(tmp_path, options, {"b": "x"})


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["empty", "cut off", "a flipped bit"])
def test_a_damaged_checkpoint_is_made_again(corpus, tiny, tmp_path, damage, same_weights):
    words, tags = corpus("crf", 12)
    settings = {"epochs": 1, "run_dir": str(tmp_path)}
    first = tiny("crf", training=settings).fit(words, tags)
    path = tmp_path / "last.ckpt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # in a tensor; ZIP's own checksums are not verified
    path.write_bytes({"empty": b"", "cut off": content[:-1], "a flipped bit": content}[damage])
    with pytest.warns(GraphAttnWarning, match="is damaged, so the training starts again"):
        again = tiny("crf", training=settings).fit(words, tags, callbacks=[steps := Steps()])
    assert steps.seen[0] == (0, 0)
    assert same_weights(first, again)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "cut off", "a flipped bit"])
def test_damaged_settings_are_reported(corpus, tiny, tmp_path, damage):
    """Without them, nobody knows whether the checkpoint is of another run."""
    words, tags = corpus("crf", 12)
    settings = {"epochs": 1, "run_dir": str(tmp_path)}
    tiny("crf", training=settings).fit(words, tags)
    path = tmp_path / "training.json"
    content = bytearray(path.read_bytes())
    place = content.index(b'"epochs": 1') + len(b'"epochs": ')
    content[place] ^= 2  # another number of epochs
    path.write_bytes(path.read_bytes()[:-1] if damage == "cut off" else content)
    if damage == "missing":
        path.unlink()
    with pytest.raises(ConfigError) as caught:
        tiny("crf", training=settings).fit(words, tags)
    assert str(caught.value) == (
        f"{path} is missing or damaged, so the run cannot resume; give resume=False to start again"
    )
    tiny("crf", training={**settings, "resume": False}).fit(words, tags)

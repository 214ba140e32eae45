"""Lines for each epoch, the progress bar, and the user's own callbacks."""

import re
import sys
import time

import pytest
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    TQDMProgressBar,
)

from graphattn.exceptions import ConfigError
from graphattn.models.training.callbacks import EpochLines, describe_epoch

LINE = re.compile(
    r"epoch (?P<epoch>\d)/3: loss (?P<loss>[\d.]+), dev accuracy (?P<accuracy>[\d.]+), [\d.]+ s, "
    r"best (?P<best>[\d.]+) \(epoch (?P<at>\d)\)"
)


class Recorder(Callback):
    """Record the epochs, and the metrics that a callback sees at their end."""

    def __init__(self):
        self.seen = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.seen.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def test_a_line_for_each_epoch(corpus, tiny, capsys):
    estimator = tiny("classifier", training={"epochs": 3}).fit(*corpus("classifier"), callbacks=[EpochLines()])
    out, err = capsys.readouterr()
    rows = [LINE.fullmatch(line).groupdict() for line in err.splitlines()]
    assert out == ""
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    for number, (row, kept) in enumerate(zip(rows, estimator.history_, strict=True), 1):
        best = max(reversed(estimator.history_[:number]), key=lambda own: own["dev_accuracy"])
        assert (row["loss"], row["accuracy"]) == (f"{kept['train_loss']:.4f}", f"{kept['dev_accuracy']:.2f}")
        assert (row["best"], row["at"]) == (f"{best['dev_accuracy']:.2f}", str(best["epoch"]))


def test_a_resumed_run_continues_to_count(corpus, tiny, tmp_path, killed_at, capsys):
    texts, labels = corpus("classifier")
    training = {"epochs": 3, "run_dir": str(tmp_path), "logs": False}
    with killed_at(2, 1):
        tiny("classifier", training=training).fit(texts, labels)
    tiny("classifier", training=training).fit(texts, labels, callbacks=[EpochLines()])
    assert [line[:9] for line in capsys.readouterr().err.splitlines()] == ["epoch 3/3"]


def test_a_line_without_a_dev_set():
    assert describe_epoch([{"epoch": 1, "train_loss": 0.5}], None, 5, 2.04) == "epoch 1/5: loss 0.5000, 2.0 s"


def test_of_equal_epochs_the_last_is_the_best():
    rows = [{"epoch": epoch, "train_loss": 1.0, "dev_bleu": value} for epoch, value in ((1, 7.0), (2, 7.0), (3, 6.0))]
    line = describe_epoch(rows, "bleu", 9, 1.0, note="greedy")
    assert line == "epoch 3/9: loss 1.0000, dev bleu 6.00 (greedy), 1.0 s, best 7.00 (epoch 2)"


def test_a_terminal_shows_a_bar_and_no_lines(corpus, tiny, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    tiny("classifier", training={"epochs": 2}).fit(*corpus("classifier", 16), callbacks=[EpochLines()])
    shown = capsys.readouterr().err
    assert re.search(r"Epoch 2/2 .*2/2.* train_loss: [\d.]+ dev_accuracy: [\d.]+", shown)
    assert "best" not in shown


def test_callbacks_reach_the_trainer(corpus, tiny):
    recorder = Recorder()
    estimator = tiny("classifier").fit(*corpus("classifier"), callbacks=[recorder])
    assert [set(row) for row in recorder.seen] == [set(row) for row in estimator.history_]
    for seen, row in zip(recorder.seen, estimator.history_, strict=True):
        assert seen == pytest.approx(row)


def test_callbacks_that_lightning_knows(corpus, tiny, tmp_path, capsys):
    """A checkpoint without ``run_dir``, and another progress bar."""
    checkpoint = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    tiny("classifier").fit(*corpus("classifier", 16), callbacks=[checkpoint, TQDMProgressBar(), EpochLines()])
    assert len(list(tmp_path.glob("*.ckpt"))) == 2
    assert "best" not in capsys.readouterr().err


def test_early_stopping_on_our_metric_replaces_ours(corpus, tiny):
    # no value is 200 above the first one
    stop = EarlyStopping("dev_accuracy", mode="max", patience=2, min_delta=200.0)
    estimator = tiny("classifier", training={"epochs": 5, "dev_fraction": 0.2, "patience": 4})
    assert len(estimator.fit(*corpus("classifier"), callbacks=[stop]).history_) == 3


def test_early_stopping_on_another_metric_is_added(corpus, tiny):
    stop = EarlyStopping("train_loss", patience=1, min_delta=100.0)
    estimator = tiny("classifier", training={"epochs": 5, "dev_fraction": 0.2, "patience": 4})
    assert len(estimator.fit(*corpus("classifier"), callbacks=[stop]).history_) == 2


def test_early_stopping_on_a_missing_metric(corpus, tiny):
    with pytest.raises(ConfigError, match=r"EarlyStopping monitors 'val_loss'; there are: .*dev_accuracy"):
        tiny("classifier", training={"epochs": 2}).fit(*corpus("classifier"), callbacks=[EarlyStopping("val_loss")])


def test_two_callbacks_that_do_not_fit_each_other(corpus, tiny):
    with pytest.raises(ConfigError, match=r"the callbacks do not fit each other: .*EarlyStopping"):
        tiny("classifier").fit(*corpus("classifier"), callbacks=[EarlyStopping("train_loss")] * 2)


@pytest.mark.slow
def test_a_callback_that_logs_needs_logs(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier", 16)
    with pytest.raises(ConfigError) as caught:
        tiny("classifier").fit(texts, labels, callbacks=[LearningRateMonitor()])
    assert caught.value.options == ("run_dir", "logs")
    training = {"epochs": 2, "batch_size": 1, "run_dir": str(tmp_path)}
    tiny("classifier", training=training).fit(texts, labels, callbacks=[LearningRateMonitor()])
    (metrics,) = tmp_path.rglob("metrics.csv")
    assert "lr-Adam" in metrics.read_text().partition("\n")[0]


class Slow(Callback):
    """A batch takes 0.25 seconds; the run ends after its second epoch."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        time.sleep(0.25)

    def on_train_epoch_end(self, trainer, pl_module):
        trainer.should_stop = trainer.current_epoch == 1


@pytest.mark.parametrize(("epochs", "lines"), [(1000, 1), (2, 0)])
def test_a_long_run_begins_with_an_estimate(corpus, tiny, capsys, epochs, lines):
    estimator = tiny("classifier", training={"epochs": epochs, "batch_size": 4, "dev_fraction": 0})
    estimator.fit(*corpus("classifier", 24), callbacks=[EpochLines(), Slow()])
    first = next((line for line in capsys.readouterr().err.splitlines() if line.startswith("time")), "")
    found = re.fullmatch(r"time: at most ([\d.]+) min for \d+ epochs", first)
    assert (found is not None) == bool(lines)
    assert not lines or 25 <= float(found[1]) <= 100  # 6 batches in each epoch

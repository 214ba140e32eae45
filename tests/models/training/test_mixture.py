"""The linear model comes first, and every epoch is measured with it."""

import signal
from threading import current_thread, main_thread

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from sklearn.base import clone

from graphattn import load
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.models import (
    HeadOptions,
    SequenceTagger,
    TextClassifier,
    TextRegressor,
    TrainingOptions,
)
from graphattn.models._encoders import encoder_options
from graphattn.models._estimators import fitting
from graphattn.models._estimators.state import make_corpus
from graphattn.models._estimators.word_inputs import WordInputs
from graphattn.models.training._branch_fitting import NgramFitter
from graphattn.models.training._budget import count_epochs
from graphattn.models.training.callbacks import EpochLines

SMALL = {"name": "ms-trans", "hidden": 8, "layers": 1, "scales": ("1", "3"), "heads": 2}
WORDS = ["good", "bad", "film", "plot", "not", "very", "actor", "the"]


def make_texts(count, seed):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]
    return texts, ["pos" if text.count("good") > text.count("bad") else "neg" for text in texts]


def make(kind=TextClassifier, **training):
    return kind(encoder_options(SMALL), training=TrainingOptions(progress=False, logs=False, **training))


@pytest.fixture(scope="module")
def corpus():
    return make_texts(160, 0)


def tagged(corpus):
    words = [text.split() for text in corpus[0][:60]]
    return words, [["N" if word in ("film", "plot", "actor") else "O" for word in sentence] for sentence in words]


class PressCtrlC(Callback):
    """Interrupts training in an epoch, from 0."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_batch_end(self, trainer, *arguments):
        if trainer.current_epoch == self.epoch:
            signal.raise_signal(signal.SIGINT)


class Fail(Callback):
    """Fails in the second epoch."""

    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch:
            raise RuntimeError


class PressCtrlCBeforeTheCheckpoint(Callback):
    """Interrupts a resumed run before it has read its checkpoint."""

    def setup(self, trainer, module, stage):
        signal.raise_signal(signal.SIGINT)


class LoadRun(Callback):
    """Loads the model of the run before the first step and after each epoch."""

    def __init__(self, folder, texts):
        self.folder, self.texts, self.models = folder, texts, []

    def on_train_start(self, trainer, module):
        self.load()

    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch:
            self.load()

    def load(self):
        with pytest.warns(GraphAttnWarning, match="training has not ended"):
            self.models.append(load(self.folder))


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor, SequenceTagger])
def test_the_figures_of_an_epoch_are_those_of_the_whole_model(corpus, kind):
    """With a dev set of its own, the linear model is not fitted again, so that the last epoch is the model."""
    X, y = tagged(corpus) if kind is SequenceTagger else corpus
    y = y if kind is not TextRegressor else [float(label == "pos") for label in y]
    model = make(kind, epochs=1).fit(X[:40], y[:40], dev=(X[40:], y[40:]))
    assert [row["epoch"] for row in model.history_] == [0, 1]
    best = model.best_epoch()
    measured = model.evaluate(X[40:], y[40:])
    for name, value in model.dev_metrics().items():
        assert value == best[f"dev_{name}"] == pytest.approx(measured[name], abs=1e-3)


@pytest.mark.parametrize("kind", [TextClassifier, SequenceTagger])
def test_no_epochs_leave_the_linear_model(corpus, kind, tmp_path):
    X, y = tagged(corpus) if kind is SequenceTagger else corpus
    model = make(kind, epochs=0).fit(X, y)
    assert model.mixture_ == {"deep": 0.0, "linear": 1.0}
    (row,) = model.history_
    assert row["epoch"] == model.best_epoch()["epoch"] == 0
    assert model.dev_metrics()["accuracy"] == row["dev_accuracy"]
    again = load(model.save(tmp_path / "model"))
    assert list(again.predict(X)) == list(model.predict(X))
    if kind is TextClassifier:  # the scores are those of the n-grams
        batch = make_corpus(model, X[:9])[list(range(9))]
        with torch.no_grad():
            np.testing.assert_array_equal(model.model_(batch), model.model_.linear_branch(batch))


def test_no_epochs_need_a_linear_model(corpus):
    model = TextClassifier(head=HeadOptions(linear_branch=False), training=TrainingOptions(epochs=0))
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        model.fit(*corpus)


def test_a_run_has_a_model_before_its_first_epoch(corpus, tmp_path):
    X, y = corpus
    seen = LoadRun(tmp_path, X)
    fitted = make(epochs=2, run_dir=str(tmp_path)).fit(X, y, callbacks=[seen])
    before, after = seen.models
    alone = make(epochs=0).fit(X, y, dev=None)
    assert before.best_epoch()["epoch"] == 0
    assert before.mixture_ == {"deep": 0.0, "linear": 1.0}
    assert before.history_ == fitted.history_[:1] == alone.history_
    assert after.history_ == fitted.history_[:2]
    kept = after.best_epoch()
    assert after.mixture_ == {name: kept[name] for name in ("deep", "linear")}


def test_the_run_of_a_tagger_measures_as_its_history_says(corpus, tmp_path):
    X, y = tagged(corpus)
    seen = LoadRun(tmp_path, X)
    tagger = make(SequenceTagger, epochs=2, run_dir=str(tmp_path))
    tagger.set_params(head__crf=True).fit(X[:30], y[:30], dev=(X[30:], y[30:]), callbacks=[seen])
    for model in seen.models:
        assert model.evaluate(X[30:], y[30:])["accuracy"] == pytest.approx(model.dev_metrics()["accuracy"])


@pytest.mark.parametrize(("epoch", "kept"), [(0, "the linear model"), (2, "epoch")])
def test_ctrl_c_ends_training_and_keeps_the_best_so_far(corpus, tmp_path, epoch, kept, capsys):
    assert current_thread() is main_thread()
    X, y = corpus
    model = make(epochs=4, run_dir=str(tmp_path)).fit(X, y, callbacks=[PressCtrlC(epoch), EpochLines()])
    assert model.was_stopped_
    assert len(model.history_) == epoch + 1
    assert (tmp_path / "last.ckpt").exists() == (epoch > 0)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("stopped")]
    assert line.startswith(f"stopped; kept {kept}")
    assert f": dev accuracy {model.best_epoch()['dev_accuracy']:.2f}" in line
    resumed = make(epochs=4, run_dir=str(tmp_path)).fit(X, y)
    whole = make(epochs=4).fit(X, y)
    assert resumed.history_ == whole.history_
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_ctrl_c_with_nothing_to_keep_is_an_error(corpus):
    model = make(epochs=4).set_params(head=HeadOptions(linear_branch=False))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*corpus, callbacks=[PressCtrlC(0)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("has_branch", [True, False])
def test_ctrl_c_before_a_checkpoint_is_read_keeps_none_of_its_epochs(corpus, tmp_path, has_branch, capsys):
    model = make(epochs=3, run_dir=str(tmp_path)).set_params(head=HeadOptions(linear_branch=has_branch))
    clone(model).fit(*corpus, callbacks=[PressCtrlC(1)])
    if has_branch:
        model.fit(*corpus, callbacks=[PressCtrlCBeforeTheCheckpoint()])
        assert [row["epoch"] for row in model.history_] == [0]
        assert "kept the linear model" in capsys.readouterr().err
    else:
        with pytest.raises(KeyboardInterrupt):
            model.fit(*corpus, callbacks=[PressCtrlCBeforeTheCheckpoint()])
        assert not hasattr(model, "model_")


def test_an_error_keeps_the_best_epoch_beside_the_linear_model(corpus):
    X, y = corpus
    model = make(epochs=3)
    with pytest.raises(RuntimeError):
        model.fit(X[:40], y[:40], dev=(X[40:], y[40:]), callbacks=[Fail()])
    kept = model.best_epoch()
    assert model.mixture_ == {name: kept[name] for name in ("deep", "linear")}
    assert model.evaluate(X[40:], y[40:])["accuracy"] == pytest.approx(kept["dev_accuracy"])


def test_ctrl_c_while_the_linear_model_learns_the_dev_set_keeps_it_as_it_was(corpus, monkeypatch):
    model, prepare = make(epochs=0), NgramFitter.prepare
    fits = []

    def press_in_second_fit(fitter, of_texts):
        fits.append(fitter)
        if len(fits) == 2:
            raise KeyboardInterrupt
        return prepare(fitter, of_texts)

    monkeypatch.setattr(NgramFitter, "prepare", press_in_second_fit)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*corpus)
    assert model.score(*corpus) > 0.8


@pytest.mark.parametrize(
    ("owner", "name", "training"),
    [(WordInputs, "start_embedding", {"epochs": 2}), (fitting, "measure_epoch", {"minutes": 1})],
)
def test_ctrl_c_before_the_first_step_keeps_the_linear_model(corpus, monkeypatch, capsys, owner, name, training):
    monkeypatch.setattr(owner, name, lambda *_: signal.raise_signal(signal.SIGINT))
    model = make(**training).fit(*corpus)
    assert model.was_stopped_
    assert [row["epoch"] for row in model.history_] == [0]
    assert capsys.readouterr().err.startswith("stopped; kept the linear model: dev accuracy ")
    with pytest.raises(KeyboardInterrupt):
        model.set_params(head=HeadOptions(linear_branch=False)).fit(*corpus)


def test_minutes_decide_the_epochs_which_repeat_the_run(corpus, capsys):
    X, y = corpus
    model = make(minutes=0.03).fit(X, y, callbacks=[EpochLines()])
    epochs = model.training_.epochs
    assert model.resolved_.why("epochs") == "minutes"
    assert f"minutes: {epochs} epoch" in capsys.readouterr().err
    again = make(epochs=epochs).fit(X, y)
    assert again.history_ == model.history_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_models_of_cross_validation_have_as_many_epochs_instead_of_minutes(corpus, monkeypatch):
    measured = []

    def measure(model, *_):
        measured.append(model)
        return 50.0

    monkeypatch.setattr(fitting, "measure_epoch", measure)
    X, y = corpus
    model = make(minutes=1).set_params(tune_threshold="f1").fit(X[:60], y[:60])
    assert len(measured) == model.training_.epochs == 1


def test_minutes_without_room_for_an_epoch(corpus, capsys):
    X, y = corpus
    assert make(minutes=1e-4).fit(X, y, callbacks=[EpochLines()]).history_[-1]["epoch"] == 0
    assert "minutes: 0.0001 are over but for a tenth, so there is no epoch" in capsys.readouterr().err
    model = make(minutes=1e-4).set_params(head=HeadOptions(linear_branch=False))
    with pytest.warns(GraphAttnWarning, match="longer than minutes=0.0001; there is at least one"):
        model.fit(X, y, callbacks=[EpochLines()])
    assert model.history_[-1]["epoch"] == 1
    assert "minutes:" not in capsys.readouterr().err
    with pytest.raises(ConfigError, match="leave one of them out"):
        make(minutes=1, epochs=2).fit(X, y)


def test_the_dev_set_is_only_measured_if_an_epoch_fits_without_it():
    measured = []

    def measure():
        measured.append(True)

    assert count_epochs(5.0, 10.0, measure) == (0, 10.0)
    assert not measured
    epochs, epoch = count_epochs(35.0, 10.0, measure)
    assert measured
    assert (epochs, round(epoch)) == (3, 10)

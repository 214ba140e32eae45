"""Training and saving are killed or run out of disk space: no model is lost or incomplete."""

import json
import os
import resource
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from graphattn import load
from graphattn.models import Estimator
from graphattn.models.training._loop import TrainingModule


def kill(*_arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def weights(model: Path):
    return {name: array.tobytes() for name, array in load_file(model / "model.safetensors").items()}


@pytest.fixture
def command(corpora_folder, tiny):
    """A command that trains for five epochs of three steps each."""
    return ["train", "classify", corpora_folder / "reviews.tsv", *tiny, "--epochs", "5"]


@pytest.mark.slow
def test_a_killed_run_resumes_with_identical_results(graphattn, run_in_fork, command, tmp_path):
    def train_eight_steps():
        step, left = TrainingModule.training_step, iter([None] * 8)
        TrainingModule.training_step = lambda *arguments: step(*arguments) if next(left, kill) is None else kill()
        graphattn(*command, "--out", tmp_path / "model")

    assert run_in_fork(train_eight_steps) == -signal.SIGKILL
    history = json.loads((tmp_path / "model.run" / "history.json").read_text())
    assert history["epochs"][-1]["epoch"] == 2, "killed in the third epoch"
    answer = graphattn(*command, "--out", tmp_path / "model")
    assert answer.code == 0
    graphattn(*command, "--out", tmp_path / "undisturbed")
    assert weights(tmp_path / "model") == weights(tmp_path / "undisturbed")
    figures = [(tmp_path / name / "metrics.json").read_text() for name in ("model", "undisturbed")]
    assert figures[0] == figures[1]


@pytest.mark.slow
def test_a_kill_while_saving_keeps_the_old_model(graphattn, run_in_fork, classifier, command, tmp_path):
    out = shutil.copytree(classifier, tmp_path / "model")
    before = load(out).predict_proba(["a good film"]).tolist()

    def train_and_move_the_old_model():
        rename = os.rename
        os.rename = lambda source, target: kill() if str(source).endswith(".new") else rename(source, target)
        graphattn(*command, "--seed", "1", "--overwrite", "--out", out)

    assert run_in_fork(train_and_move_the_old_model) == -signal.SIGKILL
    assert not out.exists(), "killed between the two renames"
    assert load(out).predict_proba(["a good film"]).tolist() == before
    answer = graphattn(*command, "--seed", "1", "--overwrite", "--out", out)
    assert answer.code == 0
    assert load(out).predict_proba(["a good film"]).tolist() != before
    assert not (tmp_path / ".model.old").exists()


@pytest.fixture
def limit_file_size():
    """Limit the size of files, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_a_full_disk_keeps_the_old_model(graphattn, classifier, command, tmp_path, limit_file_size, monkeypatch):
    out = shutil.copytree(classifier, tmp_path / "model")
    before = load(out).predict_proba(["a good film"]).tolist()
    save = Estimator.save

    def save_on_a_full_disk(self, path, **notes):
        limit_file_size(4_000)
        return save(self, path, **notes)

    monkeypatch.setattr(Estimator, "save", save_on_a_full_disk)
    answer = graphattn(*command, "--seed", "1", "--overwrite", "--out", out)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"error: {out} could not be written (")
    assert answer.err.endswith("); what was there before is unchanged\n")
    assert load(out).predict_proba(["a good film"]).tolist() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.run"]


@pytest.mark.parametrize(("size", "file"), [(400, "training.json"), (4_000, "linear.ckpt")])
def test_a_full_disk_during_training_is_reported(graphattn, command, tmp_path, limit_file_size, size, file):
    out = tmp_path / "model"
    limit_file_size(size)
    answer = graphattn(*command, "--out", out)
    assert answer.error == (
        f"{tmp_path / 'model.run' / file} cannot be written (File too large); make room and train again "
        "to resume from the last checkpoint"
    )
    assert not out.exists()


@pytest.fixture
def diverging_at(monkeypatch):
    """``with diverging_at(epoch):`` the loss of that epoch is NaN."""
    from graphattn.exceptions import DivergenceError

    step = TrainingModule.training_step

    @contextmanager
    def diverging(epoch):
        def failing(self, batch, number):
            if self.epoch == epoch:
                raise DivergenceError("the loss is nan")
            return step(self, batch, number)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingModule, "training_step", failing)
            yield

    return diverging


@pytest.mark.slow
def test_a_nan_loss_keeps_the_last_good_checkpoint(graphattn, command, tmp_path, diverging_at):
    with diverging_at(2):
        answer = graphattn(*command, "--out", tmp_path / "model")
    kept = tmp_path / "model.run" / "best-model"
    assert (answer.code, answer.err) == (
        1,
        f"error: the loss is nan. The best epoch's model is {kept}; to train with other options, start again with "
        "--no-resume\n",
    )
    assert (tmp_path / "model.run" / "last.ckpt").exists()
    assert graphattn("info", kept).code == 0
    with diverging_at(0):
        answer = graphattn(*command, "--no-resume", "--out", tmp_path / "model")
    assert (answer.code, answer.err) == (1, "error: the loss is nan\n")
    assert graphattn("info", kept).code == 0, "the model of the previous run"
    assert graphattn(*command, "--out", tmp_path / "model").code == 0
    assert not kept.exists()
    figures = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert figures["epochs"] == 3, "the linear model has no mistake, so that no epoch is better"


def test_a_failing_save_does_not_hide_a_divergence(graphattn, command, tmp_path, monkeypatch, diverging_at):
    def full(self, folder, **more):
        raise OSError(28, "No space left on device")

    with diverging_at(1), monkeypatch.context() as patch:
        patch.setattr(Estimator, "save", full)
        answer = graphattn(*command, "--out", tmp_path / "model")
    assert (answer.code, answer.err) == (
        1,
        "error: the loss is nan. The best epoch's model could not be saved ([Errno 28] No space left on device)\n",
    )


@pytest.mark.slow
def test_other_files_in_the_run_folder_are_kept(graphattn, command, tmp_path):
    """A model saved into the folder of its run, and a folder of the user in the run folder."""
    command += ["--epochs", "1"]
    run = tmp_path / "run"
    path = run / "best-model"
    assert graphattn(*command, "--run-dir", run, "--out", path).code == 0
    assert graphattn("info", path).code == 0
    (tmp_path / "model.run" / "best-model").mkdir(parents=True)
    (tmp_path / "model.run" / "best-model" / "notes.txt").write_text("mine")
    assert graphattn(*command, "--out", tmp_path / "model").code == 0
    assert (tmp_path / "model.run" / "best-model" / "notes.txt").read_text() == "mine"

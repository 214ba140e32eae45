"""Runs in experiment trackers: options, metrics of each epoch, reports and pictures."""

import csv
import sys

import pytest

from graphattn.exceptions import ConfigError, MissingPackageError
from graphattn.models.training.callbacks import Tracker

OPTIONS = {"epochs": 2, "lr": 0.5, "scales": ("1", "N/4"), "dev": None}


def track(tracker, corpus, tiny):
    texts, labels = corpus("classifier")
    labels = [f"{label}++" if label == labels[0] else f"{label}##" for label in labels]
    estimator = tiny("classifier", training={"epochs": 2}).fit(texts, labels, callbacks=[tracker])
    report = estimator.report(texts, labels)
    tracker.log_report(report)
    tracker.log_picture("empty.png", pytest.importorskip("matplotlib.figure").Figure())
    tracker.finish()
    return estimator, report


def test_csv(corpus, tiny, tmp_path):
    estimator, report = track(Tracker("csv", OPTIONS, folder=tmp_path), corpus, tiny)
    (run,) = (tmp_path / "csv").iterdir()
    with open(run / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["train_loss"]) for row in rows if row["train_loss"]]
    assert losses == pytest.approx([row["train_loss"] for row in estimator.history_])
    assert float(rows[-1]["test_accuracy"]) == pytest.approx(report["accuracy"])
    classes = {name: float(value) for name, value in rows[-1].items() if name.startswith("test_f1_")}
    assert list(classes.values()) == pytest.approx([row["f1"] for row in report["classes"].values()])
    assert all("+" not in name and "#" not in name for name in classes)
    assert (run / "test_report.txt").read_text() == f"{report}\n"
    assert (run / "empty.png").exists()
    assert "lr: '0.5'" in (run / "hparams.yaml").read_text()


def test_tensorboard(corpus, tiny, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    track(Tracker("tensorboard", OPTIONS, folder=tmp_path / "logs"), corpus, tiny)
    tags = EventAccumulator(str(tmp_path / "logs" / "tensorboard")).Reload().Tags()
    assert {"train_loss", "test_accuracy"} <= {*tags["scalars"]}
    assert tags["images"] == ["empty.png"]
    assert "test_report.txt/text_summary" in tags["tensors"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_mlflow_with_a_local_file_store(corpus, tiny, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "films")
    estimator, report = track(Tracker("mlflow", OPTIONS, name="first"), corpus, tiny)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("films").experiment_id])
    assert run.info.run_name == "first"
    assert run.info.status == "FINISHED"
    assert run.data.params == {key: str(value) for key, value in OPTIONS.items()}
    losses = [metric.value for metric in client.get_metric_history(run.info.run_id, "train_loss")]
    assert losses == pytest.approx([row["train_loss"] for row in estimator.history_])
    assert run.data.metrics["test_accuracy"] == pytest.approx(report["accuracy"])
    assert sum(name.startswith("test_f1_") for name in run.data.metrics) == len(report["classes"])
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"empty.png", "test_report.txt"}


@pytest.mark.parametrize("tracker", ["wandb", "mlflow", "trackio", "tensorboard"])
def test_a_missing_package_names_its_extra(tracker, monkeypatch):
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(
        MissingPackageError, match=rf"this logger needs {tracker}, .*pip install 'graphattn\[{tracker}\]'"
    ):
        Tracker(tracker, {})


def test_other_errors(tmp_path):
    with pytest.raises(ConfigError, match=r"^logger is 'neptune'; .*csv, tensorboard, wandb, mlflow, trackio"):
        Tracker("neptune", {})
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^the logger csv cannot start a run: .*file"):
        Tracker("csv", {}, folder=tmp_path / "file")

"""``bench latency``: processes, rows, ratios, and what is left out."""

import subprocess
import sys

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import _latency as latency
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.papers._smoke import write_model


class FixedTime:
    """A worker that takes a millisecond for each text."""

    def time(self, texts):
        return float(len(texts))


def test_rows_have_a_ratio_to_ours_in_the_same_precision():
    settings = latency.LatencySettings(repeats=2)
    workers = {name: FixedTime() for name in ("ours", "onnx", "onnx-int8")}
    rows = latency.time_workers(latency.ENTRIES, workers, 1, settings)
    assert [(row["contender"], "ratio" in row) for row in rows] == [
        ("ours", False),
        ("onnx", True),
        ("onnx-int8", False),
    ]
    assert set(rows[0]["times"]) == {"1x5", "1x22", "1x200", "8x22", "64x22"}
    assert [rows[0]["times"][name]["median_ms"] for name in ("1x5", "8x22")] == [1, 8]


def test_unknown_peers_are_errors():
    for settings in ({"peers": ("spacey",)}, {"pythons": {"ours": "python"}}):
        with pytest.raises(ConfigError, match=r"choose from: transformers, .*fasttext"):
            latency.LatencySettings(**settings).select()
    chosen = latency.LatencySettings(peers=("onnx",)).select()
    assert [entry.name for entry in chosen] == ["ours", "onnx", "ours-bfloat16", "ours-int8", "ms-trans"]


def test_a_worker_that_cannot_load_says_why(tmp_path):
    request = {"threads": 1, "model": str(tmp_path), "folder": str(tmp_path), "texts": []}
    with (
        latency.start_worker("unknown", request, sys.executable, tmp_path) as worker,
        pytest.raises(UnableError) as error,
    ):
        worker.wait()
    assert str(error.value) == "KeyError: 'unknown'"


def test_a_worker_answers_with_milliseconds(tmp_path):
    code = 'import sys; print(\'{"torch": "2"}\', flush=True); [print(len(line), flush=True) for line in sys.stdin]'
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
        worker = latency.Worker(process, tmp_path / "errors")
        worker.wait()
        assert (worker.versions, worker.time(["ab"])) == (["torch 2"], 7.0)
        process.kill()  # it is stopped, and would not see the end of its input


def test_the_picture_has_a_panel_for_each_number_of_threads(tmp_path):
    workers = {"ours": FixedTime(), "onnx": FixedTime()}
    settings = latency.LatencySettings(repeats=1)
    rows = [row for threads in (1, 2) for row in latency.time_workers(latency.ENTRIES, workers, threads, settings)]
    latency.plot_latency(rows, tmp_path / "latency.png")
    assert (tmp_path / "latency.png").stat().st_size > 1000


@pytest.mark.slow
def test_our_contenders_and_a_missing_peer(monkeypatch, tmp_path):
    chosen = [entry for entry in latency.ENTRIES if entry.name in ("ours", "ms-trans", "fasttext")]
    monkeypatch.setattr(latency, "ENTRIES", chosen)
    settings = latency.LatencySettings(
        repeats=1, peers=("fasttext",), pythons={"fasttext": sys.executable}, threads=(1,)
    )
    write_model(tmp_path / "pretrained")
    report = latency.measure(settings, pretrained=tmp_path / "pretrained")
    assert [row["contender"] for row in report.rows] == ["ours", "ms-trans"]
    assert any("is not installed: pip install fasttext-numpy2" in line for line in report.left_out)
    assert "| 1 | GraphAttn, MS-Trans |" in report.to_markdown()

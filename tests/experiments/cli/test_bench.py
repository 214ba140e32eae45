"""``graphattn bench``: flags, files, exit codes."""

import json
import os
import sys

import pytest
import torch

from graphattn.experiments._cli.bench import ALL

SHARED = {"seconds": 120.0, "device": "cpu", "precision": "32"}


def test_a_table_is_printed(graphattn):
    answer = graphattn("bench", "attention", "--lengths", "2x6", "--repeats", "2", "--peers", "dense")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("# graphattn bench attention\n")
    assert answer.out.count("\n| 2x6 | forward | ") == 2


def test_a_missing_peer_is_left_out(graphattn, monkeypatch):
    monkeypatch.setattr("graphattn.experiments.benchmarks._contenders.find_spec", lambda name: None)
    answer = graphattn("bench", "attention", "--lengths", "2x6", "--repeats", "2", "--peers", "dgl")
    assert answer.code == 0
    assert answer.out.count("\n| 2x6 | forward | ") == 1
    assert "\n- DGL's three operators: dgl is not installed\n" in answer.out


@pytest.mark.slow
def test_files_are_written_and_replaced(graphattn, tmp_path):
    folder = tmp_path / "deep" / "figures"
    for repeats in (1, 2):
        flags = ["--lengths", "2x6,1x9", "--repeats", repeats, "--peers", "none", "--out", folder]
        assert graphattn("bench", "train-step", *flags).code == 0
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["train-step.json", "train-step.md", "train-step.png"]
        results = json.loads((folder / "train-step.json").read_text())
        assert results["settings"] == {"lengths": ["2x6", "1x9"], "repeats": repeats, "peers": [], **SHARED}
        assert [(row["workload"], row["contender"]) for row in results["rows"]] == [("2x6", "ours"), ("1x9", "ours")]
        assert {len(row["times_ms"]) for row in results["rows"]} == {repeats}


def test_missing_corpora_are_reported(graphattn, monkeypatch):
    monkeypatch.delenv("GRAPHATTN_DATA", raising=False)
    answer = graphattn("bench", "encoder", "--lengths", "mr", "--repeats", "1")
    assert answer.code == 0
    assert "- mr: there is no mr/all.tsv in the folder that GRAPHATTN_DATA names\n" in answer.out


@pytest.mark.slow
def test_quick_reduces_the_number_of_runs(graphattn):
    answer = graphattn("bench", "build", "--quick", "--lengths", "2x5")
    assert answer.code == 0
    assert "| 2x5 | build, for models | " in answer.out
    (row,) = [line for line in answer.out.splitlines() if "| build, for models |" in line]
    assert row.split(" | ")[4] == "3"


def test_the_directory_of_a_pretrained_model(graphattn, monkeypatch):
    from graphattn.experiments.benchmarks import _pretrained as pretrained
    from graphattn.experiments.benchmarks._report import BenchmarkReport

    arguments = []
    monkeypatch.setattr(
        pretrained,
        "measure",
        lambda settings, **options: arguments.append(options) or BenchmarkReport("pretrained", "", {}, {}),
    )
    assert graphattn("bench", "pretrained", "--pretrained", "minilm").code == 0
    assert graphattn("bench", "pretrained", "--quick").code == 0
    assert arguments == [{"directory": "minilm"}, {"directory": None, "long": "1x600", "longest": "1x1024"}]


def test_threads_are_set_for_all_libraries(graphattn, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    before = torch.get_num_threads()
    try:
        answer = graphattn("bench", "build", "--lengths", "1x3", "--repeats", "1", "--threads", before + 1)
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == str(before + 1)
    finally:
        torch.set_num_threads(before)
    assert f"; {before + 1} threads; " in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["attention", "--peers", "xla"],
            "--peers has 'xla'; choose from: dense, dense-math, dense-by-token, dgl, flex, flex-128, pyg, pyg-sorted, "
            "ours-known; or none",
        ),
        (
            ["encoder", "--peers", "flex"],
            "--peers has 'flex'; choose from: transformer, transformer-fast-path, transformer-compiled, masked, "
            "masked-additive, dgl; or none",
        ),
        (["memory", "--peers", "flex"], "--peers has 'flex'; choose from: torch, dgl, dense, pyg; or none"),
        (["attention", "--lengths", "22,,3"], "--lengths is '22,,3'; give comma-separated names"),
        (
            ["build", "--lengths", "long"],
            "--lengths has 'long'; give lengths such as 109, sentences x length such as 8x2048, "
            "corpora: mr, mtl16, imdb; or random lengths: questions, sentences, reviews",
        ),
    ],
)
def test_wrong_flags_are_reported_on_one_line(graphattn, words, message):
    assert graphattn("bench", *words).error == message


@pytest.mark.parametrize("flag", ["--repeats", "--threads"])
def test_counts_start_at_one(graphattn, flag):
    assert graphattn("bench", "attention", flag, "0").error == f"{flag} is 0; it must be at least 1"


def test_an_unwritable_folder_is_an_error_before_measuring(graphattn, tmp_path):
    (tmp_path / "file").write_text("")
    answer = graphattn("bench", "attention", "--out", tmp_path / "file")
    assert answer.error == f"{tmp_path / 'file'}: cannot be created (File exists). Choose another --out."
    answer = graphattn("bench", "store", "--folder", tmp_path / "file")
    assert answer.error == f"{tmp_path / 'file'}: cannot be created (File exists). Choose another --folder."


@pytest.mark.parametrize("package", ["psutil", "matplotlib"])
def test_without_the_extra(graphattn, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    answer = graphattn("bench", "attention")
    assert (answer.code, answer.err) == (
        2,
        f"error: graphattn bench needs {package}, which is not installed: pip install 'graphattn[bench]'\n",
    )


def test_all_runs_every_benchmark(graphattn, monkeypatch, tmp_path):
    from graphattn.experiments._cli import bench
    from graphattn.experiments.benchmarks._report import BenchmarkReport

    ran = []

    def measure(name, flags):
        ran.append((name, flags.quick, flags.repeats, flags.out))
        return BenchmarkReport(name, "", {}, {})

    monkeypatch.setattr(bench, "measure", measure)
    assert graphattn("bench", "all", "--quick", "--repeats", "2", "--out", tmp_path).code == 0
    names = ["attention", "encoder", "train-step", "memory", "build", "predict", "inspect", "mtsa", "umst"]
    names.append("pretrained")
    assert ran == [(name, True, 2, tmp_path) for name in names] == [(name, True, 2, tmp_path) for name in ALL]


@pytest.mark.parametrize("name", ALL)
def test_every_benchmark_has_workloads(name, monkeypatch):
    from importlib import import_module

    from graphattn.experiments.benchmarks._workloads import parse_workloads

    monkeypatch.delenv("GRAPHATTN_DATA", raising=False)  # corpora count as missing, and take no time
    module = import_module(f"graphattn.experiments.benchmarks._{'encoder' if name == 'train-step' else name}")
    for lengths in (module.LENGTHS, module.QUICK):
        workloads, missing = parse_workloads(lengths)
        assert len(workloads) + len(missing) == len(lengths)

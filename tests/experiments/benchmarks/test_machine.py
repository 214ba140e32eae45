"""The circumstances of a measurement."""

import re
import subprocess

import psutil
import pytest
import torch

import graphattn
from graphattn.experiments.benchmarks import machine


def test_circumstances_are_told_in_one_line():
    found = machine.circumstances()
    assert found["vectors"] in {"DEFAULT", "AVX2", "AVX512"} or "x86" not in found["system"]
    assert found["threads"] == torch.get_num_threads()
    assert found["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.06)
    assert found["versions"]["graphattn"] == graphattn.__version__
    assert {"python", "torch", "dgl", "numba"} <= found["versions"].keys()
    line = machine.described({**found, "cpu": "Some CPU", "vectors": "AVX2", "cores": 2, "commit": "abc"})
    assert line.startswith(f"Some CPU (AVX2), 2 cores, {found['memory_gib']} GiB, ")
    assert line.endswith(", commit abc")
    assert "commit" not in machine.described({**found, "commit": None})


def test_the_processor_has_a_name(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Fast One 9000\n\nmodel name\t: Fast One 9000\n")
    assert machine.cpu_model(path) == "Fast One 9000"
    path.write_text("nothing of use\n")
    assert machine.cpu_model(path)
    assert machine.cpu_model(tmp_path / "missing")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A clone of ours, as far as the question goes."""
    package = tmp_path / "graphattn"
    package.mkdir()
    (package / "attention.py").write_text("")
    monkeypatch.setattr(graphattn, "__file__", str(package / "__init__.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_known_inside_the_repository_only(repository):
    assert machine.commit() is None
    git(repository, "init")
    git(repository, "add", "graphattn/attention.py")
    git(repository, "commit", "-m", "first")
    assert re.fullmatch(r"[0-9a-f]{12}", machine.commit())
    (repository / "more").write_text("")
    assert re.fullmatch(r"[0-9a-f]{12}", machine.commit())
    (repository / "graphattn" / "attention.py").write_text("changed")
    assert re.fullmatch(r"[0-9a-f]{12}\+", machine.commit())
    git(repository, "rm", "-f", "graphattn/attention.py")
    (repository / "graphattn").mkdir(exist_ok=True)
    assert machine.commit() is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert machine.commit() is None

"""Settings of tests/conftest.py: threads, repeatable examples, corpora."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

USES_CORPORA = f"{Path(__file__)}::test_the_corpora_are_a_folder"


def test_the_number_of_threads():
    threads = int(os.environ.get("GRAPHATTN_TEST_THREADS", "1"))
    assert torch.get_num_threads() == threads


def test_hypothesis_is_deterministic_in_ci():
    assert settings().deadline is None
    assert settings().derandomize is bool(os.environ.get("CI"))


def test_the_corpora_are_a_folder(corpora):
    assert corpora.is_dir()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "GRAPHATTN_DATA is not set"),
        ("nowhere", "GRAPHATTN_DATA is nowhere, which is not a folder"),
    ],
)
def test_missing_corpora_are_reported(value, expected, root):
    answer = run_pytest("-rsE", USES_CORPORA, root=root, data=value)
    assert expected in answer.stdout
    assert ("1 skipped" in answer.stdout) is (value == "")


def test_data_tests_can_be_deselected(root):
    answer = run_pytest("-m", "not data", USES_CORPORA, root=root, data="")
    assert "1 deselected" in answer.stdout


def run_pytest(*arguments, root, data):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "GRAPHATTN_DATA": data}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)

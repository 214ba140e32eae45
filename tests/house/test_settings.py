"""What tests/conftest.py promises every other test: one thread, repeatable examples, corpora or a reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

USES_CORPORA = f"{Path(__file__)}::test_the_corpora_are_a_folder"


def test_every_process_has_the_threads_it_was_given():
    threads = int(os.environ.get("GRAPHATTN_TEST_THREADS", "1"))
    assert torch.get_num_threads() == threads


def test_hypothesis_repeats_itself_in_ci():
    assert settings().deadline is None
    assert settings().derandomize is bool(os.environ.get("CI"))


def test_the_corpora_are_a_folder(corpora):
    assert corpora.is_dir()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "GRAPHATTN_DATA does not name a folder of corpora"),
        ("nowhere", "GRAPHATTN_DATA names nowhere, which is no folder: correct it or unset it"),
    ],
)
def test_absent_corpora_are_explained(value, expected, root):
    answer = _pytest("-rsE", USES_CORPORA, root=root, data=value)
    assert expected in answer.stdout
    assert ("1 skipped" in answer.stdout) is (value == "")


def test_data_tests_can_be_left_out(root):
    answer = _pytest("-m", "not data", USES_CORPORA, root=root, data="")
    assert "1 deselected" in answer.stdout


def _pytest(*arguments, root, data):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "GRAPHATTN_DATA": data}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)

"""Settings of tests/conftest.py: threads, repeatable examples, corpora."""

import os

import pytest
import torch
from hypothesis import settings


def test_the_number_of_threads():
    threads = int(os.environ.get("GRAPHATTN_TEST_THREADS", "1"))
    assert torch.get_num_threads() == threads


def test_hypothesis_is_deterministic_in_ci():
    assert settings().deadline is None
    assert settings().derandomize is bool(os.environ.get("CI"))


def test_the_corpora_are_a_folder(corpora):
    assert corpora.is_dir()


def test_tests_of_corpora_are_marked(request, corpora):
    assert request.node.get_closest_marker("data")


def test_missing_corpora_are_reported(request, root):
    plugin = request.config.pluginmanager.get_plugin(str(root / "tests" / "conftest.py"))
    with pytest.raises(pytest.skip.Exception, match=r"^GRAPHATTN_DATA is not set$"):
        plugin.find_corpora("")
    with pytest.raises(pytest.fail.Exception, match=r"^GRAPHATTN_DATA is nowhere, which is not a folder$"):
        plugin.find_corpora("nowhere")

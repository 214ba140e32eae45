"""The tests of the kernels in Triton's interpreter, in a process of its own: it is chosen before Triton is imported."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton has wheels for Linux only")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels run on the GPU")
def test_kernels_in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-o", "pythonpath=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("test_backend.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

"""What every test shares: quiet and repeatable settings, and the folder of real corpora."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure() -> None:
    """Give each process, and each that a test starts, one thread, no display and the installed package."""
    threads = os.environ.get("GRAPHATTN_TEST_THREADS", "1")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    os.environ.setdefault("MPLBACKEND", "Agg")
    # Else `python -c` in the checkout would import the folder graphattn/ that lies there.
    os.environ.setdefault("PYTHONSAFEPATH", "1")

    import torch  # reads the variables above when it is loaded

    torch.set_num_threads(int(threads))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for the corpora with `data`, so that `-m "not data"` leaves them out."""
    for item in items:
        if "corpora" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora that GRAPHATTN_DATA names; without it the test is skipped."""
    named = os.environ.get("GRAPHATTN_DATA")
    if not named:
        pytest.skip("GRAPHATTN_DATA does not name a folder of corpora")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"GRAPHATTN_DATA names {named}, which is no folder: correct it or unset it")
    return folder

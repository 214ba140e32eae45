import time
from multiprocessing import get_context

import pytest

from graphattn.builders._locks import folder_lock, is_locked
from graphattn.exceptions import DataError


def hold(lock, folder):
    """A process that holds the lock of a folder until it is killed."""
    context = get_context("fork")
    held = context.Event()

    def wait():
        with lock(folder) as temporary:
            if temporary:
                (temporary / "half").touch()
            held.set()
            time.sleep(600)

    holder = context.Process(target=wait)
    holder.start()
    assert held.wait(60)
    return holder


def test_a_folder_is_locked_until_its_process_ends(tmp_path):
    holder = hold(folder_lock, tmp_path)
    assert is_locked(tmp_path)
    with (
        pytest.raises(DataError, match=rf"is being written by another process \({holder.pid}\)"),
        folder_lock(tmp_path),
    ):
        pass
    holder.kill()
    holder.join()
    for _ in range(2):
        assert not is_locked(tmp_path)
        with folder_lock(tmp_path):
            assert is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []

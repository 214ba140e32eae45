"""Two writers do not get at one store; a lock goes away with its holder."""

import subprocess
import sys

import pytest

from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store.lock import is_being_written, sole_writer
from graphattn.exceptions import DataError

HOLDER = """
import sys
from pathlib import Path
from graphattn.builders.store.lock import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused(tmp_path, write, trees, builder):
    folder = tmp_path / "s"
    corpus = CorpusFile(write("a.conllu", trees(5)))
    build_store([corpus], folder, StoreSettings(builder))
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(DataError) as caught:
        build_store([corpus], folder, StoreSettings(builder))
    assert str(caught.value) == (
        f"{folder}: is being written by another process ({holder.pid}). Wait for it, or choose another --out."
    )
    assert list(Store(folder)) == trees(5), "what was complete can be read meanwhile"
    text = (folder / "store.json").read_text()
    (folder / "store.json").write_text(text.replace('"complete": true', '"complete": false'))
    with pytest.raises(DataError) as caught:
        Store(folder)
    assert str(caught.value) == f"{folder}: is being written by another process. Wait until it is complete."
    holder.kill()
    holder.communicate()
    assert not is_being_written(folder)
    build_store([corpus], folder, StoreSettings(builder))
    assert list(Store(folder)) == trees(5)
    assert not (folder / ".writing").exists()


def test_a_lock_can_be_taken_again(tmp_path):
    for _ in range(2):
        with sole_writer(tmp_path):
            assert is_being_written(tmp_path)
        assert not is_being_written(tmp_path)

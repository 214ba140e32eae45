import os
import threading
from contextlib import suppress

import pytest

from graphattn.builders._atomic import atomic_file, atomic_folder, is_vacant, read_sealed, write_with_checksum

from .test_locks import hold


def write(folder, name):
    path = folder / name
    path.write_bytes(b"old")
    return path


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = write(tmp_path, "a.txt")
    with atomic_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with suppress(ZeroDivisionError), atomic_file(path, sync=True) as temporary:
        temporary.write_text("broken")
        _ = 1 / 0
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_to_a_link_replaces_its_target(tmp_path):
    file, folder = write(tmp_path, "a.txt"), tmp_path / "b"
    folder.mkdir()
    links = [tmp_path / "link.txt", tmp_path / "link"]
    for link, target in zip(links, (file, folder), strict=True):
        link.symlink_to(target)
    with atomic_file(links[0]) as temporary:
        temporary.write_text("new")
    with atomic_folder(links[1]) as temporary:
        (temporary / "x").touch()
    assert all(link.is_symlink() for link in links)
    assert file.read_text() == "new"
    assert (folder / "x").exists()


def test_a_folder_appears_when_it_is_complete(tmp_path):
    folder = tmp_path / "deep" / "a"
    for name in ("x", "y"):
        with atomic_folder(folder, sync=True) as temporary:
            (temporary / name).write_text(name)
            assert not (folder / name).exists()
        assert [path.name for path in folder.iterdir()] == [name]
    with suppress(ZeroDivisionError), atomic_folder(folder) as temporary:
        (temporary / "z").write_text("z")
        _ = 1 / 0
    assert list(folder.iterdir()) == [folder / "y"]
    assert list(folder.parent.iterdir()) == [folder]


def test_a_failed_replacement_is_undone(tmp_path, monkeypatch):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "old").touch()
    rename = os.rename

    def fail(source, target):
        if str(source).endswith(".new"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space"), atomic_folder(folder):
        pass
    assert list(tmp_path.iterdir()) == [folder]
    assert [path.name for path in folder.iterdir()] == ["old"]


def test_writers_of_a_folder_wait_for_each_other_and_clean_up_after_a_kill(tmp_path):
    folder = tmp_path / "a"

    def fill():
        with atomic_folder(folder) as temporary:
            (temporary / "whole").touch()

    holder = hold(atomic_folder, folder)
    writer = threading.Thread(target=fill)
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()
    holder.kill()
    holder.join()
    writer.join(60)
    assert [path.name for path in folder.iterdir()] == ["whole"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_sealed_file_is_read_only_as_it_was_written(tmp_path):
    path = tmp_path / "a"
    assert read_sealed(path) is None
    write_with_checksum(path, b"a\nb")
    assert read_sealed(path) == b"a\nb"
    sealed = path.read_bytes()
    flipped = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for damaged in [*flipped, *(sealed[:length] for length in range(len(sealed))), sealed + b"\n", sealed * 2]:
        path.write_bytes(damaged)
        assert read_sealed(path) is None
    write_with_checksum(path, b"")
    assert (read_sealed(path), list(tmp_path.iterdir())) == (b"", [path])


def test_leftovers_of_killed_writers_are_removed_after_a_day(tmp_path):
    old, new, other = (tmp_path / f".{name}.new" for name in ("a.txt.7", "a.txt.8", "b.txt.7"))
    for leftover in (old, new, other):
        leftover.touch()
    for leftover in (old, other):
        os.utime(leftover, (0, 0))
    with atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("a")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", new.name, other.name}


def test_a_folder_is_vacant_with_what_killed_writers_left(tmp_path):
    assert is_vacant(tmp_path)
    for name in (".store.json.123.new", ".model.new", ".model.lock", ".writing", ".caf\udce9.7.new", ".a\nb.new"):
        (tmp_path / name).touch()
    assert is_vacant(tmp_path)
    for name in ("notes.txt", ".bashrc", ".model.old", "x.new", ".new"):
        (tmp_path / name).touch()
        assert not is_vacant(tmp_path)
        (tmp_path / name).unlink()


def test_a_sealed_file_that_is_not_regular_is_damaged(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10**11)
    assert read_sealed(tmp_path / "pipe") is None
    assert read_sealed(tmp_path / "sparse") is None

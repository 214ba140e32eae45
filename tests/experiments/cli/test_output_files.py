"""Files and folders that are whole or not there."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.cli import output_files
from graphattn.experiments.cli.output_files import check_place, new_file, new_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with new_file(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_a_pipe_without_a_place_is_written_to():
    reading, writing = os.pipe()
    with os.fdopen(reading) as found:
        path = Path(f"/dev/fd/{writing}")
        if not path.exists():
            pytest.skip("this system has no files for open pipes")
        check_place(path)
        with new_file(path) as file:
            file.write("a line\n")
        os.close(writing)
        assert found.read() == "a line\n"


def test_a_file_stays_as_it_was_when_something_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(path):
        _ = 1 / 0
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_needs_a_folder(tmp_path):
    with pytest.raises(DataError) as error, new_file(tmp_path / "no" / "a.txt"):
        pass
    assert str(error.value) == (
        f"{tmp_path / 'no' / 'a.txt'}: cannot be written (No such file or directory). "
        "Check the folder and the space on the disk."
    )


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\)"), new_file(tmp_path / "file" / "a"):
        pass


def test_what_is_read_is_not_written_over(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("a\n")
    check_place(path, "-", "a text", tmp_path / "another.txt")
    with pytest.raises(DataError) as caught:
        check_place(path, tmp_path / "." / "texts.txt")
    assert str(caught.value) == f"{path}: would be written over what is read. Choose another file."


def test_a_folder_appears_at_the_end(tmp_path):
    with new_folder(tmp_path / "deep" / "a") as folder:
        (folder / "x").write_text("x")
        assert not (tmp_path / "deep" / "a").exists()
    assert names(tmp_path / "deep" / "a") == ["x"]
    assert names(tmp_path / "deep") == ["a"]


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    def fill() -> None:
        with new_folder(tmp_path / "a") as folder:
            (folder / "x").write_text("x")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fill()
    assert names(tmp_path) == []


def test_a_full_disk_is_told_in_one_line(tmp_path):
    with pytest.raises(DataError) as error, new_folder(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert str(error.value) == (
        f"{tmp_path / 'a'}: cannot be written (No space left on device). Check the folder and the space on the disk."
    )


def test_what_is_there_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "a").mkdir()
    with new_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("x")
    assert names(tmp_path / "a") == ["x"], "an empty folder is as good as none"
    with pytest.raises(DataError, match=r"is there already\. Choose another --out, or remove it\."):
        new_folder(tmp_path / "a").__enter__()
    with new_folder(tmp_path / "a", replace=True) as folder:
        (folder / "y").write_text("y")
    assert names(tmp_path / "a") == ["y"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no/a.html", "No such file or directory"),
        ("folder", "Is a directory"),
        ("file/a.html", "No such file or directory"),
    ],
)
def test_places_where_no_file_can_be(name, reason, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(DataError) as error:
        check_place(tmp_path / name)
    assert str(error.value) == (
        f"{tmp_path / name}: cannot be written ({reason}). Check the folder and the space on the disk."
    )


def test_places_where_a_file_can_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").touch()
    for path in (tmp_path / "old", tmp_path / "new", Path("new")):
        check_place(path)
    assert names(tmp_path) == ["old"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_closed_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot be written \(Permission denied\)"):
        check_place(tmp_path / "new")


def test_a_link_stays_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with new_file(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    check_place(pipe)
    with new_file(pipe) as file:
        file.write("through")
    assert reader.communicate(timeout=60)[0] == "through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_one(monkeypatch):
    monkeypatch.setattr(output_files.os, "replace", None)  # a mistake of ours must not cost this computer its device
    check_place(Path("/dev/null"))
    with new_file(Path("/dev/null")) as file:
        assert stat.S_ISCHR(os.fstat(file.fileno()).st_mode)

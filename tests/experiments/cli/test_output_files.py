"""Files and folders that are whole or not there."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.cli.output_files import check_place, encode_line, new_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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
    monkeypatch.setattr(os, "replace", None)  # a mistake of ours must not cost this computer its device
    check_place(Path("/dev/null"))
    with new_file(Path("/dev/null")) as file:
        assert stat.S_ISCHR(os.fstat(file.fileno()).st_mode)


def test_a_row_is_a_line_of_readable_text():
    line = encode_line({"text": "schön\n", "score": 0.5})
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "schön" in line
    assert json.loads(line) == {"text": "schön\n", "score": 0.5}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value):
    with pytest.raises(DataError, match="the model gives numbers that are not finite"):
        encode_line({"score": [value]})

"""Output files that are complete or missing, metrics and progress on a terminal and on a pipe."""

import json
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments._cli.output import check_output, encode_line, open_output, print_metrics, show_progress

FIGURES = {"dev": {"accuracy": 81.256, "macro_f1": 80.0}, "test": {"accuracy": 79.5}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_open_pipe_is_written_to():
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        path = Path(f"/dev/fd/{writing}")
        if not path.exists():
            pytest.skip("this system has no files for open pipes")
        check_output(path)
        with open_output(path) as file:
            file.write("a line\n")
        os.close(writing)
        assert pipe.read() == "a line\n"


def test_a_named_pipe_is_written_to(tmp_path):
    pipe, lines = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: lines.append(pipe.read_text()), daemon=True)
    reader.start()
    check_output(pipe)
    with open_output(pipe) as file:
        file.write("a line\n")
    reader.join(timeout=120)
    assert lines == ["a line\n"]
    assert pipe.is_fifo()


def test_a_file_needs_a_folder(tmp_path):
    with pytest.raises(DataError) as error, open_output(tmp_path / "no" / "a.txt"):
        pass
    assert str(error.value) == (
        f"{tmp_path / 'no' / 'a.txt'}: cannot be written (No such file or directory). "
        "Check the folder and the space on the disk."
    )


def test_inputs_are_not_overwritten(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("a\n")
    check_output(path, "-", "a text", tmp_path / "another.txt")
    with pytest.raises(DataError) as caught:
        check_output(path, tmp_path / "." / "texts.txt")
    assert str(caught.value) == f"{path}: would be written over what is read. Choose another file."


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no/a.html", "No such file or directory"),
        ("folder", "Is a directory"),
        ("file/a.html", "No such file or directory"),
    ],
)
def test_unwritable_paths(name, reason, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(DataError) as error:
        check_output(tmp_path / name)
    assert str(error.value) == (
        f"{tmp_path / name}: cannot be written ({reason}). Check the folder and the space on the disk."
    )


def test_writable_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").touch()
    for path in (tmp_path / "old", tmp_path / "new", Path("new")):
        check_output(path)
    assert names(tmp_path) == ["old"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot be written \(Permission denied\)"):
        check_output(tmp_path / "new")


def test_a_device_is_not_replaced(monkeypatch):
    monkeypatch.setattr(os, "replace", None)  # a bug must not delete the device file
    check_output(Path("/dev/null"))
    with open_output(Path("/dev/null")) as file:
        assert stat.S_ISCHR(os.fstat(file.fileno()).st_mode)


def test_a_row_is_a_line_of_plain_text():
    line = encode_line({"text": "schön\n", "score": 0.5})
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "schön" in line
    assert json.loads(line) == {"text": "schön\n", "score": 0.5}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(value):
    with pytest.raises(DataError, match="the model gives numbers that are not finite"):
        encode_line({"score": [value]})


def test_a_pipe_gets_one_metric_per_line(capsys):
    print_metrics(FIGURES)
    assert capsys.readouterr().out == "dev accuracy: 81.26\ndev macro f1: 80.00\ntest accuracy: 79.50\n"


def test_a_terminal_gets_a_table(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_metrics(FIGURES)
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["accuracy", "81.26", "79.50"] in rows
    assert ["macro", "f1", "80.00"] in rows


def test_brackets_of_a_file_are_no_markup(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_metrics({"test [red].tsv": {"f1": 80.0}, "test b": {"f1": 70.0}})
    assert "[red].tsv" in capsys.readouterr().out


def test_items_are_read_lazily():
    taken = []
    items = show_progress((taken.append(number) or number for number in range(5)), "counting")
    assert next(items) == 0
    assert taken == [0]
    assert list(items) == [1, 2, 3, 4]


def test_no_progress_bar_on_a_pipe(capsys):
    assert list(show_progress([1, 2], "counting")) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_progress_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(show_progress([1, 2], "counting", 2)) == [1, 2]
    out, err = capsys.readouterr()
    assert out == ""
    assert "counting" in err

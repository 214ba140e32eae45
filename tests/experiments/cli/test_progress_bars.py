"""Progress bars pass everything on, and show themselves to people only."""

import sys

from graphattn.experiments.cli.progress_bars import shown


def test_everything_is_passed_on_lazily():
    taken = []
    items = shown((taken.append(number) or number for number in range(5)), "counting")
    assert next(items) == 0
    assert taken == [0]
    assert list(items) == [1, 2, 3, 4]


def test_nobody_watches_a_pipe(capsys):
    assert list(shown([1, 2], "counting")) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_what_is_done(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(shown([1, 2], "counting", 2)) == [1, 2]
    out, err = capsys.readouterr()
    assert out == ""
    assert "counting" in err

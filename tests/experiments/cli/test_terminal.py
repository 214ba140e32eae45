"""Metrics and progress, on a terminal and on a pipe."""

import sys

from graphattn.experiments.cli.terminal import print_metrics, show_progress

FIGURES = {"dev": {"accuracy": 81.256, "macro_f1": 80.0}, "test": {"accuracy": 79.5}}


def test_a_pipe_gets_one_figure_a_line(capsys):
    print_metrics(FIGURES)
    assert capsys.readouterr().out == "dev accuracy: 81.26\ndev macro f1: 80.00\ntest accuracy: 79.50\n"


def test_a_terminal_gets_a_table(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_metrics(FIGURES)
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["accuracy", "81.26", "79.50"] in rows
    assert ["macro", "f1", "80.00"] in rows


def test_items_are_passed_on_lazily():
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

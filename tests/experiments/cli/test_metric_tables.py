"""Metrics as a table for people and as lines for pipes."""

import sys

from graphattn.experiments.cli.metric_tables import print_metrics

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

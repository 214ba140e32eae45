"""``bench store``: the generated corpus, the steps, and errors of the process that builds."""

import io
from pathlib import Path

import pytest

from graphattn.builders._text_lines import lines_within
from graphattn.builders.readers import read_conllu
from graphattn.exceptions import BuildError
from graphattn.experiments.benchmarks import _fresh_processes as processes
from graphattn.experiments.benchmarks._store import measure, write_conllu


def test_the_corpus_has_parsed_sentences():
    file = io.StringIO()
    write_conllu(file, 400)
    sentences = list(read_conllu(lines_within(file.getvalue().encode(), "generated", 1)))
    lengths = [len(sentence) for sentence in sentences]
    assert len(sentences) == 400
    assert 23 < sum(lengths) / 400 < 27
    assert (min(lengths), max(lengths)) == (1, 49)
    assert all(sentence.heads.count(0) == 1 for sentence in sentences)


@pytest.mark.slow
def test_steps_and_ratios(tmp_path, monkeypatch):
    """Also in a clone, whose folder graphattn/ must not shadow the installed package."""
    (tmp_path / "graphattn").mkdir()
    (tmp_path / "graphattn" / "__init__.py").write_text("raise ImportError('the folder of a clone')")
    (tmp_path / "stores").mkdir()
    monkeypatch.chdir(tmp_path)
    table = measure(300, 1, folder=Path("stores")).to_markdown()
    for text in ("| build | ", " sentences a second, 1 processes |", " MiB in the parent, ", "| read | ",
                 "| inference | ", "3 batches, from the first 3 |", "| read / inference |  | "):  # fmt: skip
        assert text in table
    assert list((tmp_path / "stores").iterdir()) == []


def test_errors_of_the_building_process_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.sys, "executable", "/bin/sh")
    for command, message in (
        ("echo hint: wait >&2; echo 'error: no relation' >&2; exit 1", "ended with code 1: no relation"),
        ("exit 1", "ended with code 1: no error message"),
        ("kill -9 $$", "ended by signal 9; the memory may have been too small"),
    ):
        monkeypatch.setattr(processes, "COMMAND", command)
        with pytest.raises(BuildError) as caught:
            measure(20, 1, folder=tmp_path)
        assert str(caught.value) == f"the process that built the store {message}"
    assert list(tmp_path.iterdir()) == []

"""Hints of readers point at the line of the user's program that reads, however deep they arise."""

import pytest

from graphattn.builders import WordVectors
from graphattn.builders.readers import (
    read_conll,
    read_corpus,
    read_labelled_lines,
    read_spans,
    read_table,
)
from graphattn.exceptions import GraphAttnWarning

ROWS = "".join(f"{name}\tso {n} fine\n" for n, name in enumerate(["pos", "neg", "pos", "neg"]))
REJECTED = '{"text": "Ada", "spans": [], "answer": "reject"}\n'
CASES = {
    "a header": ("train.tsv", "label\ttext\n" + ROWS, lambda path: list(read_labelled_lines(path))),
    "tabs": ("train.csv", ROWS, lambda path: list(read_labelled_lines(path))),
    "counted words": ("train.conll", "1\tAda\tB-PER\n2\twrote\tO\n\n", lambda path: list(read_conll(path))),
    "inner spans": ("train.conll", "Ada\t(A0(A1*)\nran\t*)\n\n", lambda path: list(read_conll(path))),
    "quotes": ("train.tsv", 'text\tlabel\n"a ""b"" c"\tx\n', lambda path: list(read_table(path))),
    "rejected texts": ("train.jsonl", REJECTED, lambda path: list(read_spans(path))),
    "dropped labels": ("train.tsv", ROWS, lambda path: list(read_corpus(path, drop_label=["neg"]))),
    "byte order marks": ("train.tsv", ROWS + "\ufeff" + ROWS, lambda path: list(read_labelled_lines(path))),
    "word vectors": ("vectors.txt", "3 2\na 1 2\nb 1 2\n", lambda path: WordVectors.read(path)),
}


@pytest.mark.parametrize("case", CASES)
def test_hints_point_at_the_line_that_reads(tmp_path, case):
    name, text, read = CASES[case]
    (tmp_path / name).write_text(text)
    with pytest.warns(GraphAttnWarning) as caught:
        read(tmp_path / name)
    assert {warning.filename for warning in caught} == {__file__}


def test_hints_of_a_folder_point_at_the_line_that_reads(tmp_path):
    for folder in ("pos", "neg", "unsup"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.txt").write_text("so fine\n")
    with pytest.warns(GraphAttnWarning) as caught:
        list(read_corpus(tmp_path))
    assert {warning.filename for warning in caught} == {__file__}

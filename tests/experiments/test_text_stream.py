"""Texts to predict: the format by the extension, the labels left out."""

import gzip

import pytest

from graphattn.builders import Example, Sentence
from graphattn.experiments.corpus_options import CorpusOptions
from graphattn.experiments.text_stream import read_texts


def read(path, task="classify", **options):
    return list(read_texts(str(path), task, CorpusOptions(**options)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\n\ntwo", ["one", "", "two"]),
        ("a", "one\ttwo\n", ["one\ttwo"]),
        ("a.csv", 'text\n"one, two"\n', [Example("one, two")]),
        ("a.tsv", "label\ttext\nx\tone\n", [Example("one")]),
        ("a.ndjson", '{"text": "one"}\n', [Example("one")]),
        ("a.conll", "one X\ntwo X\n\n", [Sentence(["one", "two"])]),
    ],
)
def test_the_extension_tells_the_format(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name) == expected
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(packed) == expected


def test_words_are_cut_at_blanks(tmp_path):
    (tmp_path / "a").write_text("don't stop .\n\n")
    assert read(tmp_path / "a", format="words") == [["don't", "stop", "."], []]


def test_labels_may_be_there(tmp_path):
    (tmp_path / "a.txt").write_text("x\tgood film\ny\tbad film\n")
    assert read(tmp_path / "a.txt", format="labelled") == [
        Example("good film", label="x"),
        Example("bad film", label="y"),
    ]


def test_pairs_have_a_second_text(tmp_path):
    (tmp_path / "a.txt").write_text("one\ttwo\n")
    (tmp_path / "a.jsonl").write_text('{"text": "one", "second": "two"}\n')
    assert read(tmp_path / "a.txt", "pair") == read(tmp_path / "a.jsonl", "pair") == [Example("one", "two")]

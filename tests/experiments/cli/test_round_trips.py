"""Whatever a text consists of: readers get back what writers wrote, or the writer reports one error."""

import csv
import io
import json
import re
import sys
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence, TextGraphBuilder, Window
from graphattn.builders._word_vectors import WordVectors
from graphattn.builders.readers import (
    read_conll,
    read_corpus,
    read_fasttext,
    read_labelled_lines,
    read_sentences,
    read_table,
)
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import DataError
from graphattn.experiments._cli.output import encode_line
from graphattn.experiments._cli.tables import format_row, format_table
from graphattn.models._results.entities import EntitySpan, TaggedText, format_conll

BLANKS_AND_CONTROLS = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp")
]
MARKS = [*"\"'`\\/|,;:#&<>[]{}()=-+@%_*~^$!?.", *"\u2581\ufdd0\u00ab\u201c\u2019\u3164\u0301\u200d\u20dd\U0001f600"]
CHARACTERS = [*BLANKS_AND_CONTROLS, *MARKS]
WORDS = [
    *dict.fromkeys(word for c in CHARACTERS for word in (c, f"a{c}b", f"{c}a", f"a{c}", f"{c}{c}")),
    "-DOCSTART-", "NA", "null", "", '"a" "b"', "1_000", "=1+1", "__label__", "<!--", "a/B", "a\\/", "text",
]  # fmt: skip


def text_of(characters):
    return st.lists(st.sampled_from(characters), max_size=8).map("".join)


hostile = st.lists(text_of([c for c in CHARACTERS if c not in "\0\ufeff"] + ["a", "b c", "\n\n"]), min_size=1)


def write(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return path


def as_read(text):
    """Within a quoted field, a line may end in a carriage return and a newline."""
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tables(tmp_path, suffix):
    texts = [text for text in WORDS if "\0" not in text]
    path = write(tmp_path / f"a{suffix}", format_table([("id", "text"), *enumerate(texts)], suffix))
    assert [example.text for example in read_table(path, label=None)] == texts
    frame = pd.read_csv(path, sep={".csv": ",", ".tsv": "\t"}[suffix], keep_default_na=False)
    assert frame["text"].tolist() == [as_read(text) for text in texts]
    for text in {*WORDS} - {*texts}:
        with pytest.raises(DataError):
            format_row([text], suffix)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@given(hostile)
def test_tables_of_any_text(tmp_path_factory, suffix, texts):
    folder = tmp_path_factory.mktemp("tables")
    path = write(folder / f"a{suffix}", format_table([("text", 'a, "b'), *((text, text) for text in texts)], suffix))
    assert [example.text for example in read_table(path, label=None)] == [as_read(text) for text in texts]
    assert [example.text for example in read_table(path, text='a, "b', label=None)] == [as_read(t) for t in texts]


def test_rows_of_a_plain_table(tmp_path):
    texts = [text for text in WORDS if not {*text} & {*"\t\r\n\0"} and not text.startswith("\ufeff")]
    rows = [format_row(["x", text], ".tsv") for text in texts]
    assert rows == [f"x\t{text}\n" for text in texts]
    assert list(read_labelled_lines(write(tmp_path / "a.tsv", "".join(rows)))) == [Example(t, label="x") for t in texts]
    for text in {*WORDS} - {*texts}:
        with pytest.raises(DataError):
            format_row(["x", text], ".tsv")


def test_json_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", "".join(encode_line({"text": text, "second": text}) for text in WORDS))
    assert list(read_table(path, second="second", label=None)) == [Example(text, text) for text in WORDS]
    path = write(tmp_path / "b.jsonl", encode_line({"tokens": WORDS, "tags": WORDS}))
    assert list(read_sentences(path)) == [Sentence(WORDS, tags=WORDS)]


def is_no_field(word):
    return not word or word == "-DOCSTART-" or word.startswith("\ufeff") or {*word} & {*"\t\r\n\0"}


def test_columns(tmp_path):
    sentences = []
    for word in WORDS:
        if is_no_field(word):
            with pytest.raises(DataError):
                format_conll(["a", word], ["O", "O"])
        else:
            sentences.append(((word, "b", word), ("O", word, "O")))
    assert len(sentences) > 500
    for name in ("a.conll", "a.txt"):
        path = write(tmp_path / name, "".join(format_conll(words, tags) for words, tags in sentences))
        assert [(s.tokens, s.tags) for s in read_corpus(path, task="tag", format="conll")] == sentences


def test_predictions_in_columns(graphattn, tagger, tmp_path):
    words = WORDS[: 5 * len(BLANKS_AND_CONTROLS) : 7]
    path = write(tmp_path / "a.jsonl", "".join(encode_line({"tokens": ["a", word]}) for word in words))
    answer = graphattn("predict", tagger, path, "--out", tmp_path / "out.conll")
    assert answer.code == 1
    hint, error = answer.err.splitlines()
    assert hint.startswith("hint: the model does not know 100% of the words")
    assert error.startswith("error: ")
    written = [word for word in words if not is_no_field(word)]
    assert [sentence.tokens for sentence in read_conll(tmp_path / "out.conll")] == [("a", word) for word in written]


def test_a_store(tmp_path):
    path = write(tmp_path / "a.jsonl", encode_line({"tokens": WORDS}))
    build_store([CorpusFile(path)], tmp_path / "store", StoreSettings(TextGraphBuilder([Window(3)])))
    assert Store(tmp_path / "store")[0].tokens == tuple(WORDS)


class TextOfPage(HTMLParser):
    """Collects the text outside of the types of entities."""

    def __init__(self):
        super().__init__()
        self.parts, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        self.depth += tag == "b"

    def handle_endtag(self, tag):
        self.depth -= tag == "b"

    def handle_data(self, data):
        if not self.depth:
            self.parts.append(data)


def test_html():
    for word in WORDS:
        page = TextOfPage()
        spans = [EntitySpan(f"X{word}", 0, len(word), word, 1.0)]
        page.feed(TaggedText(f"{word}\n{word}", spans, [f"X{word}"])._repr_html_())
        page.close()
        assert "".join(page.parts) == f"{word} \n{word}"


def test_vectors_of_texts(graphattn, classifier, tmp_path):
    texts = [text for text in WORDS[::5] if not {*text} & {*"\n\0\r"} and text[:1] != "\ufeff"]
    path = write(tmp_path / "a.txt", "".join(f"{text}\n" for text in texts))
    answer = graphattn("encode", classifier, path, "--format", "text", "--out", tmp_path / "v.parquet")
    assert answer.code == 0
    assert pq.read_table(tmp_path / "v.parquet")["text"].to_pylist() == texts


def test_vectors_of_words(tmp_path):
    words = [word for word in WORDS if word and not {*word} & {*" \t\n\0"} and word[0] != "\ufeff"]
    path = write(tmp_path / "v.txt", "".join(f"{word} {number} 0.5\n" for number, word in enumerate(words)))
    vectors = WordVectors.read(path)
    assert vectors.words == words
    assert np.array_equal(vectors.matrix[:, 0], range(len(words)))


def test_fasttext(tmp_path):
    words = [word for word in WORDS if not re.search("[ \t\n\v\f\r\0]", word)]
    path = write(tmp_path / "a.txt", "".join(f"__label__x{word}y a {word} b\n" for word in words))
    assert list(read_fasttext(path, prefix="__label__x")) == [Example(f"a {w} b", label=f"{w}y".strip()) for w in words]


def test_mistakes(graphattn, classifier, tmp_path):
    texts = [f"a{c}film {n}" for n, c in enumerate(CHARACTERS) if c != "\0"]
    path = write(tmp_path / "a.jsonl", "".join(encode_line({"text": text, "label": "odd"}) for text in texts))
    for name in ("m.tsv", "m.csv", "m.jsonl"):
        answer = graphattn("evaluate", classifier, path, "--unknown", "wrong", "--mistakes", tmp_path / name)
        assert answer.code == 0
        examples = list(read_table(tmp_path / name, label="gold"))
        assert {example.text for example in examples} == {*texts}
        assert {example.label for example in examples} == {"odd"}
    content = (tmp_path / "m.tsv").read_bytes()
    assert b"\r\n" not in content
    with io.StringIO(content.decode(), newline="") as file:
        assert {row["text"] for row in csv.DictReader(file, dialect="excel-tab")} == {*texts}
    assert {json.loads(line)["text"] for line in (tmp_path / "m.jsonl").read_bytes().split(b"\n") if line} == {*texts}

import gzip
import os
from pathlib import Path

import pytest

from graphattn.builders.readers import FORMATS, detect_format, guess_columns
from graphattn.exceptions import ConfigError, DataError

ALL = tuple(FORMATS)
CONLLU = "\t".join(["1", "Dogs", "dog", "NOUN", "NNS", "_", "0", "root", "_", "_"])


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.csv", ["text,label", "a,1"], "csv"),
        ("a.txt", ["id,text,label", "1,a,1"], "csv"),
        ("a.tsv", ["text\tlabel", "a b\t1"], "tsv"),
        ("a.tsv", ["text", "a b"], "tsv"),
        ("a.tsv", ["sentence\tlabel", "a b\t1"], "tsv"),
        ("a.txt", ["\ttext\tlabel", "0\ta b\t1"], "tsv"),
        ("a.jsonl", ["anything"], "jsonl"),
        ("a.ndjson", ["anything"], "jsonl"),
        ("a", ['{"text": "a"}'], "jsonl"),
        ("a.tsv", ["1\ta fine film", "0\tdull"], "labelled"),
        ("a.task.train", ["1\ta fine film", "0\treview"], "labelled"),
        ("a.tsv", ["0\treview", "1\ttext here", "", ""], "labelled"),
        ("a.tsv", ["1\tgood", "", "0\tbad", "0\tvery bad"], "labelled"),
        ("a.tsv", ["1\tgood", "no tab", "0\tbad", "0\tvery bad"], "labelled"),
        ("a.tsv", ["no tab", "1\ttwo\ttabs", *["1\tgood", "0\tbad"] * 3], "labelled"),
        ("a.tsv", ["one two\tthree four\t1", "one\ttwo two\t0"], "labelled"),
        ("a.txt", ["__label__a text", "__label__b text"], "fasttext"),
        ("a.txt", ["no label", "", "", "", *["__label__a text"] * 3], "fasttext"),
        ("a.conllu", ["anything"], "conllu"),
        ("a.txt", ["# sent_id = 1", CONLLU], "conllu"),
        ("a.conll", ["# sent_id = 1", CONLLU], "conllu"),
        ("a.conll", ["Dogs\tO"], "conll"),
        ("a.tsv", ["Dogs\tNNS", "bark\tVBP", "", "Cats\tNNS"], "conll"),
        ("eng.testa", ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG"], "conll"),
        ("a.pos", ["Dogs/NNS bark/VBP", "", "and\\/or/CC"], "word/tag"),
    ],
)
def test_formats(corpus, name, lines, expected):
    path = corpus(name, *lines)
    assert detect_format(path, among=ALL) == expected
    packed = Path(f"{path}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert detect_format(packed, among=ALL) == expected


def test_the_text_column_makes_a_header_whatever_its_name(corpus):
    path = corpus("a.tsv", "Satz\tKlasse", "ein Satz\t1")
    assert detect_format(path, among=ALL) == "labelled"
    assert detect_format(path, among=ALL, text_column="Satz") == "tsv"


def test_one_long_sentence_is_conll_only_when_it_must_be_tagged(corpus):
    path = corpus("a.txt", *["word\tO"] * 500)
    assert detect_format(path, among=ALL) == "labelled"
    assert detect_format(path, among=("conll", "conllu", "word/tag"), for_tagging=True) == "conll"


def test_the_only_candidate_needs_no_look():
    assert detect_format("-", among=("conll",)) == "conll"


LISTED = "'conll', 'conllu', 'csv', 'fasttext', 'jsonl', 'labelled', 'sentences', 'tsv', 'word/tag'"


@pytest.mark.parametrize(
    "lines",
    [
        ["a line of text", "and another line"],
        ["two words", "two words"],
        ["10 000\tCD", "dogs\tNNS", "", "10 000\tCD", "", "cats\tNNS", "", "bark\tVBP"],
        ["1\tgood", "text alone"],
        ["1\tgood", "text alone", "0\tbad", "more text"],
        ["text", "", "alone", *["0\tbad"] * 100],
        ["__label__a text", "text"],
        ["a text", "a text", "a text", *["__label__a text"] * 100],
        ["", ""],
    ],
)
def test_unknown_formats(corpus, lines):
    path = corpus("a.txt", *lines)
    with pytest.raises(DataError) as caught:
        detect_format(path, among=ALL)
    assert str(caught.value) == (f"{path}: has no format that the first lines tell. Set format to one of {LISTED}.")
    with pytest.raises(DataError) as caught:
        detect_format(path, among=ALL, texts_alone=True)
    assert str(caught.value).endswith(
        f"{LISTED}; for texts alone, one on each line, set format to 'labelled' and set columns to 'text'."
    )


@pytest.mark.parametrize("content", ['[{"text": "a"}, {"text": "b"}]', '[\n {"text": "a"}\n]'])
def test_a_json_array_is_told(corpus, content):
    path = corpus("a.json", content)
    with pytest.raises(DataError) as caught:
        detect_format(path, among=ALL)
    assert str(caught.value) == (
        f"{path}: is a JSON array, where each line must hold an object. Write one on each line: jq -c '.[]' OLD > "
        "NEW.jsonl."
    )


def test_an_extension_that_contradicts_the_task(corpus):
    path = corpus("a.csv", "text,label", "a,1")
    with pytest.raises(DataError) as caught:
        detect_format(path, among=("conll", "conllu"))
    assert str(caught.value) == (
        f"{path}: is named as 'csv' is, which does not fit. Set format to one of 'conll', 'conllu'."
    )


def test_what_can_be_read_only_once_is_not_looked_at(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, name in (("-", "standard input"), (pipe, str(pipe))):
        with pytest.raises(ConfigError) as caught:
            detect_format(path, among=("csv", "conll"))
        assert str(caught.value) == (
            f"{name} can be read only once, so its format cannot be told by looking."
            " Set format to one of 'conll', 'csv'."
        )
        with pytest.raises(ConfigError) as caught:
            guess_columns(path, pair=True)
        assert str(caught.value) == (
            f"{name} can be read only once, so its columns cannot be told by looking."
            " Set columns to what each holds: 'label', 'text', 'second', or None to skip one."
        )


@pytest.mark.parametrize(
    ("lines", "pair", "columns"),
    [
        (["1\ta film", "0\tdull"], False, ("label", "text")),
        (["a film\t1", "dull\t0"], None, ("text", "label")),
        (["pos\tfine", "neg\tdull"], False, ("label", "text")),
        (["a b\tc d\t1", "a\tc\t0"], True, ("text", "second", "label")),
        (["yes\ta b\tc d", "no\ta\tc"], None, ("label", "text", "second")),
        ([f"{number}\ttext {number}\tpos" for number in range(20)], True, ("text", "second", "label")),
    ],
)
def test_columns(corpus, lines, pair, columns):
    assert guess_columns(corpus("a.tsv", *lines), pair=pair) == columns


def test_a_corpus_of_single_texts_is_no_corpus_of_pairs(corpus):
    path = corpus("a.tsv", "1\ta film", "0\ta play")
    with pytest.raises(DataError) as caught:
        guess_columns(path, pair=True)
    assert str(caught.value) == (
        f"{path}: has 2 fields on each line, which is too few for a label and two texts."
        " Give a corpus of pairs, or set columns to what each holds: 'label', 'text', 'second', or None to skip one."
    )


@pytest.mark.parametrize("lines", [("good\ta film", "", "bad\ta play"), ("good\ta film", "bad", "good\ta play")])
def test_a_slip_in_the_shortest_corpus_is_left_to_its_reader(corpus, lines):
    assert detect_format(corpus("a.txt", *lines), among=ALL) == "labelled"


@pytest.mark.parametrize(
    ("lines", "pair", "count"),
    [
        (["1\ta b\tc d"], False, "3 fields"),
        (["1\t2\ta film\t4"], None, "4 fields"),
        (["one two\tthree four"], None, "2 fields"),
        (["yes\ta b\tno"], True, "3 fields"),
        (["text"], None, "1 field"),
        ([f"{number}\ttext {number}" for number in range(20)], False, "2 fields"),
    ],
)
def test_columns_that_cannot_be_told(corpus, lines, pair, count):
    path = corpus("a.tsv", *lines)
    with pytest.raises(DataError) as caught:
        guess_columns(path, pair=pair)
    assert str(caught.value) == (
        f"{path}: its {count} per line do not show which is the text and which the label."
        " Set columns to what each holds: 'label', 'text', 'second', or None to skip one."
    )

"""Tables with a word on each row, whose sentences are numbered by a column."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from graphattn.builders.readers import detect, read_conll, read_corpus, read_word_table
from graphattn.exceptions import ConfigError, DataError, Hint

ROWS = [("0", "Ada", "B-PER"), ("0", ",", "O"), ("0", "", "O"), ("1", "null", "O"), ("1", "NA", "O"), ("2", '"', "O")]
EXPECTED = [(("Ada", ",", ""), ("B-PER", "O", "O")), (("null", "NA"), ("O", "O")), (('"',), ("O",))]
NAMES = ("sentence_id", "words", "labels")
pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")


def as_pairs(items):
    return [(item.tokens, item.tags) for item in items]


def write(path, names=NAMES, rows=ROWS):
    """Write rows as the extension says."""
    frame = pd.DataFrame(rows, columns=names)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\n" for row in [names, *rows]))
    else:
        frame.to_csv(path, index=False, sep=";" if path.suffix == ".txt" else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.parquet"])
def test_a_column_numbers_the_sentences(tmp_path, name):
    path = write(tmp_path / name)
    assert detect(path, "tag").name == detect(path, "tag", "optional").name == "word-table"
    with pytest.warns(Hint, match="sentence_column 'sentence_id', token_column 'words', tag_column 'labels'"):
        assert as_pairs(read_corpus(path, task="tag")) == EXPECTED
    assert as_pairs(read_corpus(path, task="tag", token_column=1)) == EXPECTED  # as an old error advised
    assert [tags for _, tags in as_pairs(read_corpus(path, format="word-table", tag_column=None))] == [None] * 3


@pytest.mark.parametrize(
    "names",
    [
        ("Sentence #", "Word", "Tag"),
        ("sentence_idx", "word", "tag"),
        ("SentenceId", "Token", "NER"),
        ("sent_no", "form", "upos"),
        ("sentence number", "tokens", "ner_tags"),
        ("sentence", "text", "label"),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_names_of_columns(tmp_path, names, order):
    rows = [[row[index] for index in order] for row in ROWS]
    path = write(tmp_path / "a.csv", [names[index] for index in order], rows)
    assert as_pairs(read_corpus(path, task="tag")) == EXPECTED


def test_the_number_is_on_the_first_row_of_a_sentence(tmp_path):
    content = 'Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-per\n,",",",",O\n\nSentence: 2,ran,VBD,O\n,,,\n,.,.,O\n'
    path = tmp_path / "ner.csv"
    path.write_text(content, encoding="cp1252")
    sentences = list(read_corpus(path, task="tag", feature_columns=["pos=POS"], encoding="cp1252"))
    assert as_pairs(sentences) == [(("Ada", ","), ("B-per", "O")), (("ran", "."), ("O", "O"))]
    assert [sentence.features for sentence in sentences] == [{"pos": ("NNP", ",")}, {"pos": ("VBD", ".")}]
    assert [sentence.origin for sentence in sentences] == [(str(path), 2), (str(path), 5)]


@pytest.mark.parametrize("sentence", ["Satz", 0, ["Satz"]])
def test_columns_with_other_names(tmp_path, sentence):
    for name in ("a.csv", "a.jsonl") if sentence == 0 else ("a.csv", "a.tsv", "a.jsonl"):
        path = write(tmp_path / name, ("Satz", "Wort", "Marke"))
        token = 1 if sentence == 0 else "Wort"
        assert as_pairs(read_corpus(path, task="tag", sentence_column=sentence, token_column=token)) == EXPECTED


def test_several_columns_number_the_sentences(tmp_path):
    rows = [("a", "0", "Ada", "X"), ("a", "1", "ran", "Y"), ("b", "1", "so", "Y"), ("b", "2", "it", "Y")]
    path = write(tmp_path / "a.csv", ("doc", *NAMES), rows)
    assert [item.tokens for item in read_corpus(path, task="tag")] == [("Ada",), ("ran", "so"), ("it",)]
    items = read_corpus(path, task="tag", sentence_column=("doc", "sentence_id"))
    assert [item.tokens for item in items] == [("Ada",), ("ran",), ("so",), ("it",)]


@pytest.mark.parametrize(
    ("content", "line", "options", "remaining"),
    [
        ("0,Ada,O\n1,so,O\n0,it,O\n", 4, ("sentence_column",), ["Ada", "so"]),
        ("0,Ada,O\n1,so,O\n1,it,\n2,is,O\n", 4, (), ["Ada", "is"]),
        ("0,Ada,O\n1,so\n2,is,O\n", 3, (), ["is"]),
        (",Ada,O\n1,so,O\n", 2, (), ["so"]),
        ("0,Ada,O\nsentence_id,words,labels\n1,is,O\n", 3, (), ["is"]),
    ],
)
def test_rows_that_cannot_be_read(corpus, broken, content, line, options, remaining):
    path = corpus("a.csv", ",".join(NAMES), *content.splitlines())
    assert broken(read_corpus(path, task="tag"), path, line) == options
    assert [item.tokens[0] for item in read_corpus(path, task="tag", skip=lambda _: None)] == remaining


def test_a_missing_value_is_no_word(tmp_path):
    rows = [{"sentence_id": 0, "word": word, "tag": "O"} for word in ("Ada", None)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="keep_default_na=False") as caught:
        list(read_corpus(tmp_path / "a.jsonl", task="tag"))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("doc", "words", "labels"), ("sentence_column",)),
        (("sentence_id", "Wort", "labels"), ("token_column",)),
        (("sentence_id", "words"), ("tag_column",)),
    ],
)
def test_columns_that_must_be_named(tmp_path, names, options):
    path = write(tmp_path / "a.csv", names, [row[: len(names)] for row in ROWS])
    with pytest.raises(DataError) as caught:
        list(read_word_table(path))
    assert (caught.value.line, caught.value.options) == (1, options)
    assert all(repr(name) in caught.value.message for name in names)


def test_gold_and_predicted_tags(tmp_path):
    path = write(tmp_path / "a.csv", (*NAMES, "predictions"), [(*row, row[-1]) for row in ROWS])
    with pytest.raises(DataError, match="'labels'") as caught:
        list(read_corpus(path, task="tag"))
    assert caught.value.options == ("tag_column",)
    assert as_pairs(read_corpus(path, task="tag", tag_column="labels")) == EXPECTED


def test_texts_with_numbers_are_no_words(tmp_path):
    path = write(tmp_path / "a.csv", ("SentenceId", "text", "label"))
    assert detect(path, "tag", "optional").name == detect(path, "classify").name == detect(path).name == "csv"


def test_blank_lines_without_a_column(corpus):
    path = corpus("a.csv", "word,tag", "Ada,X", '",",Y', "", "ran,Y")
    assert as_pairs(read_corpus(path, task="tag")) == [(("Ada", ","), ("X", "Y")), (("ran",), ("Y",))]


@pytest.mark.parametrize("options", [{}, {"token_column": 1}, {"sentence_column": 0, "token_column": 1}])
@pytest.mark.parametrize("numbers", ["00112", "11223", ["S1", "S1", "S2", "S2", "S3"]])
@pytest.mark.parametrize("blank", [(), ("",)])
def test_a_first_column_numbers_sentences_in_columns(corpus, options, numbers, blank):
    first, second, third, fourth, last = (f"{number} {word} X" for number, word in zip(numbers, "abcde", strict=True))
    path = corpus("a.txt", first, second, *blank, third, fourth, *blank, last)
    assert [item.tokens for item in read_corpus(path, task="tag", **options)] == [("a", "b"), ("c", "d"), ("e",)]


def test_numbers_in_columns_that_come_again(corpus, broken):
    path = corpus("a.txt", "0 a X", "0 b X", "1 c X", "0 d X")
    assert broken(read_conll(path), path, 4) == ("sentence_column",)
    with pytest.raises(ConfigError) as caught:
        read_conll(path, token_column="word")
    assert caught.value.options == ("token_column",)


def test_a_row_without_a_number_in_parquet(tmp_path):
    table = pa.table({"sentence_id": [0, 0, None], "token": ["Ada", "ran", "."], "tag": ["X", "Y", "Z"]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert as_pairs(read_corpus(tmp_path / "a.parquet", task="tag")) == [(("Ada", "ran", "."), ("X", "Y", "Z"))]

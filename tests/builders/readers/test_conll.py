from itertools import islice

import pytest

from graphattn.builders.readers import read_conll
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

NEWS = ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "", "", "Peter NNP I-NP I-PER"]


def test_sentences_end_at_blank_lines_and_documents(corpus):
    path = corpus("a", *NEWS, "-DOCSTART- -X- O O", "BRUSSELS NNP I-NP I-LOC", " \t", "", "U.N. NNP I-NP I-ORG")
    assert list(read_conll(path)) == [
        Sentence(("EU", "rejects"), tags=("I-ORG", "O")),
        Sentence(("Peter",), tags=("I-PER",)),
        Sentence(("BRUSSELS",), tags=("I-LOC",)),
        Sentence(("U.N.",), tags=("I-ORG",)),
    ]


@pytest.mark.parametrize(
    ("columns", "tokens", "tags"),
    [
        ({"tag_column": 1}, ("EU", "rejects"), ("NNP", "VBZ")),
        ({"tag_column": -2}, ("EU", "rejects"), ("I-NP", "I-VP")),
        ({"tag_column": -4}, ("EU", "rejects"), ("EU", "rejects")),
        ({"token_column": 1, "tag_column": 0}, ("NNP", "VBZ"), ("EU", "rejects")),
        ({"tag_column": None}, ("EU", "rejects"), None),
    ],
)
def test_any_column(corpus, columns, tokens, tags):
    assert next(read_conll(corpus("a", *NEWS), **columns)) == Sentence(tokens, tags=tags)


def test_tabs_decide_on_the_first_line_and_keep_blanks_in_columns(corpus):
    path = corpus("a", "New York\tB-LOC", "#\tO", "\u00a0\tO", "", "no tab here")
    sentences = read_conll(path)
    assert next(sentences) == Sentence(("New York", "#", "\u00a0"), tags=("B-LOC", "O", "O"))
    with pytest.raises(DataError, match=r"line 5: 1 column, but 2 on the lines before"):
        next(sentences)


def test_any_number_of_blanks_but_no_other_white_space_separates(corpus):
    path = corpus("a", " 10\u00a0000   CD", "a\u2028b NN")
    assert next(read_conll(path)) == Sentence(("10\u00a0000", "a\u2028b"), tags=("CD", "NN"))


def test_separator(corpus):
    assert next(read_conll(corpus("a", "New York|LOC"), separator="|")) == Sentence(("New York",), tags=("LOC",))


def test_comments_are_skipped_only_when_told(corpus):
    path = corpus("a", "# id 1", "#1 CD", "# NN", "# id 2")
    assert list(read_conll(path, comment="# id")) == [Sentence(("#1", "#"), tags=("CD", "NN"))]
    with pytest.raises(DataError) as caught:
        list(read_conll(path))
    assert str(caught.value) == (
        f"{path}, line 2: 2 columns, but 3 on the lines before. Complete the line, or set comment if it is one."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tag_column": 4},
            "there is no column 4 for the tag: the line has 4 columns, counted from 0."
            " Set tag_column to one of them, -1 for the last.",
        ),
        (
            {"token_column": -5},
            "there is no column -5 for the token: the line has 4 columns, counted from 0."
            " Set token_column to one of them, -1 for the last.",
        ),
    ],
)
def test_missing_column(corpus, options, message):
    path = corpus("a", *NEWS)
    with pytest.raises(DataError) as caught:
        list(read_conll(path, **options))
    assert str(caught.value) == f"{path}, line 3: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lonely", "1 column, but 2 on the lines before. Complete the line, or set comment if it is one."),
        ("a\tb\tO", "3 columns, but 2 on the lines before. Complete the line, or set comment if it is one."),
        ("a\t", "the tag is empty. Fill it in."),
        ("\tO", "the token is empty. Fill it in."),
    ],
)
def test_a_broken_line_in_the_middle_of_ten_thousand(corpus, line, message):
    path = corpus("a.conll", *["fine\tO", ""] * 2_500, line, *["fine\tO", ""] * 2_500)
    sentences = read_conll(path)
    assert list(islice(sentences, 2_500)) == [Sentence(("fine",), tags=("O",))] * 2_500
    with pytest.raises(DataError) as caught:
        next(sentences)
    assert str(caught.value) == f"{path}, line 5001: {message}"


@pytest.mark.parametrize("option", ["separator", "comment"])
def test_empty_marks(option):
    with pytest.raises(ConfigError) as caught:
        read_conll("missing", **{option: ""})
    assert str(caught.value) == f"{option} is empty. Set it to the characters in question, or to None."


def test_documents_begin_in_the_token_column_too(corpus):
    path = corpus("a.conll", "1 -DOCSTART- O", "", "1 Ada B-PER")
    assert [sentence.tokens for sentence in read_conll(path, token_column=1)] == [("Ada",)]


def test_a_sentence_tells_where_it_begins(corpus):
    path = corpus("a", "", *NEWS)
    assert [sentence.origin for sentence in read_conll(path)] == [(str(path), 4), (str(path), 8)]


def test_a_word_of_a_blank_that_is_none_of_the_separators(corpus):
    assert next(read_conll(corpus("a", "a", "\u00a0", "b"), tag_column=None)) == Sentence(("a", "\u00a0", "b"))

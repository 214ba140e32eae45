"""Sentences as JSON Lines: every field, and its errors."""

import json

import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers import read_corpus, read_sentences


def test_all_fields_are_read(corpus):
    full = {
        "tokens": ["un", "known", "word"],
        "word_ids": [0, 0, 1],
        "heads": [2, 0],
        "deprels": ["amod", "root"],
        "tags": ["ADJ", "NOUN"],
        "label": ["a", "b"],
        "sentence_ids": [0, 1],
        "predicates": [0, 1],
        "links": [[0, 1], [1, 1]],
    }
    path = corpus("a.jsonl", json.dumps({**full, "source": "elsewhere"}), '{"tokens": [], "label": "x"}')
    expected = [
        Sentence(**{**full, "label": ("a", "b")}),
        Sentence([], label="x"),
    ]
    assert list(read_sentences(path)) == expected
    assert list(read_corpus(path)) == expected, "detected by its first line"
    assert [sentence.origin for sentence in read_sentences(path)] == [(str(path), 1), (str(path), 2)]


def test_labels_follow_the_rules_of_json_lines(corpus):
    values = ("1", "true", '" x "', '""', '" "', "null", '[" a", "a", ""]')
    path = corpus("a.jsonl", *(f'{{"tokens": ["a"], "label": {value}}}' for value in values))
    assert [sentence.label for sentence in read_sentences(path)] == ["1", "true", "x", None, None, None, ("a",)]


@pytest.mark.parametrize(
    ("record", "options"),
    [
        ({"tokens": ["Ada", "wrote"], "ner_tags": ["B-PER", "O"]}, {}),
        ({"id": "0", "words": ["Ada", "wrote"], "tags": ["B-PER", "O"], "pos_tags": ["N", "V"]}, {}),
        ({"words": ["Ada", "wrote"], "ner_tags": ["B-PER", "O"], "pos_tags": ["N", "V"]}, {"tags": "ner_tags"}),
        ({"tokens": ["Ada", "wrote"], "entities": ["B-PER", "O"]}, {"tags": "entities"}),
    ],
)
def test_words_and_tags_of_other_names(corpus, record, options):
    path = corpus("a.jsonl", json.dumps(record))
    expected = [Sentence(["Ada", "wrote"], tags=["B-PER", "O"])]
    assert list(read_sentences(path, **options)) == list(read_corpus(path, task="tag", **options)) == expected
    assert list(read_sentences(path, tags=None)) == [Sentence(["Ada", "wrote"])]


def test_tags_are_not_needed_beside_a_label(corpus):
    path = corpus("a.jsonl", '{"tokens": ["Ada"], "label": "x", "ner_tags": ["O"], "pos_tags": ["N"]}')
    assert list(read_sentences(path)) == [Sentence(["Ada"], label="x")]


def test_a_text_beside_words_is_read(corpus):
    path = corpus("a.jsonl", '{"words": ["Ada"], "text": "Ada.", "label": "x"}')
    assert next(read_corpus(path, task="classify")).text == "Ada."


def test_further_fields_are_features(corpus, broken):
    line = '{"tokens": ["a", "b"], "pos_tags": ["X", "Y"], "caps": [true, false], "n": [1, 2], "ner_tags": ["O", "O"]}'
    columns = ["pos_tags", "caps", "number=n"]
    expected = {"pos_tags": ("X", "Y"), "caps": ("True", "False"), "number": ("1", "2")}
    path = corpus("a.jsonl", line, line.replace('"Y"', "null"))
    sentences = read_sentences(path, feature_columns=columns)
    assert next(sentences) == Sentence(["a", "b"], tags=["O", "O"], features=expected)
    broken(sentences, path, 2)
    for lines in (['{"tokens": ["a"]}'], ['{"tokens": ["a"], "n": [1, 2]}'], ['{"tokens": ["a"], "n": "1"}']):
        path = corpus("b.jsonl", *lines)
        broken(read_sentences(path, feature_columns=["n"]), path, 1)

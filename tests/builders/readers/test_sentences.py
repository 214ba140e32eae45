"""Sentences as JSON Lines: every field, and each thing that can be wrong with one."""

import json

import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers import read_corpus, read_sentences
from graphattn.exceptions import DataError

HINT = 'A line is {"tokens": ["Dogs", "bark"], "heads": [2, 0]}.'


def test_all_fields_are_read(corpus):
    full = {
        "tokens": ["un", "known", "word"],
        "word_ids": [0, 0, 1],
        "heads": [2, 0],
        "deprels": ["amod", "root"],
        "tags": ["ADJ", "NOUN"],
        "label": ["a", "b"],
        "sentence_ids": [0, 1],
        "links": [[0, 1], [1, 1]],
    }
    path = corpus("a.jsonl", json.dumps({**full, "source": "elsewhere"}), '{"tokens": [], "label": "x"}')
    expected = [
        Sentence(**{**full, "label": ("a", "b")}),
        Sentence([], label="x"),
    ]
    assert list(read_sentences(path)) == expected
    assert list(read_corpus(path)) == expected, "told by its first line"
    assert [sentence.origin for sentence in read_sentences(path)] == [(str(path), 1), (str(path), 2)]


def test_labels_are_as_those_of_other_json_lines(corpus):
    values = ("1", "true", '" x "', '""', '" "', "null", '[" a", "a", ""]')
    path = corpus("a.jsonl", *(f'{{"tokens": ["a"], "label": {value}}}' for value in values))
    assert [sentence.label for sentence in read_sentences(path)] == ["1", "true", "x", None, None, None, ("a",)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"heads": [0]}', f"field 'tokens': there are no tokens. {HINT}"),
        ('{"tokens": "a b"}', f"field 'tokens': this is not a list of strings. {HINT}"),
        ('{"tokens": ["a"], "heads": [true]}', f"field 'heads': this is not a list of whole numbers. {HINT}"),
        ('{"tokens": ["a"], "links": [0, 0]}', "field 'links': this is not a list of pairs of whole numbers. "
         "Write [[0, 1]]."),
        ('{"tokens": ["a"], "label": {}}', "field 'label': an object where a label was expected. A label is a string, "
         "a number, or a list of them; leave it out where there is none."),
        ('{"tokens": ["\\ud800"]}', "field 'tokens': half a surrogate pair. Write both halves."),
        ('{"tokens": ["a"], "heads": [1, 0]}', "field 'heads': 2 heads for 1 words. Give one for each word."),
        ('{"tokens": ["a", "b"], "heads": [2, 1]}', "field 'heads': heads form a cycle through word 1 ('a'). "
         "Each word must lead to a root."),
        ("[1]", "a list where an object was expected. JSON Lines hold one object in braces on each line."),
        ("\n{}", "the line is blank. Delete it, or complete it."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(corpus, line, message):
    path = corpus("a.jsonl", '{"tokens": ["fine"]}', line)
    with pytest.raises(DataError) as caught:
        list(read_sentences(path))
    assert str(caught.value) == f"{path}, line 2{',' if message.startswith('field') else ':'} {message}"

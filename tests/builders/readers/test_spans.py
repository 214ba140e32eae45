"""Spans of characters become IOB2 tags of words, in the dialects of several tools."""

import json

import pytest

from graphattn.builders.readers import read_corpus, read_spans
from graphattn.exceptions import DataError, Hint

TEXT = "Ada Lovelace met  New York's mayor."
WORDS = ("Ada", "Lovelace", "met", "New", "York", "'s", "mayor", ".")
TAGS = ("B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O", "O", "O")
ENDS = ((0, 12, "PER"), (18, 26, "LOC"))


def objects(start="start", end="end", label="label", **more):
    return [{start: first, end: last, label: name, **more} for first, last, name in ENDS]


TOKENS = [
    {"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": True},
    {"text": "Lovelace", "start": 4, "end": 12, "id": 1, "ws": True},
    {"text": " ", "start": 17, "end": 18, "id": 2, "ws": False},
    {"text": "New", "start": 18, "end": 21, "id": 3, "ws": True},
    {"text": "York's", "start": 22, "end": 28, "id": 4, "ws": True},
]
REGIONS = [
    {"value": {"start": a, "end": b, "text": TEXT[a:b], "labels": [name]}, "type": "labels", "from_name": "label"}
    for a, b, name in ENDS
]
LABEL_STUDIO = {
    "id": 1,
    "data": {"review": TEXT, "number": 3},
    "annotations": [
        {"result": [], "was_cancelled": True},
        {"result": [*REGIONS, {"type": "relation", "from_id": "a"}, {"value": {"choices": ["x"]}, "type": "choices"}]},
    ],
}
DIALECTS = {
    "our predictions": {"text": TEXT, "spans": objects(label="type", confidence=0.5)},
    "doccano": {"id": 1, "text": TEXT, "label": [list(ends) for ends in ENDS], "Comments": []},
    "doccano before 1.7": {"text": TEXT, "labels": [list(ends) for ends in reversed(ENDS)]},
    "doccano with relations": {"text": TEXT, "entities": objects("start_offset", "end_offset"), "relations": []},
    "spaCy": {"text": TEXT, "ents": objects(), "sents": [{"start": 0, "end": 35}]},
    "Rasa": {"text": TEXT, "intent": "tell", "entities": objects(label="entity", value="Ada")},
    "Stockmark": {"text": TEXT, "entities": [{"name": "", "span": [a, b], "type": name} for a, b, name in ENDS]},
    "Label Studio's JSON_MIN": {
        "text": TEXT,
        "ner": [{"start": a, "end": b, "text": TEXT[a:b], "labels": [name]} for a, b, name in ENDS],
        "annotation_id": 1,
    },
    "Label Studio's JSON": LABEL_STUDIO,
    "ground truth": {**LABEL_STUDIO, "annotations": [{"result": []}, {"result": REGIONS, "ground_truth": True}]},
    "repeated": {"text": TEXT, "spans": [*objects(), *objects()]},
}


@pytest.mark.slow
@pytest.mark.parametrize("record", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.array"])
def test_dialects(corpus, record, name):
    lines = [json.dumps([record], indent=1)] if name.endswith("array") else [json.dumps(record)]
    path = corpus(name.removesuffix(".array"), *lines)
    (sentence,) = read_corpus(path, task="tag")
    assert (sentence.tokens, sentence.tags) == (WORDS, TAGS)
    assert list(read_spans(path)) == [sentence]


def test_words_of_prodigy(corpus):
    path = corpus(
        "a.jsonl",
        json.dumps({"text": TEXT, "_task_hash": 1, "tokens": TOKENS, "answer": "accept"}),
        json.dumps({"text": TEXT, "tokens": TOKENS[:-1], "spans": objects(token_start=0, token_end=1)}),
    )
    empty, sentence = read_corpus(path, task="tag")
    assert (empty.tokens, empty.tags) == (("Ada", "Lovelace", "New", "York's"), ("O",) * 4)
    assert (sentence.tokens, sentence.tags) == (("Ada", "Lovelace", "New"), ("B-PER", "I-PER", "B-LOC"))


def test_texts_without_spans(corpus):
    lines = [{"text": "a b", "spans": []}, {"text": "", "spans": []}, {"text": "c", "annotation_id": 1}]
    read = list(read_corpus(corpus("a.jsonl", *map(json.dumps, lines)), task="tag"))
    assert [sentence.tags for sentence in read] == [("O", "O"), ("O",)]


@pytest.mark.parametrize("field", ["ents", "ner"])
@pytest.mark.parametrize("numbers", [[0, 1], [1, 0]])
def test_an_empty_list_in_a_field_that_has_spans_elsewhere(corpus, field, numbers):
    records = [{"text": "Ada", field: [{"start": 0, "end": 3, "label": "PER"}]}, {"text": "No", field: []}]
    path = corpus("a.jsonl", *(json.dumps(records[number]) for number in numbers))
    read = list(read_corpus(path, task="tag"))
    assert [sentence.tags for sentence in read] == [[("B-PER",), ("O",)][number] for number in numbers]


def test_a_field_that_has_spans_after_the_sample(corpus):
    records = [{"text": "a", "spans": []}] * 300 + [{"text": "Ada", "ner": [[0, 3, "PER"]]}, {"text": "b", "ner": []}]
    *_, named, empty = read_corpus(corpus("a.jsonl", *map(json.dumps, records)), task="tag")
    assert (named.tags, empty.tags) == (("B-PER",), ("O",))


def test_texts_of_spacy_without_entities(corpus):
    records = [
        {"text": "No", "ents": [], "sents": [{"start": 0, "end": 2}], "tokens": [{"id": 0, "start": 0, "end": 2}]}
    ]
    (sentence,) = read_corpus(corpus("a.jsonl", *map(json.dumps, records)), task="tag")
    assert sentence.tags == ("O",)


def test_an_empty_list_of_something_else(corpus):
    with pytest.raises(DataError, match="no spans in the fields 'text', 'sents'"):
        list(read_spans(corpus("a.jsonl", json.dumps({"text": "No", "sents": []}))))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"text": "a", "spans": [[0, 1, "X"]], "answer": "reject"}, "their answer is reject or ignore"),
        ({"text": "a", "answer": "ignore"}, "their answer is reject or ignore"),
        ({"data": {"text": "a"}, "annotations": []}, "they have no annotation"),
        ({"data": {"text": "a"}, "annotations": [{"result": [], "was_cancelled": True}]}, "they have no annotation"),
    ],
)
def test_texts_that_are_left_out(corpus, bad, reason):
    path = corpus("a.jsonl", *map(json.dumps, [bad, {"text": "b", "spans": [[0, 1, "X"]], "answer": "accept"}, bad]))
    with pytest.warns(Hint, match=f"2 of 3 texts are left out, since {reason}"):
        (sentence,) = read_corpus(path, task="tag")
    assert sentence.tags == ("B-X",)


def test_offsets_of_javascript(corpus):
    """Label Studio counts an emoji as two."""
    span = {"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}
    (sentence,) = read_spans(corpus("a.jsonl", json.dumps({"text": "\U0001f600 Ada", "label": [span]})))
    assert sentence.tags == ("O", "B-PER")


def test_several_labels_of_a_span(corpus):
    span = {"start": 0, "end": 3, "labels": ["PER", "ORG"]}
    with pytest.raises(DataError, match="has 2 labels"):
        list(read_spans(corpus("a.jsonl", json.dumps({"text": "Ada", "label": [span]}))))


@pytest.mark.parametrize("labels", ["PER", ["PER", "PER"]])
def test_the_same_label_of_a_span(corpus, labels):
    span = {"start": 0, "end": 3, "labels": labels}
    (sentence,) = read_spans(corpus("a.jsonl", json.dumps({"text": "Ada", "spans": [span]})))
    assert sentence.tags == ("B-PER",)


def test_labels_that_are_none(corpus):
    span = {"start": 0, "end": 3, "labels": 5}
    with pytest.raises(DataError, match="no spans"):
        list(read_spans(corpus("a.jsonl", json.dumps({"text": "Ada", "spans": [span]}))))


def test_a_name_with_a_full_stop(corpus):
    span = {"start": 0, "end": 9, "label": "ORG", "name": "Apple Inc."}
    (sentence,) = read_spans(corpus("a.jsonl", json.dumps({"text": "Apple Inc. said", "spans": [span]})))
    assert sentence.tags == ("B-ORG", "I-ORG", "O", "O")


def test_other_keys_of_spans(corpus):
    path = corpus("a.jsonl", json.dumps({"text": TEXT, "entities": [{"from": 0, "to": 3, "label": "PER"}]}))
    with pytest.raises(DataError, match="in 'entities' are no spans, but have the keys 'from', 'to'"):
        list(read_spans(path))


@pytest.mark.parametrize("field", ["word", "entity"])
def test_ends_at_the_last_character(corpus, field):
    """Words of one character, as of Chinese, do not show it."""
    span = {"start": 1, "end": 2, "type": "PER", field: "\u8001\u6842"}
    with pytest.raises(DataError, match="The end is one past the last character"):
        list(read_spans(corpus("a.jsonl", json.dumps({"text": "\u53f6\u8001\u6842\u535a", "spans": [span]}))))
    (sentence,) = read_spans(
        corpus("a.jsonl", json.dumps({"text": "\u53f6\u8001\u6842\u535a", "spans": [span | {"end": 3}]}))
    )
    assert sentence.tags == ("O", "B-PER", "I-PER", "O")


def test_the_rule_for_words(corpus):
    path = corpus("a.jsonl", json.dumps({"text": "don't", "spans": [[0, 2, "X"]]}))
    assert next(read_corpus(path, task="tag")).tags == ("B-X", "O")
    with pytest.raises(DataError, match='cuts the word "don\'t"'):
        next(read_corpus(path, task="tag", split="whitespace"))


@pytest.mark.parametrize("content", ['[{"text": "a", "spans": []},\n{"text"', '[{"text": "a", "spans": []},\n1]'])
def test_a_broken_array(corpus, content):
    with pytest.raises(DataError):
        list(read_spans(corpus("a.json", content)))

"""Marks that stand for no label, and what is left out because of them."""

import warnings

import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers import read_corpus
from graphattn.builders.readers._unlabelled import drop_labels, find_marks
from graphattn.exceptions import DataError, Hint


@pytest.mark.parametrize(
    ("classes", "tags", "expected"),
    [
        (["yes", "-", "?", "N/A", "NULL", "NaN", "no"], False, ["-", "?", "N/A", "NULL", "NaN"]),
        ([0, 1, 2, -1], False, [-1]),
        (["0", "1", "2", "-1"], False, ["-1"]),
        ([0, 1, -100], False, [-100]),
        ([-1, 1], False, []),
        ([-1, 0, 1], False, []),
        ([-2, -1, 0, 1, 2], False, []),
        (["yes", "-1", "\\N", "#REF!"], False, ["\\N", "#REF!", "-1"]),
        (["-1", "class1"], False, []),
        (["-1", "+"], False, []),
        (["-1", "0.", "1."], False, []),
        (["none", "other", "a-b"], False, []),
        (["NOUN", "-", "?", "_", "-100"], True, ["_", "-100"]),
    ],
)
def test_marks(classes, tags, expected):
    assert find_marks(classes, tags=tags) == expected


FILES = {
    "a.tsv": "label\ttext\n-\ta\nx\tb\n?\tc\n",
    "a.csv": "label,text\n-,a\nx,b\n?,c\n",
    "a.jsonl": '{"text": "a", "label": "-"}\n{"text": "b", "label": "x"}\n{"text": "c", "label": "?"}\n',
    "a.txt": "__label__- a\n__label__x b\n__label__? c\n",
    "b.tsv": "-\ta film\nx\tthe plot\n?\tc d\n",
    "b.jsonl": '{"tokens": ["a"], "label": "-"}\n{"tokens": ["b"], "label": "x"}\n{"tokens": ["c"], "label": "?"}\n',
}


@pytest.mark.parametrize(("name", "content"), FILES.items())
def test_examples_are_left_out(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.warns(Hint, match="2 of 3 texts are left out, with the label '-' or '\\?'"):
        (example,) = read_corpus(tmp_path / name, drop_label=["-", "?"])
    assert example.label == "x"


def test_other_labels_of_an_example_are_kept(corpus):
    path = corpus("a.jsonl", *(f'{{"text": "a", "label": {label}}}' for label in ('["-"]', '["-", "x"]', "[]")))
    with pytest.warns(Hint, match="1 of 3 texts"):
        assert [item.label for item in read_corpus(path, drop_label=["-"])] == [("x",), ()]


@pytest.mark.parametrize(
    ("lines", "label", "hint", "expected"),
    [
        (
            ["[CLS] 0 -100", "play 1 B-X", "##ing 0 -100", "on 0 O", "", "[CLS] 0 -100", ""],
            "-100",
            "3 of 5 words are left out, with the label '-100'",
            Sentence(["play", "on"], tags=["B-X", "O"], predicates=[1, 0], features={"1": ["1", "0"]}),
        ),
        (
            ["Ada 0 B-PER", "of - B-null", "nowhere 0 I-null", "sings 1 O"],  # entities of a type
            "null",
            "2 of 4 words are left out, with the label 'null'",
            Sentence(["Ada", "sings"], tags=["B-PER", "O"], predicates=[0, 1], features={"1": ["0", "1"]}),
        ),
    ],
)
def test_words_are_left_out(corpus, lines, label, hint, expected):
    path = corpus("a.conll", *lines)
    with pytest.warns(Hint, match=hint):
        (sentence,) = read_corpus(path, task="tag", drop_label=[label], predicate_column=1, feature_columns=["1"])
    assert sentence == expected
    assert sentence.origin == (str(path), 1)


def test_words_of_trees_stay():
    parsed = Sentence(["a", "b"], heads=[2, 0], tags=["_", "X"], origin=("a.conllu", 3))
    with pytest.raises(DataError) as caught:
        list(drop_labels([parsed], ["_"], "a.conllu"))
    assert (caught.value.line, caught.value.options) == (3, ("drop_label",))
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Hint)
        assert list(drop_labels([parsed, parsed], ["Y"], "a.conllu", errors.append)) == [parsed, parsed]
        assert list(drop_labels([parsed], ["_"], "a.conllu", errors.append)) == []
    assert len(errors) == 1

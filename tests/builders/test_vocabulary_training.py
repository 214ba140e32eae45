import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.sentence import Sentence
from graphattn.builders.vocabulary import SPECIAL_TOKENS, Vocabulary
from graphattn.exceptions import ConfigError, DataError

CORPUS = [
    "The lower the newest, the better.",
    "Don't go lower!",
    ["New", "York", "isn't", "low"],
    Sentence(["wide", "newest", "wide"], label="x"),
]


def test_most_frequent_first_ties_by_first_appearance():
    words = Vocabulary.train(CORPUS)
    assert words.words[:7] == ["[PAD]", "[UNK]", "[CLS]", "the", "lower", "newest", "wide"]
    assert words.words[7:] == [",", "better", ".", "do", "n't", "go", "!", "new", "york", "isn't", "low"]
    assert len(words) == 18
    assert "the" in words
    assert "The" not in words


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_count": 2}, ["the", "lower", "newest", "wide"]),
        ({"size": 5}, ["the", "lower"]),
        ({"size": 5, "extra_words": ["Wide", "the", "sea", "sea"]}, ["the", "lower", "wide", "sea"]),
        ({"min_count": 2, "lowercase": False}, ["lower", "the", "newest", "wide"]),
        ({"min_count": 2, "split": "whitespace"}, ["the", "wide"]),
    ],
)
def test_training_options(options, expected):
    assert Vocabulary.train(CORPUS, **options).words[3:] == expected


def test_corpus_may_be_a_generator_of_any_length():
    assert Vocabulary.train(f"w{number % 7}" for number in range(10_000)).words[3:] == [f"w{n}" for n in range(7)]


@pytest.mark.parametrize("level", ["word", "bpe"])
def test_words_may_be_counted_already(level):
    counts = Counter(word for text in CORPUS for word in Vocabulary.train([]).sentence(text).words)
    assert Vocabulary.train(counts, level=level, size=20) == Vocabulary.train(CORPUS, level=level, size=20)


def test_empty_corpus_leaves_the_special_tokens():
    for level in ("word", "bpe"):
        vocabulary = Vocabulary.train([], level=level)
        assert vocabulary.words == list(SPECIAL_TOKENS)
        assert vocabulary.encode("anything at all").tolist() == [1, 1, 1]


def test_special_tokens_in_the_corpus_are_text():
    assert Vocabulary.train([["[CLS]", "a", "[PAD]"]], lowercase=False).words == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "char"}, "level is 'char'. Choose word or bpe."),
        ({"split": "none"}, "split is 'none'. Choose one of words, whitespace."),
        ({"min_count": 0}, "min_count is 0. Give 1 to keep every word, or more."),
        ({"size": 3}, "size of the vocabulary is 3. Give more than 3, the number of special tokens."),
        (
            {"level": "bpe", "extra_words": ["a"]},
            "extra_words are given with level 'bpe', which has no whole words. Use level 'word'.",
        ),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ConfigError) as error:
        Vocabulary.train(CORPUS, **options)
    assert str(error.value) == message


def test_one_text_is_no_corpus():
    with pytest.raises(DataError, match=r"^one text is given where a corpus is expected\. Put it into a list\.$"):
        Vocabulary.train("a text")


def test_bpe_size_holds_with_many_characters():
    han = [chr(0x4E00 + number) for number in range(300)]
    vocabulary = Vocabulary.train([han, ["xyz"] * 5], level="bpe", size=50)
    assert len(vocabulary) == 50
    assert {"x", "y", "z", *han[:44]} <= {*vocabulary.words}


def test_training_repeats_in_another_process():
    code = (
        "import json, sys; from graphattn.builders.vocabulary import Vocabulary;"
        "texts = [' '.join(chr(97 + (7 * n * k) % 26) + chr(97 + (n + k) % 26) for k in range(9)) for n in range(99)];"
        "both = [Vocabulary.train(texts, level=level, size=150).to_json() for level in ('word', 'bpe')];"
        "sys.stdout.write(json.dumps(both))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert [len(Vocabulary.from_json(text)) for text in json.loads(outputs.pop())] == [150, 150]


@given(st.lists(st.text("abcdeé漢-'", min_size=1), min_size=1))
def test_vocabulary_covers_its_corpus(corpus):
    vocabulary = Vocabulary.train(corpus)
    _, ids = vocabulary.encode_batch(corpus)
    assert all((own > 2).all() for own in ids)
    counts = Counter(number for own in ids for number in own.tolist())
    in_order = [counts[number] for number in range(3, len(vocabulary))]
    assert in_order == sorted(in_order, reverse=True)

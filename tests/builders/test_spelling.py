"""Spellings: Python's and the tokenizers' are equal; Greek, Turkish, grapheme clusters."""

import sys
import unicodedata

import pytest

from graphattn.builders._spelling import (
    LONGEST_WORD,
    compose,
    make_normalizer,
    restore_final_sigma,
    spell,
    split_clusters,
    straighten,
)
from graphattn.builders._vocabulary import Vocabulary

ASSIGNED = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_spelling_equals_the_normalizer_for_every_character(lowercase, form):
    texts = [unicodedata.normalize(form, f"i{character}i\u0307") for character in ASSIGNED]
    rule = make_normalizer("bpe", lowercase).normalize_str
    different = [text for text in texts if spell(text, lowercase=lowercase) != rule(text)]
    assert {*different} <= {"i\U00011935\U00011930i\u0307"}  # newer than the tables of tokenizers


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_spellings_do_not_depend_on_the_unicode_form(lowercase):
    for character in ASSIGNED:
        decomposed = unicodedata.normalize("NFD", character)
        assert spell(decomposed, lowercase=lowercase) == spell(character, lowercase=lowercase)
    assert compose("e\u0301") == "é"


@pytest.mark.parametrize("level", ["word", "bpe"])
@pytest.mark.parametrize(
    ("known", "word"),
    [
        ("κόσμος", "ΚΌΣΜΟΣ"),
        ("ΟΔΟΣ", "οδος"),
        ("izmir", "İzmir"),
        ("İZMİR", "i\u0307zmi\u0307r"),  # as Python lower-cases it
        ("rítas", "RI\u0307\u0301TAS"),  # with two marks
    ],
)
def test_words_are_known_in_any_case(level, known, word):
    vocabulary = Vocabulary.train([[known]] * 3, level=level)
    assert vocabulary.encode([word]).tolist() == vocabulary.encode([known]).tolist()
    assert 1 not in vocabulary.encode([word])


def test_case_is_kept_on_request():
    vocabulary = Vocabulary.train([["κόσμος", "İzmir"]], lowercase=False)
    assert vocabulary.words[3:] == ["κόσμος", "İzmir"]


@pytest.mark.parametrize(
    ("word", "clusters"),
    [
        ("dog", ["d", "o", "g"]),
        ("E\u0323\u0300ya\u0300", ["E\u0323\u0300", "y", "a\u0300"]),
        ("नमस्ते", ["न", "म", "स्", "ते"]),
        ("한국", ["한", "국"]),
        ("", []),
    ],
)
def test_clusters(word, clusters):
    assert split_clusters(word) == clusters


def test_clusters_of_a_word_that_is_too_long_are_its_characters():
    assert len(split_clusters("e\u0301" * LONGEST_WORD)) == 2 * LONGEST_WORD


@pytest.mark.parametrize("text", ["κόσμος της Σίφνου", "της (\u03c3. 5)", "it's"])
def test_final_sigmas_are_restored(text):
    assert restore_final_sigma(text.replace("ς", "\u03c3")) == text


def test_each_composed_character_is_aligned():
    """A character between two others ends where the next one begins, in any form."""
    for character in ASSIGNED:
        text = unicodedata.normalize("NFD", f"\n{character}\n\u2019")
        straight, places = straighten(text)
        assert straight == spell(text, lowercase=False)
        if places is not None:
            assert (places[:2], places[-3:]) == ([0, 1], [len(text) - 2, len(text) - 1, len(text)])
        else:
            assert len(straight) == len(text)


def test_many_marks_on_one_letter():
    straight, places = straighten("e" + "\u0301" * 5000 + "x")
    assert places is not None
    assert (len(places), places[-2:]) == (len(straight) + 1, [5001, 5002])

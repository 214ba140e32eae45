"""Sub-words that keep blanks: text to tokens and back."""

import pickle
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Sentence, Vocabulary
from graphattn.builders._subwords import BLANK, Subwords, mark_blanks
from graphattn.builders._word_boundaries import WordSplitter

TEXTS = ["Zwei Hunde, zwei Katzen.", "Ein Hund (klein) jagt 3,50 Katzen!", "It isn't a dog's ball...", "Ein  Ball ; so"]
ALPHABET = sorted({character for text in TEXTS for character in text})


@pytest.fixture(scope="module")
def subwords():
    return Subwords.train(TEXTS * 3, size=90)


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(text, subwords):
    (ids,) = subwords.ids([text])
    assert subwords.text(ids) == " ".join(text.split())


@given(text=st.text(ALPHABET, max_size=30))
def test_round_trip_of_any_text_with_known_characters(text, subwords):
    (ids,) = subwords.ids([text])
    assert subwords.text(ids) == " ".join(text.split())


def test_words_equal_those_of_the_splitter(subwords):
    for text in TEXTS:
        (source,) = subwords.vocabulary.sentences(subwords.sources([text]))
        assert [word.strip(BLANK) for word in source.words] == WordSplitter.by_rule("words").split(text)


def test_a_sentence_is_a_text_with_blanks_between_words_and_keeps_its_tree(subwords):
    given_tree = Sentence(["Zwei", "Hunde", "!"], heads=[2, 0, 2], deprels=["nummod", "root", "punct"])
    (source,) = subwords.sources([given_tree])
    assert source.tokens == (f"{BLANK}Zwei", f"{BLANK}Hunde", f"{BLANK}!")
    assert (source.heads, source.deprels) == (given_tree.heads, given_tree.deprels)
    assert np.array_equal(subwords.ids([given_tree])[0], subwords.ids(["Zwei Hunde !"])[0])


@pytest.mark.parametrize("text", ["a<br />b r c", "a<br />br / >", "r<BR>br<br/>/ b", "<br />b"])
def test_an_html_line_break_is_a_blank(text):
    words = re.sub("(?i)<br ?/?>", " ", text).split()
    assert mark_blanks([text], WordSplitter.by_rule("words")) == [[BLANK + word for word in words]]
    subwords = Subwords.train([text] * 3, size=40)
    assert subwords.text(subwords.ids([text])[0]) == " ".join(words)


def test_words_that_contain_a_blank():
    splitter = WordSplitter.by_rule("whitespace")
    assert mark_blanks([["3 000", "x"]], splitter) == [[f"{BLANK}3{BLANK}000", f"{BLANK}x"]]


@pytest.mark.parametrize("text", [f"a{BLANK}b c_d", f"{BLANK} {BLANK}{BLANK} _", f"x{BLANK}"])
def test_the_mark_in_a_text_is_restored(text):
    subwords = Subwords.train([text, "a_b c d x"] * 3, size=60)
    assert subwords.text(subwords.ids([text])[0]) == text
    again = pickle.loads(pickle.dumps(subwords))
    assert again.text(again.ids([text.split()])[0]) == text


def test_lone_surrogates_are_replaced():
    assert mark_blanks(["a \ud800b"], WordSplitter.by_rule("words")) == [[f"{BLANK}a", f"{BLANK}\ufffd", "b"]]


def test_unknown_characters_are_skipped(subwords):
    assert subwords.text([1, *subwords.ids(["Hund"])[0], 1]) == "Hund"


def test_lower_case():
    subwords = Subwords.train(TEXTS, size=60, lowercase=True)
    assert subwords.text(subwords.ids(["Zwei HUNDE"])[0]) == "zwei hunde"


def test_training_is_deterministic(subwords):
    again = Subwords.train(TEXTS * 3, size=90)
    assert again.vocabulary == subwords.vocabulary
    assert Vocabulary.from_json(subwords.vocabulary.to_json()) == subwords.vocabulary


def test_vectors_of_subwords(tmp_path):
    """Of whole words, with or without a blank before them, also in another case; random ones of other subwords."""
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 0\ncat 0 3\n! -1 -1\nunused 9 9\n")
    subwords = Subwords.train(["Dog cat! dog"] * 3, size=40)
    table, words = subwords.look_up(path, seed=0), list(subwords.vocabulary.words)
    scale = np.array([[1, 0], [0, 3], [-1, -1]]).std()
    for word, vector in (("▁Dog", [1, 0]), ("▁dog", [1, 0]), ("▁cat", [0, 3]), ("!", [-1, -1])):
        np.testing.assert_allclose(table[words.index(word)], np.array(vector) / scale, rtol=1e-6)
    assert table.shape == (len(words), 2)
    assert np.isfinite(table).all()
    np.testing.assert_array_equal(table, subwords.look_up(path, seed=0))


def test_texts_in_lower_case_have_final_sigmas():
    text = "ΚΌΣΜΟΣ της Σίφνου"
    lower, cased = (Subwords.train([text], size=60, lowercase=lowercase) for lowercase in (True, False))
    assert lower.text(lower.ids([text])[0]) == "κόσμος της σίφνου"
    assert cased.text(cased.ids([text])[0]) == text


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_all_unicode_forms_have_the_same_subwords(form):
    subwords = Subwords.train(["the cafe is here"] * 3, size=60)
    texts = ["the café is \u1ec7 here", "É.É. ≠ 각"]
    given_forms = [unicodedata.normalize(form, text) for text in texts]
    expected = [ids.tolist() for ids in subwords.ids(texts)]
    assert [ids.tolist() for ids in subwords.ids(given_forms)] == expected
    assert [ids.tolist() for ids in subwords.ids(list(map(str.split, given_forms)))] == [
        ids.tolist() for ids in subwords.ids(list(map(str.split, texts)))
    ]
    assert expected[0].count(1) == 2

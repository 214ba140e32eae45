import hashlib
import unicodedata

import pytest

from graphattn.models._features.hashing import FEATURES, hash_tokens, hash_word_features, word_shape
from graphattn.models._features.lexicon import suffix_ids


@pytest.mark.parametrize(
    ("token", "shape"),
    [
        ("", ""),
        ("dog", "xx"),
        ("Über", "Xxx"),
        ("U.S.", "X.X."),
        ("B52s", "Xddx"),
        ("2024-01", "dd-dd"),
        ("...", ".."),
    ],
)
def test_shapes(token, shape):
    assert word_shape(token) == shape


def test_hashes_do_not_depend_on_the_process():
    assert hash_word_features("Dog")[0] == hash_word_features("dog")[0] == 3313090786069187449


def test_the_first_row_is_the_boundary_of_a_text():
    table = hash_tokens(["Dog", "cat"])
    assert table.shape == (3, len(hash_word_features("")))
    assert table[0].tolist() == list(hash_word_features(""))
    assert table[2].tolist() == list(hash_word_features("cat"))


@pytest.mark.parametrize("word", ["Été", "Ẹ̀kọ́", "Việt", "한국어", "नमस्ते", "Don\u2019t", "ΚΌΣΜΟΣ", "İzmir"])
def test_features_do_not_depend_on_the_unicode_form(word):
    decomposed = unicodedata.normalize("NFD", word).replace("\u2019", "'")
    assert hash_word_features(decomposed) == hash_word_features(word)
    assert suffix_ids(decomposed, 4) == suffix_ids(word, 4)


@pytest.mark.parametrize(("one", "other"), [("κόσμος", "ΚΌΣΜΟΣ"), ("izmir", "İzmir"), ("i\u0307zmir", "İZMIR")])
def test_features_in_lower_case_ignore_case(one, other):
    assert hash_word_features(one)[0] == hash_word_features(other)[0]
    assert suffix_ids(one, 4) == suffix_ids(other, 4)


def test_affixes_and_shapes_count_letters_with_their_marks():
    """No Unicode character has both marks of Yoruba's open vowels."""
    plain, marked = hash_word_features("Ada"), hash_word_features("Adẹ́")
    shape, first_of_lower, last_of_lower, titled = 1, 4, 8, 11
    assert hash_word_features("Ẹ́da")[first_of_lower] == hash_word_features("ẹ́")[first_of_lower]
    assert marked[last_of_lower] == hash_word_features("ẹ́")[last_of_lower]
    assert (plain[shape], plain[titled]) == (marked[shape], marked[titled])
    assert hash_word_features("Ẹ́yà")[titled] == hash_word_features("Eya")[titled]
    assert suffix_ids("Adẹ́", 1) == suffix_ids("ẹ́", 1) != suffix_ids("Ade", 1)


def test_features_change_only_with_their_version():
    """Otherwise saved models would go wrong in silence: increase the version, then this digest."""
    words = ["Dogs", "U.S.", "3,000", "“Été”", "Adẹ́", "ΚΌΣΜΟΣ", "İzmir", "नमस्ते", "한국어", "東京"]
    digest = hashlib.sha256(repr([(hash_word_features(word), suffix_ids(word, 5)) for word in words]).encode())
    assert (FEATURES, digest.hexdigest()[:16]) == (1, "434d970ece11b3f3")

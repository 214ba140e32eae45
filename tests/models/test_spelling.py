import pytest

from graphattn.models.spelling import hash_tokens, hash_word_features, word_shape


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

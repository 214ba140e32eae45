"""Character features depend only on the token, for any length and script, and not on the batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.models._features.characters import (
    CAPITALS,
    MAX_CHARACTERS,
    UNKNOWN,
    CharacterFeatures,
    CharacterVocabulary,
    TokenTypeIndex,
    classify_capitals,
)


@pytest.fixture(scope="module")
def vocabulary():
    return CharacterVocabulary.of(["Apple", "banana", "B52", "ßß", "日本"])


@pytest.fixture(scope="module")
def features(vocabulary):
    torch.manual_seed(0)
    return CharacterFeatures(len(vocabulary), embedding=6, filters=5).eval()


def encode_types(vocabulary, sentences):
    index = TokenTypeIndex()
    arrays = index.encode(sentences)
    return vocabulary.encode(index), arrays


def reference_features(features, vocabulary, token):
    """The CNN on one token: windows of three characters, zeros beyond the ends, maximum over the token."""
    shown = token if len(token) <= MAX_CHARACTERS else token[:15] + token[-15:]
    embedded = torch.stack([features.embed.weight[known_id(vocabulary, character)] for character in shown])
    padded = torch.cat([torch.zeros(1, 6), embedded, torch.zeros(1, 6)])
    weight, bias = features.convolve.weight, features.convolve.bias  # (filters, embedding, 3)
    windows = [(weight * padded[place : place + 3].T).sum((1, 2)) + bias for place in range(len(shown))]
    return torch.cat([torch.stack(windows).amax(0), features.capitals.weight[classify_capitals(token)]])


def known_id(vocabulary, character):
    return vocabulary.characters.index(character) + 2 if character in vocabulary.characters else 1


def test_features_are_the_cnn_of_each_token(vocabulary, features):
    tokens = ["Apple", "a", "B52", "ban" * 20, "日本", "\U0001f600", "ba"]
    types, (numbers,) = encode_types(vocabulary, [tokens])
    out = features(types.take(numbers))
    assert out.shape == (7, features.width) == (7, 5 + 10)
    expected = torch.stack([reference_features(features, vocabulary, token) for token in tokens])
    torch.testing.assert_close(out, expected)


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=6), st.integers(0, 5))
def test_features_do_not_depend_on_the_batch(vocabulary, features, tokens, which):
    token = tokens[which % len(tokens)]
    types, numbers = encode_types(vocabulary, [tokens, [token]])
    together = features(types.take(numbers[0]))[which % len(tokens)]
    alone = features(types.take(numbers[1]))[0]
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)


def test_each_distinct_token_once(vocabulary):
    types, numbers = encode_types(vocabulary, [["a", "b", "a"], ["b"]])
    assert [array.tolist() for array in numbers] == [[1, 2, 1], [2]]
    batch = types.take(np.array([0, 1, 2, 1, 2], dtype=np.int32))  # 0 is [CLS]
    assert batch.characters.shape == (3, 1)
    assert batch.index.tolist() == [0, 1, 2, 1, 2]
    assert batch.characters[0].tolist() == [0]


def test_long_tokens_show_both_ends(vocabulary):
    long = "a" * 20 + "n" * 20
    types, _ = encode_types(vocabulary, [[long, "a" * 15 + "n" * 15]])
    assert types.characters[1].tolist() == types.characters[2].tolist()
    assert types.characters.shape == (3, MAX_CHARACTERS)


def test_frequent_and_unknown_characters():
    vocabulary = CharacterVocabulary.of(["ba", "ab", "ca"])
    assert vocabulary.characters == ("a", "b", "c")
    assert len(vocabulary) == 5  # padding and unknown
    types, _ = encode_types(vocabulary, [["az"]])
    assert types.characters[1, :3].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("dog", "none"),
        ("NATO", "all"),
        ("Dog", "first"),
        ("I", "first"),
        ("iPhone", "inner"),
        ("McDonald", "inner"),
        ("B52", "digits"),
        ("42", "digits"),
        ("...", "other"),
        ("ÉCOLE", "all"),
        ("Élan", "first"),
        ("日本", "none"),
        ("don't", "none"),
        ("U.S.", "all"),
    ],
)
def test_capitals(token, kind):
    assert CAPITALS[classify_capitals(token)] == kind


def test_dropout_in_training_only(vocabulary, features):
    types, (numbers,) = encode_types(vocabulary, [["banana"]])
    batch = types.take(numbers)
    assert torch.equal(features(batch), features(batch))
    features.train()
    try:
        torch.manual_seed(0)
        assert not torch.equal(features(batch), features(batch))
    finally:
        features.eval()


def test_gradients_reach_the_characters_of_the_token_only(vocabulary):
    features = CharacterFeatures(len(vocabulary), embedding=4, filters=3)
    types, (numbers,) = encode_types(vocabulary, [["nab"]])
    features(types.take(numbers)).sum().backward()
    touched = features.embed.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert set(touched) <= {known_id(vocabulary, character) for character in "nab"}
    assert touched


def test_a_batch_without_words_has_features():
    torch.manual_seed(0)
    vocabulary, index = CharacterVocabulary.of(["ab"]), TokenTypeIndex()
    index.encode([["ab"]])
    features, types = CharacterFeatures(len(vocabulary), embedding=4, filters=3).eval(), vocabulary.encode(index)
    alone, beside = features(types.take(np.array([0]))), features(types.take(np.array([1, 0])))[1:]
    assert torch.isfinite(alone).all()
    torch.testing.assert_close(alone, beside)


def test_equally_frequent_characters_are_sorted():
    assert CharacterVocabulary.of(["cab"]).characters == CharacterVocabulary.of(["b", "ca"]).characters == tuple("abc")


@pytest.mark.parametrize(
    ("one", "other"), [("Zo\u00eb", "Zoe\u0308"), ("o'clock", "o\u2019clock"), ('"a"', "\u201ca\u201d")]
)
def test_equivalent_spellings_have_the_same_characters(one, other):
    index = TokenTypeIndex()
    assert [types.tolist() for types in index.encode([[one, other], ["new", other]])] == [[1, 1], [2, 1]]
    for known in (one, other):
        vocabulary = CharacterVocabulary.of([known])
        assert UNKNOWN not in vocabulary.encode(index).characters[1]


def test_characters_are_sorted_by_frequency():
    assert CharacterVocabulary.of(["ab", "b", "b", "ca"]).characters == ("b", "a", "c")

import numpy as np
import pytest
import torch

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.models._corpus import Corpus
from graphattn.models._features.hashing import hash_word_features
from graphattn.models._features.lexicon import FeatureValues, Lexicon
from graphattn.models.heads._word_features import COLUMN_OFFSETS, OFFSETS, WordFeatureBranch, list_word_keys

TEXTS = [["Anna", "met", "Bob"], [], ["NATO"], ["a", "b", "c", "d", "e", "f"]]


SENTENCES = [
    Sentence(words, features={name: [word.lower()[at] for word in words] for name, at in (("first", 0), ("last", -1))})
    for words in TEXTS
]


def encode(*, cls=True, columns=False):
    builder = TextGraphBuilder([], vocabulary=Vocabulary.train(TEXTS), cls=cls)
    if not columns:
        return Corpus.encode(builder, [TEXTS], spelling=True)
    lexicon = Lexicon(0, None, FeatureValues({"first": "abnmcde", "last": "abotcde"}))  # "f" is unknown
    return Corpus.encode(builder, [SENTENCES], spelling=True, lexicon=lexicon)


def features_around(words, columns=None):
    """(offset, feature) of each word, from the words alone; and (column, offsets, values) of its columns."""
    rows = []
    for position in range(len(words)):
        row = set()
        for offset, count in OFFSETS.items():
            near = position + offset
            token = words[near] if 0 <= near < len(words) else ""
            row |= {(offset, feature) for feature in hash_word_features(token)[:count]}
        for name, values in (columns or {}).items():
            near = {at: values[position + at] if 0 <= position + at < len(words) else "" for at in range(-2, 3)}
            around = {offsets: [near[at] for at in offsets] for offsets in COLUMN_OFFSETS}
            row |= {(name, offsets, *seen) for offsets, seen in around.items() if "f" not in seen}  # an unknown value
        rows.append(row)
    return rows


@pytest.mark.parametrize("columns", [False, True])
def test_keys_stand_for_a_feature_at_an_offset(columns):
    keys = [set(word) for text in list_word_keys(encode(columns=columns)) for word in text]
    features = [word for text in SENTENCES for word in features_around(text.tokens, text.features if columns else None)]
    meaning = {}
    for words_keys, words_features in zip(keys, features, strict=True):
        assert len(words_keys) == len(words_features)
        for key in words_keys:  # two words share a key exactly if they share the feature at that offset
            meaning[key] = meaning.get(key, words_features) & words_features
    assert all(len(shared) >= 1 for shared in meaning.values())
    assert len({key for word in keys for key in word}) == len(set().union(*features))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("cls", [True, False])
def test_scores_sum_the_weights_of_a_words_keys(cls, columns):
    rng = np.random.default_rng(0)
    corpus = encode(cls=cls, columns=columns)
    words = [word for text in list_word_keys(corpus) for word in text]
    known = sorted({int(key) for word in words for key in word})[::2]  # every other key is unknown
    branch = WordFeatureBranch(torch.tensor(known), 3)
    branch.weights.copy_(torch.from_numpy(rng.standard_normal(branch.weights.shape)))
    branch.bias.fill_(0.5)
    table = dict(zip(known, branch.weights.double().numpy(), strict=True))
    expected = [0.5 + sum(table.get(int(key), np.zeros(3)) for key in word) for word in words]
    np.testing.assert_allclose(branch(corpus[[0, 1, 2, 3]]), expected, atol=1e-5)
    np.testing.assert_allclose(branch(corpus[[3]]), expected[4:], atol=1e-5)


def test_presence_is_a_factor_of_what_a_token_adds_to_its_neighbours():
    """A missing word has the spelling of an empty one; its neighbours do not see it."""
    rng, corpus, (words,) = np.random.default_rng(0), encode(), TEXTS[3:]
    keys = sorted({int(key) for text in list_word_keys(corpus) for word in text for key in word})
    branch = WordFeatureBranch(torch.tensor(keys), 3)
    branch.weights.copy_(torch.from_numpy(rng.standard_normal(branch.weights.shape)))
    weights, empty = branch.weights.double().numpy(), [int(hashed) for hashed in hash_word_features("")]
    shares, expected = rng.random(len(words)), np.zeros((len(words), 3))
    for word, of_word in enumerate(list(list_word_keys(corpus))[3]):
        remaining = iter(of_word)
        for offset, count in OFFSETS.items():
            near = word + offset
            share = shares[near] if 0 <= near < len(words) else 1.0
            for _, key in zip(range(count or len(empty)), remaining, strict=False):
                expected[word] += share * weights[keys.index(int(key))]
        expected[word] += (1 - shares[word]) * sum(weights[keys.index(key)] for key in empty if key in keys)
    actual = branch(corpus[[3]], torch.tensor([1.0, *shares]))  # [CLS] begins the text
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    torch.testing.assert_close(branch(corpus[[3]], torch.ones(1 + len(words))), branch(corpus[[3]]))

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from graphattn.builders import TextGraphBuilder, Vocabulary
from graphattn.models._corpus import Corpus
from graphattn.models.heads._ngrams import NgramBranch

TEXTS = ["a b a c", "b", "c c c a b", "", "d a b a"]
OTHERS = ["a c", "b b", "d", "a", "unknown a b"]


@pytest.fixture
def builder():
    return TextGraphBuilder([], vocabulary=Vocabulary.train(TEXTS, split="whitespace"))


def tfidf(texts, unseen):
    """scikit-learn's tf-idf of the unigrams and bigrams of ``texts``, for ``unseen``."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True).fit(texts)
    return vectorizer.get_feature_names_out().tolist(), vectorizer.transform(unseen).toarray()


def names_of(branch, vocabulary):
    words = vocabulary.words
    pairs = [(key >> 32, key & 0xFFFFFFFF) for key in branch.keys.tolist()]
    return [" ".join(words[token] for token in pair if token) for pair in pairs]


def dense(branch, layouts, rows):
    design = np.zeros((rows, len(branch.weights)))
    start = 0
    for items, row, column, value in branch.design_entries(layouts):
        assert (row.diff() >= 0).all()
        design[start + row, column] = value
        start += items
    assert start == rows
    return design


def test_features_of_texts_are_scikit_learns(builder):
    branch = NgramBranch.of([builder.layout(TEXTS)], 2)
    design = dense(branch, [builder.layout(OTHERS)], len(OTHERS))
    names, expected = tfidf(TEXTS, OTHERS)
    order = [names.index(name) for name in names_of(branch, builder.vocabulary)]
    np.testing.assert_allclose(design[:, :-1], expected[:, order], atol=1e-6)
    np.testing.assert_allclose(design[:, -1], expected.sum(1), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sides", [1, 2])
def test_a_large_corpus_in_parts(builder, sides):
    """Frequencies are of all texts, and each text has its row, however many parts the corpus has."""
    generator = np.random.default_rng(0)
    texts = [[" ".join(generator.choice(list("abcd"), size)) for size in (0, 90_000, 50_000, 3)] + TEXTS] * 2
    layouts = [builder.layout(column) for column in texts[:sides]]
    branch = NgramBranch.of(layouts, 2)
    assert len(list(branch.design_entries(layouts))) > 1
    whole = np.zeros((9, len(branch.weights)))
    ids, lengths = (
        torch.from_numpy(np.concatenate(parts))
        for parts in zip(*((layout.features["id"], layout.lengths) for layout in layouts), strict=True)
    )
    row, column, value = branch.entries(ids, lengths)
    whole[row, column] = value
    np.testing.assert_array_equal(dense(branch, layouts, 9), whole)
    if sides == 1:
        names, expected = tfidf(texts[0], texts[0])
        order = [names.index(name) for name in names_of(branch, builder.vocabulary)]
        np.testing.assert_allclose(whole[:, :-1], expected[:, order], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_long_text_in_half_precision(dtype):
    """Sums of many squares do not stop growing."""
    text = " ".join(f"word{number}" for number in range(1000))
    builder = TextGraphBuilder([], vocabulary=Vocabulary.train([text], split="whitespace"))
    layout = builder.layout([text])
    exact, branch = NgramBranch.of([layout], 2), NgramBranch.of([layout], 2).to(dtype)
    np.testing.assert_allclose(dense(branch, [layout], 1), dense(exact, [layout], 1), rtol=0.01)


def test_features_of_pairs(builder):
    layouts = [builder.layout(TEXTS), builder.layout(OTHERS)]
    branch = NgramBranch.of(layouts, 2)
    names, first = tfidf([*TEXTS, *OTHERS], TEXTS)
    second = tfidf([*TEXTS, *OTHERS], OTHERS)[1]
    known = [name for name in names if "unknown" not in name]  # the vocabulary lacks this word
    unknown_tokens = {"unknown", "unknown a"}
    assert {*names} - {*known} == unknown_tokens
    columns = [names.index(name) for name in names_of(branch, builder.vocabulary)]
    first, second = first[:, columns], second[:, columns]
    second[4] /= np.linalg.norm(second[4])
    expected = np.concatenate([first, second, abs(first - second), first * second], axis=1)
    sums = np.stack([first.sum(1), second.sum(1), abs(first - second).sum(1), (first * second).sum(1)], axis=1)
    design = dense(branch, layouts, len(TEXTS))
    np.testing.assert_allclose(design, np.concatenate([expected, sums], axis=1), atol=1e-6)


@pytest.mark.parametrize("columns", [[TEXTS], [TEXTS, OTHERS]])
def test_scores_are_those_of_the_dense_matrix(columns, builder):
    rng = np.random.default_rng(0)
    layouts = [builder.layout(column) for column in columns]
    branch = NgramBranch.of(layouts, 3)
    branch.weights.copy_(torch.from_numpy(rng.standard_normal(branch.weights.shape)))
    branch.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    expected = dense(branch, layouts, len(TEXTS)) @ branch.weights.numpy() + branch.bias.numpy()
    batch = Corpus(builder, layouts)[list(range(len(TEXTS)))]
    np.testing.assert_allclose(branch(batch), expected, atol=1e-5)
    one = Corpus(builder, layouts)[[2]]
    np.testing.assert_allclose(branch(one), expected[2:3], atol=1e-5)


def test_a_saved_branch_has_the_shape_of_its_state(builder):
    branch = NgramBranch.of([builder.layout(TEXTS), builder.layout(OTHERS)], 3)
    state = {f"linear_branch.{name}": value for name, value in branch.state_dict().items()}
    again = NgramBranch.like(state)
    assert again.blocks == 4
    assert again.weights.shape == branch.weights.shape


@pytest.mark.parametrize("columns", [[TEXTS], [TEXTS, OTHERS]])
def test_presence_multiplies_tfidf_by_the_mean_presence_of_an_ngram(columns, builder):
    rng = np.random.default_rng(1)
    layouts = [builder.layout(column) for column in columns]
    branch = NgramBranch.of(layouts, 3)
    branch.weights.copy_(torch.from_numpy(rng.standard_normal(branch.weights.shape)))
    batch = Corpus(builder, layouts)[list(range(len(TEXTS)))]
    ids = batch.graph.node_features["token"]["id"]
    presence, start, sides = torch.from_numpy(rng.random(len(ids)).astype(np.float32)), 0, []
    for layout in layouts:
        values = dense(branch, [layout] * len(layouts), len(TEXTS))[:, : len(branch.keys)]  # the first block
        for text, length in enumerate(layout.lengths):
            shares = {}
            tokens = [(int(ids[start + place]), float(presence[start + place])) for place in range(length)]
            ngrams = [*((token,) for token in tokens), *pairwise(tokens)]
            for ngram in ngrams:
                key = sum(token << 32 * place for place, (token, _) in enumerate(reversed(ngram)))
                shares.setdefault(key, []).append(np.mean([share for _, share in ngram]))
            factors = [np.mean(shares.get(key, [0])) for key in branch.keys.tolist()]
            values[text] *= factors
            start += length
        sides.append(values)
    blocks = sides if len(sides) == 1 else [*sides, abs(sides[0] - sides[1]), sides[0] * sides[1]]
    design = np.concatenate([*blocks, *(block.sum(1, keepdims=True) for block in blocks)], axis=1)
    np.testing.assert_allclose(branch(batch, presence), design @ branch.weights.numpy(), atol=1e-5)
    np.testing.assert_allclose(branch(batch, torch.zeros_like(presence)), 0, atol=1e-7)
    torch.testing.assert_close(branch(batch, torch.ones_like(presence)), branch(batch))


@pytest.mark.parametrize("columns", [[TEXTS], [TEXTS, OTHERS + ["b"] * (len(TEXTS) - len(OTHERS))]])
def test_a_grown_branch_gives_old_texts_their_scores(columns, builder):
    """New n-grams have no weights; classes have new ids."""
    columns = [column[: len(TEXTS)] for column in columns]
    layouts = [builder.layout(column) for column in columns]
    old = NgramBranch.of(layouts, 2)
    generator = torch.Generator().manual_seed(0)
    old.weights.copy_(torch.rand(old.weights.shape, generator=generator))
    old.bias.copy_(torch.tensor([1.0, 3.0]))
    grown = old.grow(NgramBranch.of([builder.layout(["d d d b d"])] * len(columns), 3), 3, [2, 0])
    design, before = (torch.from_numpy(dense(branch, layouts, len(TEXTS))).float() for branch in (grown, old))
    expected, scores = before @ old.weights + old.bias, design @ grown.weights + grown.bias
    torch.testing.assert_close(scores[:, [2, 0]], expected)
    assert scores[:, 1].tolist() == [2.0] * len(TEXTS)
    assert len(grown.keys) > len(old.keys)

"""Inputs of words: texts are split once, and vectors are looked up as the vocabulary spells words."""

import warnings
from collections import Counter

import numpy as np
import pytest

from graphattn.builders import Vocabulary, WordVectors
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.models._estimators.word_inputs import warn_about_few_vectors


@pytest.fixture
def count_splits(monkeypatch):
    """How often each raw text was split since the test began."""
    counts, split = Counter(), WordSplitter.split_batch

    def split_and_count(splitter, texts):
        counts.update(texts)
        return split(splitter, texts)

    monkeypatch.setattr(WordSplitter, "split_batch", split_and_count)
    return counts


@pytest.mark.parametrize(
    "inputs",
    [{}, {"embedding_start": "ppmi"}, {"characters": True}, {"level": "bpe", "tune_vectors": True}],
    ids=["random", "ppmi", "characters", "bpe"],
)
@pytest.mark.parametrize("kind", ["classifier", "pair"])
def test_fit_splits_each_text_once(kind, inputs, count_splits, tiny):
    texts = [f"film {number} was {'good' if number % 2 else 'bad'}" for number in range(40)]
    seconds = [f"the second {text}" for text in texts]
    X = list(zip(texts, seconds, strict=True)) if kind == "pair" else texts
    estimator = tiny(kind, inputs=inputs, head={"linear_branch": True}, training={"epochs": 1, "dev_fraction": 0.2})
    estimator.fit(X, [number % 2 for number in range(40)])
    assert count_splits == Counter(texts + seconds if kind == "pair" else texts)


def test_coverage_uses_the_spelling_of_the_vocabulary():
    spelling = Vocabulary.train([]).spelling
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_few_vectors(
            ["v.txt"], [WordVectors(["o'clock"], np.ones((1, 2)))], Counter({"o\u2019clock": 9}), spelling
        )

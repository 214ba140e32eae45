"""Inputs of words: texts are split once, and vectors are looked up as the vocabulary spells words."""

import warnings
from collections import Counter
from itertools import product

import numpy as np
import pytest

from graphattn.builders import Vocabulary, WordVectors
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.models._estimators.word_inputs import warn_about_few_vectors


@pytest.fixture
def count_splits(monkeypatch):
    """How often each of the texts that are passed was split since the test began."""
    counts = Counter()

    def count_texts(method):
        def split_and_count(splitter, texts):
            counts.update(texts)
            return method(splitter, texts)

        return split_and_count

    for name in ("split_batch", "split_with_offsets"):  # a text with blanks reaches one of them
        monkeypatch.setattr(WordSplitter, name, count_texts(getattr(WordSplitter, name)))
    return lambda texts: {text: counts[text] for text in texts}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *product(
            ("classifier", "pair"),
            (
                {"inputs": {}},
                {"inputs": {"embedding_start": "ppmi"}},
                {"inputs": {"characters": True}},
                {"inputs": {"level": "bpe", "tune_vectors": True}},
            ),
        ),
        ("translator", {}),
        ("translator", {"inputs": {"lowercase": True}}),
    ],
)
def test_fit_splits_each_text_once(kind, options, count_splits, tiny):
    texts = [f"film {number} was {'good' if number % 2 else 'bad'}" for number in range(40)]
    seconds = [f"the second {text}" for text in texts]
    training = {"epochs": 1, "dev_fraction": 0.2}
    if kind == "translator":
        tiny(kind, "transformer", training=training, **options).fit(texts, seconds)
    else:
        X = list(zip(texts, seconds, strict=True)) if kind == "pair" else texts
        estimator = tiny(kind, head={"linear_branch": True}, training=training, **options)
        estimator.fit(X, [number % 2 for number in range(40)])
    assert count_splits(texts) == dict.fromkeys(texts, 1)
    of_seconds = Counter(count_splits(seconds).values())  # held-out targets are compared as texts
    assert of_seconds == {"classifier": {0: 40}, "pair": {1: 40}, "translator": {0: 8, 1: 32}}[kind]


def test_coverage_uses_the_spelling_of_the_vocabulary():
    spelling = Vocabulary.train([]).spelling
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_few_vectors(
            ["v.txt"], [WordVectors(["o'clock"], np.ones((1, 2)))], Counter({"o\u2019clock": 9}), spelling
        )

"""How many of a corpus' words have a vector; estimators warn in their own tests."""

import warnings
from collections import Counter

import numpy as np

from graphattn.builders import Vocabulary, WordVectors
from graphattn.models.estimators.labelling import warn_about_few_vectors


def test_words_are_counted_as_the_vocabulary_spells_them():
    spelling = Vocabulary.train([]).spelling
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_few_vectors(
            ["v.txt"], [WordVectors(["o'clock"], np.ones((1, 2)))], Counter({"o\u2019clock": 9}), spelling
        )

"""The number of words of a corpus that have a vector; warnings are tested with the estimators."""

import warnings
from collections import Counter

import numpy as np

from graphattn.builders import Vocabulary, WordVectors
from graphattn.models.estimators.word_inputs import warn_about_few_vectors


def test_coverage_uses_the_spelling_of_the_vocabulary():
    spelling = Vocabulary.train([]).spelling
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_few_vectors(
            ["v.txt"], [WordVectors(["o'clock"], np.ones((1, 2)))], Counter({"o\u2019clock": 9}), spelling
        )

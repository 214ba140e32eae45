"""Pairs as columns: batches have the selected targets, and lengths count both sides."""

import numpy as np
import pytest

from graphattn.builders import TextGraphBuilder, Window
from graphattn.builders._subwords import Subwords
from graphattn.models._corpus import Corpus

SOURCES = ["a dog", "dogs", "a dog runs home"]
TARGETS = ["ein hund", "", "ein hund rennt"]


@pytest.fixture(scope="module")
def subwords():
    return Subwords.train([*SOURCES, *TARGETS] * 2, size=80)


@pytest.fixture(scope="module")
def builder(subwords):
    return TextGraphBuilder([Window(1)], vocabulary=subwords.vocabulary)


def test_a_batch_has_the_selected_pairs(subwords, builder):
    corpus = Corpus.of_pairs(builder, subwords.sources(SOURCES), subwords.ids(TARGETS))
    batch = corpus[[2, 0]]
    sources, targets = subwords.ids(SOURCES), subwords.ids(TARGETS)
    assert batch.graph.node_features["token"]["id"].tolist() == [2, *sources[2], 2, *sources[0]]
    assert batch.targets.tolist() == [*targets[2], 2, *targets[0], 2]
    assert batch.target_counts.tolist() == [len(targets[2]) + 1, len(targets[0]) + 1]
    assert batch.loss_normalizer == len(batch.targets)


def test_the_length_of_a_pair_counts_both_texts(subwords, builder):
    sources, targets = subwords.sources(SOURCES), subwords.ids(TARGETS)
    corpus = Corpus.of_pairs(builder, sources, targets)
    sides = [len(ids) + 1 for ids in subwords.ids(SOURCES)], [len(ids) + 1 for ids in targets]
    assert corpus.lengths.tolist() == np.sum(sides, axis=0).tolist()
    alone = Corpus.of_pairs(builder, sources)
    assert alone.lengths.tolist() == sides[0]
    assert (alone[[0]].targets, alone[[0]].target_counts) == (None, None)


def test_targets_are_part_of_the_fingerprint(subwords, builder):
    sources = subwords.sources(SOURCES)
    prints = {
        Corpus.of_pairs(builder, sources, ids).fingerprint()
        for ids in (subwords.ids(TARGETS), subwords.ids(TARGETS[::-1]), None)
    }
    assert len(prints) == 3

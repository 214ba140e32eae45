"""On a model of the demo's grammar, gradient times weight finds the words that decide; the grammar says which they are.

A sentence has one to three of them: the adjective, what turns it around, and the conjunction that weighs its clause.
Not all of what they say goes along edges: a token also reaches the pooling past all heads. So one of them is at an end
of the three strongest edges more often than by chance (58 %), in most sentences, but not in all.
"""

import re

import numpy as np
import pytest

from graphattn.experiments import grammar
from graphattn.models import HeadOptions, InputOptions, MSTransOptions, TextClassifier, TrainingOptions
from graphattn.models.attributions import gradient_times_weight

SENTENCES = 200


@pytest.fixture(scope="module")
def parts():
    return grammar.corpus(3000, 300, 500, seed=0)


@pytest.fixture(scope="module")
def classifier(parts):
    """With the demo's settings."""
    train, dev, _ = ([" ".join(s.tokens) for s in part] for part in parts)
    labels = [[s.label for s in part] for part in parts]
    model = TextClassifier(
        MSTransOptions(hidden=64, heads=4, layers=2, scales=("1", "3", "5", "9"), alpha=0.0, dropout=0.1),
        inputs=InputOptions(embedding=64, embedding_dropout=0.1),
        head=HeadOptions(head_dropout=0.1),
        training=TrainingOptions(epochs=12, learning_rate=0.005, seed=0, progress=False, logs=False),
    )
    return model.fit(train, labels[0], dev=(dev, labels[1]))


def strongest_pairs(edges, sizes):
    """The three pairs of different tokens with the largest sums over layers and heads."""
    others = edges.assign(size=sizes)[edges.source != edges.target]
    sums = others.groupby(["source", "target", "source_token", "target_token"])["size"].sum()
    return sums.nlargest(3).reset_index()


@pytest.mark.slow
def test_the_words_that_decide_are_at_the_strongest_edges(classifier, parts):
    found, by_chance = [], []
    random = np.random.default_rng(0)
    for sentence in parts[2][:SENTENCES]:
        deciding = set(re.findall(r'"([^"]+)"', grammar.explain(sentence)))
        edges = gradient_times_weight(classifier, " ".join(sentence.tokens))
        for hits, sizes in ((found, edges.attribution.abs()), (by_chance, random.random(len(edges)))):
            top = strongest_pairs(edges, sizes)
            hits.append(bool(deciding & {*top.source_token, *top.target_token}))
    assert np.mean(found) >= 0.8
    assert np.mean(by_chance) < np.mean(found) - 0.15

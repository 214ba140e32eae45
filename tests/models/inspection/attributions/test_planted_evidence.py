"""On the demo's corpus, gradient times weight finds the decisive words, which are known from the grammar.

A sentence has one to three of them: the adjective, what turns it around, and the conjunction that weighs its clause.
Not all of what they say goes along edges: a token also reaches the pooling past all heads. What does go along edges
shows at both ends: others look at the word, and it looks at what turns it around.
"""

import re

import numpy as np
import pytest

from graphattn.experiments.demo import _grammar as grammar
from graphattn.experiments.demo._steps import DemoSize
from graphattn.models import HeadOptions, InputOptions, MSTransOptions, TextClassifier, TrainingOptions
from graphattn.models.inspection.attributions import by_token, gradient_times_weight

SENTENCES = 60


@pytest.fixture(scope="module")
def parts():
    size = DemoSize()
    return grammar.corpus(size.train, size.dev, size.test, seed=0)


@pytest.fixture(scope="module")
def classifier(parts):
    """A classifier of the demo's size without its linear branch; larger batches and no dropout take fewer epochs."""
    train, dev, _ = ([" ".join(s.tokens) for s in part] for part in parts)
    labels = [[s.label for s in part] for part in parts]
    model = TextClassifier(
        MSTransOptions(hidden=64, heads=4, layers=2, scales=("1", "3", "5", "9"), alpha=0.0, dropout=0.0),
        inputs=InputOptions(embedding=64, embedding_dropout=0.0),
        head=HeadOptions(head_dropout=0.0, linear_branch=False),
        training=TrainingOptions(
            epochs=10, batch_size=64, learning_rate=0.003, seed=0, precision="32", progress=False, logs=False
        ),
    )
    return model.fit(train, labels[0], dev=(dev, labels[1]))


def strongest_edges(table):
    """Both ends of the three edges between different tokens with the largest sums over layers and heads."""
    others = table[table.source != table.target]
    sums = others.groupby(["source_token", "target_token", "source", "target"]).attribution.sum().abs()
    return {token for edge in sums.nlargest(3).index for token in edge[:2]}


def strongest_tokens(table):
    """The three tokens with the largest sums of sizes over their edges to others."""
    texts = dict(zip(table.source, table.source_token, strict=True))
    return {texts[place] for place in by_token(table).nlargest(3).index}


@pytest.mark.slow
def test_gradients_find_the_decisive_words(classifier, parts):
    random = np.random.default_rng(0)
    by_edges, by_tokens, by_chance = [], [], []
    for sentence in parts[2][:SENTENCES]:
        deciding = set(re.findall(r'"([^"]+)"', grammar.explain(sentence)))
        table = gradient_times_weight(classifier, " ".join(sentence.tokens))
        by_edges.append(bool(deciding & strongest_edges(table)))
        by_tokens.append(bool(deciding & strongest_tokens(table)))
        shuffled = table.assign(attribution=random.permutation(table.attribution))
        by_chance.append(bool(deciding & strongest_edges(shuffled)))
    assert np.mean(by_edges) >= 0.85
    assert np.mean(by_tokens) >= 0.8
    assert np.mean(by_chance) < np.mean(by_edges) - 0.15

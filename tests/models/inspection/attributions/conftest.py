"""Small models of every encoder in double precision."""

import copy
from dataclasses import replace
from functools import cache

import pytest
import torch

from graphattn import Edges
from graphattn.models import (
    DuoOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    MTSAOptions,
    MultiStageOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TrainingOptions,
    TransformerOptions,
)
from graphattn.models._encoders import ENCODERS as EVERY_ENCODER


@pytest.fixture(scope="session")
def without_edge():
    """A copy of a batch without the edge between two nodes."""

    def remove(batch, relation, source, target):
        name = next(each for each in batch.edges if relation in (each, each[1]))
        edges = batch.edges[name]
        pairs = [
            ends for ends in zip(*map(torch.Tensor.tolist, edges.ends_by_id()), strict=True) if ends != (source, target)
        ]
        assert len(pairs) == edges.num_edges - 1
        sources, targets = torch.tensor(pairs, dtype=torch.int32).T
        smaller = Edges.of_pairs(sources, targets, edges.num_sources, edges.num_destinations)
        return replace(batch, edges={**batch.edges, name: smaller})

    return remove


TEXTS = ["a fine film indeed", "dull", "a dull film", "fine and never dull at all"]
LABELS = ["good", "bad", "bad", "fair"]
PLAIN = InputOptions(embedding=6, characters=False, cls=True)
BRIEF = TrainingOptions(epochs=3, learning_rate=0.01, dev_fraction=0.0, precision="32")
ENCODERS = {
    "ms-trans": MSTransOptions(hidden=6, heads=3, layers=2, scales=("1", "3", "N")),
    "transformer": TransformerOptions(hidden=6, heads=2, layers=2, ffn=8),
    "mtsa": MTSAOptions(hidden=6),
    "duo": DuoOptions(hidden=6),
}


def fit(kind, encoder, inputs, labels):
    model = kind(encoder, inputs=PLAIN, head=HeadOptions(linear_branch=False, crf=False), training=BRIEF)
    model.fit(inputs * 4, labels * 4)
    model.model_ = copy.deepcopy(model.model_).double()
    return model


@pytest.fixture(scope="session")
def classifiers():
    """Encoder -> a classifier of three classes, in float64."""
    return {name: fit(TextClassifier, options, TEXTS, LABELS) for name, options in ENCODERS.items()}


@pytest.fixture(scope="session")
def word_classifier():
    """A classifier whose last layer has heads between words."""
    return fit(TextClassifier, MultiStageOptions(hidden=8, heads=2, ffn=8), TEXTS, LABELS)


@pytest.fixture(params=ENCODERS)
def classifier(request, classifiers):
    """A classifier of each encoder with attention."""
    return classifiers[request.param]


@pytest.fixture(scope="session")
def tagger():
    """A tagger with three tags, in float64."""
    tags = [[{"a": "D", "and": "C"}.get(word, "X") for word in text.split()] for text in TEXTS]
    return fit(SequenceTagger, ENCODERS["ms-trans"], [text.split() for text in TEXTS], tags)


@pytest.fixture(scope="session")
def pair_classifier():
    """A classifier of pairs, in float64."""
    pairs = [(one, other) for one in TEXTS[:2] for other in TEXTS[2:]]
    return fit(PairClassifier, ENCODERS["ms-trans"], pairs, ["same", "other"] * 2)


@pytest.fixture(scope="session")
def translators(translators):
    """A translator with an encoder, in float64."""

    @cache
    def convert(encoder):
        made = copy.copy(translators(encoder))
        made.model_ = copy.deepcopy(made.model_).double()
        return made

    return convert


@pytest.fixture(params=EVERY_ENCODER)
def translator(request, translators):
    """A translator with each encoder."""
    return translators(request.param)


@pytest.fixture
def precise(monkeypatch):
    """Keep the models' scores in float64."""
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)


@pytest.fixture(scope="session")
def log_odds():
    """log p / (1 - p) of a class, from probabilities."""

    def compute(scores, label):
        chance = scores.softmax(-1)[..., label]
        return torch.log(chance / (1 - chance))

    return compute

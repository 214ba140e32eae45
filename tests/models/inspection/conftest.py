"""Models that are made in a blink: what they attend to is of no matter, only that it is told right."""

import pytest

from graphattn.builders import Sentence
from graphattn.models import InputOptions, MSTransOptions, PairClassifier, TextClassifier, TrainingOptions

BRIEF = TrainingOptions(epochs=1, dev_fraction=0.0)
SENTENCES = [
    Sentence(
        "the longest dogs bark loudly".split(), heads=[3, 3, 4, 0, 4], deprels="det amod nsubj root advmod".split()
    ),
    Sentence(["dogs", "sleep"], heads=[2, 0], deprels=["nsubj", "root"]),
    Sentence([], heads=[]),
    Sentence("cats sleep and dogs bark".split(), heads=[2, 0, 5, 5, 2], deprels="nsubj root cc nsubj conj".split()),
]


@pytest.fixture(scope="session")
def sentences():
    """Parsed sentences, one of them empty."""
    return list(SENTENCES)


@pytest.fixture(scope="session")
def make_classifier():
    """A classifier with heads on these relations: ``make_classifier("window:3=1,star=1")``."""

    def make(heads, sentences=SENTENCES, **inputs):
        options = MSTransOptions(hidden=8, head_feats=4, layers=2, heads=heads)
        classifier = TextClassifier(options, inputs=InputOptions(embedding=6, **inputs), training=BRIEF)
        return classifier.fit(sentences * 2, ["a", "b", "c", "a"] * 2)

    return make


@pytest.fixture(scope="session")
def classifier(make_classifier):
    """Heads on windows of fixed and relative scale, dependencies and everything."""
    return make_classifier("window:1=1,window:3=1,window:N/2=1,dependency=1,all=1")


@pytest.fixture(scope="session")
def pair_classifier():
    """A classifier of pairs."""
    options = MSTransOptions(hidden=8, heads=2, layers=2, scales=("3", "N"))
    pairs = [("dogs bark", "cats sleep and dogs bark"), ("dogs", "cats")]
    model = PairClassifier(options, inputs=InputOptions(embedding=6), training=BRIEF)
    return model.fit(pairs * 4, ["yes", "no"] * 4)

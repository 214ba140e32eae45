"""Models that train quickly: tests check how attention is reported, not its quality."""

from functools import cache

import pytest

from graphattn.builders import Sentence
from graphattn.models import (
    DecoderOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    PairClassifier,
    SearchOptions,
    SequenceTagger,
    SubwordOptions,
    TextClassifier,
    TrainingOptions,
    TransformerOptions,
    TranslationTraining,
    Translator,
)
from graphattn.models._encoders import ENCODERS

BRIEF = TrainingOptions(epochs=1, dev_fraction=0.0)
PAPER = {"preset": "paper"}
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
        classifier = TextClassifier(options, inputs=InputOptions(embedding=6, **inputs), training=BRIEF, **PAPER)
        return classifier.fit(sentences * 2, ["a", "b", "c", "a"] * 2)

    return make


@pytest.fixture(scope="session")
def classifier(make_classifier):
    """Heads on windows of fixed and relative scale, dependencies and complete graphs."""
    return make_classifier("window:1=1,window:3=1,window:N/2=1,dependency=1,all=1")


@pytest.fixture(scope="session")
def pair_classifier():
    """A classifier of pairs."""
    options = MSTransOptions(hidden=8, heads=2, layers=2, scales=("3", "N"))
    pairs = [("dogs bark", "cats sleep and dogs bark"), ("dogs", "cats")]
    model = PairClassifier(options, inputs=InputOptions(embedding=6), training=BRIEF, **PAPER)
    return model.fit(pairs * 4, ["yes", "no"] * 4)


BPE = InputOptions(level="bpe", vocabulary_size=30, embedding=6, characters=False)
WORDS = InputOptions(embedding=6, characters=False)
EVERYTHING = MSTransOptions(
    hidden=6,
    heads=4,
    head_feats=3,
    layers=2,
    scales=("1", "3", "N/2"),
    relations=("all:1", "group:2", "dependency:1", "forward:1", "backward:1"),
)
TRANSFORMER = TransformerOptions(hidden=6, heads=2, layers=2, ffn=8)
PARSED = [
    Sentence("the longest dogs bark loudly today".split(), heads=[3, 3, 4, 0, 4, 4]),
    Sentence("dogs sleep".split(), heads=[2, 0]),
]
TEXTS = [" ".join(sentence.tokens) for sentence in PARSED]


def fitted(estimator, inputs, labels):
    return estimator.fit(inputs * 4, labels * 4)


@pytest.fixture(scope="session")
def estimators():
    """A model of each task and encoder, and an input for it."""
    tags = [["D", "A", "N", "V", "R", "R"], ["N", "V"]]
    pairs = [(PARSED[0], PARSED[1]), (PARSED[1], PARSED[0])]
    small = MSTransOptions(hidden=6, heads=3, layers=2, scales=("1", "3", "5"))
    return {
        "classifier": (
            fitted(TextClassifier(EVERYTHING, inputs=BPE, training=BRIEF, **PAPER), PARSED, ["loud", "quiet"]),
            PARSED[0],
        ),
        "multilabel": (
            fitted(
                TextClassifier(small, inputs=WORDS, training=BRIEF, **PAPER, multilabel=True),
                TEXTS,
                [["a", "b"], []],
            ),
            TEXTS[0],
        ),
        "transformer": (
            fitted(TextClassifier(TRANSFORMER, inputs=BPE, training=BRIEF, **PAPER), TEXTS, [3, 4]),
            TEXTS[0],
        ),
        "tagger": (
            fitted(
                SequenceTagger(small, inputs=WORDS, training=BRIEF, **PAPER),
                [text.split() for text in TEXTS],
                tags,
            ),
            TEXTS[0].split(),
        ),
        "crf": (
            fitted(
                SequenceTagger(EVERYTHING, inputs=BPE, training=BRIEF, head=HeadOptions(crf=True, linear_branch=False)),
                PARSED,
                tags,
            ),
            PARSED[0],
        ),
        "pair": (
            fitted(PairClassifier(EVERYTHING, inputs=BPE, training=BRIEF, **PAPER), pairs, ["yes", "no"]),
            pairs[0],
        ),
    }


def tree(text):
    """A sentence in which each word depends on the previous one."""
    return Sentence(text.split(), heads=range(len(text.split())))


@pytest.fixture(scope="session")
def source():
    """A parsed source."""
    return tree("the dog sees a cat.")


@pytest.fixture(scope="session")
def translators(toy_pairs):
    """A translator with an encoder, whose sources are parsed: ``translators("umst")``."""

    @cache
    def fit(encoder):
        sizes = {"hidden": 16, "layers": 2, "heads": 4, "ffn": 24, "dropout": 0.1}
        sources, targets = toy_pairs(16)
        return Translator(
            ENCODERS[encoder][0].for_translation(sizes),
            inputs=SubwordOptions(vocabulary_size=90, cls=True),
            decoder=DecoderOptions(2, 2, 24, 0.1),
            training=TranslationTraining(epochs=1, max_tokens=200, dev_fraction=0.0, progress=False, precision="32"),
            search=SearchOptions(beam=2, min_length=3, max_length=6),
        ).fit(map(tree, sources), targets)

    return fit


@pytest.fixture(params=["classifier", "multilabel", "transformer", "tagger", "crf", "pair"])
def fitted_estimator(request, estimators):
    return estimators[request.param]

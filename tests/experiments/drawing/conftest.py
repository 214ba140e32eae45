"""A trained classifier and translator whose attention is drawn, and the texts of a picture."""

import re
from io import StringIO

import pytest

from graphattn.builders import Sentence
from graphattn.experiments.drawing._canvas import default_style
from graphattn.models import (
    DecoderOptions,
    InputOptions,
    MSTransOptions,
    SubwordOptions,
    TextClassifier,
    TrainingOptions,
    TranslationTraining,
    Translator,
    UMSTOptions,
)

TRAINING = TrainingOptions(epochs=1, dev_fraction=0.0)
OPTIONS = MSTransOptions(hidden=8, head_feats=4, layers=2, heads="window:1=1,window:3=1,all=2")
HEBREW = ["הכלב", "הגדול", "רץ", "אל", "BBC", "."]


@pytest.fixture(scope="session")
def classifier():
    texts = [["dogs", "bark", "$<b>&\x01_{x}"], ["cats", "sleep"]]
    return TextClassifier(OPTIONS, inputs=InputOptions(embedding=6), training=TRAINING).fit(texts * 4, ["x", "y"] * 4)


@pytest.fixture(scope="session")
def source():
    """A parsed sentence to translate."""
    return Sentence(["the", "dog", "sees"], heads=[2, 3, 0])


@pytest.fixture(scope="session")
def toy_translator(source):
    return Translator(
        UMSTOptions(hidden=8, heads=2, layers=1, ffn=8),
        inputs=SubwordOptions(vocabulary_size=60),
        decoder=DecoderOptions(1, 2, 8, 0.0),
        training=TranslationTraining(epochs=1, dev_fraction=0.0),
    ).fit([source] * 4, ["der hund!"] * 4)


@pytest.fixture(scope="session")
def hebrew():
    """Attention to a text that runs from right to left, with a label that does, too."""
    texts = [HEBREW, HEBREW[:2]]
    model = TextClassifier(OPTIONS, inputs=InputOptions(embedding=6), training=TRAINING)
    return model.fit(texts * 4, ["טוב", "רע"] * 4).attention(HEBREW)


@pytest.fixture(scope="session")
def attention(classifier):
    return classifier.attention(["dogs", "bark", "$<b>&\x01_{x}"])


@pytest.fixture(scope="session")
def to_svg():
    def convert(figure):
        with default_style(), StringIO() as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
            return file.getvalue()

    return convert


@pytest.fixture(scope="session")
def read_texts(to_svg):
    """Read the texts of a figure as SVG, where matplotlib repeats them in comments."""
    return lambda figure: re.findall(r"<!-- (.*?) -->", to_svg(figure), flags=re.DOTALL)


@pytest.fixture(scope="session")
def read_places(to_svg):
    """Read each text of a figure with the inches of its left end and its top."""
    text = re.compile(r"<!-- (.*?) -->\s*<g [^>]*translate\(([\d.]+) ([\d.]+)\)", flags=re.DOTALL)

    def read(figure):
        found = text.findall(to_svg(figure))
        return [(content, float(x) / 72, float(y) / 72) for content, x, y in found]

    return read

"""The component of spaCy: classes, entities and tags of its texts, in batches, and in pipelines on disk."""

import shutil

import numpy as np
import pytest

from graphattn import SequenceTagger, load
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models import MSTransOptions, TrainingOptions

from .padded import MODELS

spacy = pytest.importorskip("spacy")
WORDS, ENTITIES = ["Ann", "saw", "New", "York", "."], ["B-PER", "O", "B-LOC", "I-LOC", "O"]
TEXT = "Ann saw \n New York."


@pytest.fixture
def pipe():
    """Make a pipeline with a model directory."""
    pytest.importorskip("graphattn.models._spacy")

    def make(model):
        nlp = spacy.blank("en")
        nlp.add_pipe("graphattn", config={"model": str(model)})
        return nlp

    return make


@pytest.fixture
def save_tagger(tmp_path):
    """Train a tagger on one sentence and save it."""

    def train(tags):
        training = TrainingOptions(epochs=8, learning_rate=0.02, dev_fraction=0, progress=False, precision="32")
        encoder = MSTransOptions(hidden=20, heads=5, layers=1)
        return SequenceTagger(encoder, training=training).fit([WORDS] * 8, [tags] * 8).save(tmp_path / "tagger")

    return train


def test_classes_and_attention(pipe):
    nlp, classifier = pipe(MODELS / "classify"), load(MODELS / "classify")
    texts = ["a good film", "", "bad bad plot"]
    docs = list(nlp.pipe(texts, batch_size=2))
    found = [[doc.cats[str(name)] for name in classifier.classes_] for doc in docs]
    np.testing.assert_allclose(found, classifier.predict_proba(texts), atol=1e-6)
    assert docs[2]._.attention.table().equals(classifier.attention(texts[2]).table())
    with pytest.raises(ConfigError, match=r"call nlp\(text\)"):
        _ = spacy.blank("en")("a text")._.attention


def test_entities_are_those_of_spacys_tokens(pipe, save_tagger):
    nlp = pipe(save_tagger(ENTITIES))
    docs = list(nlp.pipe([TEXT, "", "\n"]))
    assert [(span.text, span.label_) for span in docs[0].ents] == [("Ann", "PER"), ("New York", "LOC")]
    assert not docs[1].ents
    assert not docs[2].ents
    assert docs[0]._.attention.words["text"][-5:] == tuple(WORDS)


@pytest.mark.parametrize(
    ("tags", "attribute"), [("PROPN VERB PROPN PROPN PUNCT", "pos_"), ("NNP VBD NNP NNP .", "tag_")]
)
def test_tags(pipe, save_tagger, tags, attribute):
    doc = pipe(save_tagger(tags.split()))(TEXT)
    assert [getattr(token, attribute) for token in doc if not token.is_space] == tags.split()


def test_a_pipeline_on_disk_contains_the_model(pipe, tmp_path):
    shutil.copytree(MODELS / "classify", tmp_path / "model")
    nlp = pipe(tmp_path / "model")
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded("a good film").cats == nlp("a good film").cats
    copied = spacy.blank("en").from_config(nlp.config)
    with pytest.raises(ModelDirectoryError):
        copied("a good film")


def test_other_models_are_an_error(pipe):
    with pytest.raises(ConfigError, match="needs a classifier or a tagger"):
        pipe(MODELS / "translate")("a text")

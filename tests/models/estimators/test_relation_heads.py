"""Models with heads on relations that have extra nodes or vectors: training, attention, saving, loading."""

import numpy as np
import pytest

import graphattn
from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError
from graphattn.models import (
    InputOptions,
    MSTransOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TrainingOptions,
)

BRIEF = TrainingOptions(epochs=1, dev_fraction=0.0)
HEADS = "window:3=2,star=2,binary=1,sentence=1,document=1,relative:2(window:5)=1,random:2=1"
OPTIONS = MSTransOptions(hidden=8, head_feats=4, layers=2, heads=HEADS)
TEXTS = ["a fine film . really !", "dull", "a dull film", "fine . fine"] * 2
LABELS = ["good", "bad", "bad", "good"] * 2


@pytest.fixture(scope="module")
def classifier():
    return TextClassifier(OPTIONS, inputs=InputOptions(embedding=6), training=BRIEF).fit(TEXTS, LABELS)


def test_a_saved_model_predicts_the_same(classifier, tmp_path):
    loaded = graphattn.load(classifier.save(tmp_path / "model"))
    assert loaded.encoder_.heads == HEADS
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_a_batch_equals_single_texts(classifier):
    single = np.concatenate([classifier.predict_proba([text]) for text in TEXTS])
    np.testing.assert_allclose(classifier.predict_proba(TEXTS), single, atol=1e-5)


def test_the_table_has_every_weight(classifier):
    attention = classifier.attention("a fine film . really !")
    table = attention.table()
    assert list(table["head"].unique()) == list(range(9))
    names = ["window:3"] * 2 + ["star"] * 2 + ["binary:1", "sentence", "document", "relative:2(window:5)", "random:2"]
    assert list(table.groupby(["layer", "head"]).relation.first()) == names * 2
    sums = table.groupby(["layer", "head", "target_part", "target"]).weight.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    star = table[(table["layer"] == 1) & (table["head"] == 2)]
    assert set(star.source_token) == {"[CLS]", "a", "fine", "film", ".", "really", "!", "[relay 0]"}
    assert set(table.target_token[table.relation == "sentence"]) >= {"[sentence 0]", "[sentence 1]"}
    graph = attention.graph(layer=1, head=2)
    assert graph.number_of_edges() == len(star)
    assert graph.nodes["text_relay_0"]["text"] == "[relay 0]"


def test_pairs_and_taggers_train_and_have_weights():
    pairs = PairClassifier(OPTIONS, inputs=InputOptions(embedding=6), training=BRIEF)
    pairs.fit([(text, "dull film .") for text in TEXTS], LABELS)
    table = pairs.attention((TEXTS[0], "dull")).table()
    assert set(table.target_part[table.target_token == "[relay 0]"]) == {"first relay", "second relay"}
    tagger = SequenceTagger(OPTIONS, inputs=InputOptions(embedding=6), training=BRIEF)
    tagger.fit([["a", "film"], ["dull"]] * 3, [["D", "N"], ["A"]] * 3)
    assert [len(tags) for tags in tagger.predict([["a", "film"], ["dull"]])] == [2, 1]


def test_links_can_have_heads():
    texts = [Sentence(text.split(), links=[(0, 0)]) for text in TEXTS]
    classifier = TextClassifier(MSTransOptions(hidden=8, layers=1, heads="links=1,window:1=1"), training=BRIEF)
    table = classifier.fit(texts, LABELS).attention(texts[0]).table()
    assert table[table.relation == "links"][["source", "target", "weight"]].values.tolist() == [[1, 1, 1]]
    raw, words = "a film", Sentence(["a", "film"], links=[])
    assert list(classifier.predict([raw])) == list(classifier.predict([words]))


@pytest.fixture
def vectors(tmp_path):
    words = "a fine film . really ! dull".split()
    rows = np.random.default_rng(0).normal(size=(len(words), 5)).round(3)
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)))
    return str(path)


def test_nearest_words_follow_the_frozen_vectors(vectors, tmp_path):
    options = MSTransOptions(hidden=8, layers=1, heads="nearest:2=1,window:1=1")
    classifier = TextClassifier(options, inputs=InputOptions(vectors=vectors, tune_vectors=False), training=BRIEF)
    classifier.fit(TEXTS, LABELS)
    loaded = graphattn.load(classifier.save(tmp_path / "model"))
    for text in TEXTS[:4]:
        ours, theirs = classifier.attention(text).table(), loaded.attention(text).table()
        assert ours.equals(theirs)
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))


@pytest.mark.parametrize("tuned", [False, True])
def test_nearest_words_need_frozen_vectors(tuned, vectors):
    inputs = InputOptions(vectors=vectors, tune_vectors=True) if tuned else InputOptions()
    classifier = TextClassifier(MSTransOptions(hidden=8, heads="nearest:2=2"), inputs=inputs, training=BRIEF)
    with pytest.raises(ConfigError) as caught:
        classifier.fit(TEXTS, LABELS)
    assert str(caught.value) == (
        "relation 'nearest:2' compares words and needs vectors; give TextGraphBuilder(vectors=...), or a model word "
        "vectors that it does not tune (vectors, tune_vectors=False)"
    )

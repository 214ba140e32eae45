"""Attention of a directory that nobody has trained, against the weights of ``transformers``; and search."""

import numpy as np
import pytest

from graphattn import TextClassifier
from graphattn.exceptions import ConfigError, DataError, TruncationWarning
from graphattn.experiments.drawing import draw_arcs, draw_matrices
from graphattn.models import TrainingOptions
from graphattn.models.inspection import summarise
from graphattn.models.inspection.attributions import attention_rollout, gradient_times_weight, word_attributions
from graphattn.models.pretrained import SentenceEncoder
from graphattn.models.pretrained import _sentence_encoder as module

TEXT = "a cat sat"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "mpnet", "modernbert"])
def test_weights_equal_transformers(make_reference, save_model, family):
    """Those of ModernBERT's local layers are zero outside of their windows."""
    encoder = SentenceEncoder(save_model(family))
    ids = encoder.encode_inputs([TEXT]).first_batch.graph.node_features["token"]["id"][None].long()
    reference = make_reference(family)(input_ids=ids, output_attentions=True).attentions
    attention = encoder.attention(TEXT)
    assert len(reference) == 3
    for layer, weights in enumerate(reference):
        for head, expected in enumerate(weights[0].detach()):
            np.testing.assert_allclose(attention.matrix(layer, head).toarray(), expected, atol=1e-5)


@pytest.mark.slow
def test_the_same_objects_as_of_a_trained_model(save_model, tmp_path):
    folder = save_model("bert")
    encoder = SentenceEncoder(folder)
    attention = encoder.attention(TEXT)
    assert (attention.prediction, dict(attention.probabilities)) == (None, {})
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, learning_rate=1e-9)
    classifier = TextClassifier(pretrained=str(folder), training=training)
    trained = classifier.set_params(pretrained__tuned_layers=0).fit(["a b", "b c"] * 4, [0, 1] * 4)
    assert attention.table().drop(columns="weight").equals(trained.attention(TEXT).table().drop(columns="weight"))
    np.testing.assert_allclose(attention.weights(), trained.attention(TEXT).weights(), atol=1e-6)
    texts = [TEXT, "dog", ["a", "list", "of", "words"]]
    for name, table in summarise(encoder, texts).tables().items():
        expected = summarise(trained, texts).tables()[name]
        assert list(table) == list(expected)
        np.testing.assert_allclose(table.select_dtypes("number"), expected.select_dtypes("number"), atol=1e-5)
    for name in ("a.csv", "a.parquet", "a.json", "a.gexf"):
        assert attention.save(tmp_path / name).exists()
    draw_arcs(attention.only(layer=0, head=0), tmp_path / "arcs.svg")
    draw_matrices(attention.only(layer=0), tmp_path / "matrices.svg")
    assert "None" not in (tmp_path / "arcs.svg").read_text() + (tmp_path / "matrices.svg").read_text()
    assert attention.to_page()["prediction"] == {}
    html = attention._repr_html_()
    assert ("sat" in html, "None" in html) == (True, False)
    rollout, expected = attention_rollout(encoder, TEXT), attention_rollout(trained, TEXT)
    np.testing.assert_allclose(rollout.select_dtypes("number"), expected.select_dtypes("number"), atol=1e-5)


@pytest.mark.slow
def test_other_edges_and_longer_texts(save_model):
    folder = save_model("bert")
    attention = SentenceEncoder(folder, heads="2:window:3=2,all=2").attention(TEXT)
    table = attention.table()
    assert {*table[(table.layer == 2) & (table["head"] < 2)].relation} == {"window:3"}
    assert {*table[table.layer < 2].relation} == {"all"}
    long = "ab " * 60  # with [CLS] and [SEP] 122 tokens; the model reads 48
    with pytest.warns(TruncationWarning, match="1 text truncated to 46 tokens"):
        cut = SentenceEncoder(folder).attention(long)
    assert len(cut.tokens["text"]) == 48
    whole = SentenceEncoder(folder, heads="window:5|global", max_length=200).attention(long)
    assert len(whole.tokens["text"]) == 122
    sums = whole.table().groupby(["layer", "head", "target"]).weight.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_there_is_nothing_to_explain(save_model):
    encoder = SentenceEncoder(save_model("bert"))
    for explain in (word_attributions, gradient_times_weight):
        with pytest.raises(ConfigError, match="a pretrained model has no prediction to explain"):
            explain(encoder, TEXT)
    with pytest.raises(ConfigError, match="target is for translators only"):
        encoder.encode_inputs([TEXT], targets=["x"])


def compute_nearest(queries, corpus, k):
    """The reference: all cosines in float64."""
    norms = [np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, corpus)]
    cosines = (queries / norms[0]).astype(float) @ (corpus / norms[1]).astype(float).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(cosines, best, 1)


@pytest.mark.parametrize("chunk", [3, 7, 1000])
def test_search_equals_numpy(save_model, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    random, encoder = np.random.default_rng(0), SentenceEncoder(save_model("bert"))
    queries, corpus = random.normal(size=(5, 24)), random.normal(size=(40, 24)).astype(np.float32)
    for k in (1, 4, 40, 100):
        indices, scores = encoder.search(queries, corpus, k)
        expected, cosines = compute_nearest(queries, corpus, k)
        assert (indices.dtype, scores.dtype) == (np.int64, np.float32)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(scores, cosines, atol=1e-6)


def test_search_of_texts(save_model, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 2)
    encoder = SentenceEncoder(save_model("bert"))
    texts = ["a cat", "the dog sleeps", "xyz", "a cat", "so what"]
    indices, scores = encoder.search(["a cat", "xyz"], (text for text in texts), 2)
    assert indices.tolist()[0] == [0, 3], "equal texts in their order"
    assert indices[1, 0] == 2
    expected, cosines = compute_nearest(*map(encoder.transform, (["a cat", "xyz"], texts)), 2)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(scores, cosines, atol=1e-6)


def test_equal_and_empty_vectors(save_model, tmp_path):
    encoder = SentenceEncoder(save_model("bert"))
    corpus = np.zeros((50, 24), np.float32)
    corpus[10:40] = 1
    np.save(tmp_path / "corpus.npy", corpus)
    indices, scores = encoder.search(corpus[10:11], np.load(tmp_path / "corpus.npy", mmap_mode="r"), 35)
    assert indices.tolist() == [[*range(10, 40), *range(5)]]
    np.testing.assert_allclose(scores, [[1] * 30 + [0] * 5], atol=1e-6)
    assert encoder.search(np.empty((0, 24)), corpus, 3)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("corpus", "k", "error"),
    [
        ([], 1, DataError("the corpus is empty", hint="Give at least one text.")),
        (np.empty((0, 24)), 1, DataError("the corpus is empty", hint="Give at least one text.")),
        (np.ones((2, 23)), 1, DataError("corpus: an array of the shape (2, 23)",
                                        hint="The vectors of this model are 24 wide.")),
        (["a"], 0, ConfigError("k is 0; it must be at least 1")),
        ("a text", 1, DataError("a str is given where many inputs are expected", hint="Put it into a list.")),
    ],
)  # fmt: skip
def test_impossible_searches(save_model, corpus, k, error):
    with pytest.raises(type(error)) as caught:
        SentenceEncoder(save_model("bert")).search(["a"], corpus, k)
    assert str(caught.value) == str(error)

"""Exported heads in ``transformers``: the same probabilities, or a README that says what is missing."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from graphattn import PairClassifier, SequenceTagger, TextClassifier
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.models import HeadOptions, InputOptions, MSTransOptions, PairRegressor, TrainingOptions
from graphattn.models.pretrained._options import PretrainedOptions

from .conftest import EXPORTED, TRAINED

TEXTS = [
    "Don't stop the café, it isn't open",
    "A DOG barks at 東京",
    "  lovely <mask> x [MASK]",
    "",
    "it sleeps und eats",
]
LABELS = ["a", "b", "c", "a", "b"]
FULL = [text or "x" for text in TEXTS]  # a pipeline reads ("a", "") as one text
PAIRS = list(zip(FULL, FULL[1:] + FULL[:1], strict=True))
WORDS = [["The", "café", "isn't", "open"], ["A", "DOG"]] * 3
TAGS = [["O", "B-X", "O", "O"], ["O", "B-X"]] * 3
CLS = HeadOptions(pooling="cls", head_hidden=0, linear_branch=False)
PLAIN = HeadOptions(crf=False, linear_branch=False)
TRAINING = TrainingOptions(epochs=1, learning_rate=0.5, dev_fraction=0, progress=False, precision="32")
LINEAR = [name for name in EXPORTED if name != "modernbert"]


@pytest.fixture
def fit(save_trained, tmp_path):
    """Fine-tune a model and export; returns the estimator and the directory."""

    def train(name, kind, X, y, head, *, join_pairs=True, encoder_only=False, **options):
        pretrained = PretrainedOptions(str(save_trained(name)), join_pairs=join_pairs)
        estimator = kind(pretrained=pretrained, head=head, training=TRAINING, **options).fit(X, y)
        estimator.to_huggingface(tmp_path / "copy", encoder_only=encoder_only)
        return estimator, tmp_path / "copy"

    return train


def classify(transformers, folder, inputs, classes):
    """Probabilities of a pipeline, in the order of the classes."""
    rows = transformers.pipeline("text-classification", str(folder), device="cpu")(inputs, top_k=None)
    return [[{row["label"]: row["score"] for row in of_text}[name] for name in classes] for of_text in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_a_classifier_in_a_pipeline(transformers, fit, name):
    classifier, folder = fit(name, TextClassifier, TEXTS, LABELS, CLS)
    probabilities = classify(transformers, folder, TEXTS, "abc")
    np.testing.assert_allclose(probabilities, classifier.predict_proba(TEXTS), atol=1e-5)
    config = transformers.AutoConfig.from_pretrained(folder)
    assert (config.id2label, config.label2id) == ({0: "a", 1: "b", 2: "c"}, {"a": 0, "b": 1, "c": 2})


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_pairs_in_a_pipeline(transformers, fit, name):
    classifier, folder = fit(name, PairClassifier, PAIRS, LABELS, CLS)
    inputs = [{"text": first, "text_pair": second} for first, second in PAIRS]
    probabilities = classify(transformers, folder, inputs, "abc")
    np.testing.assert_allclose(probabilities, classifier.predict_proba(PAIRS), atol=1e-5)


def test_several_labels_in_a_pipeline(transformers, fit):
    labels = [(True,), (True, False), (), (False,), (True,)]
    classifier, folder = fit("bert", TextClassifier, TEXTS, labels, CLS, multilabel=True)
    probabilities = classify(transformers, folder, TEXTS, ["false", "true"])
    np.testing.assert_allclose(probabilities, classifier.predict_proba(TEXTS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_a_tagger(transformers, fit, name):
    tagger, folder = fit(name, SequenceTagger, WORDS, TAGS, PLAIN, inputs=InputOptions(level="bpe", characters=False))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    assert list(model.config.id2label.values()) == tagger.classes_.tolist()
    for words, expected in zip(WORDS, tagger.predict_proba(WORDS), strict=True):
        blank = " " if TRAINED[name][1] == "roberta" else ""  # marks the beginning of a word
        encoded = tokenizer([blank + word for word in words], is_split_into_words=True, return_tensors="pt")
        first = [encoded.word_ids().index(number) for number in range(len(words))]
        with torch.no_grad():
            probabilities = model(**encoded).logits[0, first].softmax(1)
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)


def test_states_are_written_beside_a_head(transformers, fit):
    classifier, folder = fit("mpnet", TextClassifier, TEXTS, LABELS, CLS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, loading = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    with torch.no_grad():
        first = model.eval()(**tokenizer(TEXTS, padding=True, return_tensors="pt")).last_hidden_state[:, 0]
    np.testing.assert_allclose(first, classifier.encode(TEXTS), atol=1e-5)
    assert not loading["missing_keys"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "y", "head", "options", "missing"),
    [
        (TextClassifier, LABELS, None, {}, "a head on mean instead of cls"),
        (TextClassifier, LABELS, HeadOptions(pooling="cls", linear_branch=True), {}, "the linear branch"),
        (TextClassifier, LABELS, HeadOptions(pooling="cls", head_hidden=8), {}, "a head with a hidden layer"),
        (TextClassifier, list(range(5)) * 3, CLS, {}, None),
        (TextClassifier, list(range(15)), CLS, {}, "a head with so many classes"),
        (TextClassifier, LABELS, CLS, {"encoder": MSTransOptions(hidden=12, heads=2, layers=1, scales=("1",))}, "MS"),
        (PairRegressor, range(5), CLS, {}, "a regressor's head"),
        (PairClassifier, LABELS, CLS, {"join_pairs": False}, "a head on two texts apart"),
        (SequenceTagger, TAGS, None, {}, "the conditional random field"),
        (SequenceTagger, TAGS, HeadOptions(crf=False, word_pieces="mean"), {}, "the mean of a word's tokens"),
        (SequenceTagger, TAGS, PLAIN, {"inputs": InputOptions(suffixes=2)}, "suffixes"),
        (SequenceTagger, TAGS, PLAIN, {"inputs": InputOptions(characters=True)}, "characters"),
    ],
)
def test_what_is_missing_is_an_error_and_in_the_readme(fit, tmp_path, kind, y, head, options, missing):
    X = {SequenceTagger: WORDS, TextClassifier: TEXTS * 3}.get(kind, PAIRS)[: len(y)]
    estimator, folder = fit("bert", kind, X, y, head, encoder_only=missing is not None, **options)
    if missing is not None:
        with pytest.raises(ConfigError, match=missing) as error:
            estimator.to_huggingface(tmp_path / "strict")
        assert error.value.options == ("encoder_only",)
        assert not (tmp_path / "strict").exists()
    config, readme = json.loads((folder / "config.json").read_text()), (folder / "README.md").read_text()
    if missing is None:
        assert config["architectures"] == ["BertForSequenceClassification"]
        assert "No head" not in readme
    else:
        assert config["architectures"] == ["BertModel"]
        assert config["id2label"] == {}
        assert missing in readme.partition("No head. Left out")[2]


@pytest.mark.parametrize(
    ("task", "kind", "y", "head"),
    [("text-classification", TextClassifier, LABELS, CLS), ("token-classification", SequenceTagger, TAGS, PLAIN)],
)
def test_a_pipeline_of_a_model_without_its_head(transformers, fit, task, kind, y, head):
    """ModernBERT's heads are not linear; an error is better than answers from random weights."""
    _, folder = fit("modernbert", kind, TEXTS if kind is TextClassifier else WORDS, y, head, encoder_only=True)
    assert "a linear head (modernbert)" in (folder / "README.md").read_text()
    with pytest.raises(ValueError, match=r"empty|zero-size"):
        transformers.pipeline(task, str(folder), device="cpu")("a film")


def test_a_head_is_left_out_on_request(transformers, fit):
    _, folder = fit("bert", TextClassifier, TEXTS, LABELS, CLS, encoder_only=True)
    assert "Left out of the model: the head." in (folder / "README.md").read_text()
    assert not [name for name in load_file(folder / "model.safetensors") if "classifier" in name]


def test_settings_that_transformers_does_not_apply(fit, tmp_path):
    inputs = InputOptions(level="bpe", characters=False, strip_html=True)
    labels = [()] + [("a",), ("b",)] * 2
    with pytest.warns(GraphAttnWarning, match="has no strip_html: apply"):
        classifier, _ = fit("bert", TextClassifier, TEXTS, labels, CLS, multilabel=True, inputs=inputs)
    classifier.set_thresholds(0.2)
    with pytest.warns(GraphAttnWarning, match="has no strip_html, thresholds"):
        classifier.to_huggingface(tmp_path / "second")

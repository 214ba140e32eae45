"""Models as modules of padded ids: the scores of graphs, for torch.compile and torch.export."""

import json

import numpy as np
import pytest
import torch
from torch import _dynamo

from graphattn import MultiScaleAttention, PairClassifier, SequenceTagger, TextClassifier, load
from graphattn.builders import TextGraphBuilder, Window
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.flags import as_flag
from graphattn.layers import DenseAttention, edges_of
from graphattn.models import HeadOptions, InputOptions, MSTransOptions, TextRegressor, TrainingOptions
from graphattn.models._encoders import MSTransEncoder
from graphattn.models._files.dense_model import check_exportable, make_dense_encoder

from ..padded import MODELS, pad_ids

RANDOM = np.random.default_rng(0)
TEXTS = [" ".join(RANDOM.choice(list("abcdefgh"), count)) for count in (1, 2, 3, 5, 8, 13, 21, 33, 47, 60)]
LABELS = ["odd" if len(text.split()) % 2 else "even" for text in TEXTS]
TRAINING = TrainingOptions(epochs=1, learning_rate=0.01, dev_fraction=0, progress=False, precision="32")


def encoder(**options):
    return MSTransOptions(**{"hidden": 20, "heads": 5, "layers": 2, **options})


def fit(kind=TextClassifier, X=TEXTS, y=LABELS, options=None, head=None, **more):
    plain = HeadOptions(linear_branch=False, crf=False)
    estimator = kind(options or encoder(), head=plain, training=TRAINING, **more)
    return estimator.set_params(**{f"head__{name}": value for name, value in (head or {}).items()}).fit(X, y)


POOLINGS = ("cls+max", "concat", "max", "mean", "mean-max", "cls", "unit-mean", "source2token")


@pytest.mark.slow
@pytest.mark.parametrize("pooling", POOLINGS)
def test_probabilities_of_a_classifier(pooling):
    estimator = fit(head={"pooling": pooling}, options=encoder(positions=pooling == "max"))
    found = estimator.to_dense()(*pad_ids(estimator, TEXTS)).softmax(1)
    np.testing.assert_allclose(found, estimator.predict_proba(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        encoder(heads="all=3,window:3=2"),
        encoder(literal_radius=True, scales=("1", "3", "N/4")),
        encoder(scales=("1", "N/2", "N"), score_scale="hidden"),
    ],
)
def test_windows(options):
    estimator = fit(options=options, inputs=InputOptions(cls=False))
    found = estimator.to_dense()(*pad_ids(estimator, TEXTS)).softmax(1)
    np.testing.assert_allclose(found, estimator.predict_proba(TEXTS), atol=1e-6)


@pytest.mark.parametrize("pooling", ["max", "mean", "mean-max", "source2token"])
def test_empty_texts_without_cls(pooling):
    estimator = fit(head={"pooling": pooling}, options=encoder(heads=2, layers=1), inputs=InputOptions(cls=False))
    model = estimator.to_dense()
    for texts in ([""], ["", ""], ["", "a b"]):
        found = model(*pad_ids(estimator, texts)).softmax(1)
        np.testing.assert_allclose(found, estimator.predict_proba(texts), atol=1e-6)


def test_a_tagger():
    words, tags = [text.split() for text in TEXTS], [text.split() for text in TEXTS]
    tagger = fit(SequenceTagger, words, tags, inputs=InputOptions(level="bpe", characters=False))
    ids, mask = pad_ids(tagger, words)
    scores = tagger.to_dense()(ids, mask).softmax(2)
    for row, expected in zip(scores, tagger.predict_proba(words), strict=True):
        np.testing.assert_allclose(row[1 : len(expected) + 1], expected, atol=1e-6)  # [CLS] is the first


def test_a_regressor():
    regressor = fit(TextRegressor, y=[10.0 * len(text) for text in TEXTS])
    found = regressor.to_dense()(*pad_ids(regressor, TEXTS))[:, 0]
    np.testing.assert_allclose(found, regressor.predict(TEXTS), rtol=1e-5)


@pytest.mark.slow
def test_it_is_compiled_without_breaks_and_exported():
    _dynamo.reset()
    classifier = fit()
    model, inputs = classifier.to_dense(), pad_ids(classifier, TEXTS[3:6])
    size = torch.export.Dim.DYNAMIC
    program = torch.export.export(model, inputs, dynamic_shapes=({0: size, 1: size}, {0: size, 1: size}))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for function in (compiled, program.module()):
        for texts in (TEXTS[:1], TEXTS[3:6], TEXTS[-1:]):
            found = function(*pad_ids(classifier, texts)).softmax(1)
            np.testing.assert_allclose(found, classifier.predict_proba(texts), atol=1e-6)


@pytest.mark.slow
def test_a_dense_layer_equals_the_layer_on_edges():
    layer = MultiScaleAttention(8, 4, {"window:3": 1, "window:1": 0, "window:5": 2})
    builder = TextGraphBuilder([Window(3), Window(5)], cls=False)
    batch = builder.text_batch([["a"] * 4] * 2)
    inputs = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    distances = (torch.arange(4) - torch.arange(4).unsqueeze(1)).abs().expand(2, -1, -1)
    masks = {"window:3": distances <= 1, "window:5": distances <= 2}
    edges = edges_of(batch, ["window:3", "window:5"])
    expected = layer({**edges, "window:1": edges["window:3"]}, inputs.flatten(0, 1)).unflatten(0, (2, 4))
    dense = DenseAttention(layer)
    torch.testing.assert_close(dense(masks, inputs), expected)
    torch.testing.assert_close(torch.compile(dense, fullgraph=True, backend="aot_eager")(masks, inputs), expected)


WORDS, TAGS = [["a", "b"], ["c"]] * 3, [["X", "Y"], ["X"]] * 3


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: fit(head={"linear_branch": True}), ["the linear branch"]),
        (lambda: fit(SequenceTagger, WORDS, TAGS, head={"crf": True}), ["the conditional random field", "characters"]),
        (
            lambda: fit(
                SequenceTagger, WORDS, TAGS, head={"word_pieces": "mean"}, inputs=InputOptions(characters=False)
            ),
            ["the mean of a word's tokens"],
        ),
        (lambda: fit(PairClassifier, list(zip(TEXTS, TEXTS, strict=True))), ["a head on two texts apart"]),
        (lambda: fit(options="bilstm"), ["the encoder BiLSTM"]),
        (lambda: load(MODELS / "translate"), ["cannot be exported; use a classifier or tagger"]),
    ],
)
def test_what_cannot_be_exported_is_named(make, parts):
    with pytest.raises(ConfigError) as caught:
        make().to_dense()
    assert all(part in str(caught.value) for part in parts)


def test_the_error_states_flags_of_a_model_that_can_be_exported():
    parts = ["the linear branch", "features of characters", "the conditional random field", "heads along star"]
    with pytest.raises(ConfigError) as caught:
        check_exportable(parts)
    assert caught.value.render(as_flag).partition("; ")[2] == (
        "train a model with --no-linear-branch, --no-characters, --no-crf, --heads along windows or all tokens"
    )
    with pytest.raises(ConfigError, match=r"train a model with encoder=ms-trans or encoder=pretrained$"):
        check_exportable(["the encoder BiLSTM"])


def test_other_edges_are_named():
    with pytest.raises(ConfigError, match="heads along star, heads along dilated:3:2 cannot be exported"):
        make_dense_encoder(MSTransEncoder(encoder(relations="star=1,dilated:3:2=1")))


@pytest.mark.slow
def test_onnx_of_empty_texts_without_cls_and_its_metadata(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    words = [text.split() for text in TEXTS]
    inputs = InputOptions(cls=False, characters=False)
    for kind, X, y, options in (
        (TextClassifier, TEXTS, [(label,) for label in LABELS], {"head": {"pooling": "max"}, "multilabel": True}),
        (SequenceTagger, words, words, {}),
    ):
        estimator = fit(kind, X, y, encoder(heads=2, layers=1), inputs=inputs, **options)
        if kind is TextClassifier:
            estimator.set_thresholds({"odd": 0.25})
        path = tmp_path / kind.__name__ / "model.onnx"
        estimator.to_onnx(path)
        session, model = runtime.InferenceSession(path), estimator.to_dense()
        for ids, mask in (torch.zeros(2, 1, 0), torch.zeros(2, 2, 0), pad_ids(estimator, ["", "a b"])):
            rows = {"input_ids": ids.long(), "attention_mask": mask.long()}
            found = session.run(None, {name: values.numpy() for name, values in rows.items()})[0]
            np.testing.assert_allclose(found, model(*rows.values()), atol=1e-5)
    path = tmp_path / "TextClassifier" / "model.onnx"
    metadata = {each.key: json.loads(each.value) for each in onnx.load(path).metadata_props}
    assert dict(zip(metadata["labels"], metadata["thresholds"], strict=True)) == {"even": 0.5, "odd": 0.25}

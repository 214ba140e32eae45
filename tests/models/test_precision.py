"""Whole models in float64 (no part falls back to float32, and gradients equal differences), bfloat16 and float16."""

from copy import deepcopy
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch

from graphattn.builders import Sentence
from graphattn.models import load
from graphattn.models._encoders import ENCODERS, encoder_options
from graphattn.models._estimators.state import make_corpus

TINY = {"hidden": 12, "layers": 2, "heads": 2, "ffn": 5, "dropout": 0.0}
KINDS = ("classifier", "pair", "tagger", "translator", "regressor")
# Every task with the default encoder. With the others, which are slow, those whose options are the encoder's own: pairs
# and regressors have the encoder of a classifier.
PAIRS = [
    pytest.param(encoder, kind, marks=[] if encoder == "ms-trans" else pytest.mark.slow)
    for encoder in ENCODERS
    for kind in (KINDS if encoder == "ms-trans" else ("classifier", "tagger", "translator"))
]
POOLINGS = ("concat", "max", "mean", "mean-max", "cls", "unit-mean", "source2token")


def tiny_options(encoder, kind, **options):
    cls = type(encoder_options(encoder))
    known = {item.name for item in fields(cls)} - ({"layers"} if encoder == "duo" else set())
    values = {name: value for name, value in {**TINY, **options}.items() if name in known}
    if kind == "translator":
        return cls.for_translation(values)
    return replace(cls.for_tagging() if kind in ("tagger", "crf") else cls(), **values)


@pytest.fixture(scope="module")
def train(corpus, tiny):
    """``train(kind, encoder options, head={...})``: a small estimator after one epoch, and a corpus."""

    def fit(kind, encoder, **groups):
        inputs, labels = corpus(kind, 8)
        if kind != "translator":
            groups = {**groups, "inputs": {"characters": True, "character_filters": 3}}
        training = {"epochs": 1, "dev_fraction": 0.0}
        estimator = tiny(kind, encoder, training=training, **groups).fit(inputs, labels)
        return estimator, make_corpus(estimator, inputs, labels)

    return fit


@pytest.fixture(scope="module")
def trained(train):
    """``trained(kind, encoder)``: as :func:`train`, once for all tests of this file."""
    return cache(lambda kind, encoder: train(kind, tiny_options(encoder, kind)))


def draw_double_model(estimator):
    """A copy of the model in float64 with random weights."""
    model = deepcopy(estimator.model_).double().eval()
    characters = getattr(model.embedding, "characters", None)
    if characters is not None:
        characters.embed.padding_idx = None  # its row has no gradient, whatever its effect
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def check_model(estimator, data):
    model, batch, dtypes = draw_double_model(estimator), data[[0, 1, 2]], {}

    def note(name):
        def hook(module, inputs, output):
            for tensor in output if isinstance(output, (tuple, list)) else [output]:
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                    dtypes[name] = tensor.dtype

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    loss, scores = model.loss(batch)
    for hook in hooks:
        hook.remove()
    assert loss.dtype == scores.dtype == torch.float64
    assert not {name: dtype for name, dtype in dtypes.items() if dtype != torch.float64}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
    for _ in range(2):
        directions = [torch.randn_like(parameter) for parameter in parameters]
        losses = [_move(model, parameters, directions, step).loss(batch)[0].item() for step in (1e-6, -2e-6)]
        slope = sum(
            (gradient * direction).sum().item() for gradient, direction in zip(gradients, directions, strict=True)
        )
        _move(model, parameters, directions, 1e-6)
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-5)


def _move(model, parameters, directions, step):
    """The model, with its parameters moved in place."""
    with torch.no_grad():
        for parameter, direction in zip(parameters, directions, strict=True):
            parameter.add_(direction, alpha=step)
    return model


@pytest.mark.parametrize(("encoder", "kind"), PAIRS)
def test_every_encoder_in_every_task(encoder, kind, trained):
    check_model(*trained(kind, encoder))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "kind"), [pair for pair in PAIRS if pair.values[0] == "ms-trans" or pair.values[1] != "tagger"]
)
def test_every_encoder_in_every_task_in_half_precision(encoder, kind, trained):
    """Sums of gradients do not stop growing: the mean gradient of repeated texts is that of the texts."""
    estimator, data = trained(kind, encoder)
    for dtype in (torch.bfloat16, torch.float16):
        model = deepcopy(estimator.model_).to(dtype).eval()
        exact, _ = deepcopy(model).double().loss(data[[2, 4]])
        gradients = []
        for count in (1, 300):  # bfloat16 cannot count above 256
            loss, _ = model.loss(data[[2, 4] * count])
            assert loss.dtype == torch.float32
            assert loss.item() == pytest.approx(exact.item(), rel=0.02)
            # a larger loss: float16 has no small gradients
            gradients.append(torch.autograd.grad(400 * loss, list(model.parameters()), allow_unused=True))
        used = [(often, once) for often, once in zip(*reversed(gradients), strict=True) if once is not None]
        largest = max(once.norm() for _, once in used)
        for often, once in used:
            assert often.dtype == dtype
            assert torch.isfinite(often).all()
            if once.norm() > largest / 100:
                torch.testing.assert_close(often, once, rtol=0, atol=0.2 * float(once.norm()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multilabel", "crf", "pair regressor"])
def test_other_heads(kind, train):
    check_model(*train(kind, tiny_options("ms-trans", kind)))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling(pooling, train):
    check_model(*train("classifier", tiny_options("ms-trans", "classifier"), head={"pooling": pooling}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"block": "transformer", "norm": "pre"}, {"block": "srl"}, {"source_maps": 1}, {"variant": "paper"}]
)
def test_blocks_of_mtsa(options, train):
    check_model(*train("tagger", tiny_options("mtsa", "tagger", **options)))


def test_marks_of_predicates(tiny):
    sentences = [Sentence(["a", "b", "c"], tags=["X", "Y", "X"], predicates=[0, 1, 0])] * 4
    tagger = tiny("tagger", training={"epochs": 1, "dev_fraction": 0.0}).fit(sentences)
    check_model(tagger, make_corpus(tagger, sentences, [sentence.tags for sentence in sentences]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "kind", "tolerance"),
    [(torch.float64, "float64", 1e-5), (torch.float16, "float32", 0.01), (torch.bfloat16, "float32", 0.01)],
)
def test_predictions_with_the_linear_branch(dtype, kind, tolerance, corpus, tiny):
    texts, labels = corpus("classifier")
    classifier = tiny("classifier", head={"linear_branch": True}, training={"epochs": 1}).fit(texts, labels)
    expected = classifier.predict_proba(texts)
    classifier.model_.to(dtype)
    probabilities = classifier.predict_proba(texts)
    assert probabilities.dtype == classifier.encode(texts).dtype == kind
    assert probabilities == pytest.approx(expected, abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["classifier", "pair", "tagger", "crf", "translator"])
def test_predictions_in_half_precision(kind, dtype, corpus, fitted, figures, tmp_path):
    """They are also read again, in float32."""
    inputs, _ = corpus(kind, 8)
    expected = np.concatenate([np.ravel(row) for row in figures(fitted(kind), inputs)])
    estimator = load(fitted(kind).save(tmp_path / "model"))
    estimator.model_.to(dtype)
    assert np.isfinite(estimator.attention(inputs[0]).table().weight).all()
    for narrow in (estimator, load(estimator.save(tmp_path / "half"))):
        actual = np.concatenate([np.ravel(row) for row in figures(narrow, inputs)])
        assert actual == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_word_vectors_of_another_precision_are_saved_and_trained_further(dtype, corpus, tiny, vectors_file, tmp_path):
    texts, labels = corpus("classifier", 16)
    settings = {"epochs": 1, "dev_fraction": 0.0}
    classifier = tiny("classifier", inputs={"vectors": (str(vectors_file),)}, training=settings).fit(texts, labels)
    expected = classifier.predict_proba(texts)
    classifier.model_.to(dtype)
    assert load(classifier.save(tmp_path / "model")).predict_proba(texts) == pytest.approx(expected, abs=0.01)
    classifier.set_params(warm_start=True).fit([*texts, "a new word"], [*labels, labels[0]])
    assert classifier.predict_proba(texts).dtype == "float32"


@pytest.mark.parametrize("encoder", ["transformer", "duo-transformer"])
def test_translations(encoder, corpus, tiny):
    """Scores of generated texts."""
    sources, targets = corpus("translator", 8)
    translator = tiny("translator", encoder, training={"epochs": 1}).fit(sources, targets)
    expected = [output.score for (output,) in translator.outputs(sources[:3])]
    translator.model_.double()
    assert [output.score for (output,) in translator.outputs(sources[:3])] == pytest.approx(expected, abs=1e-5)

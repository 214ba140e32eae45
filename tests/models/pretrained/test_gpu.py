"""Pretrained models on a GPU equal those on a CPU, and train and predict there."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import graphattn
from graphattn.models import TextClassifier, TrainingOptions
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder

from .conftest import FAMILIES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

LETTERS = ["a b c", "d e f g h i j k l m n o p", "q", "r s t u v w x y z a b"]


@pytest.mark.parametrize("heads", ["", "window:3|global", "0:all=2,window:5=2"])
@pytest.mark.parametrize("family", FAMILIES)
def test_pretrained_states_and_gradients(save_model, family, heads):
    encoder = PretrainedEncoder.from_directory(save_model(family), heads=heads).double()
    batch = encoder.batch(LETTERS)
    results = []
    for device in ("cpu", "cuda"):
        copy = deepcopy(encoder).to(device)
        states = copy(batch)
        states.square().sum().backward()
        results.append((states.detach().cpu(), {name: p.grad.cpu() for name, p in copy.named_parameters()}))
    torch.testing.assert_close(results[1], results[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", ["bert", "mpnet", "modernbert"])
@pytest.mark.parametrize("heads", ["", "window:3|global", "all=2,window:5=2"])
def test_states_and_gradients_in_bfloat16_are_close(save_model, family, heads):
    encoder = PretrainedEncoder.from_directory(save_model(family), heads=heads).to("cuda")
    batch, results = encoder.batch([*LETTERS, *"abcdefgh"]), []  # lengths so different that they are padded in groups
    for enabled in (False, True):
        encoder.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
            states = encoder(batch).float()
        states.square().mean().backward()
        results.append((states.detach(), encoder.layers[0].attention.project.weight.grad.clone()))
    for exact, rounded in zip(*results, strict=True):
        assert float((rounded - exact).norm() / exact.norm()) < 0.05


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_a_model_tuned_on_a_gpu_predicts_on_a_cpu(save_model, tmp_path, precision):
    texts = LETTERS * 6
    labels = ["long" if len(text) > 8 else "short" for text in texts]
    training = TrainingOptions(epochs=3, dev_fraction=0.25, device="cuda", precision=precision)
    model = TextClassifier(pretrained=str(save_model("bert")), training=training).fit(texts, labels)
    assert model.model_.device.type == "cuda"
    folder = model.save(tmp_path / "model")
    expected = graphattn.load(folder, device="cpu").predict_proba(texts)
    np.testing.assert_allclose(graphattn.load(folder, precision="32").predict_proba(texts), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(texts), expected, atol=1e-5 if precision == "32" else 0.02)


def test_sentence_vectors(save_model):
    expected = SentenceEncoder(save_model("bert"), device="cpu").transform(LETTERS)
    exact = SentenceEncoder(save_model("bert"), device="cuda", precision="32")
    np.testing.assert_allclose(exact.transform(LETTERS), expected, atol=1e-5)
    np.testing.assert_allclose(SentenceEncoder(save_model("bert")).transform(LETTERS), expected, atol=0.05)

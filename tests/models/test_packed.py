"""Models with packed weights: predictions equal up to rounding in every task, and saved as they were."""

from functools import partial
from operator import methodcaller

import numpy as np
import pytest
import torch

import graphattn
from graphattn.layers._packed import CAN_PACK, PackedLinear, pack
from graphattn.layers._packed_weights import HAS_PANELS
from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions
from graphattn.models._encoders import ENCODERS
from graphattn.models.inspection.attributions import integrated_gradients

pytestmark = pytest.mark.skipif(not CAN_PACK, reason="this PyTorch has no packed weights")


def check_close(estimator, folder, inputs, figures):
    loaded = graphattn.load(estimator.save(folder / "model"))
    pack(loaded.model_, min_weight=1)
    assert any(isinstance(module, PackedLinear) for module in loaded.model_.modules())
    exact, packed = (np.concatenate([np.ravel(row) for row in figures(each, inputs)]) for each in (estimator, loaded))
    np.testing.assert_allclose(packed, exact, atol=1e-4)
    again = graphattn.load(loaded.save(folder / "again"))
    for name, weight in estimator.model_.state_dict().items():
        assert again.model_.state_dict()[name].equal(weight), name


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder(encoder, corpus, fitted, figures, tmp_path):
    inputs, _ = corpus("classifier", 16)
    check_close(fitted("classifier", encoder), tmp_path, inputs, figures)


@pytest.mark.parametrize("kind", ["multilabel", "pair", "crf", "translator"])
def test_every_task(kind, corpus, fitted, figures, tmp_path):
    inputs, _ = corpus(kind, 8)
    check_close(fitted(kind), tmp_path, inputs, figures)


@pytest.mark.parametrize(("hidden", "is_packed"), [(16, False), (64, HAS_PANELS)])
def test_small_models_are_packed_for_our_kernels(hidden, is_packed, corpus, tmp_path):
    options = MSTransOptions(hidden=hidden, heads=2, layers=1)
    estimator = TextClassifier(options, training=TrainingOptions(epochs=1, dev_fraction=0))
    folder = estimator.fit(*corpus("classifier", 8)).save(tmp_path / "model")
    layers = graphattn.load(folder, packed=True).model_.encoder.modules()
    assert any(isinstance(layer, PackedLinear) for layer in layers) is is_packed


def test_explanations_have_the_gradients_of_inputs(corpus, fitted, tmp_path):
    estimator = fitted("classifier", "ms-trans")
    text = corpus("classifier", 1)[0][0]
    expected = integrated_gradients(estimator, text)
    loaded = graphattn.load(estimator.save(tmp_path / "model"))
    pack(loaded.model_, min_weight=1)
    actual = integrated_gradients(loaded, text)
    np.testing.assert_allclose(actual.attribution, expected.attribution, atol=1e-5)


def test_precision_of_bfloat16_without_such_products_packs_nothing(fitted, tmp_path):
    loaded = graphattn.load(fitted("classifier", "ms-trans").save(tmp_path / "model"), precision="bf16", packed=True)
    packed = [module for module in loaded.model_.modules() if isinstance(module, PackedLinear)]
    assert all(module.stored.dtype == torch.bfloat16 for module in packed)


@pytest.mark.parametrize("convert", [partial(pack, min_weight=1), methodcaller("set_precision", "int8")])
def test_a_converted_model_knows_whether_its_encoder_has_a_share(corpus, convert):
    for epochs in (0, 1):
        options = TrainingOptions(epochs=epochs, dev_fraction=0)
        model = TextClassifier(training=options).fit(*corpus("classifier", 8)).model_
        convert(model)
        assert model.is_linear is (epochs == 0)

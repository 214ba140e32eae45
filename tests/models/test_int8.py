"""Predictions of quantized models: close to those of float32 in every task, and independent of a text's neighbours."""

import numpy as np
import pytest
from torch import nn

import graphattn
from graphattn._backends.cpu import int8_kernels
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.layers._int8 import multiplies_int8
from graphattn.layers._linear import Linear
from graphattn.models import TextClassifier, TrainingOptions
from graphattn.models._encoders import ENCODERS
from graphattn.models._options import resolve_precision

pytestmark = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")


def check_close(estimator, folder, inputs, figures, tolerance):
    loaded = graphattn.load(estimator.save(folder), precision="int8")
    assert not [module for module in loaded.model_.modules() if type(module) in (Linear, nn.Linear)]
    exact, rounded = ([np.ravel(row) for row in figures(each, inputs)] for each in (estimator, loaded))
    exact, rounded = np.concatenate(exact), np.concatenate(rounded)
    np.testing.assert_allclose(rounded, exact, atol=tolerance)
    assert (rounded != exact).any()
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder(encoder, corpus, fitted, figures, tmp_path):
    inputs, _ = corpus("classifier", 16)
    check_close(fitted("classifier", encoder), tmp_path / "model", inputs, figures, 0.05)


@pytest.mark.parametrize("kind", ["multilabel", "pair", "crf", "translator"])
def test_every_task(kind, corpus, fitted, figures, tmp_path):
    inputs, _ = corpus(kind, 8)
    loaded = check_close(fitted(kind), tmp_path / "model", inputs, figures, 0.05)
    with pytest.raises(ConfigError) as caught:
        loaded.save(tmp_path / "again")
    assert caught.value.options == ("precision",)


def test_it_is_not_exported(fitted, tmp_path):
    folder = fitted("classifier", "ms-trans").save(tmp_path / "model")
    with pytest.raises(ConfigError) as caught:
        graphattn.load(folder, precision="int8").to_dense()
    assert caught.value.options == ("precision",)


def test_a_prediction_does_not_depend_on_other_texts(corpus, fitted, tmp_path):
    inputs, _ = corpus("classifier")
    estimator = graphattn.load(fitted("classifier", "transformer").save(tmp_path / "model"), precision="int8")
    vectors = estimator.encode(inputs)
    for first in (0, 3, 7):
        assert np.array_equal(estimator.encode(inputs[first : first + 2]), vectors[first : first + 2])


def test_it_has_no_dense_form(fitted, tmp_path):
    loaded = graphattn.load(fitted("classifier", "ms-trans").save(tmp_path / "model"), precision="int8")
    for export in (loaded.to_dense, lambda: loaded.to_onnx(tmp_path / "model.onnx")):
        with pytest.raises(ConfigError) as caught:
            export()
        assert caught.value.options == ("precision",)


def test_it_is_not_for_training():
    with pytest.raises(ConfigError, match="precision is 'int8'; choose one of: 32, bf16, auto"):
        TextClassifier(training=TrainingOptions(precision="int8")).fit(["a", "b"], ["x", "y"])


def test_a_processor_without_such_products_computes_in_float32(monkeypatch):
    monkeypatch.setattr(int8_kernels, "MULTIPLIES_BYTES", False)
    with pytest.warns(GraphAttnWarning, match=r"no products of int8 .*; float32 is used instead"):
        assert resolve_precision("int8") == "32"

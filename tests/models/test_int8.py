"""Predictions of quantized models: close to those of float32 in every task, and independent of a text's neighbours."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import graphattn
from graphattn.exceptions import ConfigError
from graphattn.layers._int8 import multiplies_int8
from graphattn.layers._linear import Linear
from graphattn.models import TextClassifier, TrainingOptions
from graphattn.models._encoders import ENCODERS

pytestmark = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")

WITHOUT_INT8 = """
import os, warnings
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
import torch
from graphattn.models._options import resolve_precision
rows, columns = torch.full((9, 70), 255, dtype=torch.uint8), torch.full((70, 9), 127, dtype=torch.int8)
is_exact = torch.equal(torch._int_mm(rows, columns).long(), rows.long() @ columns.long())
with warnings.catch_warnings(record=True) as caught:
    print(is_exact, resolve_precision("int8"), *(warning.message for warning in caught))
"""


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


@pytest.mark.slow
def test_products_that_saturate_or_are_slow_are_replaced_by_float32():
    """oneDNN without VNNI, as on a processor that lacks it; on some, its products are exact all the same."""
    root = str(Path(graphattn.__file__).parents[1])
    answer = subprocess.run([sys.executable, "-c", WITHOUT_INT8], cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.startswith(("False 32 this processor", "True 32 this processor", "True int8\n"))

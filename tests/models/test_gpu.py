"""Models on a GPU equal those on a CPU."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphattn import Edges, load
from graphattn.models._encoders import ENCODERS
from graphattn.models._estimators.state import make_corpus
from graphattn.models._prediction import predict_corpus
from graphattn.models.inspection.attributions import gradient_times_weight, integrated_gradients

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def assert_same_losses(model, batch):
    results = []
    moved = replace(batch, graph=batch.graph.to("cuda"))
    ahead = deepcopy(batch).prefetch(torch.device("cuda", 0))
    for device, inputs in (("cpu", batch), ("cuda", batch), ("cuda", moved), ("cuda", ahead)):
        copy = deepcopy(model).double().eval().to(device)
        with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no gradients in evaluation
            loss, scores = copy.loss(inputs)
            loss.backward()
        gradients = {name: p.grad.cpu() for name, p in copy.named_parameters() if p.grad is not None}
        results.append((loss.detach().cpu(), scores.detach().cpu(), gradients))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "kind", ["classifier", "multilabel", "pair", "regressor", "pair regressor", "tagger", "crf", "translator"]
)
def test_losses_and_gradients(kind, encoder, corpus, fitted):
    inputs, labels = corpus(kind, 16)
    estimator = fitted(kind, encoder)
    assert_same_losses(estimator.model_, make_corpus(estimator, inputs, labels)[list(range(16))])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", ["classifier", "tagger", "translator"])
def test_losses_in_half_precision(kind, encoder, dtype, corpus, fitted):
    inputs, labels = corpus(kind, 16)
    estimator = fitted(kind, encoder)
    batch = make_corpus(estimator, inputs, labels)[list(range(16))]
    exact, _ = deepcopy(estimator.model_).double().eval().loss(batch)
    model = deepcopy(estimator.model_).to("cuda", dtype).eval()
    with torch.backends.cudnn.flags(enabled=False):
        loss, scores = model.loss(batch)
        loss.backward()
    assert loss.dtype == scores.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.02)
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", ["classifier", "multilabel", "pair", "regressor", "tagger", "crf", "translator"])
def test_nothing_waits_for_the_gpu_in_a_step(kind, corpus, fitted):
    inputs, labels = corpus(kind, 24)
    estimator = fitted(kind, "transformer")
    model, examples = deepcopy(estimator.model_).to("cuda").train(), make_corpus(estimator, inputs, labels)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for numbers in (list(range(8)), list(range(8, 24))):  # the first step loads kernels
        torch.cuda.set_sync_debug_mode("error" if numbers[0] else "default")
        try:
            loss, _ = model.loss(examples[numbers].prefetch(model.device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("kind", ["classifier", "tagger", "crf"])
def test_predictions_on_a_gpu_wait_for_one_batch_after_the_next(kind, corpus, fitted):
    inputs, _ = corpus(kind, 24)
    estimator = deepcopy(fitted(kind, "transformer"))
    expected = list(estimator.predict(inputs))
    estimator.model_.to("cuda")
    assert list(estimator.predict(inputs)) == expected
    data = make_corpus(estimator, inputs)
    torch.cuda.set_sync_debug_mode("error")  # events, for which predictions wait, are no errors
    try:
        predictions = predict_corpus(estimator.model_, data, probabilities=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(predictions.decisions) == len(inputs)


@pytest.mark.parametrize("search", [{"beam": 3, "no_repeat_ngram": 2}, {"sample": True, "top_k": 4}], ids=str)
def test_a_search_on_a_gpu_waits_for_events_alone(search, corpus, fitted):
    inputs, _ = corpus("translator", 8)
    estimator = deepcopy(fitted("translator", "transformer"))
    estimator.set_params(**{f"search__{name}": value for name, value in search.items()})
    expected = estimator.predict(inputs)
    estimator.model_.to("cuda")
    assert estimator.predict(inputs) == expected
    torch.cuda.set_sync_debug_mode("error")
    try:
        estimator.predict(inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_fit_on_a_gpu_and_its_model_there_and_on_a_cpu(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier", 40)
    for precision in ("32", "bf16"):
        estimator = tiny("classifier", training={"device": "cuda", "precision": precision}).fit(texts, labels)
        assert estimator.model_.device.type == "cuda"
        folder = estimator.save(tmp_path / precision)
        exact = load(folder, device="cpu").predict_proba(texts)
        np.testing.assert_allclose(load(folder, precision="32").predict_proba(texts), exact, atol=1e-4)
        np.testing.assert_allclose(load(folder).predict_proba(texts), exact, atol=0.02)
        estimator.set_params(warm_start=True, training__epochs=1).fit(texts, labels)


@pytest.mark.parametrize("kind", ["classifier", "tagger", "translator"])
def test_attention_and_attributions_on_a_gpu_equal_those_on_a_cpu(kind, corpus, fitted):
    inputs, _ = corpus(kind, 4)
    estimator = deepcopy(fitted(kind, "ms-trans"))
    tables = []
    for device in ("cpu", "cuda"):
        estimator.model_.to(device)
        attention, words = estimator.attention(inputs[0]).table(), integrated_gradients(estimator, inputs[0], steps=4)
        edges = gradient_times_weight(estimator, inputs[0])
        tables.append((attention.weight, words.attribution, edges.attribution))
    for on_cpu, on_gpu in zip(*tables, strict=True):
        np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-3)


def test_a_model_on_a_gpu_is_written_as_onnx(fitted, tmp_path):
    pytest.importorskip("onnxscript")
    estimator = deepcopy(fitted("classifier", "ms-trans"))
    estimator.model_.to("cuda")
    estimator.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()
    assert estimator.model_.device.type == "cuda"


def test_a_name_with_and_without_a_number_is_one_copy_of_edges(corpus, fitted):
    edges = Edges.of(make_corpus(fitted("classifier", "ms-trans"), ["a lovely film"])[[0]].graph, "window:3")
    assert edges.to("cuda") is edges.to(f"cuda:{torch.cuda.current_device()}")
    assert edges.to("cuda").to("cuda") is edges.to("cuda")

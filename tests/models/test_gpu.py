"""Models on a GPU equal those on a CPU."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from graphattn.models._encoders import ENCODERS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def assert_same_losses(model, batch):
    results = []
    moved = replace(batch, graph=batch.graph.to("cuda"))
    for device, inputs in (("cpu", batch), ("cuda", batch), ("cuda", moved)):
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
    assert_same_losses(estimator.model_, estimator.encode(inputs, labels)[list(range(16))])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", ["classifier", "tagger", "translator"])
def test_losses_in_half_precision(kind, encoder, dtype, corpus, fitted):
    inputs, labels = corpus(kind, 16)
    estimator = fitted(kind, encoder)
    batch = estimator.encode(inputs, labels)[list(range(16))]
    exact, _ = deepcopy(estimator.model_).double().eval().loss(batch)
    model = deepcopy(estimator.model_).to("cuda", dtype).eval()
    with torch.backends.cudnn.flags(enabled=False):
        loss, scores = model.loss(batch)
        loss.backward()
    assert loss.dtype == scores.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.02)
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)

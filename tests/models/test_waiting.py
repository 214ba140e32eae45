"""A step waits for no GPU: it runs on tensors without data, of which nothing can be asked."""

from copy import deepcopy

import pytest
import torch

KINDS = ["classifier", "multilabel", "pair", "regressor", "tagger", "crf", "translator"]
ENCODERS = ["bilstm", "duo", "duo-transformer", "tnt"]


@pytest.mark.parametrize(
    ("kind", "encoder"), [*((k, "transformer") for k in KINDS), *(("tagger", e) for e in ENCODERS)]
)
@pytest.mark.parametrize("is_training", [True, False])
def test_no_operation_depends_on_data(kind, encoder, is_training, corpus, fitted, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)  # has no answer for such tensors
    estimator, (inputs, labels) = fitted(kind, encoder), corpus(kind, 16)
    batch = estimator.encode(inputs, labels)[list(range(16))]
    model = deepcopy(estimator.model_).to("meta").train(is_training)
    loss, scores = model.loss(batch)
    loss.backward()
    assert loss.is_meta
    assert scores.is_meta
    with pytest.raises(RuntimeError):
        loss.item()

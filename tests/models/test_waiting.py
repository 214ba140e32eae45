"""A step waits for no GPU: it runs on tensors without data, of which nothing can be asked."""

import weakref
from copy import deepcopy

import pytest
import torch

from graphattn._backends.gpu.plan import plan_of
from graphattn._backends.registry import REGISTERED
from graphattn._devices import to_device
from graphattn.models._estimators.state import make_corpus

KINDS = ["classifier", "multilabel", "pair", "regressor", "tagger", "crf", "translator"]
ENCODERS = ["bilstm", "duo", "duo-transformer", "tnt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "encoder"), [*((k, "transformer") for k in KINDS), *(("tagger", e) for e in ENCODERS)]
)
@pytest.mark.parametrize("is_training", [True, False])
def test_no_operation_depends_on_data(kind, encoder, is_training, corpus, fitted, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)  # has no answer for such tensors
    estimator, (inputs, labels) = fitted(kind, encoder), corpus(kind, 16)
    batch = make_corpus(estimator, inputs, labels)[list(range(16))]
    model = deepcopy(estimator.model_).to("meta").train(is_training)
    loss, scores = model.loss(batch)
    loss.backward()
    assert loss.is_meta
    assert scores.is_meta
    with pytest.raises(RuntimeError):
        loss.item()


def attend_to_nothing(call):
    """Zeros, on any device."""
    for edges, _, _, value, _ in call.groups:
        yield value.new_zeros(edges.num_destinations, *value.shape[1:]), None


@pytest.mark.parametrize(
    ("kind", "encoder", "in_the_step"),
    [
        ("classifier", "ms-trans", 0),
        ("classifier", "transformer", 0),
        ("classifier", "umst", 2),  # the tokens of words, and words without a tree
        ("classifier", "mtsa", None),  # which leaves autocast, and there is none
        ("multilabel", "transformer", 0),
        ("pair", "transformer", 0),
        ("regressor", "transformer", 0),
        ("tagger", "transformer", 1),  # the first token of each word
    ],
)
def test_a_batch_is_copied_at_once(kind, encoder, in_the_step, corpus, fitted, count_copies, monkeypatch):
    monkeypatch.setitem(REGISTERED, "no-attention", attend_to_nothing)
    estimator, (inputs, labels) = fitted(kind, encoder), corpus(kind, 16)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)
    batch = make_corpus(estimator, inputs, labels)[list(range(16))]
    for edges in batch.graph.edges.values():
        plan_of(edges)
    meta, model = torch.device("meta"), deepcopy(estimator.model_).to("meta")
    for module in model.modules():
        if hasattr(module, "backend"):
            module.backend = "no-attention"
    assert count_copies(lambda: batch.prefetch(meta)) == 1
    if in_the_step is not None:
        assert count_copies(lambda: model.loss(batch)) == in_the_step
    assert count_copies(lambda: [edges.to(meta) for edges in batch.graph.edges.values()]) == 0


def test_copies_are_freed(corpus, fitted):
    """All of them: they are views of one buffer."""
    batch, meta = make_corpus(fitted("classifier", "umst"), *corpus("classifier", 4))[[0, 1]], torch.device("meta")
    buffer = weakref.ref(to_device(batch.prefetch(meta).targets, meta)._base)
    assert buffer() is not None
    batch.free_copies()
    assert buffer() is None


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_devices_that_copy_nothing_ahead(device, corpus, fitted):
    batch = make_corpus(fitted("classifier"), *corpus("classifier", 4))[[0, 1]]
    edges = list(batch.graph.edges.values())
    assert batch.prefetch(torch.device(device)) is batch
    assert list(batch.graph.edges.values()) == edges
    assert not any(relation.plans for relation in edges)

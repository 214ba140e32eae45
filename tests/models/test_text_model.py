"""Input layer, encoder and head together; the loss of a batch is a mean over its items."""

import numpy as np
import pytest
import torch

from graphattn.models._estimators.state import make_corpus

KINDS = ("classifier", "pair", "tagger", "crf")


@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_the_mean_over_items(kind, parts):
    model, data = parts(kind, 12)
    batches = [data[[number]] for number in range(12)]
    items = [int(model.head.items(batch.graph).sum()) for batch in batches]
    losses = [model.loss(batch)[0] * count for batch, count in zip(batches, items, strict=True)]
    whole, scores = model.loss(data[list(range(12))])
    assert len(scores) == sum(items)
    torch.testing.assert_close(whole, sum(losses) / sum(items), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_shards_sum_to_the_gradient_of_the_batch(kind, parts):
    """Averaged over processes, as DDP does; the second batch has fewer sentences than processes."""
    model, data = parts(kind, 12)
    for batch in ([4, 3, 9, 1, 7], [2]):
        model.zero_grad()
        model.loss(data[batch])[0].backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        summed = [torch.zeros_like(gradient) for gradient in expected]
        for rank in range(3):
            model.zero_grad(set_to_none=True)
            model.loss(data.batch(batch[rank::3], whole=batch, processes=3))[0].backward()
            for total, parameter in zip(summed, model.parameters(), strict=True):
                assert parameter.grad is not None  # DDP waits for each
                total += parameter.grad / 3
        for total, gradient in zip(summed, expected, strict=True):
            torch.testing.assert_close(total, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, "multilabel", "translator"])
def test_a_weight_equals_repeating_the_example(kind, corpus, tiny):
    """Loss and gradients of a full batch, with class weights and label smoothing where the task has them."""
    inputs, labels = corpus(kind, 12)
    more = {} if kind in ("crf", "translator") else {"class_weight": "balanced"}
    smoothing = 0.0 if kind == "crf" else 0.1
    estimator = tiny(kind, training={"epochs": 1, "dev_fraction": 0.0, "label_smoothing": smoothing}, **more)
    model = estimator.fit(inputs, labels).model_.eval()
    weights = [1, 0, 2, 3, 1, 1, 5, 0, 1, 2, 1, 1]

    def run(data):
        model.zero_grad()
        loss, _ = model.loss(data[list(range(len(data)))])
        loss.backward()
        return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

    numbers = np.repeat(np.arange(12), weights)
    repeated = [[part[number] for number in numbers] for part in (inputs, labels)]
    expected = run(make_corpus(estimator, repeated[0], repeated[1]))
    data = make_corpus(estimator, inputs, labels)
    plain, weighted = run(data), run(data.with_weights(np.array(weights, float)))
    for actual, gradient in zip(weighted, expected, strict=True):
        torch.testing.assert_close(actual, gradient, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(plain[0], weighted[0], rtol=1e-3)


@pytest.mark.parametrize("kind", ["classifier", "pair"])
def test_mean_pooling_equals_encode_and_head(kind, corpus, tiny):
    inputs, labels = corpus(kind, 12)
    estimator = tiny(kind, training={"epochs": 1, "dev_fraction": 0.0}, head={"pooling": "mean"}).fit(inputs, labels)
    model, batch = estimator.model_, make_corpus(estimator, inputs)[list(range(12))]
    assert torch.equal(model(batch), model.head(model.encode(batch), batch.graph))


def test_loss_without_words(parts):
    """Sentence 3 is empty: no gradient, and no NaN."""
    for kind in ("tagger", "crf"):
        model, data = parts(kind, 12)
        model.zero_grad(set_to_none=True)
        loss, scores = model.loss(data[[3]])
        loss.backward()
        assert loss.item() == 0
        assert scores.shape[0] == 0
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_attention_weights_are_returned(parts):
    model, data = parts("classifier", 12)
    layers = []
    model(data[[0, 1]], weights=layers)
    assert len(layers) == 2
    assert set(layers[-1]) == {"window:1", "window:3", "window:N/4"}

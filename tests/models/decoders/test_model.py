"""The whole model: its loss against the formula, and the consistency of its parts."""

import pytest
import torch

from graphattn.models._decoders.model import shift_right

every_decoder = pytest.mark.parametrize("encoder", ["transformer", "umst", "duo-transformer"])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_loss_follows_the_formula(smoothing, make_model):
    model, corpus = make_model(dtype=torch.float64)
    model.label_smoothing = smoothing
    batch = corpus[[4, 1, 7]]
    with torch.no_grad():
        loss, scores = model.loss(batch)
    assert scores.shape == (len(batch.targets), len(model.embedding.trained))
    total = 0.0
    for row, target in zip(scores.double(), batch.targets.tolist(), strict=True):
        log_probabilities = row - row.exp().sum().log()
        total -= float((1 - smoothing) * log_probabilities[target] + smoothing * log_probabilities.mean())
    assert float(loss) == pytest.approx(total / len(batch.targets), rel=1e-6)


def test_the_loss_of_a_batch_is_the_sum_over_its_texts(make_model):
    model, corpus = make_model(dtype=torch.float64)
    with torch.no_grad():
        together = float(model.loss(corpus[[0, 1, 2]])[0]) * corpus[[0, 1, 2]].loss_normalizer
        apart = sum(float(model.loss(corpus[[n]])[0]) * corpus[[n]].loss_normalizer for n in range(3))
    assert together == pytest.approx(apart, abs=1e-4)


def test_decoder_inputs_are_shifted_right():
    assert shift_right(torch.tensor([7, 8, 2, 2, 9, 2]), torch.tensor([3, 1, 2])).tolist() == [
        [2, 7, 8],
        [2, 2, 0],
        [2, 9, 2],
    ]


@every_decoder
def test_scores_do_not_depend_on_later_tokens_or_other_texts(encoder, make_model):
    model, corpus = make_model(encoder)
    flat, counts = corpus.targets
    scores = model(corpus[[0, 1, 2, 3]]).split(counts[:4].tolist())
    flat[counts[:2].sum() - 2 : counts[:2].sum()] = 5  # the end of the second text
    changed = model(corpus[[0, 1, 2, 3]]).split(counts[:4].tolist())
    torch.testing.assert_close(changed[1][: counts[1] - 1], scores[1][: counts[1] - 1], rtol=0, atol=1e-6)
    for number in (0, 2, 3):
        torch.testing.assert_close(changed[number], scores[number], rtol=0, atol=1e-6)
        torch.testing.assert_close(model(corpus[[number]]), scores[number], rtol=0, atol=1e-5)


@every_decoder
def test_every_weight_is_trained(encoder, make_model):
    model, corpus = make_model(encoder)
    model.train()
    loss, _ = model.loss(corpus[list(range(12))])
    loss.backward()
    idle = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    assert idle == []


def test_source_target_and_softmax_share_one_table(make_model):
    model, corpus = make_model()
    tables = [name for name, p in model.named_parameters() if p.shape[0] == len(corpus.builder.vocabulary)]
    assert tables == ["embedding.trained"]


def test_weights_of_both_sides(make_model):
    model, corpus = make_model()
    batch, source, cross = corpus[[0, 1]], [], []
    memory = model.encode(batch, weights=source)
    scores = model.advance(torch.tensor([[2, 5, 6], [2, 7, 8]]), model.decoder.start(memory), weights=cross)
    assert len(source) == 2
    assert [tuple(layer.shape) for layer in cross] == [(2, 4, 3, memory.states.shape[1])] * 2
    torch.testing.assert_close(cross[0].sum(3), torch.ones(2, 4, 3))
    without = model.advance(torch.tensor([[2, 5, 6], [2, 7, 8]]), model.decoder.start(model.encode(batch)))
    torch.testing.assert_close(scores, without, rtol=0, atol=1e-5)

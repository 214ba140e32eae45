"""Classifier and pair classifier heads against their formulas."""

import pytest
import torch
from torch import nn

from graphattn.models._options import HeadOptions
from graphattn.models.heads import ClassificationHead, PairHead


@pytest.fixture
def tokens():
    torch.manual_seed(2)
    return torch.randn(9, 6)  # two sentences of 3 and one of 0 words, each with [CLS], and one more of 0


def test_two_layer_perceptron_on_the_pooled_sentence(tokens, graph_of):
    head = ClassificationHead(6, 4, HeadOptions(head_hidden=5)).eval()
    first, second = (layer for layer in head.perceptron if isinstance(layer, nn.Linear))
    assert (first.in_features, first.out_features, second.out_features) == (6, 5, 4)
    pooled = torch.stack([0.5 * (own[0] + own.amax(0)) for own in (tokens[:4], tokens[4:8], tokens[8:])])
    expected = second(torch.relu(first(pooled)))
    torch.testing.assert_close(head(tokens, graph_of(3, 3, 0)), expected)
    assert head.items(graph_of(3, 3, 0)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("pooling", "features"),
    [("cls+max", 6), ("concat", 12), ("max", 6), ("mean", 6), ("mean-max", 12), ("cls", 6), ("unit-mean", 6)],
)
def test_the_hidden_layer_has_the_width_of_the_encoder(pooling, features):
    head = ClassificationHead(6, 4, HeadOptions(pooling=pooling))
    shapes = [tuple(layer.weight.shape) for layer in head.perceptron if isinstance(layer, nn.Linear)]
    assert shapes == [(6, features), (4, 6)]


@pytest.mark.parametrize("feature", ["difference", "product"])
def test_pair_features(feature, tokens, graph_of):
    """[r1, r2, |r1 - r2|, r1 - r2] of all first and second texts; r1 r2 in the third place in MTSA's section 4.1."""
    head = PairHead(6, 3, HeadOptions(pooling="cls", pair_features=feature)).eval()
    graph = graph_of(3, 2, 0, 0)
    r1, r2 = tokens[[0, 4]], tokens[[7, 8]]
    third = r1 * r2 if feature == "product" else (r1 - r2).abs()
    expected = torch.cat([r1, r2, third, r1 - r2], dim=1)
    torch.testing.assert_close(head.items_of(head.sentences(tokens, graph)), expected)
    torch.testing.assert_close(head(tokens, graph), head.perceptron(expected))
    assert head.items(graph).tolist() == [1, 1]


def test_a_linear_layer_without_hidden_layer():
    head = ClassificationHead(6, 4, HeadOptions(pooling="mean", head_hidden=0))
    assert [tuple(layer.weight.shape) for layer in head.perceptron if isinstance(layer, nn.Linear)] == [(4, 6)]


def test_loss_is_a_sum_over_sentences(graph_of):
    torch.manual_seed(0)
    scores, targets = torch.randn(4, 3), torch.tensor([2, 0, 1, 1])
    weights = torch.tensor([1.0, 3.0, 0.5])
    head = ClassificationHead(6, 3, HeadOptions(), class_weights=weights, label_smoothing=0.3)
    logs = scores.log_softmax(1)
    expected = -0.7 * (weights[targets] * logs[range(4), targets]).sum() - 0.1 * (logs * weights).sum()
    torch.testing.assert_close(head.loss(scores, targets, graph_of(1)), expected)
    torch.testing.assert_close(head.probabilities(scores, graph_of(1)), scores.softmax(1))
    assert head.decide(scores, graph_of(1)).tolist() == scores.argmax(1).tolist()


def test_several_labels(graph_of):
    """A sigmoid for each class; the loss is the mean over classes, summed over sentences."""
    torch.manual_seed(0)
    scores, targets = torch.randn(4, 3), torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    weights = torch.tensor([1.0, 3.0, 0.5])
    head = ClassificationHead(6, 3, HeadOptions(), multilabel=True, class_weights=weights, label_smoothing=0.2)
    smooth = targets * 0.8 + 0.1
    chances = torch.sigmoid(scores)
    losses = -(weights * smooth * chances.log() + (1 - smooth) * (1 - chances).log())
    torch.testing.assert_close(head.loss(scores, targets, graph_of(1)), losses.sum() / 3)
    torch.testing.assert_close(head.probabilities(scores, graph_of(1)), chances)
    assert head.decide(scores, graph_of(1)).tolist() == (chances > 0.5).long().tolist()


def test_class_weights_are_not_saved():
    head = ClassificationHead(6, 2, HeadOptions(), class_weights=torch.ones(2))
    assert [name for name in head.state_dict() if "class_weights" in name] == []


def test_a_loss_among_some_classes():
    """Equals that of a head without the others, whose scores have no gradient."""
    options, weights = HeadOptions(head_hidden=0), torch.tensor([1.0, 2.0, 3.0, 4.0])
    head = ClassificationHead(6, 4, options, class_weights=weights, label_smoothing=0.1)
    fewer = ClassificationHead(6, 2, options, class_weights=weights[[1, 3]], label_smoothing=0.1)
    scores, targets, of_items = torch.randn(5, 4, requires_grad=True), torch.tensor([1, 3, 3, 1, 3]), torch.rand(5)
    loss = head.loss_among(torch.tensor([1, 3]), scores, targets, of_items)
    torch.testing.assert_close(loss, fewer.loss(scores[:, [1, 3]], targets // 2, None, of_items))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert not gradient[:, [0, 2]].any()

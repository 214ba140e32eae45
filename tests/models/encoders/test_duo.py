"""Duo against a reconstruction that computes one sentence at a time, and its number of parameters."""

import numpy as np
import pytest
import torch

from graphattn.models import DuoOptions, InputOptions, TextClassifier, TrainingOptions, load
from graphattn.models._encoders import make_encoder
from graphattn.models.training._optimizer import count_parameters


def by_definition(encoder, tokens, mask, softmax=True, seen=None):
    """Attention of each set on the values of the other sets, for one sentence; ``seen`` gets the attention."""
    sets = tokens.split(encoder.parts, dim=1)
    attention = []
    for own, score in zip(sets, encoder.scores, strict=True):
        scores = own @ score.weight.T @ own.T / own.shape[1] ** 0.5
        attention.append(scores.masked_fill(~mask, float("-inf")).softmax(1) if softmax else scores / len(tokens))
    if seen is not None:
        seen.extend(attention)
    mixed = []
    for number, values in enumerate(sets):
        others = [weights @ values for other, weights in enumerate(attention) if other != number]
        mixed.append(sum(others) / len(others))
    return torch.cat(mixed, 1) @ encoder.fusion.weight.T + encoder.fusion.bias


@pytest.mark.parametrize("parts", [("4", "6"), ("3", "3", "5")])
@pytest.mark.parametrize(("window", "softmax"), [(None, True), (None, False), ("5", True)])
def test_encoder_follows_the_definition(parts, window, softmax, double_encoder, encode):
    width = sum(map(int, parts))
    encoder = double_encoder(DuoOptions(parts=parts, window=window, softmax=softmax, fusion=7))
    _, inputs, outputs = encode(encoder, width)
    for tokens, output in zip(inputs, outputs, strict=True):
        place = torch.arange(len(tokens))
        mask = (place - place.unsqueeze(1)).abs() <= (2 if window else len(tokens))
        single = by_definition(encoder, tokens, mask, softmax)
        torch.testing.assert_close(output, single, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, "3"])
def test_weights_equal_the_definition(window, double_encoder, check_maps):
    encoder = double_encoder(DuoOptions(parts=("4", "6"), window=window))

    def run(_, tokens):
        place = torch.arange(len(tokens))
        by_definition(
            encoder, tokens, (place - place.unsqueeze(1)).abs() <= (1 if window else len(tokens)), seen=(seen := [])
        )
        return seen

    check_maps(encoder, 10, run)


@pytest.mark.parametrize(
    ("activation", "function"),
    [("relu", torch.relu), ("tanh", torch.tanh), ("elu", lambda fused: torch.where(fused > 0, fused, fused.expm1()))],
)
def test_the_fusion_can_have_an_activation(activation, function, double_encoder, encode):
    encoder = double_encoder(DuoOptions(parts=("4", "6"), fusion=7, fusion_activation=activation))
    _, inputs, outputs = encode(encoder, 10)
    for tokens, output in zip(inputs, outputs, strict=True):
        mask = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
        torch.testing.assert_close(output, function(by_definition(encoder, tokens, mask)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ["linear", "relu"])
@pytest.mark.parametrize("parts", [("4", "6"), ("3", "3", "5")])
def test_means_before_and_after_the_fusion_are_equal(parts, activation, double_encoder, encode):
    encoder = double_encoder(DuoOptions(parts=parts, fusion=7, fusion_activation=activation))
    graph, inputs, outputs = encode(encoder, sum(map(int, parts)))
    expected = torch.stack([output.mean(0) for output in outputs])
    torch.testing.assert_close(encoder.means(graph, torch.cat(inputs)), expected, rtol=0, atol=1e-10)


def test_frozen_vectors_and_trained_ones_give_the_same_gradients(double_encoder, encode):
    encoder = double_encoder(DuoOptions(parts=("4", "6")))
    graph, inputs, _ = encode(encoder, 10)
    gradients = []
    for trained in (False, True):
        encoder.zero_grad()
        encoder.means(graph, torch.cat(inputs).requires_grad_(trained)).square().sum().backward()
        gradients.append([parameter.grad for parameter in encoder.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_there_are_fewer_trained_parameters_than_in_the_paper(tmp_path):
    """Section 3.1.4: with 50 and 300 dimensions and 20 labels no more than 0.4 M."""
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in range(40)]
    for width in (50, 300):
        lines = [f"{word} {' '.join(f'{x:.3f}' for x in random.normal(size=width))}" for word in words]
        (tmp_path / f"{width}.txt").write_text("\n".join(lines) + "\n")
    inputs = InputOptions(vectors=(str(tmp_path / "50.txt"), str(tmp_path / "300.txt")), tune_vectors=False)
    training = TrainingOptions(epochs=1, dev_fraction=0.0)
    classifier = TextClassifier("duo", inputs=inputs, training=training, preset="paper")
    classifier.fit(words, [f"label{number % 20}" for number in range(40)])
    own = 50 * 50 + 300 * 300 + 350 * 350 + 350 + 350 * 20 + 20
    assert (
        sum(p.numel() for part in (classifier.model_.encoder, classifier.model_.head) for p in part.parameters()) == own
    )
    assert count_parameters(classifier.model_) == own < 400_000  # the input has no trained parameters
    assert count_parameters(load(classifier.save(tmp_path / "model")).model_) == own
    assert classifier.encoder_.parts == ("50", "300")
    assert (classifier.head_.pooling, classifier.head_.head_hidden) == ("mean", 0)


def test_parts_of_a_single_width():
    assert DuoOptions().for_parts([50, 300]).parts == ("50", "300")
    assert DuoOptions().for_parts([9]).parts == ("4", "5")
    assert DuoOptions(parts=("3", "6")).for_parts([9]).parts == ("3", "6")
    assert make_encoder(DuoOptions(parts=("3", "6"))).width == 9


def test_scores_have_glorot_initialization():
    torch.manual_seed(0)
    (score, _) = make_encoder(DuoOptions(parts=("200", "200"))).scores
    assert abs(float(score.weight.detach().std()) * 200**0.5 - 1) < 0.05


def test_duo_translates_with_one_layer():
    made = DuoOptions.for_translation({"hidden": 16, "layers": 3})
    assert made.layers == 1
    made.validate()

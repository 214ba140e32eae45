"""The Transformer against PyTorch's own, with copied weights."""

import pytest
import torch
from torch import nn

from graphattn.models._encoders import TransformerOptions
from graphattn.models._encoders.base import sinusoids

from .dense import attention, count_parameters, feed_forward, linear, run_block
from .dense import norm as normalize


def pytorch_encoder(encoder, options):
    """PyTorch's encoder with the weights of ours."""
    layers = []
    for ours in encoder.layers:
        theirs = nn.TransformerEncoderLayer(
            options.hidden,
            options.heads,
            options.ffn,
            dropout=0.0,
            activation="relu",
            batch_first=True,
            norm_first=options.norm == "pre",
        ).double()
        theirs.load_state_dict(
            {
                "self_attn.in_proj_weight": ours.attention.project.weight,
                "self_attn.in_proj_bias": ours.attention.project.bias,
                "self_attn.out_proj.weight": ours.attention.output.weight,
                "self_attn.out_proj.bias": ours.attention.output.bias,
                "linear1.weight": ours.widen.weight,
                "linear1.bias": ours.widen.bias,
                "linear2.weight": ours.narrow.weight,
                "linear2.bias": ours.narrow.bias,
                "norm1.weight": ours.attention_norm.weight,
                "norm1.bias": ours.attention_norm.bias,
                "norm2.weight": ours.ffn_norm.weight,
                "norm2.bias": ours.ffn_norm.bias,
            }
        )
        layers.append(theirs.eval())
    return nn.Sequential(*layers)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_equals_pytorchs(norm, double_encoder, encode):
    options = TransformerOptions(hidden=12, heads=3, layers=3, ffn=20, dropout=0.5, norm=norm)
    encoder = double_encoder(options)
    _, inputs, outputs = encode(encoder, 12)
    reference = pytorch_encoder(encoder, options)
    for tokens, output in zip(inputs, outputs, strict=True):
        with_positions = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        expected = encoder.norm(reference(with_positions.unsqueeze(0))[0])
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_weights_equal_the_dense_ones(norm, double_encoder, check_maps):
    encoder = double_encoder(TransformerOptions(hidden=12, heads=3, layers=2, ffn=20, norm=norm))

    def run(_, tokens):
        x, seen = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype), []
        for block in encoder.layers:
            if norm == "pre":
                x = run_block(block, x, seen)
                continue
            attended, maps = attention(*linear(block.attention.project, x).chunk(3, 1), 3)
            seen.extend(maps)
            x = normalize(block.attention_norm, x + linear(block.attention.output, attended))
            x = normalize(block.ffn_norm, x + feed_forward(block, x))
        return seen

    check_maps(encoder, 12, run)


def test_gradients_equal_pytorchs(double_encoder, encode):
    options = TransformerOptions(hidden=8, heads=2, layers=2, ffn=12)
    encoder = double_encoder(options)
    _, inputs, outputs = encode(encoder, 8)
    sum((output**3).sum() for output in outputs).backward()
    reference = pytorch_encoder(encoder, options)
    for tokens in inputs:
        (reference((tokens + sinusoids(torch.arange(len(tokens)), 8, tokens.dtype)).unsqueeze(0)) ** 3).sum().backward()
    for ours, theirs in zip(encoder.layers, reference, strict=True):
        torch.testing.assert_close(ours.attention.project.weight.grad, theirs.self_attn.in_proj_weight.grad)
        torch.testing.assert_close(ours.attention.project.bias.grad, theirs.self_attn.in_proj_bias.grad)
        torch.testing.assert_close(ours.widen.weight.grad, theirs.linear1.weight.grad)
        torch.testing.assert_close(ours.ffn_norm.weight.grad, theirs.norm2.weight.grad)


def test_parameters():
    options = TransformerOptions()
    attention, ffn, norms = 4 * (300 * 300 + 300), 300 * 1200 + 1200 + 1200 * 300 + 300, 4 * 300
    assert count_parameters(options) == 3 * (attention + ffn + norms)


def test_sizes_for_translation():
    sizes = {"hidden": 8, "heads": 2, "layers": 1, "ffn": 16, "dropout": 0.2, "of_another": 3}
    expected = TransformerOptions(hidden=8, heads=2, layers=1, ffn=16, dropout=0.2, norm="pre")
    assert TransformerOptions.for_translation(sizes) == expected

"""Transformer in Transformer against dense blocks in double precision, written from UMST's appendix B.1."""

import pytest
import torch
from torch import nn

from graphattn.models import TNTOptions
from graphattn.models._encoders import make_encoder
from graphattn.models._encoders.base import sinusoids

SMALL = TNTOptions(hidden=12, layers=2, heads=3, ffn=16)


@pytest.mark.parametrize("shared", [False, True])
def test_two_streams(double_encoder, encode, sentences, dense_block, shared):
    encoder = double_encoder(TNTOptions(hidden=12, layers=2, heads=3, ffn=16, share_blocks=shared))
    _, inputs, outputs = encode(encoder, 12)
    for sentence, tokens, actual in zip(sentences, inputs, outputs, strict=True):
        word_of = torch.tensor([0, *(word + 1 for word in sentence.word_ids)])
        same_word = word_of.unsqueeze(1) == word_of
        y = x = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        for number in range(2):
            inner = encoder.outer if shared else encoder.inner
            y = dense_block(inner[number], y, same_word)
            x = dense_block(encoder.outer[number], x + y)
        expected = nn.functional.layer_norm(x, (12,), encoder.norm.weight, encoder.norm.bias)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)


def test_weights_of_each_layer_equal_the_dense_ones(double_encoder, encode, sentences, dense_block, maps_of):
    layers, encoder = [], double_encoder(SMALL)
    graph, inputs, _ = encode(encoder, 12, weights=layers)
    assert [list(layer) for layer in layers] == [["group", "all"]] * 2
    actual = [maps_of(graph, name, own) for layer in layers for name, own in layer.items()]
    for sentence, tokens, *own in zip(sentences, inputs, *actual, strict=True):
        word_of = torch.tensor([0, *(word + 1 for word in sentence.word_ids)])
        y = x = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        seen = []
        for inner, outer in zip(encoder.inner, encoder.outer, strict=True):
            y = dense_block(inner, y, word_of.unsqueeze(1) == word_of, seen)
            x = dense_block(outer, x + y, None, seen)
        for weights, expected in zip(own, seen, strict=True):
            torch.testing.assert_close(weights, expected, rtol=0, atol=1e-9)


def test_inner_blocks_have_as_many_parameters_as_outer_ones():
    both, shared = (make_encoder(TNTOptions(share_blocks=own)) for own in (False, True))
    counts = [sum(p.numel() for p in encoder.parameters()) for encoder in (both, shared)]
    assert counts[0] - counts[1] == sum(p.numel() for p in shared.outer.parameters())

"""The multi-stage Transformer against dense blocks in double precision, written from UMST's appendix B.1."""

import torch
from torch.nn import functional as F

from graphattn.models import MultiStageOptions
from graphattn.models._encoders.base import sinusoids

SMALL = MultiStageOptions(hidden=12, layers=2, heads=3, ffn=16)


def test_three_stages_and_their_weights(double_encoder, encode, sentences, dense_block, maps_of):
    encoder, layers = double_encoder(SMALL), []
    graph, inputs, outputs = encode(encoder, 12, weights=layers)
    maps = [maps_of(graph, name, own) for layer in layers for name, own in layer.items()]
    for sentence, tokens, actual, *own in zip(sentences, inputs, outputs, *maps, strict=True):
        seen = []
        x = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        for block in encoder.token_blocks:
            x = dense_block(block, x, None, seen)
        word_of = [0, *(word + 1 for word in sentence.word_ids)]
        rows = [[token for token, own in enumerate(word_of) if own == word] for word in range(sentence.num_words + 1)]
        x = torch.stack([x[row].mean(0) for row in rows])
        for block in encoder.word_blocks:
            x = dense_block(block, x, None, seen)
        arcs = torch.eye(len(rows), dtype=torch.float64)
        for dependent, head in enumerate(sentence.heads, start=1):
            if head:
                arcs[dependent, head] = arcs[head, dependent] = 1
        roots = torch.diag(arcs.sum(1) ** -0.5)
        normalized = roots @ arcs @ roots
        before = F.layer_norm(x, (12,), encoder.arc_norm.weight, encoder.arc_norm.bias)
        x = x + normalized @ F.relu(normalized @ before @ encoder.convolution.linear.weight.T)
        for block in encoder.phrase_blocks:
            x = dense_block(block, x, None, seen)
        expected = F.layer_norm(x, (12,), encoder.norm.weight, encoder.norm.bias)[word_of]
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)
        for weights, dense in zip(own, seen, strict=True):
            torch.testing.assert_close(weights, dense, rtol=0, atol=1e-9)


def test_stages_divide_the_depth_of_a_translator():
    assert MultiStageOptions.for_translation({"layers": 6, "hidden": 512, "norm": "pre"}).layers == 2
    assert MultiStageOptions.for_translation({"layers": 2}).layers == 1
    assert MultiStageOptions.for_translation({}) == MultiStageOptions()

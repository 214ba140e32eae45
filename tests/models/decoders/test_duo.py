"""The Duo Transformer's decoder and softmax against their formulas in float64, and the options of Table 6."""

import math

import pytest
import torch

from graphattn.models._decoders import make_decoder
from graphattn.models._decoders.duo import DuoSoftmax, make_duo_decoder
from graphattn.models._decoders.options import DecoderOptions
from graphattn.models._decoders.transformer import Memory
from graphattn.models._encoders import DuoTransformerOptions, TransformerOptions, make_encoder
from graphattn.models._encoders.base import sinusoids

WIDTH, HEADS = 6, 2
OPTIONS = DecoderOptions(2, HEADS, 10, 0.3)


def mapped(maps, x, stream):
    own = stream if len(maps.weight) == 2 else 0
    return x @ maps.weight[own].T + maps.bias[own]


def duo_attention(module, inputs, memory, allowed):
    """For each stream: queries and keys of the other stream, values of the same stream."""
    size, actual = WIDTH // HEADS, []
    for own, other in ((0, 1), (1, 0)):
        query, key = mapped(module.query, inputs[other], other), mapped(module.key, memory[other], other)
        value, heads = mapped(module.value, memory[own], own), []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            heads.append(scores.masked_fill(~allowed, float("-inf")).softmax(1) @ value[:, part])
        actual.append(mapped(module.output, torch.cat(heads, dim=1), own))
    return actual


def normed(module, streams, added):
    result = []
    for own, other in ((0, 1), (1, 0)):
        x = streams[own] + added[own]
        if module.factors is not None:
            x = x + module.factors[own] * streams[other]
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        result.append(x * module.weight[own] + module.bias[own])
    return result


def by_formula(decoder, inputs, memory):
    length = len(inputs)
    streams = [part + sinusoids(torch.arange(length), WIDTH, inputs.dtype) for part in inputs.split(WIDTH, dim=1)]
    source = memory.split(WIDTH, dim=1)
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    everything = torch.ones(length, len(memory), dtype=torch.bool)
    for layer in decoder.layers:
        streams = normed(layer.own_norm, streams, duo_attention(layer.own, streams, streams, earlier))
        streams = normed(layer.source_norm, streams, duo_attention(layer.source, streams, source, everything))
        widen, _, _, narrow = layer.feed_forward
        streams = normed(layer.feed_norm, streams, [narrow(widen(own).clamp(min=0)) for own in streams])
    return torch.cat(streams, dim=1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("crossed", [True, False])
def test_it_follows_the_formulas(crossed, shared):
    torch.manual_seed(0)
    duo = DuoTransformerOptions(hidden=WIDTH, heads=HEADS, share_weights=shared, duo_norm=crossed)
    decoder = make_duo_decoder(WIDTH, OPTIONS, duo).double().eval()
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    lengths = torch.tensor([5, 2])
    mask = (torch.arange(5) < lengths.unsqueeze(1))[:, None, None]
    memory = Memory(torch.randn(2, 5, 2 * WIDTH, dtype=torch.float64), mask)
    inputs, weights = torch.randn(2, 4, 2 * WIDTH, dtype=torch.float64), []
    actual = decoder(inputs, decoder.start(memory), weights)
    assert [tuple(own.shape) for own in weights] == [(2, 2 * HEADS, 4, 5)] * 2
    state = decoder.start(memory)
    steps = torch.cat([decoder(inputs[:, place : place + 1], state) for place in range(4)], dim=1)
    for number, length in enumerate(lengths.tolist()):
        expected = by_formula(decoder, inputs[number], memory.states[number, :length])
        torch.testing.assert_close(actual[number], expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(steps[number], expected, rtol=0, atol=1e-9)


def test_fusion_before_the_softmax():
    softmax = DuoSoftmax(WIDTH).double()
    states, table = torch.randn(3, 2 * WIDTH, dtype=torch.float64), torch.randn(9, 2 * WIDTH, dtype=torch.float64)
    fused = states @ softmax.fusion.weight.T + softmax.fusion.bias
    projected_table = table @ softmax.table.weight  # (V, width): the concatenated embeddings through W_E
    torch.testing.assert_close(softmax(states, table), fused @ projected_table.T, rtol=0, atol=1e-12)


def test_without_fusion_both_streams_meet_both_embeddings():
    """The last row but one of Table 6: the usual tied softmax on concatenated streams."""
    options = DuoTransformerOptions(hidden=WIDTH, heads=HEADS, fusion_layer=False)
    _, softmax = make_decoder(make_encoder(options), options, OPTIONS)
    states, table = torch.randn(3, 2 * WIDTH, dtype=torch.float64), torch.randn(9, 2 * WIDTH, dtype=torch.float64)
    expected = sum(states[:, own] @ table[:, own].T for own in (slice(WIDTH), slice(WIDTH, None)))
    torch.testing.assert_close(softmax(states, table), expected, rtol=0, atol=1e-12)


def count(options):
    encoder = make_encoder(options)
    parts = [encoder, *make_decoder(encoder, options, OPTIONS)]
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


def test_parameters_of_the_options_of_table_6():
    """Sharing saves projections; norms and fusion have few parameters in comparison."""
    sizes = {"hidden": WIDTH, "heads": HEADS, "layers": 2, "ffn": 10}
    off = {"share_weights": False, "duo_norm": False, "fusion_layer": False}
    apart = count(DuoTransformerOptions(**sizes, **off))
    shared = count(DuoTransformerOptions(**sizes, **{**off, "share_weights": True}))
    norms = count(DuoTransformerOptions(**sizes, duo_norm=True, fusion_layer=False))
    fusion = count(DuoTransformerOptions(**sizes))
    attentions, projections = 2 + 2 * 2, 4 * (WIDTH * WIDTH + WIDTH)
    assert apart - shared == attentions * projections
    assert norms - shared == 2 * 2 * 2 * WIDTH
    assert fusion - norms == 2 * WIDTH * WIDTH + WIDTH + 2 * WIDTH * WIDTH
    assert count(TransformerOptions(**sizes, norm="pre")) < apart


def test_dropout_on_attention_weights_in_training_only():
    options = DecoderOptions(1, HEADS, 10, 0.0, 0.0, 0.5)
    decoder = make_duo_decoder(WIDTH, options, DuoTransformerOptions(hidden=WIDTH, heads=HEADS))
    inputs = torch.randn(1, 4, 2 * WIDTH)
    memory = Memory(torch.randn(1, 3, 2 * WIDTH), torch.ones(1, 1, 1, 3, dtype=torch.bool))
    assert not torch.equal(*(decoder(inputs, decoder.start(memory)) for _ in range(2)))
    decoder.eval()
    assert torch.equal(*(decoder(inputs, decoder.start(memory)) for _ in range(2)))

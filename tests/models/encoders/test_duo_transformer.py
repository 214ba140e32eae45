"""The Duo Transformer's encoder against its formulas in float64."""

import math

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models._encoders import DuoTransformerOptions
from graphattn.models._encoders.base import sinusoids
from graphattn.models._encoders.duo_transformer import DuoNorm, StreamMaps

from .dense import count_parameters

HIDDEN, HEADS = 6, 2


def norm(x, module, stream):
    centred = x - x.mean(1, keepdim=True)
    scaled = centred / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return scaled * module.weight[stream] + module.bias[stream]


def mapped(maps, x, stream):
    own = stream if len(maps.weight) == 2 else 0
    return x @ maps.weight[own].T + maps.bias[own]


def duo_attention(layer, streams, seen):
    """The values of each stream weighted by the other's attention, head by head; ``seen`` gets the attention."""
    size, actual = HIDDEN // HEADS, []
    for own, other in ((0, 1), (1, 0)):
        query, key = mapped(layer.query, streams[other], other), mapped(layer.key, streams[other], other)
        value, heads = mapped(layer.value, streams[own], own), []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = (query[:, part] @ key[:, part].T / math.sqrt(size)).softmax(1)
            seen.append(scores)
            heads.append(scores @ value[:, part])
        actual.append(mapped(layer.output, torch.cat(heads, dim=1), own))
    return actual


def by_formula(encoder, tokens, seen):
    positions = sinusoids(torch.arange(len(tokens)), HIDDEN, tokens.dtype)
    parts = zip(encoder.enter, tokens.split(encoder.parts, dim=1), strict=True)
    streams = [enter(part) + positions for enter, part in parts]
    for layer in encoder.layers:
        added = duo_attention(layer, streams, seen)
        streams = [norm(streams[s] + added[s], layer.attention_norm, s) for s in range(2)]
        added = [layer.narrow(layer.widen(stream).clamp(min=0)) for stream in streams]
        streams = [norm(streams[s] + added[s], layer.ffn_norm, s) for s in range(2)]
    return torch.cat(streams, dim=1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("parts", [("6", "6"), ("3", "8")])
def test_it_follows_the_formulas(parts, shared, double_encoder, encode):
    options = DuoTransformerOptions(
        hidden=HIDDEN, heads=HEADS, layers=2, ffn=10, parts=parts, share_weights=shared, dropout=0.4
    )
    encoder = double_encoder(options)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    _, inputs, outputs = encode(encoder, sum(map(int, parts)))
    for tokens, output in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(output, by_formula(encoder, tokens, []), rtol=0, atol=1e-9)


def test_weights_of_both_streams(double_encoder, check_maps):
    encoder = double_encoder(DuoTransformerOptions(hidden=HIDDEN, heads=HEADS, layers=2, ffn=8, parts=("6", "6")))

    def run(_, tokens):
        by_formula(encoder, tokens, seen := [])
        return seen

    check_maps(encoder, 12, run)


def test_sharing_halves_the_projections():
    counts = [
        count_parameters(DuoTransformerOptions(hidden=20, heads=2, share_weights=shared)) for shared in (True, False)
    ]
    assert counts[1] - counts[0] == 3 * 4 * (20 * 20 + 20)


def test_parts_of_token_vectors():
    options = DuoTransformerOptions()
    assert options.for_parts([300]).parts == ("150", "150")
    assert options.for_parts([50, 300]).parts == ("50", "300")
    with pytest.raises(ConfigError) as caught:
        options.for_parts([1, 2, 3])
    assert str(caught.value) == (
        "token vectors are made of widths 1, 2, 3; the Duo Transformer has two streams. Give two sets of vectors, or "
        "parts"
    )
    with pytest.raises(ConfigError, match="parts 3,4 do not sum to 9, the width of token vectors"):
        DuoTransformerOptions(parts=("3", "4")).for_parts([9])


VECTORS = torch.randn(5, 2, 6, dtype=torch.float64)


@pytest.mark.parametrize("shared", [True, False])
def test_maps_of_streams(shared):
    maps = StreamMaps(6, 4, shared=shared).double()
    torch.nn.init.normal_(maps.bias)
    actual = maps(VECTORS)
    for number in range(2):
        own = 0 if shared else number
        expected = VECTORS[:, number] @ maps.weight[own].T + maps.bias[own]
        torch.testing.assert_close(actual[:, number], expected, rtol=0, atol=1e-12)
    assert sum(p.numel() for p in maps.parameters()) == (1 if shared else 2) * (6 * 4 + 4)


@pytest.mark.parametrize("crossed", [True, False])
def test_norm_of_streams(crossed):
    norm = DuoNorm(6, crossed=crossed).double()
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    added = torch.randn(5, 2, 6, dtype=torch.float64)
    actual = norm(VECTORS, added)
    for own, other in ((0, 1), (1, 0)):
        x = VECTORS[:, own] + added[:, own]
        if crossed:
            x = x + norm.factors[own] * VECTORS[:, other]
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        torch.testing.assert_close(actual[:, own], x * norm.weight[own] + norm.bias[own], rtol=0, atol=1e-12)

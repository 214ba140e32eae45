"""MUSE against formulas in double precision, text by text: Zhao et al. 2019 (sections 2.1 and 2.2), Wu et al. 2019."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from graphattn import Edges
from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.models import MUSEOptions, Translator
from graphattn.models._encoders import make_encoder
from graphattn.models._encoders.base import sinusoids

SMALL = MUSEOptions(hidden=12, layers=2, heads=3, ffn=16)
VARIANTS = {"muse": {}, "simple": {"kernels": ()}, "one kernel": {"kernels": ("5",)}, "far": {"kernels": ("1", "31")}}


def linear(layer, x):
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def norm(layer, x):
    mean, variance = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)
    return (x - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def attention(query, key, value, heads):
    """Vaswani et al. 2017, Eq. 1, head by head; the maps too."""
    width, outputs, maps = query.shape[1] // heads, [], []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        maps.append((query[:, own] @ key[:, own].T / math.sqrt(width)).softmax(1))
        outputs.append(maps[-1] @ value[:, own])
    return torch.cat(outputs, 1), torch.stack(maps)


def dynamic_convolution(layer, x):
    """Wu et al. 2019, Eq. for DynamicConv: tap by tap and feature by feature, with zeros around the text."""
    count, (width, heads, taps) = len(x), (x.shape[1], layer.heads, layer.kernel)
    kernels = (x @ layer.predict.weight.T).view(count, heads, taps).softmax(2)
    rows = []
    for i in range(count):
        features = []
        for c in range(width):
            terms = [
                kernels[i, c * heads // width, j - 1] * x[i + j - (taps + 1) // 2, c]
                for j in range(1, taps + 1)
                if 0 <= i + j - (taps + 1) // 2 < count
            ]
            features.append(sum(terms))
        rows.append(torch.stack(features))
    return torch.stack(rows)


def dense(encoder, tokens, seen=None):
    """The encoder on one text."""
    x = tokens + sinusoids(torch.arange(len(tokens)), tokens.shape[1], tokens.dtype)
    for layer in encoder.layers:
        inner = norm(layer.norm, x)
        query, key, value = linear(layer.project, inner).chunk(3, 1)
        attended, maps = attention(query, key, value, layer.heads)
        if seen is not None:
            seen.append(maps)
        added = attended @ layer.output.weight[:, :12].T + layer.output.bias
        if layer.convolutions:
            alpha = layer.shares.exp() / layer.shares.exp().sum()
            convolved = sum(
                a * dynamic_convolution(c, value) for a, c in zip(alpha, layer.convolutions.values(), strict=True)
            )
            added = added + convolved @ layer.output.weight[:, 12:].T
        x = x + added + linear(layer.narrow, F.relu(linear(layer.widen, inner)))
    return norm(encoder.norm, x)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_each_text_of_a_batch_equals_the_formulas(double_encoder, encode, options):
    encoder = double_encoder(replace(SMALL, **options))
    _, inputs, outputs = encode(encoder, 12)
    for tokens, actual in zip(inputs[:5], outputs[:5], strict=True):
        torch.testing.assert_close(actual, dense(encoder, tokens), rtol=0, atol=1e-9)


def test_weights_equal_the_dense_ones(double_encoder, encode, maps_of):
    layers, encoder = [], double_encoder(SMALL)
    graph, inputs, outputs = encode(encoder, 12, weights=layers)
    maps = [maps_of(graph, "all", layer["all"]) for layer in layers]
    for number, tokens in enumerate(inputs[:5]):
        seen = []
        dense(encoder, tokens, seen)
        for layer, expected in enumerate(seen):
            torch.testing.assert_close(maps[layer][number], expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(torch.cat(outputs), torch.cat(encode(encoder, 12)[2]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernels", [("3", "5"), ()])
def test_gradients_equal_finite_differences(double_encoder, kernels):
    encoder = double_encoder(MUSEOptions(hidden=4, layers=1, heads=2, ffn=4, kernels=kernels))
    graph = TextGraphBuilder(encoder.relations()).text_batch([["x"] * 3, ["x"]])
    names = [name for name, _ in encoder.named_parameters()]
    torch.manual_seed(2)
    tokens = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)

    def run(tokens, *parameters):
        return torch.func.functional_call(encoder, dict(zip(names, parameters, strict=True)), (graph, tokens))

    assert torch.autograd.gradcheck(run, (tokens, *encoder.parameters()))


def test_parameters_besides_those_of_a_transformer():
    """Per block: W_C, the kernels' projections and alpha more, and one norm less; in the paper's widths 2.0M."""
    muse = Translator("muse", preset="base").resolve_encoder()
    plain = Translator("transformer", preset="base").resolve_encoder()
    counts = [sum(p.numel() for p in make_encoder(options).parameters()) for options in (muse, plain)]
    assert counts[0] - counts[1] == 6 * (512 * 512 + 512 * 8 * (3 + 15) + 2 - 2 * 512)


def test_kernels_are_dropped_in_training_only():
    encoder = make_encoder(replace(SMALL, dropout=0.0, attn_drop=0.5, layers=1))
    graph = TextGraphBuilder(encoder.relations()).text_batch([Sentence(["x"] * 9)])
    convolution = encoder.layers[0].convolutions["window:3"]
    edges = Edges.of(graph, "window:3")
    values = torch.randn(10, 12)
    assert not torch.equal(convolution(edges, values), convolution(edges, values))
    convolution.eval()
    assert torch.equal(convolution(edges, values), convolution(edges, values))

"""MUSE against formulas in double precision, text by text: Zhao et al. 2019 (sections 2.1 and 2.2), Wu et al. 2019."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from graphattn import Edges
from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.models import MUSEOptions, Translator
from graphattn.models._encoders import make_encoder
from graphattn.models._encoders.base import sinusoids

from .dense import attention, count_parameters, feed_forward, linear, norm

SMALL = MUSEOptions(hidden=12, layers=2, heads=3, ffn=16)
VARIANTS = {"muse": {}, "simple": {"kernels": ()}, "one kernel": {"kernels": ("5",)}, "far": {"kernels": ("1", "31")}}


def dynamic_convolution(layer, x):
    """Wu et al. 2019, Eq. for DynamicConv: tap by tap, with zeros around the text."""
    kernels = (x @ layer.predict.weight.T).view(len(x), layer.heads, layer.kernel).softmax(2)
    kernels = kernels.repeat_interleave(x.shape[1] // layer.heads, dim=1)
    padded = F.pad(x, (0, 0, layer.kernel // 2, layer.kernel // 2))
    return sum(kernels[:, :, tap] * padded[tap : tap + len(x)] for tap in range(layer.kernel))


def dense(encoder, tokens):
    """The encoder on one text, and its maps."""
    seen = []
    x = tokens + sinusoids(torch.arange(len(tokens)), tokens.shape[1], tokens.dtype)
    for layer in encoder.layers:
        inner = norm(layer.norm, x)
        query, key, value = linear(layer.project, inner).chunk(3, 1)
        attended, maps = attention(query, key, value, layer.heads)
        seen.extend(maps)
        added = attended @ layer.output.weight[:, :12].T + layer.output.bias
        if layer.convolutions:
            alpha = layer.shares.exp() / layer.shares.exp().sum()
            convolved = sum(
                a * dynamic_convolution(c, value) for a, c in zip(alpha, layer.convolutions.values(), strict=True)
            )
            added = added + convolved @ layer.output.weight[:, 12:].T
        x = x + added + feed_forward(layer, inner)
    return norm(encoder.norm, x), seen


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_each_text_of_a_batch_equals_the_formulas(double_encoder, encode, options):
    encoder = double_encoder(replace(SMALL, **options))
    _, inputs, outputs = encode(encoder, 12)
    for tokens, actual in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(actual, dense(encoder, tokens)[0], rtol=0, atol=1e-9)


def test_weights_equal_the_dense_ones(double_encoder, check_maps):
    encoder = double_encoder(SMALL)
    check_maps(encoder, 12, lambda _, tokens: dense(encoder, tokens)[1])


def test_parameters_besides_those_of_a_transformer():
    """Per block: W_C, the kernels' projections and alpha more, and one norm less; in the paper's widths 2.0M."""
    muse = Translator("muse", preset="base").resolve_options()["encoder"]
    plain = Translator("transformer", preset="base").resolve_options()["encoder"]
    counts = [count_parameters(options) for options in (muse, plain)]
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

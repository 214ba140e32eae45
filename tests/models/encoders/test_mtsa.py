"""The encoder MTSA: one layer for sentences, a stack for tagging; its equations are tested with its layer."""

import pytest
import torch

from graphattn._edges import edges_of
from graphattn.builders import TextGraphBuilder
from graphattn.models import (
    HeadOptions,
    InputOptions,
    MTSAOptions,
    PairClassifier,
    SequenceTagger,
    TrainingOptions,
    Translator,
)
from graphattn.models._encoders import make_encoder, mtsa
from graphattn.models._encoders.base import sinusoids

from .dense import count_parameters, feed_forward, norm


@pytest.mark.parametrize(
    ("options", "heads"),
    [
        ({"masks": ("forward", "window:5"), "heads": 4}, {"forward": 2, "window:5": 2}),
        ({"heads": "forward=1, window:5=3"}, {"forward": 1, "window:5": 3}),
        ({"heads": {"window:5": 4}}, {"window:5": 4}),
    ],
)
def test_a_single_layer_equals_the_attention_layer(options, heads, double_encoder, encode):
    encoder = double_encoder(MTSAOptions(hidden=6, **options))
    graph, inputs, outputs = encode(encoder, 6)
    tokens = torch.cat(inputs)
    attention = encoder.layers[0].attention
    assert attention.heads == encoder.heads_along() == heads
    assert [relation.name for relation in encoder.relations()] == list(heads)
    expected = attention(edges_of(graph, attention.heads), tokens)
    torch.testing.assert_close(torch.cat(outputs), expected, rtol=0, atol=1e-12)
    assert expected.shape[1] == encoder.width == 24


def test_stacked_layers_have_residual_connections_and_norms(double_encoder, encode):
    encoder = double_encoder(MTSAOptions(hidden=8, layers=2))
    graph, inputs, outputs = encode(encoder, 8)
    tokens = torch.cat(inputs)
    for layer in encoder.layers:
        added = tokens + layer.attention(edges_of(graph, layer.attention.heads), tokens)
        tokens = norm(layer.norm, added)
    torch.testing.assert_close(torch.cat(outputs), tokens, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("block", "order"), [("transformer", "post"), ("transformer", "pre"), ("srl", "post")])
def test_blocks_equal_the_papers_stacks(block, order, double_encoder, encode):
    """Table 6: the Transformer's block with its positions; section 4.2: feed-forward first, without positions."""
    encoder = double_encoder(MTSAOptions(hidden=8, layers=2, heads=4, ffn=12, block=block, norm=order, variant="paper"))
    graph, inputs, outputs = encode(encoder, 8)
    if block == "transformer":
        inputs = [tokens + sinusoids(torch.arange(len(tokens)), 8, tokens.dtype) for tokens in inputs]
    x = torch.cat(inputs)
    for layer in encoder.layers:

        def attend(tokens, attention=layer.attention):
            return attention(edges_of(graph, attention.heads), tokens)

        if block == "srl":  # Tan et al. (2018), Figure 1
            x = norm(layer.ffn_norm, x + feed_forward(layer, x))
            x = norm(layer.attention_norm, x + attend(x))
        elif order == "post":
            x = norm(layer.attention_norm, x + attend(x))
            x = norm(layer.ffn_norm, x + feed_forward(layer, x))
        else:
            x = x + attend(norm(layer.attention_norm, x))
            x = x + feed_forward(layer, norm(layer.ffn_norm, x))
    expected = norm(encoder.norm, x) if order == "pre" else x
    torch.testing.assert_close(torch.cat(outputs), expected, rtol=0, atol=1e-12)


def test_parameters_in_a_transformer():
    """Table 6: 61.38M with multi-head attention, 61.58M with tensorized attention in the encoder."""
    counts = {}
    for name in ("transformer", "mtsa"):
        options = Translator(name, preset="base").resolve_options()["encoder"]
        assert (options.hidden, options.layers, options.heads, options.ffn, options.norm) == (512, 6, 8, 2048, "pre")
        counts[name] = count_parameters(options)
    biases = 6 * 4 * 512  # of the attention, which neither MTSA nor the paper's Transformer has
    assert counts["mtsa"] - (counts["transformer"] - biases) == 199_680
    assert round(199_680 / 1e6, 2) == round(61.58 - 61.38, 2)


def test_tokens_without_keys_get_zeros(double_encoder, encode):
    """Without a gate, a head on `forward` gives zeros to the first token, one on `backward` to the last."""
    encoder = double_encoder(MTSAOptions(hidden=6, gate=False))
    _, _, outputs = encode(encoder, 6)
    for output in outputs:
        forward, backward = output.chunk(2, dim=1)
        assert not forward[0].any()
        assert not backward[-1].any()
        assert forward[1:].any(1).all()
        assert backward[:-1].any(1).all()


def test_default_number_of_layers_by_task():
    assert SequenceTagger("mtsa").resolve_options()["encoder"] == MTSAOptions(layers=2)
    assert PairClassifier("mtsa").resolve_options()["encoder"] == MTSAOptions()


def test_parameters_at_the_papers_setting():
    """Layer and pooling of the paper's SNLI model, and a pair classifier without the paper's highway layer."""
    estimator = PairClassifier(
        MTSAOptions(hidden=300),
        inputs=InputOptions(embedding=300),
        head=HeadOptions(pair_features="product", head_hidden=300),
        training=TrainingOptions(epochs=1, dev_fraction=0.0),
    ).fit([("a", "b"), ("b", "a"), ("a", "a")] * 2, ["x", "y", "z"] * 2)
    parts = (estimator.model_.encoder, estimator.model_.head)
    highway = 2 * (300 * 300 + 300)
    assert sum(p.numel() for part in parts for p in part.parameters()) == 2_885_403 - highway


def test_a_stack_has_residual_dropout(monkeypatch):
    seen = []
    monkeypatch.setattr(mtsa, "dropout", lambda added, share, training: seen.append((share, training)) or added)
    encoder = make_encoder(MTSAOptions(hidden=8, layers=2, dropout=0.25)).train()
    encoder(TextGraphBuilder(encoder.relations()).text_batch([["x"] * 3]), torch.randn(4, 8))
    assert seen == [(0.25, True)] * 2


@pytest.mark.parametrize(
    ("base", "changed"),
    [
        ({}, {"variant": "paper"}),
        ({}, {"activation": "relu"}),
        ({}, {"token_function": "tanh"}),
        ({}, {"source_function": "tanh"}),
        ({"source_function": "tanh"}, {"bound": 0.5}),
        ({}, {"token2token": False}),
        ({}, {"source2token": False}),
        ({}, {"source_maps": 1}),
        ({}, {"gate": False}),
    ],
)
def test_every_option_of_the_attention_has_an_effect(base, changed, double_encoder, encode):
    plain, other = (encode(double_encoder(MTSAOptions(hidden=6, **own)), 6)[2] for own in (base, {**base, **changed}))
    assert not torch.allclose(plain[-1], other[-1])

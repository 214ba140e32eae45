"""Pretrained models with packed weights: states equal up to rounding, of one text and of several; hooks are called."""

import copy
import pickle

import pytest
import torch

from graphattn.layers._packed import CAN_PACK, PackedLinear, pack
from graphattn.models.pretrained import PretrainedEncoder

from .conftest import TEXTS

pytestmark = pytest.mark.skipif(not CAN_PACK, reason="this PyTorch has no packed weights")


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "mpnet", "modernbert"])
def test_states_are_those_of_plain_weights(name, save_trained):
    folder = save_trained(name)
    plain, packed = (PretrainedEncoder.from_directory(folder) for _ in range(2))
    pack(packed, min_weight=1)
    with torch.inference_mode():
        for texts in (TEXTS, TEXTS[:1]):
            torch.testing.assert_close(packed(packed.batch(texts)), plain(plain.batch(texts)), rtol=1e-4, atol=1e-5)


@pytest.fixture
def save_bert_of_wide_heads(save_trained):
    """Write a BERT whose heads are as wide as kernels of one text need them."""
    return lambda: save_trained("bert", hidden_size=64, num_attention_heads=2)


@pytest.mark.parametrize("words", [1, 5, 30])
def test_a_text_alone_has_the_states_it_has_among_others(words, save_bert_of_wide_heads):
    folder = save_bert_of_wide_heads()
    plain, packed = (PretrainedEncoder.from_directory(folder) for _ in range(2))
    pack(packed, min_weight=1)
    text, others = " ".join(TEXTS[0].split()[:1] * words), TEXTS[1:3]
    with torch.inference_mode():
        alone, batch = packed.batch([text]), packed.batch([text, *others])
        together = packed(batch)[: alone.num_nodes()]
        torch.testing.assert_close(packed(alone), together, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(packed(alone), plain(alone), rtol=1e-4, atol=1e-5)


def test_changed_norms_reach_the_states_of_a_text_alone(save_bert_of_wide_heads):
    folder = save_bert_of_wide_heads()
    plain, packed = (PretrainedEncoder.from_directory(folder) for _ in range(2))
    pack(packed, min_weight=1)
    batch = packed.batch(TEXTS[:1])
    with torch.inference_mode():
        before = packed(batch)
    for encoder in (plain, packed):
        encoder.layers[0].ffn_norm.weight = torch.nn.Parameter(torch.full((64,), 0.5), requires_grad=False)
        encoder.layers[1].attention_norm.bias.data.add_(1)
    with torch.inference_mode():
        assert not torch.allclose(packed(batch), before)
        torch.testing.assert_close(packed(batch), plain(batch), rtol=1e-4, atol=1e-5)


def test_loaded_weights_and_copies_of_a_model_that_has_run(save_bert_of_wide_heads):
    folder = save_bert_of_wide_heads()
    plain, packed = (PretrainedEncoder.from_directory(folder) for _ in range(2))
    pack(packed, min_weight=1)
    batch = packed.batch(TEXTS[:1])
    with torch.inference_mode():
        before = packed(batch)
        copied = pickle.loads(pickle.dumps(copy.deepcopy(packed)))
        weights = {name: 1.5 * weight for name, weight in plain.state_dict().items()}
        for encoder in (plain, packed):
            encoder.load_state_dict(weights)
        assert not torch.allclose(packed(batch), before)
        torch.testing.assert_close(packed(batch), plain(batch), rtol=1e-4, atol=1e-4)
        assert copied(batch).equal(before)


def test_weights_and_gradients_of_attention_are_those_of_plain_weights(save_trained):
    folder = save_trained("bert")
    plain, packed = (PretrainedEncoder.from_directory(folder) for _ in range(2))
    pack(packed, min_weight=1)
    results = []
    for encoder in (plain, packed):
        weights, batch = [], encoder.batch(TEXTS[:1])
        tokens = encoder.embedding(batch.node_features["token"]["id"]).detach().requires_grad_()
        encoder(batch, tokens, weights=weights).square().sum().backward()
        results.append((weights[0]["all"], tokens.grad))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_hooks_of_all_parts_are_called(save_bert_of_wide_heads):
    encoder, called = PretrainedEncoder.from_directory(save_bert_of_wide_heads()), []
    pack(encoder, min_weight=1)
    parts = dict(encoder.layers[0].named_modules())
    names = [
        "",
        "attention.project",
        "attention.output",
        "attention_norm",
        "ffn",
        "ffn.widen",
        "ffn.narrow",
        "ffn_norm",
    ]
    assert isinstance(parts["ffn.widen"], PackedLinear)
    with torch.inference_mode():
        batch = encoder.batch(TEXTS[:1])
        encoder(batch)
        for name in names:
            parts[name].register_forward_hook(lambda *_, name=name: called.append(name))
        encoder(batch)
    assert sorted(called) == sorted(names)

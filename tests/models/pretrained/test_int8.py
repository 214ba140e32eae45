"""Quantized pretrained models: close to float32, a text's vector independent of its neighbours, and no training."""

from pathlib import Path

import numpy as np
import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.layers._int8 import multiplies_int8
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder

from .conftest import TEXTS

pytestmark = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "mpnet", "modernbert"])
def test_states_are_close_to_float32(name, save_trained):
    folder = save_trained(name)
    exact, rounded = (PretrainedEncoder.from_directory(folder, precision=precision) for precision in ("32", "int8"))
    with torch.inference_mode():
        expected, actual = (encoder(encoder.batch(TEXTS)) for encoder in (exact, rounded))
    assert actual.dtype == torch.float32
    assert torch.cosine_similarity(actual, expected).min() > 0.99
    assert not actual.equal(expected)


def test_hooks_of_all_parts_are_called(save_trained):
    encoder, called = PretrainedEncoder.from_directory(save_trained("bert"), precision="int8"), []
    parts = dict(encoder.layers[0].named_modules())
    names = ["attention.output", "attention_norm", "ffn", "ffn.widen", "ffn.narrow", "ffn_norm"]
    batch, hooks = encoder.batch(TEXTS), []
    expected = encoder(batch)
    for name in names:
        hooks.append(parts[name].register_forward_hook(lambda *_, name=name: called.append(name)))
    torch.testing.assert_close(encoder(batch), expected, rtol=0, atol=0.05)
    assert sorted(called) == sorted(names)
    for hook in hooks:
        hook.remove()
    assert encoder(batch).equal(expected)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_states_do_not_depend_on_other_texts(name, save_trained):
    encoder = PretrainedEncoder.from_directory(save_trained(name), precision="int8")
    batch = encoder.batch(TEXTS * 20)
    with torch.inference_mode():
        together = encoder(batch).split(batch.batch_num_nodes().tolist())
        for number, text in enumerate(TEXTS):
            alone = encoder(encoder.batch([text]))
            assert alone.equal(together[number]), text
            assert alone.equal(together[number + 7 * 11]), text


def test_a_vector_does_not_depend_on_other_texts(save_sentence_model):
    folder = save_sentence_model(limit=50)
    encoder = SentenceEncoder(folder, precision="int8")
    together = encoder.transform(TEXTS)
    for number, text in enumerate(TEXTS):
        assert np.array_equal(encoder.transform([text])[0], together[number]), text
    exact = SentenceEncoder(folder).transform(TEXTS)
    assert (exact * together).sum(1).min() > 0.99


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system has no list of files in memory")
def test_float32_weights_are_freed(save_trained):
    folder = save_trained("bert", hidden_size=96, intermediate_size=384, num_hidden_layers=3)
    sizes = []
    for precision in ("32", "int8"):
        encoder = PretrainedEncoder.from_directory(folder, precision=precision)
        sizes.append(sum(tensor.nbytes for tensor in (*encoder.parameters(), *encoder.buffers())))
    assert sizes[1] < 0.6 * sizes[0]
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_it_is_neither_trained_nor_exported(save_trained, tmp_path):
    encoder = PretrainedEncoder.from_directory(save_trained("bert"), precision="int8")
    tokens = torch.zeros(3, 24, requires_grad=True)
    uses = (
        encoder.train,
        lambda: encoder.to_huggingface(tmp_path / "exported"),
        lambda: encoder(encoder.batch(["a"]), tokens),
    )
    for use in uses:
        with pytest.raises(ConfigError) as caught:
            use()
        assert caught.value.options == ("precision",)
    assert not encoder(encoder.batch(["a"])).requires_grad


@pytest.mark.parametrize(
    "read", [PretrainedEncoder.from_directory, lambda path, **options: SentenceEncoder(path, **options).fit()]
)
def test_an_unknown_precision_is_an_error(read, save_model):
    with pytest.raises(ConfigError) as caught:
        read(save_model("bert"), precision="int4")
    assert caught.value.options == ("precision",)

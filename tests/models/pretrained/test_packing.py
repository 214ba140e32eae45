"""Packed texts: the states of single texts, also with chosen edges and while weights are captured."""

import pytest
import torch

from graphattn.exceptions import ConfigError

transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("graphattn.transformers")

TEXTS = [[5, 9, 20, 7, 8, 31], [6, 30, 5], [41, 8, 8, 22, 17, 12, 9, 33, 10]]
SIZES = {"vocab_size": 60, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
FAMILIES = {"Bert": {}, "Roberta": {}, "ModernBert": {"local_attention": 4}, "Qwen3": {"num_key_value_heads": 2}}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}


SPELLERS = {
    "Roberta": {},
    "XLMRobertaXL": {},
    "Data2VecText": {},
    "Longformer": {"attention_window": 4},
    "Esm": {"mask_token_id": 3, "token_dropout": True, "position_embedding_type": "rotary"},
}
"""Families that number positions after padding, or scale by the number of masks."""


def make_model(name="Bert", factory="AutoModel", **options):
    config = getattr(transformers, f"{name}Config")(**SIZES, **{**FAMILIES, **SPELLERS}.get(name, {}), **SPECIAL)
    torch.manual_seed(0)
    options = {"attn_implementation": "graphattn", **options}
    return getattr(transformers, factory).from_config(config, **options).eval()


def read_alone(model, texts=TEXTS, **inputs):
    return [
        model(torch.tensor([ids]), **{k: torch.tensor([v]) for k, v in inputs.items()}).last_hidden_state[0]
        for ids in texts
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_states_are_those_of_single_texts(name):
    model = make_model(name)
    packed = hub.pack(model)
    assert packed.first_position == (2 if name == "Roberta" else 0)
    with torch.no_grad():
        torch.testing.assert_close(packed(TEXTS), read_alone(model), atol=1e-5, rtol=1e-4)
        with hub.edges(model, "window:3|global"):
            torch.testing.assert_close(packed(TEXTS), read_alone(model), atol=1e-5, rtol=1e-4)
    assert packed([]) == []


@pytest.mark.parametrize("name", SPELLERS)
def test_texts_may_spell_padding_and_masks(name):
    texts = [[5, 1, 9, 3, 7], [6, 8], [1, 3, 3, 22, 1, 30]]
    model, eager = make_model(name), make_model(name, attn_implementation="eager")
    with torch.no_grad():
        for weights, copied in zip(model.parameters(), eager.parameters(), strict=True):
            copied.copy_(weights.add_(0.2 * torch.randn_like(weights)))
        expected = [read_alone(eager, [ids], attention_mask=[1] * len(ids))[0] for ids in texts]
        torch.testing.assert_close(hub.pack(model)(texts), expected, atol=1e-5, rtol=1e-4)


def test_weights_of_packed_texts_are_those_of_single_texts():
    model = make_model("Qwen3")
    packed = hub.pack(model)
    with torch.no_grad(), hub.edges(model, "0:window:3"), hub.capture(model) as weights:
        packed(TEXTS)
    for ids, found in zip(TEXTS, weights, strict=True):
        with torch.no_grad(), hub.edges(model, "0:window:3"), hub.capture(model) as alone:
            model(torch.tensor([ids]))
        assert found.tokens == {"text": tuple(map(str, ids))}
        for layer in range(2):
            expected = alone[0].matrix(layer=layer, head=3).toarray()
            assert found.matrix(layer=layer, head=3).toarray() == pytest.approx(expected, abs=1e-5)


def test_segments_and_gradients():
    model = make_model()
    packed, segments = hub.pack(model), [[0] * (len(ids) - 2) + [1, 1] for ids in TEXTS]
    expected = [read_alone(model, [ids], token_type_ids=kinds)[0] for ids, kinds in zip(TEXTS, segments, strict=True)]
    found = packed([torch.tensor(ids) for ids in TEXTS], segments)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weight = model.encoder.layer[0].attention.self.query.weight
    gradients = [torch.autograd.grad(torch.cat(states).square().sum(), weight)[0] for states in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)


def test_the_check_leaves_modes_as_they_are():
    model = make_model().train()
    model.encoder.layer[0].eval()
    modes = [module.training for module in model.modules()]
    hub.pack(model)
    assert [module.training for module in model.modules()] == modes


def test_models_in_bfloat16_pack():
    model = make_model("Qwen3").bfloat16()
    with torch.no_grad():
        found, expected = (torch.cat(states) for states in (hub.pack(model)(TEXTS), read_alone(model)))
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"attn_implementation": "eager"}, "attn_implementation"),
        ({"factory": "AutoModelForSequenceClassification"}, "base_model"),
        ({"name": "MobileBert"}, "mixes texts"),
    ],
)
def test_models_that_cannot_pack_are_errors(options, match):
    with pytest.raises(ConfigError, match=match):
        hub.pack(make_model(**options))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_left_out(side):
    model = make_model()
    packed, longest = hub.pack(model), max(map(len, TEXTS))
    rows = [([1] * (longest - len(ids)), ids) for ids in TEXTS]
    ids = torch.tensor([pad + ids if side == "left" else ids + pad for pad, ids in rows])
    inputs = {"input_ids": ids, "attention_mask": (ids != 1).long(), "token_type_ids": torch.zeros_like(ids)}
    with torch.no_grad():
        torch.testing.assert_close(packed(**inputs), packed(TEXTS))
    with pytest.raises(ConfigError, match="give its attention_mask"):
        packed(ids)
    for wrong, match in ((inputs, "unpack"), (TEXTS[0], "item 5; give a list"), (["a text"], "item 'a text'")):
        with pytest.raises(ConfigError, match=match):
            packed(wrong)


def test_wrong_texts_are_errors():
    model = make_model()
    packed = hub.pack(model)
    with pytest.raises(ConfigError, match="text 1 has no ids"):
        packed([[5], []])
    with pytest.raises(ConfigError, match="other numbers"):
        packed([[5], [6, 7]], [[0], [0]])
    with pytest.raises(ConfigError, match="takes no"):
        hub.pack(make_model("Qwen3"))([[5]], [[0]])
    with hub.capture(model), pytest.raises(ConfigError, match="before"):
        hub.pack(model)

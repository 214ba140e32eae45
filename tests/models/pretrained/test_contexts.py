"""Edges of a model of transformers are chosen and shown while a context is open."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from graphattn import Edges, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.models.inspection import Attention

transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("graphattn.transformers")

LENGTHS = 6, 9, 4
SIZES = {"vocab_size": 60, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
FAMILIES = {
    "Bert": {},
    "Roberta": {},
    "ModernBert": {"local_attention": 4},
    "Gemma2": {"head_dim": 8, "num_key_value_heads": 2, "sliding_window": 4, "attn_logit_softcapping": 0.5},
    "Qwen3": {"head_dim": 8, "num_key_value_heads": 2},
    "T5": {"is_encoder_decoder": False, "d_kv": 8, "d_ff": 48},
    "MPNet": {},
    "DebertaV2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
        "type_vocab_size": 0,
    },
    "Longformer": {"attention_window": 4, "max_position_embeddings": 20},
    "GptOss": {"head_dim": 8, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}


def make_models(name="Bert", kind="Model", **options):
    """The same random model with eager attention, and with edges."""
    config = getattr(transformers, f"{name}Config")(**SIZES | FAMILIES[name] | SPECIAL | options)
    torch.manual_seed(0)
    factory = getattr(transformers, f"Auto{'ModelForTextEncoding' if name == 'T5' else kind}")
    eager = factory.from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    for weights in eager.parameters():
        weights.data += 0.1 * torch.randn_like(weights)
    edges = factory.from_config(copy.deepcopy(config), attn_implementation="graphattn").eval()
    edges.load_state_dict(eager.state_dict())
    return eager, edges


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)), generator=generator)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return {"input_ids": ids * mask, "attention_mask": mask.long()}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "Longformer"])
def test_weights_equal_output_attentions(name, side, inputs):
    eager, model = make_models(name)
    if side == "left":
        inputs = {key: values.flip(1) for key, values in inputs.items()}
    real = inputs["attention_mask"].bool()
    with torch.no_grad(), hub.capture(model) as weights:
        model(**inputs)
        expected = eager(**inputs, output_attentions=True).attentions
    assert len(weights) == len(LENGTHS)
    for text, attention in enumerate(weights):
        for layer, dense in enumerate(expected):
            for head in range(4):
                found = torch.from_numpy(attention.matrix(layer=layer, head=head).toarray())
                torch.testing.assert_close(found, dense[text, head][real[text]][:, real[text]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["Bert", "Roberta", "ModernBert", "Gemma2", "Qwen3", "DebertaV2"])
def test_gradients_equal_eager(name, inputs):
    real = inputs["attention_mask"].bool()
    for model in (models := make_models(name)):
        with hub.capture(model) if model is models[1] else nullcontext():
            model.train(False)(**inputs).last_hidden_state[real].square().sum().backward()
    for (parameter, expected), (_, found) in zip(*(model.named_parameters() for model in models), strict=True):
        if expected.grad is not None:
            torch.testing.assert_close(found.grad, expected.grad, atol=2e-4, rtol=2e-3, msg=parameter)


@pytest.mark.parametrize("name", ["Bert", "DebertaV2", "MPNet"])
def test_edges_of_pretraining_give_the_states_of_eager(name, inputs):
    eager, model = make_models(name)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = eager(**inputs).last_hidden_state[real]
        for context in (hub.edges(model, "all"), hub.edges(model, "all=4"), hub.capture(model)):
            with context:
                torch.testing.assert_close(model(**inputs).last_hidden_state[real], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(model(**inputs).last_hidden_state[real], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [{"pos_att_type": ["p2c"]}, {"share_att_key": True}, {"position_buckets": -1}])
def test_biases_by_distance_stay_on_chosen_edges(options, inputs):
    """DeBERTa in windows equals DeBERTa whose scores outside of windows are hidden."""
    eager, model = make_models("DebertaV2", **options)
    real = inputs["attention_mask"].bool()
    distances = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    mask = (distances <= 2) & real[:, None] & real[:, :, None]
    with torch.no_grad(), hub.edges(model, "window:5"):
        found = model(**inputs).last_hidden_state
        states = eager.embeddings(inputs["input_ids"], mask=inputs["attention_mask"])
        expected = eager.encoder(states, mask).last_hidden_state
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
def test_global_tokens_have_projections_of_their_own(side, inputs):
    """Longformer's states and gradients equal its own, and those of its edges by name."""
    models = eager, model = make_models("Longformer")
    inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
    inputs["global_attention_mask"][:, 0] = 1
    if side == "left":
        inputs = {key: values.flip(1) for key, values in inputs.items()}
        inputs["global_attention_mask"] = (inputs["attention_mask"].cumsum(1) == 1) * inputs["attention_mask"]
    real = inputs["attention_mask"].bool()
    expected = eager(**inputs).last_hidden_state[real]
    expected.square().sum().backward()
    with hub.capture(model) as weights:
        found = model(**inputs).last_hidden_state[real]
        found.square().sum().backward()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for (name, parameter), other in zip(eager.named_parameters(), model.parameters(), strict=True):
        if parameter.grad is not None:
            torch.testing.assert_close(other.grad, parameter.grad, atol=2e-4, rtol=2e-3, msg=name)
    shown = weights[1].matrix(layer=1, head=2).toarray()
    near = np.abs(np.arange(9)[:, None] - np.arange(9)) <= 2
    near[0] = near[:, 0] = True
    assert ((shown > 0) == near).all()
    np.testing.assert_allclose(shown.sum(1), 1, rtol=1e-5)
    for heads in ("window:5|global", "window:5|global=3,global|window:5=1"):
        with torch.no_grad(), hub.edges(model, heads):
            torch.testing.assert_close(model(**inputs).last_hidden_state[real], expected, atol=1e-5, rtol=1e-4)
    assert all(each not in vars(module) for each in ("forward",) for module in (*models, *model.modules()))


def test_chosen_edges_equal_masks(inputs):
    """Half of the heads see a window, the others everything; the reference gets an additive mask for each head."""
    eager, model = make_models()
    distances = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    shown = torch.stack([distances <= 1] * 2 + [distances >= 0] * 2) & inputs["attention_mask"].bool()[:, None, None]
    mask = torch.where(shown, 0.0, torch.finfo(torch.float32).min)
    with torch.no_grad(), hub.edges(model, "window:3=2,all=2"), hub.capture(model) as weights:
        found = model(**inputs).last_hidden_state
        expected = eager(inputs["input_ids"], attention_mask=mask).last_hidden_state
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-4)
    assert {each.relation for each in weights[0].maps} == {"window:3", "all"}


@pytest.mark.parametrize("name", ["Bert", "Gemma2", "GptOss"])
def test_edges_of_every_kind_give_the_same_states(name, inputs):
    _, model = make_models(name)
    batch = TextGraphBuilder(["window:3|global"], cls=False).text_batch([["w"] * length for length in LENGTHS])
    given = Edges.of(batch)
    states = []
    for heads in ("window:3|global", given, batch, [given, "window:3|global"], "0-1:window:3|global"):
        with torch.no_grad(), hub.edges(model, heads):
            states.append(model(**inputs).last_hidden_state)
    for other in states[1:]:
        torch.testing.assert_close(other, states[0])


def test_relations_of_words_come_from_a_graph(inputs):
    _, model = make_models()
    texts = [["w"] * length for length in LENGTHS]
    batch = TextGraphBuilder(["window:5", "random:2"], cls=False).text_batch(texts)
    with torch.no_grad(), hub.edges(model, "window:5=2,random:2=2", graph=batch), hub.capture(model) as weights:
        model(**inputs)
    assert len(weights[0].maps) == 4
    assert weights[0].only(relation="random:2").table().shape[0] == 2 * 2 * 2 * LENGTHS[0]


def test_edges_of_decoders_begin_at_earlier_tokens(inputs):
    _, model = make_models("Qwen3")
    with torch.no_grad(), hub.edges(model, "window:5"), hub.capture(model) as weights:
        model(**inputs)
    table = weights[1].table()
    assert (table.source <= table.target).all()
    assert (table.target - table.source).max() == 2


def test_layers_without_a_choice_keep_their_edges(inputs):
    _, model = make_models("ModernBert")
    with torch.no_grad(), hub.capture(model) as expected:
        model(**inputs)
    with torch.no_grad(), hub.edges(model, "0:window:1"), hub.capture(model) as found:
        model(**inputs)
    assert found[0].only(layer=1).table().shape == expected[0].only(layer=1).table().shape
    assert len(found[0].only(layer=0, head=0).table()) == LENGTHS[0]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backward_inside", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [("Bert", {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}), ("Qwen3", {})],
)
def test_gradient_checkpointing_keeps_the_edges(name, options, backward_inside, reentrant, inputs):
    _, model = make_models(name, **options)
    model.train().enable_input_require_grads()
    gradients = []
    for is_checkpointed in (False, True):
        if is_checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.zero_grad()
        with hub.edges(model, ["window:3", "window:5"]):
            loss = (model(**inputs).last_hidden_state * inputs["attention_mask"][..., None]).square().sum()
            if backward_inside:
                loss.backward()
        if not backward_inside:
            loss.backward()
        gradients.append([each.grad for each in model.parameters() if each.grad is not None])
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", ["Bert", "Gemma2", "Qwen3", "GptOss"])
def test_autocast_is_close_to_float32(name, inputs):
    _, model = make_models(name)
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        with torch.autocast("cpu", torch.bfloat16):
            states = model(**inputs).last_hidden_state.float()
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(states[real], expected[real], atol=0.1, rtol=0.1)


def test_heads_that_do_not_divide_are_an_error(inputs):
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=8)
    model = transformers.LlamaModel._from_config(config, attn_implementation="graphattn").eval()
    with pytest.raises(ConfigError, match="4 heads of queries, 8 of keys"):
        model(**inputs)


def test_weights_of_earlier_passes_are_an_error(inputs):
    _, model = make_models("Qwen3", "ModelForCausalLM")
    with pytest.raises(ConfigError, match="set use_cache=False"), hub.capture(model):
        model.generate(**inputs, max_new_tokens=2)


def test_models_that_attend_otherwise_are_errors(inputs):
    config = transformers.BloomConfig(vocab_size=60, hidden_size=32, n_layer=2, n_head=4)
    model = transformers.BloomModel._from_config(config, attn_implementation="graphattn").eval()
    with pytest.raises(ConfigError, match="0 times"), hub.capture(model):
        model(**inputs)


def test_wrong_choices_are_errors(inputs):
    eager, model = make_models()
    with pytest.raises(ConfigError, match="attn_implementation"), hub.capture(eager):
        pass
    for heads, match in (
        ("window:3=3", "has 3 heads"),
        (["all"], "1 choices"),
        ("dependency", "graph"),
        (Edges.of(torch.zeros(2, 1, dtype=torch.long), num_nodes=(2, 2)), "without padding"),
        (Edges.of(torch.tensor([[5], [6]]), num_nodes=(sum(LENGTHS),) * 2), "from token 5 to 6, which is in another"),
        ("", "is empty"),
        (None, "is empty"),
    ):
        with pytest.raises(ConfigError, match=match), hub.edges(model, heads):
            model(**inputs)
    with hub.capture(model) as weights, pytest.raises(ConfigError, match="call the model"):
        _ = weights[0]


@pytest.fixture(scope="module")
def byte_level():
    """A byte-level tokenizer, whose pieces within a text have no mark."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    merges = [("u", "n"), ("b", "e"), ("c", "a"), ("ca", "f"), ("\u00c3", "\u00a9")]
    pieces = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(numbers, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [("<s>", 0), ("</s>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def test_tokens_and_words_are_those_of_the_tokenizer(byte_level):
    inputs = byte_level(["unbe", "unbe caf\u00e9."], padding=True, return_tensors="pt")
    eager, model = make_models(vocab_size=263)
    with torch.no_grad(), hub.capture(model, byte_level) as weights:
        model(**inputs)
        outputs = eager(**inputs, output_attentions=True)
    short, long = weights
    assert short.tokens == {"text": ("<s>", "un", "be", "</s>")}
    assert list(short.sentences["text"].words) == ["<s>", "unbe", "</s>"]
    assert long.tokens["text"][3:] == ("\u0120", "caf", "\u00e9", ".", "</s>")
    for row, found in enumerate(weights):
        expected = Attention.from_transformers(outputs, byte_level, inputs, row=row)
        assert (found.tokens, found.sentences) == (expected.tokens, expected.sentences)


def test_tokens_without_a_tokenizer_are_ids(inputs):
    _, model = make_models()
    with torch.no_grad(), hub.capture(model) as weights:
        model(**inputs)
    ids = tuple(map(str, inputs["input_ids"][2, :4].tolist()))
    assert weights[2].tokens["text"] == weights[2].words["text"] == ids


@pytest.mark.slow
def test_trainer_trains_as_with_eager(inputs, tmp_path):
    pytest.importorskip("accelerate")
    losses = []
    rows = [
        {**{key: values[row] for key, values in inputs.items()}, "labels": torch.tensor(row % 2)}
        for row in range(len(LENGTHS))
    ]
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    for model in make_models(kind="ModelForSequenceClassification", **no_dropout):
        arguments = transformers.TrainingArguments(
            tmp_path, max_steps=3, per_device_train_batch_size=3, logging_steps=1, report_to=[], use_cpu=True
        )
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        trainer.train()
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-4)


def test_adapters_of_peft_train(inputs):
    peft = pytest.importorskip("peft")
    _, model = make_models()
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["query", "value"]))
    with hub.edges(adapted, "window:3"), hub.capture(adapted) as weights:
        adapted(**inputs).last_hidden_state.sum().backward()
    assert len(weights) == len(LENGTHS)
    assert any(each.grad is not None for name, each in adapted.named_parameters() if "lora" in name)


def test_dropout_of_weights_is_for_training_only(inputs):
    """Attention dropout changes states from seed to seed, and gradients flow; in evaluation it does nothing."""
    _, model = make_models(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)

    def read(seed):
        torch.manual_seed(seed)
        return model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]

    states = [read(seed) for seed in (0, 0, 1)]
    torch.testing.assert_close(states[0], states[1])
    torch.testing.assert_close(states[0], states[2])
    model.train()
    states = [read(seed) for seed in (0, 0, 1)]
    torch.testing.assert_close(states[0], states[1])
    assert (states[0] - states[2]).abs().max() > 0.01
    states[0].square().sum().backward()
    for layer in model.encoder.layer:
        attention = layer.attention.self
        for project in (attention.query, attention.key, attention.value):
            assert project.weight.grad.abs().max() > 0

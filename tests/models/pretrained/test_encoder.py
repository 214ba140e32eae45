"""The encoder against ``transformers``: states and gradients of every family."""

import pytest
import torch
from torch import _dynamo, func

from graphattn.builders import TextGraphBuilder
from graphattn.exceptions import ConfigError, DataError
from graphattn.models.pretrained import Architecture, PretrainedEncoder

from .conftest import DISTILBERT, FAMILIES, MODERN, TEXTS, TRAINED, write_model

LENGTHS = (5, 17, 1, 40)


@pytest.fixture
def ids():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, 60, (length,), generator=generator) for length in LENGTHS]


def graph_of(encoder, ids):
    """A batch of tokens with these ids."""
    builder = TextGraphBuilder(encoder.relations(), cls=False)
    layout = builder.layout([list(map(str, text.tolist())) for text in ids])
    return builder.text_batch(layout.with_feature("id", torch.cat(ids).numpy()))


def padded(ids, model):
    """Ids and mask for the reference."""
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=model.config.pad_token_id)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(text)) for text in ids], batch_first=True)
    return {"input_ids": tokens, "attention_mask": mask}


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_equal_the_reference(make_reference, family, ids, tmp_path):
    reference = make_reference(family)
    encoder = PretrainedEncoder.from_directory(write_model(reference, tmp_path))
    inputs = padded(ids, reference)
    expected = reference(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
    states = encoder(graph_of(encoder, ids))
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (states * direction).sum().backward()
    named = dict(reference.named_parameters())
    compared = set()
    for name, parameter in encoder.named_parameters():
        sources = encoder.architecture.checkpoint_names(name)
        gradient = torch.cat([named[source].grad for source in sources])
        torch.testing.assert_close(
            parameter.grad, gradient, atol=2e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )
        compared |= set(sources)
    unused = {name for name in named if not name.startswith("pooler")} - compared
    assert unused == set()
    assert Architecture.of(encoder.architecture.to_config()) == encoder.architecture


def check_texts_and_pairs(transformers, folder):
    """Compare ids, segments and states of texts and of pairs with those of ``transformers``."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    encoder = PretrainedEncoder.from_directory(folder)
    builder = TextGraphBuilder(encoder.relations(), vocabulary=encoder.vocabulary)
    for columns in ((TEXTS,), (TEXTS, TEXTS[::-1])):
        batch = builder.text_batch(builder.join([builder.layout(texts) for texts in columns]))
        lengths = batch.batch_num_nodes().tolist()
        ids, segments = (batch.node_features["token"][name].split(lengths) for name in ("id", "segment"))
        states = encoder(batch).split(lengths)
        for number, texts in enumerate(zip(*columns, strict=True)):
            inputs = tokenizer(*([text] for text in texts), return_tensors="pt")  # lists: else "" is no second text
            assert ids[number].tolist() == inputs["input_ids"][0].tolist(), texts
            if "token_type_ids" in inputs:
                assert segments[number].tolist() == inputs["token_type_ids"][0].tolist(), texts
            expected = reference(**inputs).last_hidden_state[0]
            torch.testing.assert_close(states[number], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_texts_and_pairs_equal_transformers(save_trained, transformers, name):
    check_texts_and_pairs(transformers, save_trained(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("bert", {"hidden_act": name}) for name in ("relu", "silu", "swish", "gelu_new", "gelu_pytorch_tanh")),
        ("bert", {"layer_norm_eps": 0.1}),
        ("bert", {"num_attention_heads": 2}),
        ("bert", {"type_vocab_size": 3}),
        ("bert", {"pad_token_id": 3}),
        ("bert", {"embedding_size": 16}),  # no such option; early configs have it
        ("electra", {"embedding_size": 24}),
        ("distilbert", {"activation": "relu", "sinusoidal_pos_embds": True}),
        ("roberta", {"pad_token_id": 3}),
        ("mpnet", {"layer_norm_eps": 0.1}),
        ("modernbert", {"norm_eps": 0.1, "hidden_activation": "silu"}),
        ("modernbert", {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
        (
            "modernbert",
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 100.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
                }
            },
        ),
    ],
)
def test_settings_equal_transformers(save_trained, transformers, name, options):
    check_texts_and_pairs(transformers, save_trained(name, **options))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["mpnet", "modernbert"])
def test_compiled_and_transformed_states_equal_eager_ones(save_model, family, ids):
    encoder = PretrainedEncoder.from_directory(save_model(family))
    _dynamo.reset()
    compiled = torch.compile(lambda graph: torch.tanh(encoder(graph)), backend="aot_eager")
    plain = [torch.tanh(encoder(graph_of(encoder, ids[:count]))) for count in (2, 3, 4)]
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        for count, expected in zip((2, 3, 4), plain, strict=True):
            with mode(), _dynamo.config.patch(error_on_recompile=count > 3):
                torch.testing.assert_close(compiled(graph_of(encoder, ids[:count])), expected)
    parameters, graph = dict(encoder.named_parameters()), graph_of(encoder, ids)
    found = func.grad(lambda values: func.functional_call(encoder, values, graph).square().sum())(parameters)
    expected = torch.autograd.grad(encoder(graph).square().sum(), list(parameters.values()))
    torch.testing.assert_close(found, dict(zip(parameters, expected, strict=True)), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_compiled_layer_equals_an_eager_one(save_model, ids):
    """Its feed-forward part is compiled, its attention is not."""
    encoder = PretrainedEncoder.from_directory(save_model("modernbert"))
    _dynamo.reset()
    plain = [encoder(graph_of(encoder, ids[:count])) for count in (2, 3, 4)]
    encoder.layers[1].compile(backend="aot_eager")
    for count, expected in zip((2, 3, 4), plain, strict=True):
        with _dynamo.config.patch(error_on_recompile=count > 3):
            torch.testing.assert_close(encoder(graph_of(encoder, ids[:count])), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_in_the_precision_of_the_parameters(save_model, family, dtype):
    """Of the same texts once in float64, and so often that sums of gradients would stop growing in bfloat16."""
    encoder = PretrainedEncoder.from_directory(save_model(family)).to(dtype)
    segments = 0 if encoder.type_vectors is None else len(encoder.type_vectors.weight)
    upper = 0.01 * torch.randn(encoder.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run(count):
        graph = graph_of(encoder, [torch.arange(30) // 6 + 5] * count)
        if segments == 2:
            graph.node_features["token"]["segment"] = (torch.arange(30) // 15).repeat(count)
        states = encoder(graph)
        return states, torch.autograd.grad((states.double() * upper).sum(), list(encoder.parameters()))

    states, gradients = run(100)
    encoder.double()
    exact_states, exact_gradients = run(1)
    assert {states.dtype, *(gradient.dtype for gradient in gradients)} == {dtype}
    assert (states[:30].double() - exact_states).norm() < 3 * torch.finfo(dtype).eps * exact_states.norm()
    largest = max(gradient.norm() for gradient in exact_gradients)
    for gradient, exact in zip(gradients, exact_gradients, strict=True):
        if exact.norm() > largest / 100:
            error = (gradient.double() - 100 * exact).norm() / (100 * exact.norm())
            assert error < (1e-3 if dtype == torch.float32 else 0.05)


def dense_states(encoder, ids, masks):
    """BERT on one text (Vaswani et al. 2017, section 3.2), with a (T, T) mask for each layer and head."""
    weights = {name: value.detach().double() for name, value in encoder.named_parameters()}

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name, x):
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / (centred.square().mean(1, keepdim=True) + encoder.architecture.norm_eps).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embedding.trained"][ids] + weights["position_vectors.weight"][: len(ids)]
    x = norm("norm", x + weights["type_vectors.weight"][0])
    for number, layer_masks in enumerate(masks):
        layer = f"layers.{number}"
        rows, heads = linear(f"{layer}.attention.project", x).chunk(12, 1), []
        for query, key, value, mask in zip(rows[:4], rows[4:8], rows[8:], layer_masks, strict=True):
            scores = (query @ key.T / query.shape[1] ** 0.5).masked_fill(~mask, float("-inf"))
            heads.append(scores.softmax(1) @ value)
        x = norm(f"{layer}.attention_norm", x + linear(f"{layer}.attention.output", torch.cat(heads, 1)))
        wide = torch.nn.functional.gelu(linear(f"{layer}.ffn.widen", x))
        x = norm(f"{layer}.ffn_norm", x + linear(f"{layer}.ffn.narrow", wide))
    return x


@pytest.mark.slow
def test_chosen_edges_equal_dense_masks(save_model):
    encoder = PretrainedEncoder.from_directory(
        save_model("bert"), heads="window:5|global=4; 1:all=1,window:3=3; 2:window:7=2,all=2"
    )
    ids = torch.randint(5, 50, (30,))
    distance = torch.arange(30)[None, :] - torch.arange(30)[:, None]  # source minus destination
    first = torch.arange(30) == 0
    complete = torch.ones(30, 30, dtype=torch.bool)
    sparse = (distance.abs() <= 2) | first[None, :] | first[:, None]
    masks = [[sparse] * 4, [complete] + [distance.abs() <= 1] * 3, [distance.abs() <= 3] * 2 + [complete] * 2]
    expected = dense_states(encoder, ids, masks)
    states = encoder.double()(graph_of(encoder, [ids]))
    torch.testing.assert_close(states, expected, atol=1e-12, rtol=1e-10)


def test_distance_biases_of_layers_with_other_heads(save_model, ids):
    folder = save_model("mpnet")
    plain, mixed = (PretrainedEncoder.from_directory(folder, heads=heads) for heads in ("", "2:all=2,window:99=2"))
    torch.testing.assert_close(mixed(graph_of(mixed, ids)), plain(graph_of(plain, ids)))


def test_dropout_is_where_the_reference_has_it():
    distilbert = {**DISTILBERT, "model_type": "distilbert", "dropout": 0.3, "attention_dropout": 0.2}
    modern = {
        **MODERN,
        "model_type": "modernbert",
        "mlp_dropout": 0.3,
        "attention_dropout": 0.2,
        "embedding_dropout": 0.4,
    }
    for config, expected in ((distilbert, (0.3, 0.2, 0.0, 0.3)), (modern, (0.4, 0.2, 0.2, 0.3))):
        encoder = PretrainedEncoder(Architecture.of(config))
        layer = encoder.layers[0]
        feed_forward = layer.ffn.dropout if layer.norm_first else layer.dropout
        rates = (
            encoder.dropout.probability,
            layer.attention.attn_drop,
            layer.attention_dropout.probability,
            feed_forward.probability,
        )
        assert rates == expected


@pytest.mark.parametrize(
    ("tuned", "trained"), [(0, [False] * 4), (1, [False, False, False, True]), (3, [False] + [True] * 3)]
)
def test_frozen_parts_have_no_dropout(save_model, tuned, trained):
    encoder = PretrainedEncoder.from_directory(save_model("bert"))
    encoder.train()
    encoder.freeze(tuned)
    for _ in range(2):
        assert [encoder.dropout.training, *(layer.dropout.training for layer in encoder.layers)] == trained
        encoder.train()


def test_layers_keep_their_edges_unless_named(save_model):
    encoder = PretrainedEncoder.from_directory(save_model("modernbert"), heads="0:window:3")
    assert encoder.layer_heads == [{"window:3": 4}, {"window:9": 4}, {"window:9": 4}]
    assert [relation.name for relation in encoder.relations()] == ["window:3", "window:9"]


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ("all=3", "all=3' has 3 heads; each layer of the model has 4"),
        ("3:all", "names layers 3 to 3; the model has 0 to 2"),
        ("2-1:all", "names layers 2 to 1"),
        ("windw:3=4", "did you mean"),
        ("all=2,binary=2", "binary:1 has edges to span nodes, and a pretrained model has tokens only"),
    ],
)
def test_heads_that_do_not_fit(save_model, heads, message):
    with pytest.raises(ConfigError, match=message) as caught:
        PretrainedEncoder.from_directory(save_model("bert"), heads=heads)
    assert "heads" in caught.value.options


IN_BFLOAT16 = pytest.mark.parametrize(
    ("family", "heads"),
    [
        *((family, "") for family in ("bert", "electra", "mpnet", "modernbert")),
        *(
            (family, "window:5|global=4; 1:all=1,window:3=3; 2:window:1=4")
            for family in ("bert", "mpnet", "modernbert")
        ),
    ],
)


@pytest.fixture
def ids_of_long_texts(ids):
    return [*ids, *(torch.randint(3, 60, (length,)) for length in (40,) * 15)]


@pytest.mark.slow
@IN_BFLOAT16
def test_predictions_in_bfloat16_are_close(save_model, family, heads, ids_of_long_texts):
    encoder = PretrainedEncoder.from_directory(save_model(family), heads=heads)
    graph = graph_of(encoder, ids_of_long_texts)
    with torch.inference_mode():
        exact = encoder(graph)
        with torch.autocast("cpu", torch.bfloat16):
            rounded, weights = encoder(graph), []
            torch.testing.assert_close(encoder(graph, weights=weights), rounded)
    assert (rounded - exact).norm() < 0.02 * exact.norm()
    assert all(torch.isfinite(part).all() for layer in weights for part in layer.values())


@pytest.mark.slow
@IN_BFLOAT16
def test_gradients_in_bfloat16_are_close(save_model, family, heads, ids_of_long_texts):
    encoder = PretrainedEncoder.from_directory(save_model(family), heads=heads)
    graph = graph_of(encoder, ids_of_long_texts)
    factors = torch.randn(sum(map(len, ids_of_long_texts)), encoder.width)

    def gradients(enabled, weights=None):
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            states = encoder(graph, weights=weights)
        (states.float() * factors).sum().backward()
        return {name: parameter.grad for name, parameter in encoder.named_parameters()}

    rounded, with_weights = gradients(True), gradients(True, [])
    for name, exact in gradients(False).items():
        for part in (rounded, with_weights):
            assert (part[name] - exact).norm() < 0.05 * exact.norm(), name


def test_gradient_checkpointing_changes_nothing(save_model, ids):
    encoder = PretrainedEncoder.from_directory(save_model("bert")).train()
    graph, gradients = graph_of(encoder, ids), []
    for enabled in (False, True):
        encoder.gradient_checkpointing = enabled
        encoder.zero_grad()
        torch.manual_seed(3)  # of the dropout
        encoder(graph).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in encoder.parameters()])
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
def test_training_on_a_long_text_keeps_less(save_model):
    encoder = PretrainedEncoder.from_directory(save_model("bert"), heads="window:3", max_length=16_500).train()

    def measure_kept(length):
        kept = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: kept.update({tensor.data_ptr(): tensor.nbytes}) or tensor, lambda tensor: tensor
        ):
            output = encoder(graph_of(encoder, [torch.arange(length) % 50 + 3]))
        output.square().sum().backward()
        return sum(kept.values())

    assert measure_kept(16_500) < measure_kept(16_300) / 2


def test_what_an_encoder_needs(save_model):
    with pytest.raises(ConfigError, match="no tokenizer"):
        PretrainedEncoder(PretrainedEncoder.from_directory(save_model("bert")).architecture).batch(["a"])
    with pytest.raises(ConfigError, match="extend_positions"):
        PretrainedEncoder.from_directory(save_model("bert"), extend_positions="interpolation")


def test_an_empty_batch(save_model):
    encoder = PretrainedEncoder.from_directory(save_model("bert"))
    assert encoder(encoder.batch([])).shape == (0, encoder.width)


@pytest.mark.parametrize("how", ["copy", "interpolate"])
def test_longer_texts_than_in_pretraining(save_model, how):
    folder = save_model("roberta")
    short, long = (
        PretrainedEncoder.from_directory(folder),
        PretrainedEncoder.from_directory(folder, max_length=100, extend_positions=how),
    )
    assert (short.max_length, long.max_length) == (46, 100)
    old, new = short.position_vectors.weight, long.position_vectors.weight
    assert torch.equal(new[:2], old[:2])
    if how == "copy":
        assert torch.equal(new[2:48], old[2:])
        assert torch.equal(new[48:94], old[2:])
    else:
        torch.testing.assert_close((new[2], new[-1]), (old[2], old[-1]))
    assert long(long.batch(["a " * 98])).shape == (100, 24)
    with pytest.raises(
        DataError,
        match=r"text 2 has 47 tokens; the model reads 46\. Split or shorten it, or .* with max_length and windows",
    ):
        short.batch(["a", "a " * 45])


def test_modernbert_on_long_texts(save_model, make_reference):
    """Its rotary positions need no vectors; along windows in all layers, edges grow with the length."""
    folder, generator = save_model("modernbert"), torch.Generator().manual_seed(1)
    longer = PretrainedEncoder.from_directory(folder, max_length=300)
    text = torch.randint(3, 60, (300,), generator=generator)
    with torch.no_grad():
        expected = make_reference("modernbert")(input_ids=text[None]).last_hidden_state[0]
        torch.testing.assert_close(longer(graph_of(longer, [text])), expected, atol=1e-4, rtol=1e-4)
    local = PretrainedEncoder.from_directory(folder, heads="window:9", max_length=8192)
    text = torch.randint(3, 60, (8192,), generator=generator)
    graph = graph_of(local, [text])
    assert sum(edges.num_edges for edges in graph.edges.values()) == 9 * 8192 - 2 * (1 + 2 + 3 + 4)
    with torch.inference_mode():
        states = local(graph)
        start, reach = 4000, 4 * 3  # three layers see this far
        alone = local(graph_of(local, [text[start - reach : start + reach + 1]]))
    torch.testing.assert_close(states[start], alone[reach], atol=1e-4, rtol=1e-4)


def test_attention_weights_sum_to_one(save_model):
    encoder = PretrainedEncoder.from_directory(save_model("mpnet"), heads="window:3=2,all=2")
    weights = []
    graph = encoder.batch(["a b c d"])
    states = encoder(graph, weights=weights)
    torch.testing.assert_close(states, encoder(graph))
    assert [sorted(layer) for layer in weights] == [["all", "window:3"]] * 3
    torch.testing.assert_close(weights[0]["all"].view(6, 6, 2).sum(1), torch.ones(6, 2))


def test_longer_positions_are_written(save_model, transformers, tmp_path):
    encoder = PretrainedEncoder.from_directory(save_model("roberta"), max_length=80)
    encoder.to_huggingface(tmp_path / "copy")
    model = transformers.AutoModel.from_pretrained(tmp_path / "copy").eval()
    graph = encoder.batch(["a " * 70])
    ids = graph.node_features["token"]["id"][None].long()
    torch.testing.assert_close(model(input_ids=ids).last_hidden_state[0], encoder(graph), atol=1e-5, rtol=1e-5)


def test_what_transformers_cannot_have(save_model, tmp_path):
    folder = save_model("bert")
    with pytest.raises(ConfigError, match="transformers has no other edges"):
        PretrainedEncoder.from_directory(folder, heads="window:3").to_huggingface(tmp_path / "copy")
    with pytest.raises(ConfigError, match="exists; choose another directory"):
        PretrainedEncoder.from_directory(folder).to_huggingface(folder)


def test_an_export_into_a_folder_of_a_killed_writer(save_model, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / ".store.json.123.new").touch()
    PretrainedEncoder.from_directory(save_model("bert")).to_huggingface(tmp_path / "copy")
    PretrainedEncoder.from_directory(tmp_path / "copy")


@pytest.mark.parametrize("path", ["docs/new/..", "link", "docs/notes.txt"])
def test_an_export_never_replaces_what_exists(path, save_model, tmp_path):
    """Also if ``new`` does not, so that the operating system does not find the path."""
    notes = tmp_path / "docs" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("keep")
    (tmp_path / "link").symlink_to(notes.parent)
    with pytest.raises(ConfigError, match="exists; choose another directory"):
        PretrainedEncoder.from_directory(save_model("bert")).to_huggingface(tmp_path / path)
    assert notes.read_text() == "keep"


@pytest.mark.parametrize("path", ["file/x", "a\0b", "/proc/x/y"])
def test_an_export_to_where_nothing_can_be_written(path, save_model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        PretrainedEncoder.from_directory(save_model("bert")).to_huggingface(tmp_path / path)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_no_operation_waits_for_a_gpu(save_model, family, monkeypatch, count_copies):
    """On tensors without data, a question about them is an error."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)
    encoder = PretrainedEncoder.from_directory(save_model(family), heads="all").train()
    batch = encoder.batch(["a b c", "d e f g h i j", "k"])
    states = encoder.to("meta")(batch)
    states.sum().backward()
    assert states.is_meta
    moved = []
    assert count_copies(lambda: moved.append(batch.to("meta"))) == 1
    assert count_copies(lambda: encoder(moved[0])) == 0

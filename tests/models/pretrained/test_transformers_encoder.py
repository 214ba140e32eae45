"""Families that transformers computes: states, edges, training and files behind the same interface."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from graphattn import SequenceTagger, TextClassifier, load
from graphattn.exceptions import ConfigError, Hint, ModelDirectoryError
from graphattn.layers._int8 import multiplies_int8
from graphattn.models import PretrainedOptions, TrainingOptions
from graphattn.models.inspection.attributions import integrated_gradients
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder

from .conftest import LETTERS, OTHER_FAMILIES, make_other_reference

transformers = pytest.importorskip("transformers")
Conv1D = pytest.importorskip("transformers.pytorch_utils").Conv1D

RELATIONS = {
    "albert": ("all", "all"),
    "gemma3_text": ("causal:4", "causal"),
    "xlm-roberta-xl": ("all", "all"),
    "t5": ("all", "all"),
    "umt5": ("all", "all"),
    "gpt2": ("causal", "causal"),
}
TEXTS = ["a dog barks at the cat", "no", "it sleeps and eats"]
X, Y = ["a lovely film", "a dull film", "great cast", "a weak plot"] * 2, ["g", "b", "g", "b"] * 2
BART = {"d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
ONCE = TrainingOptions(epochs=1, dev_fraction=0)

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")


def split_ids(graph):
    return graph.node_features["token"]["id"].long().split(graph.batch_num_nodes().tolist())


def read_alone(model, graph):
    """The states of each text, one after another."""
    return torch.cat([model(input_ids=ids[None]).last_hidden_state[0] for ids in split_ids(graph)])


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["albert", "gpt2"])
def test_threads_share_an_encoder(save, family):
    encoder = SentenceEncoder(save(family)).fit()
    texts = ["a dog " * length for length in range(1, 13)] * 2
    expected = [encoder.transform([text]) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: encoder.transform([text]), texts))
    for actual, vectors in zip(found, expected, strict=True):
        np.testing.assert_array_equal(actual, vectors)


@pytest.mark.parametrize("family", OTHER_FAMILIES)
def test_states_equal_those_of_eager(save, family):
    encoder = PretrainedEncoder.from_directory(save(family))
    assert encoder.architecture.relations == RELATIONS[family]
    graph, layers = encoder.batch([*TEXTS, "a [PAD] dog"]), []
    expected = read_alone(make_other_reference(family), graph)
    with torch.no_grad():
        assert_close(encoder(graph), expected)
        assert_close(encoder(graph, weights=layers), expected)
    for relation, weights in zip(RELATIONS[family], layers, strict=True):
        assert weights[relation].shape == (graph.edges["token", relation, "token"].num_edges, 4)


def test_many_texts_are_read_in_groups(save):
    encoder = PretrainedEncoder.from_directory(
        save("gemma3_text", max_position_embeddings=3000), heads="0:window:3|global"
    )
    graph = encoder.batch(["a b " * 400, "c " * 1500, "d", "e " * 300])
    with torch.no_grad():
        assert_close(encoder(graph), encoder(graph, weights=[]))


def test_weights_equal_those_of_eager(save):
    folder = save("gemma3_text")
    attention = SentenceEncoder(folder).attention("a dog barks")
    graph = PretrainedEncoder.from_directory(folder).batch(["a dog barks"])
    expected = make_other_reference("gemma3_text")(
        input_ids=split_ids(graph)[0][None], output_attentions=True
    ).attentions
    for layer, head in ((0, 1), (1, 3)):
        matrix = attention.matrix(layer=layer, head=head).toarray()
        np.testing.assert_allclose(matrix, expected[layer][0, head].detach(), atol=1e-5)


def test_chosen_edges_of_a_decoder_begin_at_earlier_tokens(save):
    folder = save("gpt2")
    encoder = PretrainedEncoder.from_directory(folder, heads="1:window:3=1,all=3")
    assert encoder.layer_heads == [{"causal": 4}, {"window:3&causal": 1, "all&causal": 3}]
    everything = PretrainedEncoder.from_directory(folder, heads="all")
    graph = everything.batch(TEXTS)
    with torch.no_grad():
        assert_close(everything(graph), read_alone(make_other_reference("gpt2"), graph))


@pytest.mark.parametrize("family", ["gemma3_text", "xlm-roberta-xl", "t5"])
def test_gradients_equal_those_of_eager(save, family):
    encoder, model = PretrainedEncoder.from_directory(save(family)), make_other_reference(family)
    graph = encoder.batch(TEXTS)
    encoder(graph).square().sum().backward()
    read_alone(model, graph).square().sum().backward()
    expected, used = model.get_input_embeddings().weight.grad, graph.node_features["token"]["id"].long().unique()
    scale = expected.abs().max()
    torch.testing.assert_close(encoder.embedding.trained.grad[used] / scale, expected[used] / scale, atol=1e-4, rtol=0)


def test_layers_are_computed_again_along_the_same_edges(save):
    encoder = PretrainedEncoder.from_directory(save("gemma3_text"), heads="0:window:3").train()
    graph, gradients = encoder.batch(TEXTS), []
    for encoder.gradient_checkpointing in (False, True):
        encoder.zero_grad()
        states = encoder(graph)
        encoder(encoder.batch(["other"]))  # a pass between this one and its gradients
        states.square().sum().backward()
        gradients.append([weights.grad.clone() for weights in encoder.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("gemma3_text", {"pretrained_heads": "window:3|global", "gradient_checkpointing": True}),
        ("albert", {"frozen": True}),
        ("xlm-roberta-xl", {"tuned_layers": 1, "pretrained_length": 60}),
        ("t5", {}),
        ("mt5", {"tuned_layers": 1}),
        ("umt5", {"frozen": True}),
    ],
)
def test_a_model_is_trained_saved_and_loaded(save, tmp_path, family, options):
    folder = save(family)
    pretrained = PretrainedOptions(str(folder), **{"frozen": False, **options})
    training = TrainingOptions(dev_fraction=0) if pretrained.frozen else ONCE
    model = TextClassifier(pretrained=pretrained, training=training).fit(X, Y)
    model.save(tmp_path / "model")
    for file in folder.iterdir():
        file.unlink()
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.attention("a film").tokens["text"][0] == "[CLS]"
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["transformers"]["family"] == family
    assert "architecture" not in config


def test_a_tagger_and_attributions(save):
    tagger = SequenceTagger(pretrained=str(save("albert")), training=ONCE)
    tagger.fit([["a", "dog"], ["no"]] * 4, [["D", "N"], ["X"]] * 4)
    assert len(tagger.predict([["a", "cat"]])[0]) == 2
    assert integrated_gradients(tagger, ["a", "cat"], word=1).attribution.abs().sum() > 0


def test_layers_have_rates_and_can_be_frozen(save):
    encoder = PretrainedEncoder.from_directory(save("gpt2"))
    rates = encoder.learning_rates(1.0, 0.5)
    assert rates["embedding.trained"] == rates["model.wpe.weight"] == 0.25
    assert rates["model.h.0.mlp.c_fc.weight"] == 0.5
    assert rates["model.h.1.mlp.c_fc.weight"] == rates["model.ln_f.weight"] == 1
    encoder.freeze(1)
    trained = {name for name, weights in encoder.named_parameters() if weights.requires_grad}
    assert trained == {name for name, rate in rates.items() if rate == 1}
    assert [layer.training for layer in encoder.train().model.h] == [False, True]
    encoder.freeze(0)
    assert not any(weights.requires_grad for weights in encoder.parameters())


@pytest.mark.parametrize(
    ("family", "name", "first"),
    [("xlm-roberta-xl", "embeddings.position_embeddings", 1), ("opt", "embed_positions", 2)],
)
def test_longer_texts_get_position_vectors(save, family, name, first):
    folder = save(family)
    encoder, short = (PretrainedEncoder.from_directory(folder, max_length=length) for length in (70, None))
    (table,) = (weights for key, weights in encoder.model.named_parameters() if key.endswith(f"{name}.weight"))
    assert table.shape == (70 + first, 24)
    assert torch.equal(table[first : first + 32], table[first + 32 : first + 64])
    assert short.max_length == 32
    graph = short.batch(TEXTS)
    with torch.no_grad():
        assert encoder(encoder.batch(["a " * 60])).shape == (62, 24)
        assert_close(short(graph), encoder(graph))


def test_a_table_of_distances_is_not_extended(save):
    changes = {"position_buckets": -1, "position_biased_input": False}
    encoder = PretrainedEncoder.from_directory(save("deberta-v2", **changes), max_length=100)
    graph = encoder.batch([*TEXTS, "a " * 90])
    with torch.no_grad():
        assert_close(encoder(graph), read_alone(make_other_reference("deberta-v2", **changes), graph))
    both = PretrainedOptions(str(save("deberta-v2", position_buckets=-1)), pretrained_length=100)
    with pytest.raises(ConfigError, match="table of distances") as error:
        TextClassifier(pretrained=both, training=ONCE).fit(X, Y)
    assert error.value.options == ("pretrained_length",)


@pytest.mark.skipif(not multiplies_int8(), reason="this processor has no fast and exact products of int8")
@pytest.mark.parametrize("family", ["gemma3_text", "gpt2"])
def test_int8(save, family):
    folder = save(family)
    exact, rounded = (SentenceEncoder(folder, precision=precision).fit() for precision in ("32", "int8"))
    assert {type(layer) for layer in rounded.encoder_.model.modules()} & {torch.nn.Linear, Conv1D} == set()
    vectors = exact.transform(TEXTS)
    assert 0 < np.abs(vectors - rounded.transform(TEXTS)).max() < 0.1 * np.abs(vectors).max()


def test_gradient_checkpointing_of_a_family_without_it_is_an_error(save):
    options = PretrainedOptions(str(save("albert")), gradient_checkpointing=True)
    with pytest.raises(ConfigError, match="'albert'") as error:
        TextClassifier(pretrained=options, training=ONCE).fit(X, Y)
    assert error.value.options[0] == "gradient_checkpointing"


def test_the_message_says_what_it_costs(save):
    with pytest.warns(Hint, match="'albert' runs in transformers, which takes some seconds to start"):
        PretrainedEncoder.from_directory(save("albert"))


def load_both(folder, copy, family):
    """The states of the models, and the tokens of the tokenizers, in two directories."""
    kind = transformers.AutoModelForTextEncoding if family in ("t5", "umt5") else transformers.AutoModel
    for place in (folder, copy):
        inputs = transformers.AutoTokenizer.from_pretrained(place)(TEXTS, padding=True, return_tensors="pt")
        model, report = kind.from_pretrained(place, output_loading_info=True)
        assert not any(report.values())
        with torch.no_grad():
            yield inputs["input_ids"], model.eval()(**inputs).last_hidden_state


@pytest.mark.parametrize("family", OTHER_FAMILIES)
def test_a_directory_for_transformers(save, tmp_path, family):
    folder = save(family)
    PretrainedEncoder.from_directory(folder).to_huggingface(tmp_path / "copy")
    (ids, states), (copied_ids, copied_states) = load_both(folder, tmp_path / "copy", family)
    assert torch.equal(copied_ids, ids)
    assert torch.equal(copied_states, states)
    modes = {(tmp_path / "copy" / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1
    again = PretrainedEncoder.from_directory(tmp_path / "copy")
    assert torch.equal(again(again.batch(TEXTS)), PretrainedEncoder.from_directory(folder)(again.batch(TEXTS)))


def test_a_tuned_encoder_for_longer_texts_is_written(save, tmp_path):
    options = PretrainedOptions(str(save("xlm-roberta-xl")), frozen=False, pretrained_length=60)
    model = TextClassifier(pretrained=options, training=ONCE).fit(X, Y)
    with pytest.raises(ConfigError, match="a head on mean instead of cls"):
        model.to_huggingface(tmp_path / "copy")
    model.to_huggingface(tmp_path / "copy", encoder_only=True)
    copy = PretrainedEncoder.from_directory(tmp_path / "copy")
    assert copy.max_length == 60
    tuned = model.model_.encoder.model.state_dict()
    assert all(torch.equal(weights, tuned[name]) for name, weights in copy.model.state_dict().items())
    assert torch.equal(copy.embedding.trained, model.model_.embedding.trained)


def test_other_edges_are_not_written(save, tmp_path):
    with pytest.raises(ConfigError, match="no other edges"):
        PretrainedEncoder.from_directory(save("albert"), heads="window:3").to_huggingface(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("RoFormer", {}, "called attention along edges 0 times"),
        ("ConvBert", {}, "called attention along edges 0 times"),
        ("Bart", BART, "takes no position_ids"),
        ("MobileBert", {"embedding_size": 24, "intra_bottleneck_size": 24}, "mixes texts"),
        ("GPTNeo", {"num_layers": 2, "attention_types": [[["global", "local"], 1]]}, "classes of attention"),
        ("Falcon", {}, "classes of attention"),
    ],
)
def test_families_that_mix_texts_are_refused(tmp_path, kind, changes, reason):
    config = getattr(transformers, f"{kind}Config")(**{**LETTERS, **changes})
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)
    with pytest.raises(ModelDirectoryError, match=f"cannot be read: .*{reason}.* Choose a model of another family"):
        PretrainedEncoder.from_directory(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization_config": {"load_in_8bit": True}}, "its weights are rounded"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "positions are 'dynamic'"),
        ({"hidden_size": "wide"}, "config.json is damaged"),
        ({"num_hidden_layers": 3, "layer_types": None}, "lacks weights"),
    ],
)
def test_settings_that_are_not_supported(save, changes, message):
    folder = save("gemma3_text")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(ModelDirectoryError, match=re.escape(message)):
        PretrainedEncoder.from_directory(folder)


def test_no_code_of_a_directory_runs(save):
    folder = save("albert")
    config = json.loads((folder / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "evil.Evil", "AutoConfig": "evil.Config"}, "attn_implementation": "org/kernel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    architecture = PretrainedEncoder.from_directory(folder).architecture
    assert not {"auto_map", "attn_implementation"} & architecture.config.keys()

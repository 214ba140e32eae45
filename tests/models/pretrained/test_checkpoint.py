"""Directories of Hugging Face: what is read, and one clear error for each that cannot be."""

import json
import operator
import os
import re
from functools import reduce

import pytest
import torch
from safetensors.torch import load_file, save_file

from graphattn import TextClassifier
from graphattn.exceptions import ModelDirectoryError
from graphattn.models import TrainingOptions
from graphattn.models.pretrained import Architecture, PretrainedEncoder
from graphattn.models.pretrained._architecture import FAMILIES
from graphattn.models.pretrained._checkpoint import digest_directory, find_directory, is_hugging_face_directory
from graphattn.models.pretrained._json_schema import MAX_LAYERS, MAX_SIZE

from .conftest import letter_tokenizer


@pytest.fixture
def folder(save_model):
    return save_model("bert")


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_are_read_as_float32(folder, dtype):
    exact = dict(PretrainedEncoder.from_directory(folder).named_parameters())
    change_weights(folder, lambda weights: {name: weight.to(dtype) for name, weight in weights.items()})
    for name, parameter in PretrainedEncoder.from_directory(folder).named_parameters():
        assert torch.equal(parameter, exact[name].to(dtype).float())


def states_of(folder):
    encoder = PretrainedEncoder.from_directory(folder)
    return encoder(encoder.batch(["a b c"]))


@pytest.mark.parametrize("prefix", ["bert.", "model."])
def test_prefixes_and_old_names_of_tensors(folder, prefix):
    def rename(name):
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        return prefix + name

    expected = states_of(folder)
    change_weights(folder, lambda weights: {rename(name): value for name, value in weights.items()})
    assert torch.equal(states_of(folder), expected)


def test_weights_in_several_files(folder):
    expected = states_of(folder)
    weights = load_file(folder / "model.safetensors")
    files = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(weights)}
    for file in set(files.values()):
        save_file({name: weights[name] for name in weights if files[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert torch.equal(states_of(folder), expected)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(ModelDirectoryError, match=r"has no model-1\.safetensors"):
        states_of(folder)


@pytest.mark.parametrize(
    ("family", "values", "message"),
    [
        ("bert", {"model_type": "t9"}, f"model_type is 't9'; GraphAttn reads {', '.join(FAMILIES)}"),
        ("bert", {"model_type": ["bert"]}, "model_type is ['bert']; GraphAttn reads "),
        ("bert", {"hidden_act": "mish"}, "its activation is 'mish'"),
        ("bert", {"position_embedding_type": "relative_key"}, "its position_embedding_type is 'relative_key'"),
        ("bert", {"is_decoder": True}, "its is_decoder is True"),
        ("bert", {"relative_attention_num_buckets": 16}, "its relative_attention_num_buckets is 16"),
        ("bert", {"quantization_config": {"load_in_8bit": True}}, "its quantization_config is"),
        ("bert", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "its rope_scaling is"),
        ("bert", {"hidden_size": None}, "config.json has no 'hidden_size'"),
        ("roberta", {"pad_token_id": None}, "config.json has no 'pad_token_id'"),
        (
            "modernbert",
            {"layer_types": ["full_attention", "chunked_attention", "full_attention"]},
            "one of its layer_types is 'chunked_attention'",
        ),
    ],
)
def test_configs_that_are_not_supported(save_model, family, values, message):
    folder = save_model(family)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))
    with pytest.raises(ModelDirectoryError, match=re.escape(message)):
        states_of(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file(folder, file):
    (folder / file).unlink()
    with pytest.raises(ModelDirectoryError, match=rf"has no {file}"):
        states_of(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_damaged_file(folder, file):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelDirectoryError, match=file):
        states_of(folder)


def test_a_pickle_is_not_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelDirectoryError, match=r"only pickles .*, which can run any code .* convert them"):
        states_of(folder)


LAST = "encoder.layer.2.output.dense.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: {name: own for name, own in weights.items() if name != LAST}, f"has no tensor {LAST}"),
        (
            lambda weights: {**weights, LAST: weights[LAST][:, :-1].contiguous()},
            f"{LAST} has shape (24, 39); config.json says (24, 40)",
        ),
        (lambda weights: {**weights, LAST: weights[LAST].fill_(float("nan"))}, f"{LAST} has NaN or infinity"),
        (lambda weights: {**weights, LAST: weights[LAST].fill_(float("inf"))}, f"{LAST} has NaN or infinity"),
    ],
)
def test_tensors_that_do_not_fit(folder, change, message):
    change_weights(folder, change)
    with pytest.raises(ModelDirectoryError, match=re.escape(message)):
        states_of(folder)


def test_more_words_than_vectors(folder):
    tokenizer = letter_tokenizer()
    tokenizer.add_tokens(["one", "two", "three", "four"])
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelDirectoryError, match="its largest id is 60; the model has 60 word vectors"):
        states_of(folder)


def test_a_hub_name_without_a_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelDirectoryError, match="nobody/nothing is no directory, and it could not be downloaded"):
        find_directory("nobody/nothing")


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(ModelDirectoryError, match=r"is no directory\. Give one with config\.json"):
        find_directory(tmp_path / "missing")


@pytest.mark.parametrize(
    "name",
    [
        *("google-bert/bert-base-uncased", "google-bert/bert-large-cased-whole-word-masking"),
        *("google-bert/bert-base-multilingual-cased", "google-bert/bert-base-chinese"),
        *("FacebookAI/roberta-base", "FacebookAI/xlm-roberta-large", "FacebookAI/roberta-large-mnli"),
        *("distilbert/distilbert-base-uncased-finetuned-sst-2-english", "distilbert/distilroberta-base"),
        *("distilbert/distilbert-base-multilingual-cased", "distilbert/distilbert-base-german-cased"),
        *("almanach/camembert-base", "sentence-transformers/all-MiniLM-L6-v2"),
    ],
)
def test_names_of_the_hub_without_their_owner(name):
    with pytest.raises(ModelDirectoryError, match=rf"it is {name}\. Give this"):
        find_directory(name.partition("/")[2])


@pytest.mark.parametrize("name", ["my-bert-base-uncased", "roberta", "t5-base", "bert-base-uncased-/x", "all-t5"])
def test_other_names_get_no_owner(name):
    with pytest.raises(ModelDirectoryError, match=r"is no directory\. Give one with"):
        find_directory(f"/nowhere/{name}" if "/" in name else name)


def test_a_model_of_graphattn(tmp_path):
    texts, labels = ["a b", "b a"] * 2, [0, 1] * 2
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False)
    folder = TextClassifier("bilstm", training=training).fit(texts, labels).save(tmp_path / "model")
    with pytest.raises(ModelDirectoryError, match=r"is a model of GraphAttn, not of .* --init-from"):
        TextClassifier(pretrained=str(folder), training=training).fit(texts, labels)


def test_an_architecture_as_plain_values(folder):
    architecture = PretrainedEncoder.from_directory(folder).architecture
    assert Architecture.from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture


def test_configs_of_earlier_modernberts():
    old = {
        "model_type": "modernbert",
        "vocab_size": 10,
        "hidden_size": 8,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "max_position_embeddings": 8192,
        "global_attn_every_n_layers": 3,
        "local_attention": 128,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    architecture = Architecture.of(old)
    assert architecture.relations == ("all", "window:129", "window:129", "all")
    assert architecture.thetas == (160000.0, 10000.0, 10000.0, 160000.0)


TOKENIZER = "tokenizer.json"
SPECIAL = "post_processor", "special_tokens", "[CLS]", "ids"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "file", "path", "value"),
    [
        ("bert", "config.json", ["vocab_size"], "x"),
        ("bert", "config.json", ["num_attention_heads"], 0),
        ("bert", "config.json", ["num_attention_heads"], 5),
        ("bert", "config.json", ["num_hidden_layers"], MAX_LAYERS + 1),
        ("bert", "config.json", ["hidden_size"], MAX_SIZE + 1),
        ("bert", "config.json", ["type_vocab_size"], -5),
        ("bert", "config.json", ["hidden_act"], {}),
        ("bert", "config.json", ["layer_norm_eps"], float("nan")),
        ("bert", "config.json", ["hidden_dropout_prob"], 1.5),
        ("bert", "config.json", ["pad_token_id"], "x"),
        ("roberta", "config.json", ["pad_token_id"], -5),
        ("roberta", "config.json", ["pad_token_id"], 47),
        ("modernbert", "config.json", ["layer_types"], ["full_attention"]),
        ("modernbert", "config.json", ["layer_types"], 3),
        ("modernbert", "config.json", ["num_attention_heads"], 24),
        ("modernbert", "config.json", ["local_attention"], MAX_SIZE + 1),
        ("modernbert", "config.json", ["rope_parameters"], "x"),
        ("modernbert", "config.json", ["rope_parameters", "full_attention"], {"rope_theta": float("inf")}),
        ("bert", "tokenizer_config.json", [], {"do_lower_case": "x"}),
        ("bert", "tokenizer_config.json", [], {"cls_token": {}}),
        ("bert", "special_tokens_map.json", [], {"pad_token": 5}),
        ("bert", TOKENIZER, ["model", "vocab"], {}),
        ("bert", TOKENIZER, ["model", "vocab", "z"], 60),
        ("bert", TOKENIZER, ["model", "unk_token"], "[NONE]"),
        ("bert", TOKENIZER, ["post_processor", "single", 0, "SpecialToken", "id"], "[NONE]"),
        ("bert", TOKENIZER, ["post_processor", "single", 0, "SpecialToken", "type_id"], 2),
        ("bert", TOKENIZER, ["post_processor", "pair"], []),
        ("bert", TOKENIZER, [*SPECIAL], [60]),
        ("bert", TOKENIZER, [*SPECIAL], [2] * 47),
    ],
)
def test_values_that_no_model_has(save_model, family, file, path, value):
    folder = save_model(family)
    values = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    if path:
        *parents, name = path
        reduce(operator.getitem, parents, values)[name] = value
    (folder / file).write_text(json.dumps(values if path else value))
    with pytest.raises(ModelDirectoryError, match=file):
        states_of(folder)


@pytest.mark.parametrize("weight_map", [None, {"a": 5}, {"a": "../model.safetensors"}, {"a": "/etc/hostname"}])
def test_an_index_of_other_files(folder, weight_map):
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelDirectoryError, match=r"index\.json is damaged|is outside the directory"):
        states_of(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_links_that_leave_a_directory(folder, file):
    outside = folder.parent / file
    outside.write_text("{}")
    if (folder / file).exists():
        (folder / file).replace(outside)
    (folder / file).symlink_to(outside)
    with pytest.raises(ModelDirectoryError, match=f"{file} is outside the directory"):
        states_of(folder)


def test_links_within_a_cache_of_the_hub(folder, tmp_path):
    expected = states_of(folder)
    snapshot, blobs = tmp_path / "models--o--n" / "snapshots" / "1", tmp_path / "models--o--n" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(folder.iterdir()):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    assert torch.equal(states_of(snapshot), expected)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_a_pipe_is_not_waited_for(folder, file):
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file)
    assert is_hugging_face_directory(folder) == (file != "config.json")
    if file != "model.safetensors":
        digest_directory(folder)
    with pytest.raises(ModelDirectoryError, match=f"{file} cannot be read .*not a regular file"):
        states_of(folder)


def test_an_adapter_without_its_model(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    assert is_hugging_face_directory(tmp_path)
    for read in (PretrainedEncoder.from_directory, digest_directory):
        with pytest.raises(ModelDirectoryError, match="merge the adapter"):
            read(tmp_path)


FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]


@pytest.mark.parametrize("file", FILES)
def test_a_pointer_of_git_lfs(folder, file):
    (folder / file).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    with pytest.raises(ModelDirectoryError, match=f"{file} cannot be read .*git lfs pull"):
        states_of(folder)


@pytest.mark.parametrize("file", FILES[:3])
def test_a_file_that_would_fill_the_memory(folder, file):
    (folder / file).touch()
    os.truncate(folder / file, 10**11)
    with pytest.raises(ModelDirectoryError, match=f"{file} cannot be read .100,000,000,000 bytes"):
        states_of(folder)


def test_an_encoder_does_not_follow_its_files(folder):
    expected = states_of(folder)
    encoder = PretrainedEncoder.from_directory(folder)
    path = folder / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(encoder(encoder.batch(["a b c"])), expected)
    os.truncate(path, 100)
    assert torch.equal(encoder(encoder.batch(["a b c"])), expected)
    with pytest.raises(ModelDirectoryError, match=r"model\.safetensors is damaged"):
        states_of(folder)

"""Each setting of a directory against ``sentence-transformers``: used, refused, or without effect on vectors."""

import json
import shutil
import warnings

import numpy as np
import pytest
import torch

from graphattn.exceptions import ModelDirectoryError, TruncationWarning
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder
from graphattn.models.pretrained._directory_settings import (
    CONFIG,
    DENSE,
    MODULES,
    OTHER_SENTENCES,
    POOLING,
    SENTENCES,
    SETTINGS,
    TOKENIZER_CONFIG,
)

from .conftest import FAMILIES, TEXTS, TRAINED, train_tokenizer

SHAPES = {
    *("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("dim", "n_layers", "n_heads", "hidden_dim", "type_vocab_size", "embedding_size", "max_position_embeddings"),
    *("norm_bias", "attention_bias", "mlp_bias"),
}
"""Without them, or with other values, the weights do not fit: :mod:`test_checkpoint` has them."""
EXPORTED = {"bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id"}
IN_TRAINING = {key for key in SETTINGS[CONFIG] if "dropout" in key and SETTINGS[CONFIG][key].effect == "used"}
ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 50.0}, "sliding_attention": {"rope_theta": 20.0}}
USED = [
    *(("bert", CONFIG, options) for options in ({"hidden_act": "relu"}, {"layer_norm_eps": 0.1})),
    ("roberta", CONFIG, {"pad_token_id": 0}),
    ("distilbert", CONFIG, {"activation": "relu"}),
    ("distilbert", CONFIG, {"num_attention_heads": 4, "hidden_size": 24, "num_hidden_layers": 3}),
    ("modernbert", CONFIG, {"hidden_activation": "relu"}),
    ("modernbert", CONFIG, {"norm_eps": 0.1}),
    ("modernbert", CONFIG, {"local_attention": 4}),
    ("modernbert", CONFIG, {"layer_types": None, "global_attn_every_n_layers": 2}),
    ("modernbert", CONFIG, {"layer_types": ["sliding_attention"] * 3}),
    ("modernbert", CONFIG, {"rope_parameters": ROPE}),
    ("modernbert", CONFIG, {"rope_parameters": None, "global_rope_theta": 50.0, "local_rope_theta": 20.0}),
    ("bert", TOKENIZER_CONFIG, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}),
    ("bert", TOKENIZER_CONFIG, {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}),
    ("bert", TOKENIZER_CONFIG, {"model_input_names": ["input_ids", "attention_mask"]}),
    ("roberta", TOKENIZER_CONFIG, {"add_prefix_space": True}),
    ("bert", SENTENCES, {"max_seq_length": 9}),
    ("bert", SENTENCES, {"max_seq_length": None}),
    ("bert", OTHER_SENTENCES, {"truncate_dim": 10}),
    ("bert", OTHER_SENTENCES, {"truncate_dim": 1000}),
    ("bert", OTHER_SENTENCES, {"prompts": {"x": "a dog: "}, "default_prompt_name": "x"}),
    ("bert", OTHER_SENTENCES, {"prompts": {"x": "", "query": "a dog "}, "default_prompt_name": "x"}),
    ("bert", POOLING, {"pooling_mode": "max"}),
    ("bert", POOLING, {"pooling_mode": "lasttoken"}),
    ("bert", DENSE, {"activation_function": "torch.nn.modules.linear.Identity"}),
    ("bert", DENSE, {"activation_function": "torch.nn.modules.activation.ReLU", "use_residual": True}),
]
OTHERS_USED = {  # in the named test file, or in one below
    TOKENIZER_CONFIG: {
        *("model_max_length", "max_len", "add_bos_token", "add_eos_token", "pad_token", "unk_token", "cls_token"),
        *("sep_token", "mask_token", "bos_token", "eos_token", "additional_special_tokens", "extra_special_tokens"),
        "added_tokens_decoder",
    },
    MODULES: {"type", "path"},
    POOLING: {"include_prompt", *(key for key in SETTINGS[POOLING] if key.startswith("pooling_mode_"))},
    DENSE: {"in_features", "out_features", "bias"},
    CONFIG: SHAPES | EXPORTED | IN_TRAINING,
}
REFUSED = {
    "is_decoder": True,
    "add_cross_attention": True,
    "position_embedding_type": "relative_key",
    "quantization_config": {"quant_method": "x"},
    "relative_attention_num_buckets": 16,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "split_special_tokens": True,
    "add_special_tokens": False,
    "truncation_side": "left",
    "do_lower_case": True,
    "transformer_task": "fill-mask",
    "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
    "module_output_name": "scores",
    "query_expansion": {"strategy": "fixed", "length": 5},
    "tokenizer_name_or_path": "elsewhere",
    "module_input_name": "token_embeddings",
    "model_type": "CrossEncoder",
}
NO_EFFECT = {
    "dtype": "float32",
    "torch_dtype": "float32",
    "architectures": ["BertForMaskedLM"],
    "tokenizer_class": "BertTokenizer",
    "chunk_size_feed_forward": 1,
    "problem_type": "regression",
    "num_labels": 3,
    "id2label": {"0": "a", "1": "b", "2": "c"},
    "label2id": {"a": 0, "b": 1, "c": 2},
    "auto_map": {"AutoModel": "x.Y"},
    "attn_implementation": "eager",
    "_attn_implementation": "eager",
    "initializer_range": 0.5,
    "classifier_dropout": 0.5,
    "padding_side": "left",
    "never_split": ["dog"],
    "use_fast": False,
    "pad_to_multiple_of": 8,
    "truncation_strategy": "only_second",
    "errors": "replace",
    "similarity_fn_name": "dot",
    "__version__": {"sentence_transformers": "2.0.0"},
    "requirements": {},
    "query_length": 3,
    "document_length": 3,
    "unpad_inputs": False,
    "embedding_dimension": 24,
    "idx": 3,
    "name": "x",
    "kwargs": ["task"],
    **dict.fromkeys(("processor_class", "special_tokens_map_file", "vocab_file", "merges_file", "cache_dir")),
    **dict.fromkeys(("return_dict", "torchscript", "finetuning_task", "task_specific_params", "prefix")),
    **dict.fromkeys(("sp_model_kwargs", "chat_template", "backend", "word_embedding_dimension")),
}
"""Setting -> another value than the default, where true does not do; null where there is only the one of no effect."""


@pytest.fixture(scope="module")
def save(transformers, tmp_path_factory):
    """Write a sentence-transformers directory of a name in :data:`TRAINED`, once."""
    pytest.importorskip("sentence_transformers")
    folders = {}

    def write(name):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

        if name not in folders:
            family, kind, changed = TRAINED[name]
            prefix, sizes = FAMILIES[family]
            tokenizer, raw = train_tokenizer(kind), tmp_path_factory.mktemp("raw")
            torch.manual_seed(0)
            sizes = {**sizes, "max_position_embeddings": 100, "pad_token_id": tokenizer.pad_token_id, **changed}
            config = getattr(transformers, f"{prefix}Config")(**{**sizes, "vocab_size": len(tokenizer)})
            model = getattr(transformers, f"{prefix}Model")(config)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            model.save_pretrained(raw)
            tokenizer.save_pretrained(raw)
            modules = [Transformer(str(raw), max_seq_length=14), Pooling(24, "mean"), Normalize(), Dense(24, 24)]
            folders[name] = tmp_path_factory.mktemp("saved")
            SentenceTransformer(modules=modules, device="cpu").save(str(folders[name]), create_model_card=False)
        return folders[name]

    return write


@pytest.fixture
def copy(save, tmp_path):
    """A copy of a directory with other values in its files."""

    def change(name="bert", **files):
        folder = shutil.copytree(save(name), tmp_path / "model")
        for file, options in files.items():
            change_json(folder / file, options)
        return folder

    return change


def change_json(path, options):
    values = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([{**values[0], **options}, *values[1:]] if path.name == MODULES else values | options))


def check_vectors(folder):
    """Texts alone, since with padding on the left, vectors of ``sentence-transformers`` depend on the batch."""
    from sentence_transformers import SentenceTransformer

    texts = [TEXTS[0], TEXTS[2], "", "a dog " * 20]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        vectors = SentenceEncoder(folder).transform(texts)
    reference = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(vectors, reference.encode(texts, batch_size=1), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file", "options"), USED)
def test_used(copy, name, file, options):
    check_vectors(copy(name, **{file: options}))


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["a dog: ", "it sleeps"])
def test_a_prompt_that_is_not_pooled(copy, prompt):
    others = {"prompts": {"x": prompt}, "default_prompt_name": "x"}
    for mode in ("mean", "cls", "max", "lasttoken"):
        folder = copy(**{OTHER_SENTENCES: others, POOLING: {"include_prompt": False, "pooling_mode": mode}})
        check_vectors(folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("file", SETTINGS)
def test_without_effect(copy, file):
    """All at once: the vectors are those of ``sentence-transformers``, and of a directory without these values."""
    keys = [key for key, use in SETTINGS[file].items() if use.effect == "none"]
    if keys:
        folder = copy(**{file: {key: NO_EFFECT.get(key, True) for key in keys}})
        vectors = SentenceEncoder(folder).transform(["a dog barks"])
        shutil.rmtree(folder)
        np.testing.assert_allclose(vectors, SentenceEncoder(copy()).transform(["a dog barks"]), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("file", [CONFIG, TOKENIZER_CONFIG, SENTENCES, OTHER_SENTENCES, POOLING, MODULES])
def test_without_effect_in_sentence_transformers(copy, file):
    keys = [key for key, use in SETTINGS[file].items() if use.effect == "none"]
    check_vectors(copy(**{file: {key: NO_EFFECT.get(key, True) for key in keys if NO_EFFECT.get(key, 1) is not None}}))


@pytest.mark.parametrize(
    ("file", "key"), [(file, key) for file, uses in SETTINGS.items() for key in uses if uses[key].effect == "refused"]
)
def test_refused(copy, file, key):
    folder = copy(**{file: {key: REFUSED.get(key, {"x": 1})}})
    with pytest.raises(ModelDirectoryError, match=key):
        SentenceEncoder(folder).fit()


@pytest.mark.parametrize("file", SETTINGS)
def test_each_used_setting_has_a_test(file):
    keys = {key for key, use in SETTINGS[file].items() if use.effect == "used"}
    tested = {key for _, name, options in USED if name == file for key in options} | OTHERS_USED.get(file, set())
    assert keys <= tested


@pytest.mark.parametrize("file", [SENTENCES, POOLING])
def test_unknown_settings_of_modules_are_refused_as_by_their_library(copy, file):
    from sentence_transformers import SentenceTransformer

    folder = copy(**{file: {"new": 1}})
    with pytest.raises(ModelDirectoryError, match="there is no setting 'new'"):
        SentenceEncoder(folder).fit()
    with pytest.raises(TypeError):
        SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("file", "options"),
    [
        *((TOKENIZER_CONFIG, {name: "zz"}) for name in ("mask_token", "unk_token", "pad_token", "bos_token")),
        *((TOKENIZER_CONFIG, {name: ["zz"]}) for name in ("additional_special_tokens", "extra_special_tokens")),
        (TOKENIZER_CONFIG, {"added_tokens_decoder": {"70": {"content": "zz", "special": False}}}),
        ("special_tokens_map.json", {"mask_token": {"content": "zz"}}),
        ("added_tokens.json", {"zz": 70}),
        ("adapter_config.json", {"peft_type": "LORA"}),
        (OTHER_SENTENCES, {"default_prompt_name": "x"}),
    ],
)
def test_files_that_contradict_each_other(copy, file, options):
    folder = copy(**{file: options})
    with pytest.raises(ModelDirectoryError):
        SentenceEncoder(folder).fit()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("distilbert", {"num_attention_heads": 2}),
        ("modernbert", {"head_dim": 4}),
        ("modernbert", {"sliding_window": 2}),
        ("modernbert", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ],
)
def test_sizes_that_contradict_each_other(copy, name, options):
    folder = copy(name, **{CONFIG: options})
    with pytest.raises(ModelDirectoryError):
        PretrainedEncoder.from_directory(folder)


@pytest.mark.parametrize("direction", ["Left", "Right"])
def test_limits_inside_of_the_tokenizer(copy, direction):
    """Only its direction counts; ``sentence-transformers`` sets the length itself."""
    limits = {"direction": direction, "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 4}
    padding |= {"pad_type_id": 1, "pad_token": "[MASK]"}
    folder = copy(**{"tokenizer.json": {"truncation": limits, "padding": padding}})
    if direction == "Right":
        check_vectors(folder)
    else:
        with pytest.raises(ModelDirectoryError, match="truncates texts on the left"):
            SentenceEncoder(folder).fit()
        change_json(folder / TOKENIZER_CONFIG, {"truncation_side": "right"})
        check_vectors(folder)


def test_a_prompt_in_words_and_attention(copy):
    encoder = SentenceEncoder(copy(**{OTHER_SENTENCES: {"prompts": {"x": "a dog "}, "default_prompt_name": "x"}}))
    np.testing.assert_allclose(encoder.transform([["it", "barks"]]), encoder.transform(["it barks"]), atol=1e-6)
    tokens = encoder.attention("it barks").tokens["text"]
    assert "".join(tokens).replace("[CLS]", "").startswith("adog")


def test_a_prompt_longer_than_texts_may_be(copy):
    folder = copy(**{OTHER_SENTENCES: {"prompts": {"x": "a dog " * 20}, "default_prompt_name": "x"}})
    with pytest.raises(ModelDirectoryError, match=r"no room beside 2 special ones and .* of its prompt"):
        SentenceEncoder(folder).fit()

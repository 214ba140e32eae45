"""Options of a tokenizer against ``transformers``: each is used, or rejected."""

import json

import pytest

from graphattn.builders import TextGraphBuilder
from graphattn.exceptions import ModelDirectoryError
from graphattn.models.pretrained import PretrainedEncoder

from .conftest import TEXTS


def change_options(folder, options):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {"do_lower_case": False}),
        ("bert, cased", {"do_lower_case": True}),
        ("bert", {"strip_accents": False}),
        ("bert, cased", {"strip_accents": True, "tokenizer_class": "BertTokenizerFast"}),
        ("bert", {"tokenize_chinese_chars": False}),
        ("mpnet", {"do_lower_case": False}),
        ("distilbert", {"do_lower_case": False}),
        ("roberta", {"add_prefix_space": True}),
        ("roberta with prefix spaces", {"add_prefix_space": False}),
        ("xlm-roberta", {"add_prefix_space": False}),
        ("camembert", {"add_prefix_space": False}),
        ("modernbert", {"add_prefix_space": True, "do_lower_case": True}),  # no options of this class
        ("modernbert", {"bos_token": "<s>", "add_bos_token": True, "eos_token": "</s>", "add_eos_token": True}),
        ("bert", {"model_input_names": ["input_ids", "attention_mask"]}),
        ("bert", {"tokenizer_class": "DistilBertTokenizer"}),
        ("bert", {"padding_side": "left", "truncation_side": "left", "model_max_length": 3}),
    ],
)
def test_ids_and_segments_equal_transformers(save_trained, transformers, name, options):
    folder = save_trained(name)
    change_options(folder, options)
    vocabulary = PretrainedEncoder.from_directory(folder).vocabulary
    builder, tokenizer = TextGraphBuilder([], vocabulary=vocabulary), transformers.AutoTokenizer.from_pretrained(folder)
    pairs = (TEXTS, TEXTS[::-1]) if "add_bos_token" not in options else (TEXTS,)
    features = builder.join([builder.layout(texts) for texts in pairs]).features
    expected = tokenizer(*pairs)
    assert features["id"].tolist() == [index for ids in expected["input_ids"] for index in ids]
    assert features["segment"].tolist() == [
        segment
        for ids, segments in zip(
            expected["input_ids"], expected.get("token_type_ids", [None] * len(TEXTS)), strict=True
        )
        for segment in segments or [0] * len(ids)
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {"split_special_tokens": True}),
        ("bert", {"cls_token": "[MASK]"}),
        ("roberta", {"sep_token": {"content": "<unk>", "lstrip": False}}),
        ("modernbert", {"add_bos_token": True, "bos_token": "<mask>"}),
    ],
)
def test_options_that_contradict_the_tokenizer(save_trained, name, options):
    folder = save_trained(name)
    change_options(folder, options)
    with pytest.raises(ModelDirectoryError, match=r"its tokenizer_config\.json"):
        PretrainedEncoder.from_directory(folder)

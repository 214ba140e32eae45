"""Exported directories in ``transformers`` and ``sentence-transformers``: the same as what they were read from."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from graphattn import TextClassifier, load
from graphattn.models import TrainingOptions
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder

from .conftest import EXPORTED, TEXTS

HOSTILE = [*TEXTS, "[PAD] <pad> </s>", "\uff21\uff22 ǆ ﬁ é e\u0301", "a\tb\n\u200bc", "🤗 ''..", "Don't  STOP "]


@pytest.fixture
def export(tmp_path):
    def write(folder, **options):
        PretrainedEncoder.from_directory(folder, **options).to_huggingface(tmp_path / "copy")
        return tmp_path / "copy"

    return write


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_ids_and_states_are_those_of_the_source(transformers, save_trained, export, name):
    folder = save_trained(name)
    folders = folder, export(folder)
    first, second = (transformers.AutoTokenizer.from_pretrained(folder) for folder in folders)
    assert second.special_tokens_map == first.special_tokens_map
    assert (second.padding_side, second.pad_token_id) == (first.padding_side, first.pad_token_id)
    models = [transformers.AutoModel.from_pretrained(folder, output_loading_info=True) for folder in folders]
    assert not any(models[1][1].values())
    for texts in ([HOSTILE], [HOSTILE, HOSTILE[::-1]]):
        inputs = [tokenizer(*texts, padding=True, return_tensors="pt") for tokenizer in (first, second)]
        assert torch.equal(inputs[1]["input_ids"], inputs[0]["input_ids"])
        with torch.no_grad():
            outputs = [model.eval()(**values) for (model, _), values in zip(models, inputs, strict=True)]
        for name, value in outputs[0].items():
            torch.testing.assert_close(outputs[1][name], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_special_tokens_of_a_source_with_nothing_but_a_tokenizer(transformers, save_trained, export, name):
    folder = save_trained(name)
    expected = transformers.AutoTokenizer.from_pretrained(folder)
    (folder / "tokenizer_config.json").unlink()
    written = transformers.AutoTokenizer.from_pretrained(export(folder))
    assert written.special_tokens_map == expected.special_tokens_map
    assert written(HOSTILE)["input_ids"] == expected(HOSTILE)["input_ids"]


def test_a_source_without_a_pooler_says_so(save_trained, export):
    path = save_trained("bert") / "model.safetensors"
    save_file({name: value for name, value in load_file(path).items() if "pooler" not in name}, path)
    assert "random" in (export(path.parent) / "README.md").read_text().partition("Pooler")[2].partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pooling"), [*((name, "mean") for name in EXPORTED), ("bert", "cls"), ("roberta", "max")]
)
def test_vectors_are_those_of_sentence_transformers(save_sentence_model, export, name, pooling):
    from sentence_transformers import SentenceTransformer

    folder = save_sentence_model(name, limit=20, pooling=pooling)
    first, second = (SentenceTransformer(str(path), device="cpu") for path in (folder, export(folder)))
    assert second.max_seq_length == first.max_seq_length == 20
    texts = [*TEXTS, "long text " * 30]
    np.testing.assert_allclose(second.encode(texts), first.encode(texts), atol=1e-5)


def test_the_layout_of_early_sentence_transformers(save_sentence_model, export):
    from sentence_transformers import SentenceTransformer

    root = save_sentence_model("roberta", pooling="cls")
    folder = root / "0_Transformer"
    folder.mkdir()
    for path in root.glob("*.*"):
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(folder / path.name.replace("sentence_bert", "sentence_roberta"))
    modules = json.loads((root / "modules.json").read_text())
    (root / "modules.json").write_text(json.dumps([{**modules[0], "path": folder.name}, *modules[1:]]))
    (folder / "sentence_roberta_config.json").write_text(json.dumps({"max_seq_length": 9}))
    first, second = (SentenceTransformer(str(path), device="cpu") for path in (root, export(folder)))
    assert second.max_seq_length == 9
    np.testing.assert_allclose(second.encode(TEXTS), first.encode(TEXTS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("option", [{}, {"max_seq_length": 20}])
def test_the_limit_of_a_model_that_reads_longer_texts(transformers, save_sentence_model, export, option):
    from sentence_transformers import SentenceTransformer

    path = save_sentence_model("roberta", limit=20) / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **option}))
    copy = export(path.parent, max_length=120)
    assert transformers.AutoTokenizer.from_pretrained(copy).model_max_length == 120
    assert SentenceTransformer(str(copy), device="cpu").max_seq_length == 120


def test_settings_of_other_modules_are_left_out(save_trained, export):
    folder = save_trained("bert")
    types = ("Transformer", "Pooling", "Dense")
    modules = [{"type": f"sentence_transformers.models.{name}", "path": ""} for name in types]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert not (export(folder) / "modules.json").exists()


def test_settings_survive_saving(save_sentence_model, tmp_path):
    folder = save_sentence_model("bert, cased", limit=20, pooling="cls")
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False)
    classifier = TextClassifier(pretrained=str(folder), training=training).fit(TEXTS, list("abababa"))
    classifier.save(tmp_path / "saved")
    classifier.to_huggingface(tmp_path / "first", encoder_only=True)
    load(tmp_path / "saved").to_huggingface(tmp_path / "second", encoder_only=True)
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*") if path.is_file())
    assert {"tokenizer_config.json", "modules.json", "1_Pooling/config.json"} <= set(map(str, files))
    for file in files:
        assert (tmp_path / "second" / file).read_bytes() == (tmp_path / "first" / file).read_bytes()
    vectors = SentenceEncoder(tmp_path / "first").transform(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_code_and_paths_of_the_source_are_left_out(save_trained, export):
    folder = save_trained("bert")
    path = folder / "tokenizer_config.json"
    outside = {"auto_map": {"AutoTokenizer": ["x.Y", None]}, "name_or_path": "elsewhere/model"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **outside}))
    assert not outside.keys() & json.loads((export(folder) / "tokenizer_config.json").read_text()).keys()

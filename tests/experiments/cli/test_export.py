"""``graphattn export``."""

from pathlib import Path

import pytest

from graphattn import TextClassifier
from graphattn.experiments.papers._smoke import write_model
from graphattn.models import HeadOptions, TrainingOptions

MODELS = Path(__file__).parents[2] / "data" / "models"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify"], "there is nothing to write; give --out FILE.onnx or --out DIR, or --check"),
        (["classify", "--huggingface", "out"], "not built on a pretrained one"),
        (["translate", "--onnx", "out.onnx"], "cannot be exported; use a classifier or tagger"),
        (["none", "--onnx", "out.onnx"], "none"),
    ],
)
def test_errors_are_one_line(graphattn, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    answer = graphattn("export", MODELS / arguments[0], *arguments[1:])
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_can_be_exported_is_said_before(graphattn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = graphattn("export", MODELS / "classify", "--check")
    assert answer.code == 0
    first, second = answer.out.splitlines()
    assert first == "ONNX: yes" or "--no-linear-branch" in first or "cannot be exported" in first
    assert second == "transformers: no; the model is not built on a pretrained one; train with --pretrained"
    answer = graphattn("export", MODELS / "classify", "--out", "out.onnx", "--out", "folder")
    assert answer.code == 1
    assert not list(tmp_path.iterdir())


def test_a_head_that_transformers_lacks(graphattn, tmp_path):
    folder, out = tmp_path / "bert", tmp_path / "out"
    write_model(folder, ["a", "b"])
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False)
    head = HeadOptions(linear_branch=False)
    classifier = TextClassifier(pretrained=str(folder), head=head, training=training)
    classifier.fit(["a b", "b a"] * 2, [0, 1] * 2).save(tmp_path / "model")
    answer = graphattn("export", tmp_path / "model", "--huggingface", out)
    assert (answer.code, answer.err) == (
        1,
        "error: transformers lacks parts of this model: a head on mean instead of cls. --encoder-only leaves out all "
        "but the tuned encoder and its tokenizer\n",
    )
    assert not out.exists()
    assert graphattn("export", tmp_path / "model", "--huggingface", out, "--encoder-only").code == 0
    assert (out / "model.safetensors").exists()

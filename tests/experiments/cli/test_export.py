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
        (["classify"], "there is nothing to write; give --onnx FILE or --huggingface DIR"),
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

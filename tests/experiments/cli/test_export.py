"""``graphattn export``."""

from pathlib import Path

import pytest

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

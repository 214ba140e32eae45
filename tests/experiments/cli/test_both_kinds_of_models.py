"""Commands that take a model of ours or a Hugging Face directory: each with both, and all of their options."""

import pytest

from graphattn import TextClassifier
from graphattn.experiments._cli.loaded_models import load_any_model
from graphattn.experiments._serving.requests import require_texts
from graphattn.experiments._serving.served_model import ServedModel
from graphattn.experiments.papers._smoke import write_model
from graphattn.models import TrainingOptions
from graphattn.models._estimators.inspectable import encode_input

WORDS = ["a", "film", "dog", "barks", "lovely"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory of each kind, by the name of the kind."""
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "theirs", WORDS)
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False)
    classifier = TextClassifier(pretrained=str(folder / "theirs"), training=training)
    classifier.fit(["a film", "a dog barks"] * 2, ["good", "bad"] * 2).save(folder / "ours")
    return folder


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a film\na dog barks\n")
    (tmp_path / "rows.csv").write_text("id,text\n1,a film\n2,a dog\n")


ENCODE = [
    *(["texts.txt"], ["a film"], ["texts.txt", "--chunk", "1"], ["texts.txt", "--max-tokens-per-text", "1"]),
    *(["texts.txt", "--precision", name] for name in ("32", "bf16", "int8", "auto")),
    ["texts.txt", "--device", "cpu"],
    ["rows.csv", "--text-column", "text", "--out", "vectors.parquet"],
    ["rows.csv", "--text-column", "text", "--label-column", "id", "--out", "vectors.parquet"],
]
INSPECT = [
    *(["a film"], ["texts.txt", "--layer", "0", "--head", "1", "--relation", "all", "--top", "1"]),
    *(["texts.txt", "--by", "layer"], ["texts.txt", "--out", "weights.csv"], ["a film", "--out", "weights.json"]),
    *(["a film", "--picture", "arcs.svg"], ["a film", "--picture", "arcs.svg", "--kind", "matrices"]),
    *(
        ["texts.txt", "--summary", "--out", "tables"],
        ["texts.txt", "--html", "page.html"],
        ["a film", "--device", "cpu"],
    ),
]


@pytest.mark.slow
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("kind", ["ours", "theirs"])
@pytest.mark.parametrize("words", ENCODE)
def test_encode(graphattn, models, kind, words):
    assert graphattn("encode", models / kind, *words).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("kind", ["ours", "theirs"])
@pytest.mark.parametrize("words", INSPECT)
def test_inspect(graphattn, models, kind, words):
    assert graphattn("inspect", models / kind, *words).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("output", [("--summary",), ("--html", "page.html")])
def test_inspect_both_kinds_together(graphattn, models, output):
    for kinds in (("ours", "theirs"), ("theirs", "ours")):
        answer = graphattn("inspect", models / kinds[0], "texts.txt", *output, "--other", models / kinds[1])
        assert answer.code == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["encode", "theirs", "texts.txt", "--parser", "stanza"], "--parser does not apply to"),
        (["inspect", "theirs", "a film", "--parser", "stanza"], "--parser does not apply to"),
        (["inspect", "theirs", "a film", "--words"], "has no prediction to explain"),
        (["inspect", "theirs", "a film", "--pretrained-length", "2"], "--pretrained-length 2 leaves no room beside 2"),
        (["inspect", "theirs", "a film", "--pretrained-heads", "x"], "--pretrained-heads: there is no relation 'x'"),
        (["inspect", "ours", "a film", "--pretrained-length", "9"], "--pretrained-length is for Hugging Face"),
        (["serve", "theirs", "--parser", "stanza"], "--parser does not apply to"),
        (["export", "theirs", "--huggingface", "out"], "a Hugging Face directory already; write an .onnx file"),
    ],
)
def test_options_of_one_kind(graphattn, models, words, message):
    command, kind, *rest = words
    answer = graphattn(command, models / kind, *rest)
    assert (answer.code, answer.err[:7], answer.err.count("\n")) == (1, "error: ", 1)
    assert message in answer.err


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_serving(models, kind):
    """What the server and the live page read of a model when they start, and what each request computes."""
    model = load_any_model(models / kind, {})
    assert encode_input(model, "a film").title
    require_texts(kind, model)
    served = ServedModel(kind, model)
    assert served.count_tokens(["a film"]) > 0
    assert len(served.encode([["a film"]])[0]) == 1

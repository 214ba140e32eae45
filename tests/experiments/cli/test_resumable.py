"""Several processes write the same bytes as one, and a killed command resumes."""

import json
import os
import shutil
import signal
from functools import wraps
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from graphattn import load
from graphattn.exceptions import DataError
from graphattn.experiments._cli import encode, predict, resumable
from graphattn.experiments._cli.loaded_models import ModelSettings, load_once
from graphattn.experiments._cli.prediction_table import PredictionTable
from graphattn.experiments._cli.resumable import (
    ModelJob,
    TextError,
    apply_to_texts,
    iter_chunks,
    keep_results,
    make_engine,
)
from graphattn.experiments._cli.text_stream import NumberedText


@pytest.fixture(scope="module")
def classifier():
    """A saved model."""
    return Path(__file__).parents[2] / "data" / "models" / "classify"


@pytest.fixture
def texts(tmp_path):
    """A file of ten texts, the third of which cannot be read."""
    path = tmp_path / "texts.txt"
    lines = [f"a {'good' if number % 3 else 'bad'} film of {number} scenes" for number in range(10)]
    path.write_bytes("\n".join(lines).replace("of 2 scenes", "\0").encode().replace(b"\0", b"\xff"))
    return path


@pytest.fixture
def computed(monkeypatch):
    """The first text numbers of the chunks that are computed in this process."""
    numbers = []

    def count(convert):
        @wraps(convert)
        def counting(estimator, chunk, **options):
            numbers.append(chunk[0].number)
            return convert(estimator, chunk, **options)

        return counting

    monkeypatch.setattr(predict, "predict_chunk", count(predict.predict_chunk))
    monkeypatch.setattr(encode, "encode_chunk", count(encode.encode_chunk))
    return numbers


@pytest.mark.parametrize(("command", "name"), [("predict", "out.jsonl"), ("predict", None), ("encode", "out.parquet")])
def test_several_processes_write_the_same_bytes(graphattn, classifier, texts, tmp_path, command, name):
    written = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        flags = ["--chunk", 2, "--max-tokens-per-text", 3, "--jobs", jobs]
        answer = graphattn(command, classifier, texts, *flags, *([] if name is None else ["--out", folder / name]))
        assert (answer.code, "line 3" in answer.err) == (1, True)
        assert answer.err.startswith("warning: 9 texts truncated to 3 tokens")
        assert [file.name for file in folder.iterdir()] == ([] if name is None else [name])
        written.append(answer.out if name is None else (folder / name).read_bytes())
    assert written[0] == written[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"), [("predict", "out.jsonl"), ("predict", "out.parquet"), ("encode", "out.npy")]
)
def test_a_killed_command_resumes(graphattn, run_in_fork, classifier, texts, tmp_path, computed, command, name):
    call = [command, classifier, texts, "--chunk", "2"]

    def kill_after_two_parts():
        load, left = resumable.load_once, [2]

        def killing(settings):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return load(settings)

        killing.cache_clear = load.cache_clear
        resumable.load_once = killing
        graphattn(*call, "--out", tmp_path / name)

    assert run_in_fork(kill_after_two_parts) == -signal.SIGKILL
    assert not (tmp_path / name).exists()
    assert len(list((tmp_path / f".{name}.parts").glob("*.part"))) == 2
    assert graphattn(*call, "--out", tmp_path / name).code == 1, "a text cannot be read"
    assert computed == [5, 7, 9]
    assert not (tmp_path / f".{name}.parts").exists()
    graphattn(*call, "--out", tmp_path / f"undisturbed-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"undisturbed-{name}").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["model", "option", "texts"])
def test_parts_of_another_run_are_not_used(graphattn, classifier, texts, tmp_path, computed, change):
    model, out, call = tmp_path / "model", tmp_path / "out.jsonl", ["--chunk", "2", "--out", tmp_path / "out.jsonl"]
    load(classifier).save(model)
    texts.write_text("a film\n" * 8)
    with keep_results(out) as results:
        results.compute(*make_run(model, texts))
        shutil.copytree(tmp_path / ".out.jsonl.parts", tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", tmp_path / ".out.jsonl.parts")
    assert computed == [1, 3, 5, 7]
    computed.clear()
    if change == "model":
        estimator = load(model)
        estimator.model_.head.perceptron[-1].bias.data += 1
        estimator.save(model)
    if change == "texts":
        texts.write_text("a film\n" * 6 + "a good film\n" * 2)
    assert graphattn("predict", model, texts, *call, *(["--probabilities"] * (change == "option"))).code == 0
    assert computed == ([7] if change == "texts" else [1, 3, 5, 7])
    assert graphattn("predict", model, texts, *call).code == 0
    labels = [json.loads(line)["label"] for line in out.read_text().splitlines()]
    assert labels == load(model).predict(texts.read_text().splitlines()).tolist()


@pytest.mark.parametrize("name", ["out.jsonl", "out.npy", None])
def test_a_model_that_is_replaced_meanwhile_is_an_error(graphattn, classifier, texts, tmp_path, monkeypatch, name):
    """No process may use another model than the one whose digest names the parts."""
    model, original = tmp_path / "model", make_engine
    load(classifier).save(model)

    def replace_model(*arguments, **options):
        estimator = load(model)
        estimator.model_.head.perceptron[-1].bias.data += 1
        estimator.save(model)
        load_once.cache_clear()  # as in a process that starts now
        return original(*arguments, **options)

    command, module = ("encode", encode) if name == "out.npy" else ("predict", predict)
    monkeypatch.setattr(module, "make_engine", replace_model)
    out = [] if name is None else ["--out", tmp_path / name]
    answer = graphattn(command, model, texts, "--chunk", "2", *out)
    expected = f"error: {model} was replaced while the command ran. Run it again to use the new model\n"
    assert (answer.code, answer.out, answer.err) == (1, "", expected)
    assert name is None or not (tmp_path / name).exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut off", "changed letter", "empty", "another part"])
def test_damaged_parts_are_made_again(graphattn, classifier, texts, tmp_path, computed, damage):
    texts.write_text("a film\n" * 8)
    folder, call = tmp_path / ".out.jsonl.parts", ["predict", classifier, texts, "--chunk", "2"]
    with keep_results(tmp_path / "out.jsonl") as results:
        results.compute(*make_run(classifier, texts))
        shutil.copytree(folder, tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", folder)
    for leftover in (folder / ".some.part.1.new", tmp_path / ".out.jsonl.1.new"):
        leftover.write_text("that a killed process was writing")
    first, second, *_ = sorted(folder.glob("*.part"))
    content = first.read_bytes()
    damaged = {
        "cut off": content[: content.rindex(b"{")],
        "changed letter": content.replace(b"label", b"lapel"),
        "empty": b"",
        "another part": second.read_bytes(),
    }
    first.write_bytes(damaged[damage])
    computed.clear()
    assert graphattn(*call, "--out", tmp_path / "out.jsonl").code == 0
    assert len(computed) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"texts.txt", "kept", "out.jsonl"}
    graphattn(*call, "--out", tmp_path / "undisturbed.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes()


def test_a_part_that_is_damaged_before_it_is_read_is_an_error(classifier, texts, tmp_path):
    texts.write_text("a film\n" * 3)
    with keep_results(tmp_path / "out.jsonl") as results:
        results.compute(*make_run(classifier, texts))
        next((tmp_path / ".out.jsonl.parts").glob("*.part")).write_bytes(b"")
        with pytest.raises(DataError, match="was damaged") as caught:
            list(results)
    assert Path(caught.value.path).suffix == ".part"


def make_run(model, texts):
    from graphattn.builders._jobs import LocalEngine

    lines = enumerate(texts.read_text().splitlines(), 1)
    row = {"text": "", "label": "x", "probabilities": {"x": 1.0}}
    table = PredictionTable.of(NumberedText(1, ""), row, ".jsonl", probabilities=False, label_separator=None)
    options = {"n_best": 1, "probabilities": False, "plain": False, "output": "json", "table": table}
    job = ModelJob(ModelSettings.of(model), predict.predict_chunk, options)
    return job, iter_chunks((NumberedText(*line) for line in lines), 2), LocalEngine(), "predicting"


def test_a_second_writer_is_rejected(graphattn, classifier, texts, tmp_path):
    with keep_results(tmp_path / "out.jsonl"):
        answer = graphattn("predict", classifier, texts, "--out", tmp_path / "out.jsonl")
    assert (answer.code, "is being written by another process" in answer.err) == (1, True)


def test_vectors_of_unreadable_texts_are_nan(graphattn, classifier, texts, tmp_path):
    answer = graphattn("encode", classifier, texts, "--out", tmp_path / "v.parquet")
    assert answer.err.startswith("error: 1 text could not be processed (line 3). The vectors are NaN there. The first ")
    table = pq.read_table(tmp_path / "v.parquet").to_pydict()
    vectors = np.array(table["vector"])
    assert np.isnan(vectors).all(1).tolist() == [text == "" for text in table["text"]]
    readable = [text for text in table["text"] if text]
    np.testing.assert_allclose(vectors[~np.isnan(vectors).any(1)], load(classifier).encode(readable), atol=1e-6)


def test_numbers_of_texts_do_not_depend_on_errors():
    seen = {}

    def convert(inputs, first):
        if "bad" in inputs:
            raise DataError("bad")
        seen.update(enumerate(inputs, first))
        return [text.upper() for text in inputs]

    error = DataError("unreadable")
    texts = [NumberedText(7, "a"), NumberedText(8, "bad"), NumberedText(9, "b"), NumberedText(10, None, error)]
    chunk = [text._replace(number=number) for number, text in enumerate([*texts, NumberedText(11, "c")], 4)]
    assert apply_to_texts(convert, chunk) == ["A", TextError(8, "bad"), "B", TextError(10, "unreadable"), "C"]
    assert seen == {4: "a", 6: "b", 8: "c"}


def test_truncated_texts_are_counted_once(graphattn, classifier, tmp_path):
    texts = ["a good film " * count for count in (1, 2, 30, 1, 40)]
    (tmp_path / "long.txt").write_text("\n".join(texts))
    command = ["predict", classifier, tmp_path / "long.txt", "--probabilities", "--chunk", 2]
    answer = graphattn(*command, "--max-tokens-per-text", 6)
    assert (answer.code, answer.err) == (0, "warning: 2 texts truncated to 6 tokens, which leaves out 198\n")
    (tmp_path / "long.txt").write_text("\n".join("a good film " * min(2, text.count("good")) for text in texts))
    short = graphattn(*command)
    keys = ("label", "probabilities")
    rows, expected = ([json.loads(line) for line in output.splitlines()] for output in (answer.out, short.out))
    assert [[row[key] for key in keys] for row in rows] == [[row[key] for key in keys] for row in expected]


def test_a_tagger_tags_every_word(graphattn):
    tagger = Path(__file__).parents[2] / "data" / "models" / "tag"
    answer = graphattn("predict", tagger, "--max-tokens-per-text", 6, stdin="Ada")
    assert answer.error == f"--max-tokens-per-text does not apply to {tagger}, which tags words"


def test_a_token_of_a_million_characters(graphattn, classifier):
    answer = graphattn("predict", classifier, stdin="a good film\n" + "x" * 1_000_000 + "\n")
    assert (answer.code, answer.err) == (0, "")
    assert [len(json.loads(line)["text"]) for line in answer.out.splitlines()] == [11, 1_000_000]

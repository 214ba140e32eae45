"""Files, folders, models and texts whose names or bytes are not UTF-8: every command reads and writes them."""

import json
import os

import pyarrow.parquet as pq
import pytest

ROWS = b"".join(b"pos\ta good film %d\nneg\ta bad film %d\n" % (number, number) for number in range(9))


@pytest.fixture(scope="module")
def folder(graphattn, tmp_path_factory):
    """A folder with a byte of Latin-1 in its name, a corpus, and a model, trained with a list of options in YAML."""
    path = os.fsencode(tmp_path_factory.mktemp("names")) + b"/d\xe9"
    try:
        os.mkdir(path)
    except OSError:
        pytest.skip("the file system has names in UTF-8 only")
    for name, content in {
        b"caf\xe9.tsv": ROWS,
        b"w\xe9.txt": b"good film\nbad film\n",
        b"o\xe9.yaml": b"hidden: 8\nheads: 2\nlayers: 1\nepochs: 1\n",
    }.items():
        with open(path + b"/" + name, "wb") as file:
            file.write(content)
    path = os.fsdecode(path)
    corpus = f"{path}/caf\udce9.tsv"
    answer = graphattn(
        "train",
        "classify",
        corpus,
        *("--dev", corpus, "--test", corpus, "--config", f"{path}/o\udce9.yaml", "--out", f"{path}/m\udce9"),
        *("--logger", "csv", "--no-linear-branch", "--quiet"),
    )
    assert answer.code == 0, answer
    return path


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_a_model(graphattn, folder):
    model, corpus = f"{folder}/m\udce9", f"{folder}/caf\udce9.tsv"
    assert r"`caf\xe9.tsv`" in read(f"{model}/README.md")
    for _ in range(2):
        assert graphattn("evaluate", model, corpus, "--card", "--out", f"{folder}/e\udce9.json").code == 0
    assert read(f"{model}/README.md").count("## Results on caf") == 1
    assert json.loads(read(f"{folder}/e\udce9.json"))
    assert "all checksums match" in graphattn("info", model, "--check").out
    path = f"{folder}/missing\udce9"
    assert graphattn("predict", path, "a").error.startswith(rf"{folder[:-1]}\xe9/missing\xe9 is no model directory")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("texts", ["file", "argument"])
def test_predictions(graphattn, folder, suffix, texts):
    out, name = f"{folder}/p\udce9-{texts}{suffix}", f"{folder}/w\udce9.txt" if texts == "file" else "caf\udce9 film"
    answer = graphattn("predict", f"{folder}/m\udce9", name, "--out", out)
    assert answer.code == 0, answer
    if suffix == ".parquet":
        with open(out, "rb") as file:
            found = pq.read_table(file).column("text").to_pylist()
        assert found == (["good film", "bad film"] if texts == "file" else [r"caf\xe9 film"])
    elif suffix == ".jsonl":
        found = [json.loads(line)["text"] for line in read(out).splitlines()]
        assert found == (["good film", "bad film"] if texts == "file" else ["caf\udce9 film"])
    else:
        assert r"caf\udce9 film" in read(out) or "good film" in read(out)


def test_vectors_and_pictures(graphattn, folder):
    model = f"{folder}/m\udce9"
    for words in [
        ("encode", model, f"{folder}/w\udce9.txt", "--out", f"{folder}/v\udce9.npy"),
        ("encode", model, "caf\udce9 film", "--out", f"{folder}/v\udce9.parquet"),
        ("inspect", model, "caf\udce9 film", "--out", f"{folder}/i\udce9.html"),
        ("inspect", model, "caf\udce9 film", "--out", f"{folder}/i\udce9.csv"),
    ]:
        answer = graphattn(*words)
        assert answer.code == 0, answer
        assert os.path.getsize(words[-1])


def test_a_store(graphattn, folder):
    store, corpus = f"{folder}/s\udce9", f"{folder}/caf\udce9.tsv"
    for _ in range(2):  # the manifest has the name of the corpus as it is, which is compared
        answer = graphattn("build", corpus, "--out", store)
        assert answer.code == 0, answer
    assert json.loads(read(f"{store}/store.json"))["corpora"] == ["caf\udce9.tsv"]
    assert "all checksums match" in graphattn("info", store, "--check").out
    assert graphattn("predict", f"{folder}/m\udce9", store).out.count("\n") == 18
    assert graphattn("show", store).code == 0


def test_a_folder_of_classes(graphattn, folder):
    for name in ("p\udce9", "neg"):
        os.makedirs(f"{folder}/classes/{name}")
        for number in range(2):
            with open(f"{folder}/classes/{name}/{number}\udce9.txt", "w", encoding="utf-8") as file:
                file.write("a film")
    assert graphattn("build", f"{folder}/classes", "--out", f"{folder}/c\udce9").code == 0
    assert r"p\xe9 2" in graphattn("info", f"{folder}/c\udce9").out


def test_tensorboard_writes_to_names_in_utf8(graphattn, folder):
    pytest.importorskip("tensorboard")
    words = ("--epochs", "1", "--out", f"{folder}/t\udce9", "--hidden", "8", "--heads", "2", "--layers", "1")
    answer = graphattn("train", "classify", f"{folder}/caf\udce9.tsv", *words, "--logger", "tensorboard", "--quiet")
    assert "tensorboard writes to no folder whose name is not UTF-8" in answer.error


def test_no_standard_output(folder, monkeypatch, graphattn):
    from graphattn.experiments._cli.output import has_output

    assert has_output()
    with open(os.devnull, "w", encoding="utf-8") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert not has_output()
    monkeypatch.setattr("sys.stdout", None)
    assert not has_output()

"""A folder of texts, with a folder for each class."""

import gzip
import json

import pytest

from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._sentence import Example
from graphattn.builders.readers import detect, read_corpus
from graphattn.builders.relations import Window
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import ConfigError, DataError, Hint


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


IMDB = {
    "pos/10_9.txt": "A fine film.",
    "pos/2_7.txt": "Lovely.\r\n\r\nSee it twice.\n",
    "neg/0_1.txt": "\ufeffDull.",
    "neg/.DS_Store": b"\0\1",
    ".ipynb_checkpoints/x.txt": "hidden",
    "labeledBow.feat": "9 0:1 5:2",
    "README": "not a text",
}
NEWSGROUPS = {
    "sci.space/59848": b"From: a@b\n\nOrbits.\n",
    "sci.space/59849.gz": gzip.compress(b"Rockets."),
    "alt.atheism/49960": "日本",
}


def test_each_file_is_a_text_of_the_class_of_its_folder(tmp_path):
    assert list(read_corpus(write(tmp_path / "imdb", IMDB), task="classify")) == [
        Example("Dull.", label="neg"),
        Example("A fine film.", label="pos"),
        Example("Lovely.\n\nSee it twice.", label="pos"),
    ]
    assert list(read_corpus(write(tmp_path / "news", NEWSGROUPS))) == [
        Example("日本", label="alt.atheism"),
        Example("From: a@b\n\nOrbits.", label="sci.space"),
        Example("Rockets.", label="sci.space"),
    ]


@pytest.mark.parametrize("name", ["unsup", "Unlabeled"])
def test_a_folder_without_labels_is_no_class(tmp_path, name):
    write(tmp_path, {**IMDB, f"{name}/1.txt": "x", f"{name}/2.txt": "y"})
    with pytest.warns(Hint, match=f"{name}: 2 texts without labels left out"):
        assert {example.label for example in read_corpus(tmp_path)} == {"neg", "pos"}


def test_train_and_test_are_no_classes(tmp_path):
    write(tmp_path, {f"{part}/{name}": content for part in ("train", "test") for name, content in IMDB.items()})
    with pytest.raises(DataError) as caught:
        read_corpus(tmp_path)
    assert caught.value.path == tmp_path
    assert str(tmp_path / "test") in caught.value.hint


@pytest.mark.parametrize("name", ["data/train.csv", "data/train.parquet", "a/x.jsonl.gz", "de/dev.conllu", "a/b.tsv"])
def test_a_table_is_no_text(tmp_path, name):
    with pytest.raises(DataError) as caught:
        read_corpus(write(tmp_path, {name: "text,label\na,b\n"}))
    assert caught.value.path == tmp_path / name


def test_a_folder_without_classes(tmp_path):
    write(tmp_path, {"b.txt": "second", "a.txt": "first", "config.json": "{}"})
    with pytest.raises(DataError) as caught:
        read_corpus(tmp_path, task="classify")
    assert "2 .txt files" in caught.value.message
    source = detect(tmp_path, "tag", "optional")
    assert (source.name, source.source) == ("folder", tmp_path)


@pytest.mark.parametrize(
    ("files", "hint"), [({}, "Name a file"), ({"model.safetensors": "x", "config.json": "x"}, "It is a model")]
)
def test_a_folder_without_texts(tmp_path, files, hint):
    with pytest.raises(DataError) as caught:
        read_corpus(write(tmp_path, files))
    assert hint in caught.value.hint


def test_errors_name_the_file_and_others_can_be_read(tmp_path):
    files = {"a/1": "caf\xe9".encode("latin-1"), "a/2": "good", "b/3": b"\0", "b/4": "", "b/5": "fine"}
    errors = []
    assert [example.text for example in read_corpus(write(tmp_path, files), skip=errors.append)] == ["good", "fine"]
    assert [error.path for error in errors] == [str(tmp_path / name) for name in ("a/1", "b/3", "b/4")]
    with pytest.raises(DataError) as caught:
        list(read_corpus(tmp_path))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "a/1"), 1)


@pytest.mark.parametrize("task", ["tag", "pair"])
def test_tasks_that_need_a_file(tmp_path, task):
    with pytest.raises(DataError):
        read_corpus(write(tmp_path, IMDB), task=task)


def test_options_of_files(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read_corpus(write(tmp_path, IMDB), label="stars")
    assert caught.value.options == ("format", "label")


def test_a_file_is_no_folder(tmp_path):
    with pytest.raises(DataError):
        read_corpus(write(tmp_path, {"a.txt": "x"}) / "a.txt", format="folder")


def test_a_store_of_a_folder(tmp_path):
    write(tmp_path / "texts", {**IMDB, "neg/bad": b"\xff"})
    settings = StoreSettings(TextGraphBuilder([Window(1)]), skip=True)
    build_store([CorpusFile(tmp_path / "texts")], tmp_path / "store", settings)
    assert [sentence.label for sentence in Store(tmp_path / "store")] == ["neg", "pos", "pos"]
    skipped = json.loads((tmp_path / "store" / "skipped.jsonl").read_text())
    assert (skipped["corpus"], skipped["place"]) == ("texts", "neg/bad")

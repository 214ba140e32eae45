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


@pytest.mark.parametrize(
    ("files", "arguments", "path", "message"),
    [
        (
            {"train/pos/1.txt": "a", "test/pos/1.txt": "b"},
            {},
            "",
            "are the classes, such as {folder}/test.",
        ),
        ({"b.txt": "second", "a.txt": "first", "config.json": "{}"}, {"task": "classify"}, "", "has 2 .txt files"),
        ({}, {}, "", "has no texts. Name a file"),
        ({"model.safetensors": "x", "config.json": "x"}, {}, "", "is a directory, not a file. It is a model"),
        (IMDB, {"task": "tag"}, "", "is a folder of texts, which does not serve task 'tag'"),
        (IMDB, {"task": "pair"}, "", "is a folder of texts, which does not serve task 'pair'"),
        *(
            ({name: "text,label\na,b\n"}, {}, name, "is a table, not a text")
            for name in ("data/train.csv", "data/train.parquet", "a/x.jsonl.gz", "de/dev.conllu", "a/b.tsv")
        ),
    ],
)
def test_folders_that_are_rejected(tmp_path, files, arguments, path, message):
    with pytest.raises(DataError) as caught:
        read_corpus(write(tmp_path, files), **arguments)
    assert caught.value.path == (tmp_path / path)
    assert message.format(folder=tmp_path) in str(caught.value)


def test_texts_without_classes_are_for_prediction(tmp_path):
    source = detect(write(tmp_path, {"b.txt": "second", "a.txt": "first"}), "tag", "optional")
    assert (source.name, source.source) == ("folder", tmp_path)


def test_errors_name_the_file_and_others_can_be_read(tmp_path):
    files = {"a/1": "caf\xe9".encode("latin-1"), "a/2": "good", "b/3": b"\0", "b/4": "", "b/5": "fine"}
    errors = []
    assert [example.text for example in read_corpus(write(tmp_path, files), skip=errors.append)] == ["good", "fine"]
    assert [error.path for error in errors] == [str(tmp_path / name) for name in ("a/1", "b/3", "b/4")]
    with pytest.raises(DataError) as caught:
        list(read_corpus(tmp_path))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "a/1"), 1)


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


def test_a_file_with_carriage_returns_is_one_text(tmp_path, recwarn):
    (tmp_path / "pos").mkdir()
    (tmp_path / "pos" / "1.txt").write_bytes(b"a\rb\rc\r")
    assert [example.text for example in read_corpus(tmp_path)] == ["a\rb\rc\r"]
    assert not recwarn

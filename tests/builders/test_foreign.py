"""Formats that are not read are named, with a way to convert them."""

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from graphattn.builders._foreign import reject_markup, reject_parallel_markup
from graphattn.builders._text_lines import open_text
from graphattn.builders._word_vectors import WordVectors
from graphattn.builders.readers import detect, read_corpus
from graphattn.exceptions import DataError


def written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def zipped(*names):
    def write(buffer):
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, "content " * 20)

    return written(write)


def tarred(buffer):
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("train.tsv"))


def streamed(buffer):
    table = pa.table({"text": ["a"]})
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)


def sqlite():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (text)")
    return connection.serialize()


TABLE = pa.table({"text": ["a"]})
LFS_POINTER = b"version https://git-lfs/spec/v1\noid sha256:0123\nsize 12345\n"
BINARY = {
    "Parquet": written(lambda buffer: pq.write_table(TABLE, buffer)),
    "Arrow": written(streamed),
    "Arrow ": written(lambda buffer: pyarrow.feather.write_feather(TABLE, buffer)),
    "Excel": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "Word": zipped("[Content_Types].xml", "word/document.xml"),
    "zip": zipped("train.tsv"),
    "tar": written(tarred),
    "gzip": gzip.compress(b"a"),
    "xz": lzma.compress(b"a"),
    "bzip2": bz2.compress(b"a"),
    "pickle": pickle.dumps({"text": ["a"]}),
    "zlib": zlib.compress(b"a"),
    "NumPy": written(lambda buffer: np.save(buffer, [1])),
    "SQLite": sqlite(),
    "PDF": b"%PDF-1.7\n",
    "RTF": rb"{\rtf1\ansi a}",
    "a picture": b"\x89PNG\r\n\x1a\n\0",
}
TEXT = {
    "HTML": "<!DOCTYPE html>\n<html>",
    "HTML ": "<!-- saved -->\n<HTML lang='en'>",
    "vertical": '<text id="1">\n<s>\nAda\tNNP\tAda\nran\tVBD\trun\n</s>\n',
    "XML": '<?xml version="1.0"?>\n<a/>\n',
    "XML ": '\n<sentences lang="en">\n  <sentence id="1">',
    "SGML": '<refset setid="a" srclang="any">\n<doc>\n',
    "brat": "T1\tORG 0 4\tSony\nT2\tLOC 8 12;15 20\tNew York\nR1\tin Arg1:T1 Arg2:T2\n",
    "brat ": "#1\tAnnotatorNotes T1\tx\nT1\tORG 0 4\tSony\n",
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nSo nice\n",
    "subtitles ": "WEBVTT - so\n\nNOTE so\n\n00:01.000 --> 00:02.000\nSo nice\n",
    "brackets": "( (S (NP-SBJ (NNP Ada))\n   (VP (VBD ran))))\n",
    "brackets ": "(ROOT\n  (S\n    (NP (DT A) (NN dog))\n    (VP (VBZ runs))))\n",
    "brackets  ": "(3 (2 (2 A) (2 film)) (4 fine))\n(1 (2 Dull) (1 .))\n",
    "ARFF": "% about\n@RELATION films\n@attribute text string\n",
    "SVMlight": "9 0:9 1:1 2:4\n1 0:2 3:1 9:1\n",
    "gettext": '# German\nmsgid ""\nmsgstr ""\n',
    "YAML": "---\n- text: a\n",
    "YAML ": 'version: "3.1"\n\nnlu:\n- intent: greet\n',
    "JSON object": '{\n "data": [1]\n}\n',
    "JSON array": '[\n ["a", "pos"],\n ["b", "neg"]\n]\n',
    "JSON array ": '["a \\"b\\"", "c"]',
    "JSON array  ": '[["Ada left", {"entities": [[0, 3, "PER"]]}]]',
}
LISTS = {
    '[["fine", "pos"], ["dull", "neg"]]\n': ".[] | {text: .[0], label: .[1]}",
    '["fine", "pos"]\n["dull", "neg"]\n': "{text: .[0], label: .[1]}",  # CLINC150, after jq '.KEY[]'
    '[["Ada left", {"entities": [[0, 3, "PER"]]}]]\n': ".[] | {text: .[0], entities: .[1].entities}",
}


@pytest.mark.parametrize("content", LISTS)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt"])
def test_lists_of_json_have_a_program_that_converts_them(tmp_path, content, name):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        detect(path, "tag" if "entities" in content else "classify")
    assert caught.value.hint == f"Write objects: jq -c '{LISTS[content]}' OLD > NEW.jsonl."


@pytest.mark.parametrize("name", BINARY)
def test_binary_files(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(BINARY[name])
    with pytest.raises(DataError) as caught:
        open_text(path)
    assert name.strip() in caught.value.message
    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    "suffix",
    ["", ".txt", ".tsv", ".csv", ".json", ".jsonl", ".conll", ".parquet", ".arrow", ".feather", ".gz", ".xz", ".bz2"],
)
def test_pointers_of_git_lfs(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(LFS_POINTER)
    for encoding in (None, "cp1252"):
        with pytest.raises(DataError, match=r"pointer of Git LFS.*git lfs pull") as caught:
            open_text(path, encoding)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("suffix", [".txt", ".gz", ".bin"])
def test_word_vectors_that_are_pointers_of_git_lfs(tmp_path, suffix):
    path = tmp_path / f"vectors{suffix}"
    path.write_bytes(LFS_POINTER)
    with pytest.raises(DataError, match="git lfs pull"):
        WordVectors.read(path)


def test_a_folder_of_pointers_of_git_lfs(tmp_path):
    for name in ("neg", "pos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_bytes(LFS_POINTER)
    with pytest.raises(DataError, match="git lfs pull"):
        list(read_corpus(tmp_path, task="classify"))


def test_a_compressed_archive(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(BINARY["tar"]))
    with pytest.raises(DataError, match="tar -xf"):
        open_text(tmp_path / "a.tar.gz")


@pytest.mark.parametrize("labels", ["required", "optional"])
@pytest.mark.parametrize("task", ["classify", "tag"])
@pytest.mark.parametrize("name", TEXT)
def test_markup(tmp_path, name, task, labels):
    path = tmp_path / "file.txt"
    path.write_text(TEXT[name])
    with pytest.raises(DataError) as caught:
        detect(path, task, labels)
    assert name.strip() in caught.value.message
    if labels == "optional":
        assert detect(path, task, labels, format="text").name == "text"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_page_in_place_of_a_table(tmp_path, name):
    (tmp_path / name).write_text(TEXT["HTML"])
    with pytest.raises(DataError, match="HTML"):
        read_corpus(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "<br /><br />A fine film.",
        "<b>Great</b> film",
        "<3 this",
        "(see below) a film",
        "(A) one\n(B) two\n",
        "( ( laughs ) )",
        "T1\tORG\tSony",
        "@relation is a word? no: @relations",
        "9 10:30\n8 11:45\n",
        "--- a line",
        "version: the best",
        "[ a ]",
        '["Yes"], he said.',
        '["Yes", "No"] [sic]',
        '["a" is a word]',
        "1\n00:00 --> midnight",
        "PARIS",
        "x = 1",
        "version https, not http",
        "BZh9 is a word",
        "{a}",
        "Q: what?",
    ],
)
def test_texts(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert detect(path, "classify", "optional").name == "text"


def test_lists_in_a_table_are_no_json(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('["a", "b"]\t["x"]\n' * 3)
    with open_text(path) as lines:
        reject_markup(lines.sample(9), str(path))
    with pytest.raises(DataError, match="JSON array"):
        reject_markup(['["Yes",', '"No"], and more'], "a.json")


@pytest.mark.parametrize("name", TEXT)
def test_markup_in_files_of_sources(name):
    """Of which lines of other formats may be texts, as in a corpus of code."""
    lines = TEXT[name].splitlines()
    if name.strip() in ("HTML", "subtitles", "SGML") or "<?xml" in lines[0]:
        with pytest.raises(DataError, match=name.strip()):
            reject_parallel_markup(lines, "a.en")
    else:
        reject_parallel_markup(lines, "a.en")


@pytest.mark.parametrize("tag", ["<unk>", "<en>", "<doc>"])
def test_a_source_can_be_a_tag(tag):
    reject_parallel_markup([tag, "a text"], "a.en")

"""Parquet, Arrow and JSON arrays are read as JSON Lines."""

import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._sentence import Example
from graphattn.builders._text_lines import open_text
from graphattn.builders.readers import read_corpus
from graphattn.builders.relations import Window
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import DataError

ROWS = [
    {"text": "gute Filme\nwirklich", "label": "pos", "stars": 5, "facts": {"a": [1.5, None]}},
    {"text": 'a "bad"\t\u2028one', "label": "neg", "stars": None, "facts": {"a": []}},
    {"text": "\ufeff\0 猫", "label": "nan", "stars": 1, "facts": None},
]


def write_array(path, **options):
    path.write_text(json.dumps(ROWS, **options), encoding="utf-8")


def write_arrow(path, rows=ROWS, make_writer=pa.ipc.new_file):
    table = pa.Table.from_pylist(rows)
    with make_writer(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_parquet(path, rows=ROWS, **options):
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, path, **options)


WRITERS = {
    "a.parquet": write_parquet,
    "groups.PARQUET": lambda path: write_parquet(path, row_group_size=1),
    "a.arrow": write_arrow,
    "stream.arrow": lambda path: write_arrow(path, make_writer=pa.ipc.new_stream),
    "a.FEATHER": lambda path: pa.feather.write_feather(pa.Table.from_pylist(ROWS), path),
    "line.json": write_array,
    "indented.json": lambda path: write_array(path, indent=2),
    "any.txt": lambda path: write_array(path, ensure_ascii=False),
}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    WRITERS[request.param](tmp_path / request.param)
    return tmp_path / request.param


def test_each_record_is_a_line_and_an_example(path, set_stdin):
    with open_text(path) as lines:
        assert list(map(json.loads, lines)) == ROWS
        assert lines.line == 3
    assert list(read_corpus(path, task="classify")) == [Example(row["text"], label=row["label"]) for row in ROWS]
    with pytest.raises(DataError) as caught:
        list(read_corpus(path, label="stars"))
    assert (caught.value.path, caught.value.line) == (str(path), 2)
    set_stdin(path.read_bytes())
    assert [example.label for example in read_corpus("-")] == ["pos", "neg", "nan"]


@pytest.mark.parametrize("name", ["a.parquet", "a.json"])
def test_sentences_go_into_a_store(tmp_path, name):
    rows = [{"tokens": ["Anna", "ran"], "tags": ["B-PER", "O"]}, {"tokens": ["猫"], "tags": ["O"]}]
    if name == "a.parquet":
        write_parquet(tmp_path / name, rows)
    else:
        (tmp_path / name).write_text(json.dumps(rows, indent=1))
    settings = StoreSettings(TextGraphBuilder([Window(1)]), block_bytes=1)
    build_store([CorpusFile(tmp_path / name)], tmp_path / "store", settings)
    assert [sentence.tags for sentence in Store(tmp_path / "store")] == [("B-PER", "O"), ("O",)]


def test_class_numbers_of_hugging_face_data_sets_are_names(tmp_path):
    """The metadata are those that the package ``datasets`` writes."""
    tags, numbers = {"_type": "ClassLabel", "names": ["O", "B-PER"]}, {"dtype": "int64", "_type": "Value"}
    features = {
        "label": {"_type": "ClassLabel", "names": ["neg", "pos"]},
        "tags": {"_type": "Sequence", "feature": tags},
        "more": [tags],
        "plain": numbers,
        "left_out": tags,
    }
    rows = [{"label": 1, "tags": [1, 0], "more": [0], "plain": 1}, {"label": -1, "tags": [], "more": None, "plain": 0}]
    table = pa.Table.from_pylist(rows).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with open_text(tmp_path / "a.parquet") as lines:
        assert list(map(json.loads, lines)) == [
            {"label": "pos", "tags": ["B-PER", "O"], "more": ["O"], "plain": 1},
            {"label": -1, "tags": [], "more": None, "plain": 0},
        ]


def test_values_that_json_does_not_have(tmp_path):
    """Some writers leave out that bytes are text."""
    write_parquet(tmp_path / "a.parquet", [{"text": "a", "label": True, "day": pa.scalar(0, pa.date32()).as_py()}])
    with open_text(tmp_path / "a.parquet") as lines:
        assert json.loads(next(lines)) == {"text": "a", "label": True, "day": "1970-01-01"}
    write_parquet(tmp_path / "a.parquet", [{"text": "süß".encode(), "label": b"1"}, {"text": b"\xff", "label": b"0"}])
    texts = read_corpus(tmp_path / "a.parquet")
    assert next(texts) == Example("süß", label="1")
    with pytest.raises(DataError) as caught:
        next(texts)
    assert (caught.value.line, caught.value.field) == (2, "text")


@pytest.mark.parametrize("end", [7, 60, -9])
@pytest.mark.parametrize(("name", "write"), [("a.parquet", write_parquet), ("a.arrow", write_arrow)])
def test_damaged_tables(tmp_path, name, write, end):
    path = tmp_path / name
    write(path)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(DataError) as caught:
        list(read_corpus(path))
    assert caught.value.path == str(path)
    assert "damaged" in caught.value.message


@pytest.mark.parametrize(
    ("content", "line"), [(b'[{"text": "a"},\n {"text": "b"]', 2), (b'[{"text": "a"}]\n[{"text": "b"}]\n', 2),
                          (b'[\n{"text":\n "caf\xe9"}]', 3), (b'[{"text":' + b"[" * 200_000, None)],
)  # fmt: skip
def test_broken_arrays(tmp_path, content, line):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_corpus(path))
    assert (caught.value.path, caught.value.line) == (str(path), line)


@pytest.mark.parametrize("text", ["[{x}] is no array", "[1, 2]", '["a"]', "[ [{"])
def test_other_brackets_begin_a_text(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with open_text(tmp_path / "a.txt") as lines:
        assert list(lines) == [text]


def test_a_row_group_is_read_when_it_is_needed(tmp_path):
    """A damaged end does not keep the rows before it from being read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"text {number}" * 50 for number in range(5000)]}), path, row_group_size=1000,
                   compression="none", use_dictionary=False)  # fmt: skip
    content = bytearray(path.read_bytes())
    offset = pq.read_metadata(path).row_group(3).column(0).data_page_offset
    content[offset : offset + 40] = bytes(40)
    path.write_bytes(content)
    texts = read_corpus(path, label=None)
    assert next(texts).text.startswith("text 0")
    with pytest.raises(DataError) as caught:
        list(texts)
    assert "damaged" in caught.value.message

"""Files with the table, the graph and the page are written atomically and can contain any token."""

import json

import networkx as nx
import pandas as pd
import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.models.inspection import files

HOSTILE = "<script>&amp;\x01\u2028 🙂"


@pytest.fixture(scope="module")
def attention(make_classifier):
    return make_classifier("window:3=1,star=1").attention(["dogs", HOSTILE, "bark"])


def test_tables(attention, tmp_path):
    table = attention.table()
    for suffix, read in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        path = attention.save(tmp_path / f"weights{suffix}")
        actual = read(path).astype({"scale": object})
        assert list(actual) == list(table)
        assert actual.source_token.tolist() == table.source_token.tolist()
        assert actual.weight.tolist() == pytest.approx(table.weight.tolist())


def test_json_equals_the_page(attention, tmp_path):
    assert json.loads(attention.save(tmp_path / "weights.json").read_text()) == attention.to_page()


def test_graphml_can_be_read_back(attention, tmp_path):
    actual = nx.read_graphml(attention.save(tmp_path / "weights.graphml"), force_multigraph=True)
    graph = attention.graph()
    assert actual.number_of_edges() == graph.number_of_edges()
    assert actual.nodes["text 2"]["text"] == "<script>&amp;\\x01\\u2028 🙂"
    weights = sorted(data["weight"] for *_, data in actual.edges(data=True))
    assert weights == pytest.approx(sorted(attention.table().weight))


def test_a_file_is_written_atomically(attention, tmp_path, monkeypatch):
    (tmp_path / "weights.csv").write_text("yesterday's")

    def full(table, beside, **_):
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(DataError) as caught:
        attention.save(tmp_path / "weights.csv")
    assert str(caught.value) == (
        f"{tmp_path / 'weights.csv'}: cannot be written (No space left on device). "
        "Check the folder and the space on the disk."
    )
    assert [path.read_text() for path in tmp_path.iterdir()] == ["yesterday's"]


@pytest.mark.parametrize("name", ["weights.xml", "weights"])
def test_other_extensions(name, attention, tmp_path):
    with pytest.raises(ConfigError) as caught:
        attention.save(tmp_path / name)
    assert str(caught.value) == (f"cannot save to {name!r}; the name must end in .parquet, .csv, .json or .graphml")


def test_tables_as_rows(tmp_path):
    table = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert json.loads(files.save_table(table, tmp_path / "t.json").read_text()) == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": None},
    ]

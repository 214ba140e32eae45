"""Files with the table, the graph and the page are written atomically and can contain any token."""

import json
import re
from xml.etree import ElementTree

import networkx as nx
import pandas as pd
import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.models.inspection._files import save_table

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


def read_json(path):
    return nx.node_link_graph(json.loads(path.read_text()), edges="edges")


@pytest.mark.parametrize(
    ("suffix", "read"),
    [("graphml", nx.read_graphml), ("gexf", nx.read_gexf), ("gml", nx.read_gml), ("json", read_json)],
)
def test_networkx_reads_every_format(suffix, read, attention, tmp_path):
    actual = read(attention.save(tmp_path / f"weights.{suffix}"))
    assert list(actual) == ["text_0", "text_1", "text_2", "text_3", "text_relay_0"]
    assert actual.nodes["text_2"]["text"] == (HOSTILE if suffix == "json" else "<script>&amp;\\x01\\u2028 🙂")
    columns = ["layer", "head", "relation", "weight"]
    rows = [tuple(data[name] for name in columns) for *_, data in actual.edges(data=True)]
    assert sorted(rows) == sorted(attention.table()[columns].itertuples(index=False, name=None))


def test_a_page(attention, tmp_path):
    page = attention.save(tmp_path / "weights.html").read_text()
    data = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    (model,) = data["models"]
    assert model["results"][0]["tokens"]["text"] == list(attention.tokens["text"])
    assert HOSTILE not in page
    with pytest.raises(DataError, match="cannot be written"):
        attention.save(tmp_path / "none" / "weights.html")


def read_by_igraph(path):
    return pytest.importorskip("igraph").read(path).ecount()


def read_json_by_igraph(path):
    data = json.loads(path.read_text())
    return pytest.importorskip("igraph").Graph.DictList(data["nodes"], data["edges"], vertex_name_attr="id").ecount()


def read_by_rustworkx(path):
    (graph,) = pytest.importorskip("rustworkx").read_graphml(str(path))
    return graph.num_edges()


def read_by_networkit(path):
    networkit = pytest.importorskip("networkit")
    graph, _ = networkit.readGraph(str(path), networkit.Format.GEXF)
    return graph.numberOfEdges()


def count_as_viewers_do(path):
    """Gephi drops an edge with the id of another edge; XML demands NMTOKENs."""
    root = ElementTree.parse(path).getroot()
    nodes, edges = ([element.get("id") for element in root.iter() if element.tag.endswith(f"}}{tag}")] for tag in TAGS)
    assert len(set(nodes)) == len(nodes)
    assert all(re.fullmatch(r"[\w.:-]+", name) for name in nodes + edges)
    return len(set(edges))


TAGS = ("node", "edge")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "count"),
    [
        ("graphml", count_as_viewers_do),
        ("graphml", read_by_igraph),
        ("graphml", read_by_rustworkx),
        ("gexf", count_as_viewers_do),
        ("gexf", read_by_networkit),
        ("gml", read_by_igraph),
        ("json", read_json_by_igraph),
    ],
)
@pytest.mark.filterwarnings("ignore:One or more unknown entities")  # igraph and &#38; in GML
def test_other_programs_read_all_edges(suffix, count, attention, tmp_path):
    assert count(attention.save(tmp_path / f"weights.{suffix}")) == attention.num_weights


def test_viewers_show_the_text_of_a_node(attention, tmp_path):
    root = ElementTree.parse(attention.save(tmp_path / "weights.gexf")).getroot()
    labels = [element.get("label") for element in root.iter() if element.tag.endswith("}node")]
    assert [labels[0], labels[1], labels[4]] == ["[CLS]", "dogs", "[relay 0]"]


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
    assert str(caught.value) == (
        f"cannot save to {name!r}; the name must end in .parquet, .csv, .graphml, .gexf, .gml, .json or .html"
    )


def test_words_with_line_ends_stay_in_a_row(tmp_path):
    table = pd.DataFrame({"word": ["a\rb", "a\r\nb", "a\nb", '"', "\u2028", ""], "weight": [0.5, 1, 2, 3, 4, 5]})
    read = pd.read_csv(save_table(table, tmp_path / "a.csv"), keep_default_na=False)
    assert read.to_dict("list") == table.to_dict("list")

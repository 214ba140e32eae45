"""Output of notebooks: escaped texts, graphs of both kinds, and an extension for DGL's graphs."""

from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from graphattn.builders import TextGraphBuilder, Window
from graphattn.models.inspection.notebook import attention_html, graph_html, load_ipython_extension

HOSTILE = "<script>alert('&')</script>"


class Read(HTMLParser):
    """Tags in order, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def attention(make_classifier):
    return make_classifier("window:3=1,all=1").attention(["dogs", HOSTILE, "bark"])


def test_a_prediction(attention):
    actual = Read(attention._repr_html_())
    assert set(actual.tags) == {"div", "p", "b", "span", "table", "tr", "th", "td"}
    assert actual.open == []
    assert actual.texts[0] == str(attention.prediction)
    assert HOSTILE in actual.texts
    strongest = attention.top(1).iloc[0]
    assert f"{strongest.weight:.3f}" in actual.texts
    assert actual.texts.count("window:3") + actual.texts.count("all") == 8


def test_a_label_is_escaped(attention):
    html = attention_html(replace(attention, prediction=HOSTILE, probabilities={HOSTILE: 1.0}))
    assert "<script>" not in html


def test_long_texts_are_truncated(make_classifier):
    html = make_classifier("window:3=1").attention(["dogs"] * 300)._repr_html_()
    assert "… 101 more" in html
    assert html.count("<span") == 200


def test_graphs():
    builder = TextGraphBuilder([Window(3)])
    graph = builder.text_batch([["time", HOSTILE]])
    actual = Read(graph_html(graph, ["[CLS]", "time", HOSTILE]))
    assert actual.texts[:2] == ["1 text", ": 3 token"]
    assert HOSTILE in actual.texts
    assert actual.texts[-4:] == ["window:3", "token", "token", "7"]
    batch = builder.text_batch([["a"], ["b", "c"]])
    assert Read(graph_html(batch)).texts[0] == "2 texts"


@pytest.mark.parametrize(("tokens", "direction"), [(["[CLS]", "הכלב", "רץ"], 1), (["the", "כלב", "ran"], 0)])
def test_tokens_run_in_the_direction_of_their_script(tokens, direction):
    graph = TextGraphBuilder([Window(1)], cls=False).text_batch([tokens])
    assert graph_html(graph, tokens).count('<p dir="rtl"><span') == direction


def test_the_extension_registers_graphs_by_name():
    known = {}
    formatter = SimpleNamespace(for_type_by_name=lambda module, name, show: known.update({(module, name): show}))
    display = SimpleNamespace(formatters={"text/html": formatter})
    load_ipython_extension(SimpleNamespace(display_formatter=display))
    graph = TextGraphBuilder([Window(3)]).text_batch([["time"]])
    assert known[type(graph).__module__, type(graph).__name__] is graph_html
    assert set(known) == {
        ("dgl.heterograph", "DGLGraph"),
        ("graphattn.builders._batch", "TextBatch"),
        ("torch_geometric.data.hetero_data", "HeteroData"),
    }

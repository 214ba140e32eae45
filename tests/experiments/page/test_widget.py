"""The view in a notebook: a real browser runs its module on a model that Python's widget synchronizes."""

import re
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from graphattn import Sentence
from graphattn.models.inspection import Attention, AttentionMap, BranchScores

anywidget = pytest.importorskip("anywidget")

WORDS = "the plot was not silly and nobody thought it was long".split()
# What a notebook does: it imports the module, and passes on what either side changes.
OPEN = """async ([esm, state]) => {
    const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
    const listeners = new Map();
    let changed = {};
    const change = (name, value) => {
        state[name] = value;
        for (const listener of listeners.get(name) ?? []) listener();
    };
    const model = {
        get: (name) => state[name],
        set: (name, value) => { changed[name] = value; change(name, value); },
        save_changes: () => { toPython(changed); changed = {}; },
        on: (event, listener) => {
            const name = event.slice("change:".length);
            listeners.set(name, [...(listeners.get(name) ?? []), listener]);
        },
        off: (event) => listeners.delete(event.slice("change:".length)),
    };
    window.fromPython = (changes) => Object.entries(changes).forEach(([name, value]) => change(name, value));
    window.countListeners = () => listeners.size;
    const { default: { render } } = await import(url);
    const el = document.createElement("div");
    window.end = render({ model, el });
    document.getElementById("cell").append(el); // afterwards, as JupyterLab does
}"""


def make_attention(tokens=WORDS, *, layers=2, radii=(1, 2, 10**6), seed=1, second=None, **options):
    """The weights of random scores in windows; with ``second``, the tokens of a pair whose edges cross."""
    random, maps = np.random.default_rng(seed), []
    texts = {"text": tokens} if second is None else {"first": tokens, "second": second}
    source_part, target_part = next(iter(texts)), list(texts)[-1]
    counts = len(texts[target_part]), len(texts[source_part])
    for layer in range(layers):
        for head, radius in enumerate(radii):
            distance = np.abs(np.subtract.outer(*map(np.arange, counts)))
            scores = np.where(distance <= radius, np.exp(random.normal(size=counts)), 0.0)
            targets, sources = scores.nonzero()
            weights = (scores / scores.sum(axis=1, keepdims=True))[targets, sources]
            relation = f"window:{2 * radius + 1}" if radius < 10**6 else "all"
            ends = (source_part, target_part, sources, targets)
            maps.append(AttentionMap(layer, head, relation, *ends, weights[:, None].astype(np.float32)))
    return Attention(
        title=" ".join(tokens),
        prediction="good",
        probabilities={"bad": 0.25, "good": 0.75},
        tokens={part: tuple(words) for part, words in texts.items()},
        sentences={part: Sentence(list(words), **options) for part, words in texts.items()},
        maps=tuple(maps),
    )


class Notebook:
    """A cell with a widget in a browser."""

    def __init__(self, tab, widget):
        self.tab, self.widget = tab, widget
        state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
        del state["layout"]
        tab.expose_function("toPython", widget.set_state)
        tab.evaluate(OPEN, [widget.get_state(["_esm"])["_esm"], state])
        tab.locator(".token").first.wait_for()

    def set(self, **choices):
        """Set attributes in Python, which the browser receives."""
        for name, value in choices.items():
            setattr(self.widget, name, value)
        names = [name for name in self.widget.keys if not name.startswith("_") and name not in ("layout", "data")]
        self.tab.evaluate("changes => fromPython(changes)", self.widget.get_state(names))
        self.wait()

    def wait(self):
        self.tab.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(done), 20))")

    def token(self, number, pane=0):
        return self.tab.locator(".pane").nth(pane).locator(f'.token[data-token="{number}"]')

    def field(self, name, pane=0):
        return self.tab.locator(".pane").nth(pane).locator(f"[name={name}]")


@pytest.fixture
def open_notebook(visit, tmp_path):
    """Show a widget in a notebook's cell: ``open_notebook(widget, style="...")``; the style is the notebook's."""

    def open_widget(widget, *, style="", **how):
        path = tmp_path / "notebook.html"
        path.write_text(f'<!doctype html><html lang="en"><title>n</title><main style="{style}"><div id="cell"></div>')
        return Notebook(visit(path.as_uri(), **how), widget)

    return open_widget


def rows_of(attention, condition, **values):
    return attention.table().query(condition, local_dict=values).reset_index(drop=True)


def assert_table(actual, expected):
    pd.testing.assert_frame_equal(actual.reset_index(drop=True), expected)


def test_what_is_chosen_in_the_browser_is_a_table_in_python(open_notebook):
    attention = make_attention()
    notebook = open_notebook(attention.widget())
    widget = notebook.widget
    assert notebook.tab.locator(".token").all_inner_texts() == WORDS
    assert_table(widget.selected, rows_of(attention, "layer == 1"))
    notebook.field("layer").select_option("0")
    notebook.field("head").select_option("1")
    assert_table(widget.selected, rows_of(attention, "layer == 0 and head == 1"))
    notebook.token(4).click()
    assert (widget.layer, widget.head, widget.relation, widget.token) == (0, 1, None, 4)
    assert_table(widget.selected, rows_of(attention, "layer == 0 and head == 1 and target == 4"))
    notebook.field("head").select_option("all")
    notebook.field("relation").select_option("window:5")
    assert (widget.head, widget.relation) == (None, "window:5")
    assert_table(widget.selected, rows_of(attention, "layer == 0 and relation == 'window:5' and target == 4"))


def test_edges_are_chosen_in_the_list_and_in_the_matrix(open_notebook):
    attention = make_attention()
    notebook = open_notebook(attention.widget())
    tab, widget = notebook.tab, notebook.widget
    notebook.set(layer=0, head=2, token=3)
    strongest = rows_of(attention, "layer == 0 and head == 2 and target == 3").nlargest(2, "weight").source.tolist()
    for row in (0, 1):
        tab.locator(".mark").nth(row).click()
    assert sorted(widget.edges) == sorted((source, 3) for source in strongest)
    assert [mark.get_attribute("aria-pressed") for mark in tab.locator(".mark").all()[:3]] == ["true", "true", "false"]
    chosen = "layer == 0 and head == 2 and target == 3 and source in @sources"
    assert_table(widget.selected, rows_of(attention, chosen, sources=strongest))
    tab.locator(".mark").first.click()
    assert widget.edges == [(strongest[1], 3)]
    tab.get_by_text("Matrix", exact=True).click()
    assert widget.view == "matrix"
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    assert widget.edges == [(strongest[1], 3), (1, 0)]
    box = tab.locator(".scroller").bounding_box()
    tab.locator(".scroller").click(position={"x": box["width"] - 4, "y": box["height"] - 4})
    assert widget.edges[-1] == (10, 10)
    tab.get_by_text("Arcs", exact=True).click()
    notebook.token(3).click()
    tab.keyboard.press("Escape")
    assert (widget.token, widget.edges) == (None, [])


def test_the_browser_follows_python(open_notebook):
    notebook = open_notebook(make_attention().widget())
    notebook.set(layer=0, head=1, token=5, edges=[(4, 5)])
    assert notebook.field("layer").input_value() == "0"
    assert notebook.field("head").input_value() == "1"
    assert notebook.tab.locator(".token.active").all_inner_texts() == ["and"]
    assert notebook.tab.locator(".mark[aria-pressed=true]").all_inner_texts() == ["silly"]
    notebook.set(view="matrix")
    assert notebook.tab.locator(".scroller").is_visible()
    notebook.set(layer=99, token=99)  # is replaced
    assert (notebook.widget.layer, notebook.widget.token) == (1, None)


def test_several_texts(open_notebook):
    first, second = make_attention(), make_attention(["a", "short", "text"], seed=2)
    notebook = open_notebook(first.widget(second))
    notebook.token(7).click()
    notebook.tab.get_by_role("button", name="Next text").click()
    assert (notebook.widget.text, notebook.widget.token) == (1, None)
    assert notebook.tab.locator(".token").all_inner_texts() == ["a", "short", "text"]
    assert_table(notebook.widget.selected, rows_of(second, "layer == 1"))
    notebook.token(2).click()
    notebook.set(text=0)
    assert notebook.widget.token is None
    assert notebook.tab.locator(".token").all_inner_texts() == WORDS


def test_two_models_side_by_side(open_notebook):
    ours, theirs = make_attention(), make_attention(radii=(2, 10**6), layers=3, seed=4)
    notebook = open_notebook(ours.compare(theirs), size=(800, 900))
    left, right = (notebook.tab.locator(".pane").nth(n).bounding_box() for n in (0, 1))
    assert left["x"] + left["width"] <= right["x"]
    notebook.field("head", pane=1).select_option("0")
    notebook.token(2, pane=1).click()
    widget = notebook.widget
    assert (widget.layer, widget.head, widget.token) == (1, None, None)
    assert (widget.other_layer, widget.other_head, widget.other_token) == (2, 0, 2)
    assert_table(widget.selected, rows_of(ours, "layer == 1"))
    assert_table(widget.other_selected, rows_of(theirs, "layer == 2 and head == 0 and target == 2"))
    assert notebook.tab.locator(".token.active").all_inner_texts() == ["was", "was"]


def test_two_heads_of_one_result(open_notebook):
    attention = make_attention()
    notebook = open_notebook(attention.compare())
    notebook.set(head=0, other_head=2, token=1, other_token=1)
    assert_table(notebook.widget.selected, rows_of(attention, "layer == 1 and head == 0 and target == 1"))
    assert_table(notebook.widget.other_selected, rows_of(attention, "layer == 1 and head == 2 and target == 1"))
    assert notebook.field("head", pane=1).input_value() == "2"


def test_tokens_of_a_pair_are_numbered_over_both_texts(open_notebook):
    pair = make_attention(["rain", "falls"], second=["it", "is", "wet"], radii=(10**6,))
    notebook = open_notebook(pair.widget())
    assert notebook.tab.locator(".part").all_inner_texts() == ["first", "second"]
    notebook.token(3).click()
    assert_table(notebook.widget.selected, rows_of(pair, "layer == 1 and target_part == 'second' and target == 1"))
    notebook.set(edges=[(1, 4)])
    row = notebook.widget.selected.iloc[0]
    assert (row.source_token, row.target_token) == ("falls", "wet")


@pytest.mark.parametrize(
    ("colour", "card"),
    [("#eee", "rgb(28, 31, 38)"), ("color(srgb 0.0666667 0.0941176 0.152941)", "rgb(255, 255, 255)")],
)
def test_colours_are_those_of_the_notebook(open_notebook, colour, card):
    notebook = open_notebook(make_attention().widget(), style=f"color: {colour}")
    assert notebook.tab.locator(".pane").evaluate("pane => getComputedStyle(pane).backgroundColor") == card


def test_accessibility(open_notebook, find_violations):
    notebook = open_notebook(make_attention().widget(make_attention(seed=3)))
    notebook.set(token=3, edges=[(2, 3)])
    notebook.tab.wait_for_timeout(150)  # colours change gradually
    assert find_violations(notebook.tab) == []


def test_a_long_text_scrolls_in_its_cell(open_notebook):
    tokens = [f"word{number}" for number in range(2000)]
    notebook = open_notebook(make_attention(tokens, layers=1, radii=(1,)).widget())
    stage = notebook.tab.locator(".arc-view")
    assert stage.evaluate("view => [view.clientHeight <= 640, view.scrollHeight > 8000]") == [True, True]
    assert notebook.tab.locator(".arc-view canvas").first.evaluate("canvas => canvas.offsetHeight") < 1500
    stage.evaluate("view => view.scrollTo(0, 5000)")
    notebook.wait()
    top = notebook.tab.locator("canvas.arcs").evaluate("canvas => canvas.offsetTop")
    assert 4500 < top < 5000
    page = notebook.tab.evaluate("scrollY")
    notebook.set(token=1900)
    assert notebook.tab.evaluate("scrollY") == page, "the notebook does not scroll"
    box, inside = (place.bounding_box() for place in (stage, notebook.token(1900)))
    assert box["y"] <= inside["y"] <= box["y"] + box["height"]


def test_a_closed_view_listens_no_more(open_notebook):
    notebook = open_notebook(make_attention().widget())
    assert notebook.tab.evaluate("countListeners()") > 0
    assert notebook.tab.evaluate("() => { end(); return countListeners(); }") == 0


def save(tab, ending, folder):
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name=f"Save as {ending.upper()}").click()
    assert waiting.value.suggested_filename == f"attention.{ending}"
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_pictures_are_saved_from_the_view(open_notebook, tmp_path):
    tree = {"heads": [2, 0, 4, 2], "deprels": ["nsubj", "root", "det", "obj"]}
    attention = make_attention(["dogs", "chase", "the", "cat"], radii=(10**6,), **tree)
    notebook = open_notebook(attention.widget())
    svg = ElementTree.parse(save(notebook.tab, "svg", tmp_path)).getroot()
    texts = [node.text for node in svg.findall(".//{*}text")]
    assert [text for text in texts if text in ("dogs", "chase", "the", "cat")] == ["dogs", "chase", "the", "cat"]
    assert "layer 1 · mean of all heads" in texts
    assert sorted(set(texts) & set(tree["deprels"])) == ["det", "nsubj", "obj"]
    notebook.tab.get_by_text("Matrix", exact=True).click()
    svg = ElementTree.parse(save(notebook.tab, "svg", tmp_path)).getroot()
    assert len(svg.findall(".//{*}image")) == 1
    assert [node.text for node in svg.findall(".//{*}text")][-4:] == ["dogs", "chase", "the", "cat"]


def test_a_saved_svg_is_xml_whatever_the_tokens_are(show, make_result, tmp_path):
    tab = show([make_result(["[CLS]", "a\x07", "\ufffe", "<b>&😀"])])
    svg = ElementTree.parse(save(tab, "svg", tmp_path)).getroot()
    assert [node.text for node in svg.findall(".//{*}text")][-4:] == ["[CLS]", "a\ufffd", "\ufffd", "<b>&😀"]


def test_a_saved_png_is_the_svg_in_dots(show, make_result, tmp_path):
    parses = {"text": {"heads": [-1, 2, -1], "deprels": ["", "nsubj", "root"]}}
    tab = show([make_result(["[CLS]", "dogs", "sleep"], parses=parses)], at="layer=1&head=2&token=2")
    svg = ElementTree.parse(save(tab, "svg", tmp_path)).getroot()
    assert "nsubj" in [node.text for node in svg.findall(".//{*}text")]
    png = save(tab, "png", tmp_path).read_bytes()
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == pytest.approx((2 * float(svg.get("width")), 2 * float(svg.get("height"))), abs=1)
    assert len(png) > 2_000


def test_a_saved_picture_says_what_each_branch_gives(show, make_result, tmp_path):
    result = make_result(["[CLS]", "dogs", "sleep"])
    branches = BranchScores("log-odds of good against bad", {"n-grams": (2.1,), "graph encoder": (0.1,)})
    result.page["branches"] = branches.to_json()
    svg = ElementTree.parse(save(show([result]), "svg", tmp_path)).getroot()
    texts = svg.findall(".//{*}text")
    assert " ".join(branches.lines()) in " ".join(node.text for node in texts)
    assert max(float(node.get("y")) for node in texts) < float(svg.get("height"))


@pytest.mark.slow
def test_a_selected_edge_is_in_the_address(show, make_result):
    tab = show([make_result()], at="layer=1&head=2&token=3&edges=5-3,2-3")
    assert tab.locator(".mark[aria-pressed=true]").count() == 2
    tab.locator(".mark[aria-pressed=true]").first.click()
    tab.wait_for_timeout(300)
    (edges,) = re.findall("edges=([^&]*)", unquote(tab.evaluate("location.hash")))
    assert edges in ("5-3", "2-3")
    assert tab.locator(".mark[aria-pressed=true]").count() == 1

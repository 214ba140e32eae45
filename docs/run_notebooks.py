"""Run the tutorials and store their outputs: ``python docs/run_notebooks.py [NAME.ipynb ...]``.

Prints the processor time of each. Outputs are those of a fresh kernel in an empty folder; what differs between two runs
of the same code on the same machine, such as times and versions, is not stored as metadata.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
SECONDS = 600
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"


def run_notebook(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in a folder, with the modules that this process imports; the first error ends it."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    paths = os.pathsep.join(filter(None, sys.path))
    client.execute(env={**os.environ, "PYTHONPATH": paths, "MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    return clean_notebook(notebook)


def clean_notebook(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove what differs between machines, and views that need a kernel."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    return notebook


def list_output_kinds(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """For each cell of code, the types of its outputs; without hints and warnings, which depend on the machine."""
    return [list(_list_kinds(cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]


def _list_kinds(outputs: list[nbformat.NotebookNode]) -> Iterator[str]:
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield "stdout"
        elif output.output_type == "error":
            yield "error"
        else:
            yield " ".join(sorted(output.data))


def count_seconds() -> float:
    """Processor seconds of all kernels that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(names: list[str]) -> None:
    """Run notebooks, all without names, and write them with their outputs."""
    for path in [TUTORIALS / name for name in names] or sorted(TUTORIALS.glob("*.ipynb")):
        before = count_seconds()
        with tempfile.TemporaryDirectory() as folder:
            notebook = run_notebook(path, Path(folder))
        nbformat.write(notebook, path)
        print(f"{path.name}: {count_seconds() - before:.1f} CPU s")


if __name__ == "__main__":
    main(sys.argv[1:])

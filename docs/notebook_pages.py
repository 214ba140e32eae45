"""A hook of mkdocs: a notebook below docs/ is a page of the site, with its stored outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SUFFIX = ".ipynb"


def format_notebook(notebook: nbformat.NotebookNode) -> str:
    """A notebook as Markdown: pictures are part of the page, tables stay HTML."""
    return "\n\n".join(part for cell in notebook.cells for part in _format_cell(cell))


def _format_cell(cell: nbformat.NotebookNode) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    return [_fence(cell.source, "python"), *map(_format_output, cell.outputs)]


def _format_output(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return _fence(output.text, "text")
    data: dict[str, Any] = output.data
    if "image/png" in data:
        return f"![output](data:image/png;base64,{data['image/png'].replace(chr(10), '')})"
    if "text/html" in data:
        return f'<div class="output">{data["text/html"]}</div>'
    return _fence(data["text/plain"], "text")


def _fence(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"


class NotebookFile(File):
    """A notebook as a page, to which other pages link by the name of the notebook."""

    def is_documentation_page(self) -> bool:
        """Return True: it is rendered, not copied."""
        return True

    @property
    def content_string(self) -> str:
        """The page in Markdown."""
        return format_notebook(nbformat.read(Path(self.src_dir, self.src_uri), as_version=4))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make pages of the notebooks."""
    for file in [file for file in files if file.src_uri.endswith(SUFFIX)]:
        files.remove(file)
        files.append(
            NotebookFile(file.src_uri, file.src_dir, file.dest_dir, file.use_directory_urls, inclusion=file.inclusion)
        )
    return files

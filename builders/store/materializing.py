"""The graphs of a store as files that plain DGL reads with ``dgl.load_graphs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphattn.builders.files import atomic_folder
from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.store.layouts import layout_of
from graphattn.builders.store.store import Store
from graphattn.dgl_graphs import save_graphs
from graphattn.exceptions import GraphError

if TYPE_CHECKING:
    from dgl import DGLGraph

GRAPHS = "graphs"
"""Folder of the graphs within a store."""
MOST_GRAPHS, MOST_EDGES = 4096, 20_000_000
"""Graphs and edges after which a file is closed, so that long texts fit into memory too."""


def materialize(store: Store, builder: TextGraphBuilder) -> list[Path]:
    """Write the complete graph of each sentence; the folder ``graphs`` appears when all are there.

    Parameters
    ----------
    store : where the sentences are
    builder : makes the graphs

    Returns
    -------
    The files, in the order of the sentences.

    Raises
    ------
    OSError
        when a file cannot be written
    """
    folder = store.folder / GRAPHS
    with atomic_folder(folder) as temporary:
        names = _write(store, builder, temporary)
    return [folder / name for name in names]


def _write(store: Store, builder: TextGraphBuilder, folder: Path) -> list[str]:
    names: list[str] = []
    graphs: list[DGLGraph] = []
    edges = 0
    for number in range(store.num_chunks):
        layout = layout_of(store.chunk(number), builder)
        for sentence in range(len(layout)):
            graphs.append(builder.graph(layout.take([sentence])))
            edges += graphs[-1].num_edges()
            if len(graphs) >= MOST_GRAPHS or edges >= MOST_EDGES:
                names.append(_save(graphs, folder, len(names)))
                graphs, edges = [], 0
    if graphs:
        names.append(_save(graphs, folder, len(names)))
    return names


def _save(graphs: list[DGLGraph], folder: Path, number: int) -> str:
    name = f"graphs-{number:05d}.dgl"
    try:
        save_graphs(graphs, str(folder / name))
    except GraphError as error:  # it names a folder that goes away
        raise OSError(f"DGL could not write {name}") from error
    return name

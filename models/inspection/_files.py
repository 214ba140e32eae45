"""Save attention weights and tables; files are written atomically."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import networkx as nx
import pandas as pd

from graphattn.builders._atomic import atomic_file, write_text
from graphattn.builders._paths import write_error
from graphattn.exceptions import ConfigError
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection.notebook import escape_unprintable
from graphattn.models.inspection.page import PageModel, write_page
from graphattn.models.inspection.page._page_values import to_page


def _write_node_link(graph: nx.MultiDiGraph, path: Path) -> None:
    write_text(path, json.dumps(nx.node_link_data(graph, edges="edges")) + "\n")


GRAPH_WRITERS: dict[str, Callable[[nx.MultiDiGraph, Path], object]] = {
    ".graphml": partial(nx.write_graphml, named_key_ids=True),
    ".gexf": nx.write_gexf,
    ".gml": nx.write_gml,
    ".json": _write_node_link,
}
TABLES = (".parquet", ".csv")
SUFFIXES = (*TABLES, *GRAPH_WRITERS, ".html")
"""Suffixes of files with the weights of one prediction."""


def save_attention(attention: AttentionWeights, path: Path) -> Path:
    """Write weights in the format of the suffix; see ``Attention.save``."""
    check_suffix(path, SUFFIXES)
    suffix = path.suffix.lower()
    if suffix == ".html":
        write_page(path, [PageModel("Attention", [to_page(attention, arrays=True)])], title=attention.title)
        return path
    if suffix in TABLES:
        return save_table(table_of_edges(attention), path)
    graph = attention.graph()
    if suffix != ".json":  # which escapes such characters itself
        _escape_for_xml(graph)
    return write_by_suffix(path, {suffix: partial(GRAPH_WRITERS[suffix], graph)})


def table_of_edges(attention: AttentionWeights) -> pd.DataFrame:
    """``attention.table()`` for a file, with the graph encoder's share of the prediction's score beside the weights."""
    table = attention.table()
    return table if attention.branches is None else table.assign(encoder_share=attention.branches.encoder_share)


def save_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as ``.parquet`` or ``.csv``."""
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda temporary: table.to_parquet(temporary, index=False),
        ".csv": partial(write_csv, table),
    }
    return write_by_suffix(path, writers)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table; all strings are in quotes if one has a carriage return, which would end a row without them."""
    texts = table.select_dtypes(exclude="number")
    returns = any(texts[name].astype(str).str.contains("\r", regex=False).any() for name in texts)
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    table.to_csv(path, index=False, quoting=quoting, lineterminator="\n")


def write_by_suffix(path: Path, writers: dict[str, Callable[[Path], object]]) -> Path:
    """Write a file atomically with the writer for its suffix."""
    check_suffix(path, list(writers))
    writer = writers[path.suffix.lower()]
    try:
        with atomic_file(path) as temporary:
            writer(temporary)
    except OSError as error:
        raise write_error(path, error) from error
    return path


def check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    """Raise a ConfigError unless the file name has one of the suffixes."""
    if path.suffix.lower() not in suffixes:
        endings = " or ".join(ending for ending in (", ".join(suffixes[:-1]), suffixes[-1]) if ending)
        raise ConfigError(f"cannot save to {path.name!r}; the name must end in {endings}")


def _escape_for_xml(graph: nx.MultiDiGraph) -> None:
    """Escape characters that XML cannot contain."""
    for _, attributes in graph.nodes(data=True):
        for name in ("text", "word", "label"):
            attributes[name] = escape_unprintable(attributes[name])

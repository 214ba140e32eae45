"""Attention weights in files, which appear when they are complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import pandas as pd

from graphattn.builders.files import atomic_file, write_error
from graphattn.exceptions import ConfigError

if TYPE_CHECKING:
    from graphattn.models.inspection.attention import Attention


SUFFIXES = (".parquet", ".csv", ".json", ".graphml")
"""Of files that hold the weights of one prediction."""


def save_attention(attention: Attention, path: Path) -> Path:
    """Write weights in the format that the suffix names; results and errors are those of ``Attention.save``."""
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda beside: attention.table().to_parquet(beside, index=False),
        ".csv": lambda beside: attention.table().to_csv(beside, index=False),
        ".json": lambda beside: beside.write_text(json.dumps(attention.to_page()) + "\n", encoding="utf-8"),
        ".graphml": lambda beside: nx.write_graphml(_for_xml(attention.graph()), beside, named_key_ids=True),
    }
    return write_beside(path, writers)


def save_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as ``.parquet``, ``.csv`` or ``.json`` (a list of rows); errors are those of ``Attention.save``."""
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda beside: table.to_parquet(beside, index=False),
        ".csv": lambda beside: table.to_csv(beside, index=False),
        ".json": lambda beside: table.to_json(beside, orient="records", indent=1),
    }
    return write_beside(path, writers)


def write_beside(path: Path, writers: dict[str, Callable[[Path], object]]) -> Path:
    """Let the writer for the path's suffix write beside the path, then rename.

    Raises
    ------
    ConfigError
        when there is no writer for the suffix
    DataError
        when the file cannot be written
    """
    check_suffix(path, list(writers))
    writer = writers[path.suffix.lower()]
    try:
        with atomic_file(path) as temporary:
            writer(temporary)
    except OSError as error:
        raise write_error(path, error) from error
    return path


def check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a name that ends in none of some suffixes.

    Raises
    ------
    ConfigError
        when it does
    """
    if path.suffix.lower() not in suffixes:
        endings = " or ".join(part for part in (", ".join(suffixes[:-1]), suffixes[-1]) if part)
        raise ConfigError(f"cannot save to {path.name!r}; the name must end in {endings}")


def _for_xml(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """The same graph with names and texts that XML can hold."""
    plain = nx.relabel_nodes(graph, {node: f"{node[0]} {node[1]}" for node in graph})
    for _, attributes in plain.nodes(data=True):
        attributes["text"] = "".join(map(_printable, attributes["text"]))
    return plain


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")

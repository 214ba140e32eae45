"""Save attention weights and tables; files are written atomically."""

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
"""Suffixes of files with the weights of one prediction."""


def save_attention(attention: Attention, path: Path) -> Path:
    """Write weights in the format of the suffix; see ``Attention.save``."""
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda temporary: attention.table().to_parquet(temporary, index=False),
        ".csv": lambda temporary: attention.table().to_csv(temporary, index=False),
        ".json": lambda temporary: temporary.write_text(json.dumps(attention.to_page()) + "\n", encoding="utf-8"),
        ".graphml": lambda temporary: nx.write_graphml(
            _escape_for_xml(attention.graph()), temporary, named_key_ids=True
        ),
    }
    return write_by_suffix(path, writers)


def save_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as ``.parquet``, ``.csv`` or ``.json`` (a list of rows)."""
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda temporary: table.to_parquet(temporary, index=False),
        ".csv": lambda temporary: table.to_csv(temporary, index=False),
        ".json": lambda temporary: table.to_json(temporary, orient="records", indent=1),
    }
    return write_by_suffix(path, writers)


def write_by_suffix(path: Path, writers: dict[str, Callable[[Path], object]]) -> Path:
    """Write a file atomically with the writer for its suffix.

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
    """Raise a ConfigError unless the file name has one of the suffixes."""
    if path.suffix.lower() not in suffixes:
        endings = " or ".join(part for part in (", ".join(suffixes[:-1]), suffixes[-1]) if part)
        raise ConfigError(f"cannot save to {path.name!r}; the name must end in {endings}")


def _escape_for_xml(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """The same graph without characters that XML cannot contain."""
    plain = nx.relabel_nodes(graph, {node: f"{node[0]} {node[1]}" for node in graph})
    for _, attributes in plain.nodes(data=True):
        for name in ("text", "word"):
            attributes[name] = "".join(map(_escape_unprintable, attributes[name]))
    return plain


def _escape_unprintable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")

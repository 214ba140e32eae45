"""Graphs of text in Graphviz' language: tokens in a row, edges in the colour of their relation."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from graphattn.schema import TOKEN

if TYPE_CHECKING:
    import networkx as nx

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Okabe and Ito's, as in the pictures."""


def dot_text(exported: nx.MultiDiGraph) -> str:
    """The text of a ``.dot`` file, which ``dot -Tsvg`` draws.

    Parameters
    ----------
    exported : what :func:`~graphattn.networkx_graphs.to_networkx` made

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> from graphattn.networkx_graphs import to_networkx
    >>> graph = TextGraphBuilder([Window(1)], cls=False).build(["so"])
    >>> print(dot_text(to_networkx(graph, tokens=["so"])), end="")
    digraph text {
      node [shape=plaintext];
      "token 0" [label="so"];
      { rank=same; "token 0"; }
      "token 0" -> "token 0" [color="#0072B2", tooltip="window:1"];
    }
    """
    names = {node: f"{data['type']} {data['index']}" for node, data in exported.nodes(data=True)}
    tokens = [names[node] for node, data in exported.nodes(data=True) if data["type"] == TOKEN]
    relations = sorted({data["relation"] for _, _, data in exported.edges(data=True)})
    colours = {relation: COLOURS[number % len(COLOURS)] for number, relation in enumerate(relations)}
    lines = ["digraph text {", "  node [shape=plaintext];"]
    for node, data in exported.nodes(data=True):
        lines.append(f"  {_quoted(names[node])} [label={_quoted(data.get('text', names[node]))}];")
    lines.append(f"  {{ rank=same; {' '.join(f'{_quoted(name)};' for name in tokens)} }}")
    for first, second in pairwise(tokens):
        lines.append(f"  {_quoted(first)} -> {_quoted(second)} [style=invis, weight=100];")
    for source, target, data in exported.edges(data=True):
        look = f'color="{colours[data["relation"]]}", tooltip={_quoted(data["relation"])}'
        lines.append(f"  {_quoted(names[source])} -> {_quoted(names[target])} [{look}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""What notebooks show of an :class:`Attention` and of graphs: HTML in which every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from graphattn.builders.batch import TextBatch
from graphattn.edges import Edges
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from dgl import DGLGraph

    from graphattn.models.inspection.attention import Attention

STRONGEST = 8
MOST_TOKENS = 200
_CELL = "padding:1px 6px;text-align:left"
_BOX = "display:inline-block;margin:1px;padding:1px 4px;border-radius:3px"


def attention_html(attention: Attention) -> str:
    """The prediction, each text with its tokens the darker the more they are looked at, and the strongest edges."""
    parts = [f"<p><b>{_said(attention.prediction)}</b>{_chances(attention)}</p>"]
    received = _received(attention)
    for text in attention.sentences:
        parts.append(f"<p>{_tokens(attention.tokens[text], received[text])}</p>")
    table = attention.top(STRONGEST).drop(columns="scale")
    if len(table):
        parts.append(_table(table))
    return "<div>" + "".join(parts) + "</div>"


def graph_html(graph: DGLGraph | TextBatch, tokens: Sequence[str] | None = None) -> str:
    """Nodes and edges of a graph by type, and its tokens when they are given.

    Parameters
    ----------
    graph : that a :class:`~graphattn.builders.TextGraphBuilder` built, or a model's batch
    tokens : what they say
    """
    kinds, relations = (
        (list(graph.node_counts), list(graph.edges))
        if isinstance(graph, TextBatch)
        else (graph.ntypes, graph.canonical_etypes)
    )
    texts = len(graph.batch_num_nodes(TOKEN)) if TOKEN in kinds else 1
    nodes = ", ".join(f"{graph.num_nodes(kind):,} {escape(kind)}" for kind in kinds)
    rows = [
        {"relation": kind[1], "from": kind[0], "to": kind[2], "edges": f"{Edges.of(graph, kind).num_edges:,}"}
        for kind in relations
    ]
    said = "" if tokens is None else f"<p>{_tokens(tokens, np.zeros(len(tokens)))}</p>"
    head = f"<p><b>{texts:,} text{'' if texts == 1 else 's'}</b>: {nodes}</p>"
    return f"<div>{head}{said}{_table(pd.DataFrame(rows, columns=['relation', 'from', 'to', 'edges']))}</div>"


def _said(prediction: Any) -> str:
    several = prediction if isinstance(prediction, (tuple, list)) else [prediction]
    return escape(", ".join(map(str, several)) or "no label")


def _chances(attention: Attention) -> str:
    if not isinstance(attention.probabilities, dict):
        return ""
    return " · " + escape(", ".join(f"{name} {chance:.3f}" for name, chance in attention.probabilities.items()))


def _received(attention: Attention) -> dict[str, Any]:
    """For each text what its tokens get from others, as a share of what the most looked-at one gets."""
    sums = {text: np.zeros(len(attention.tokens[text])) for text in attention.sentences}
    for one in attention.maps:
        if one.source_part in sums:
            others = (one.sources != one.targets) | (one.source_part != one.target_part)
            np.add.at(sums[one.source_part], one.sources[others], one.weights[others].sum(axis=1))
    return {text: own / (own.max(initial=0) or 1) for text, own in sums.items()}


def _tokens(tokens: Sequence[str], shares: Any) -> str:
    boxes = [
        f'<span style="{_BOX};background:rgba(0,114,178,{0.5 * share:.2f})">{escape(token)}</span>'
        for token, share in zip(tokens[:MOST_TOKENS], shares, strict=False)
    ]
    more = len(tokens) - MOST_TOKENS
    return " ".join(boxes) + (f" … {more:,} more" if more > 0 else "")


def _table(table: pd.DataFrame) -> str:
    head = "".join(f'<th style="{_CELL}">{escape(str(name))}</th>' for name in table)
    rows = [
        "".join(f'<td style="{_CELL}">{escape(_cell(value))}</td>' for value in row)
        for row in table.itertuples(index=False)
    ]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, (float, np.floating)) else str(value)


def load_ipython_extension(ipython: Any) -> None:
    """Let a notebook show graphs as :func:`graph_html`: ``%load_ext graphattn.models.inspection.notebook``."""
    formatter = ipython.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("dgl.heterograph", "DGLGraph", graph_html)
    formatter.for_type_by_name("graphattn.builders.batch", "TextBatch", graph_html)

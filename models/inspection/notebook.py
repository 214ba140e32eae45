"""What notebooks display of an :class:`Attention` and of graphs; in HTML, all text is escaped."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from graphattn._edges import Graph, as_batch
from graphattn._optional_packages import import_optional
from graphattn._schema import TOKEN
from graphattn.exceptions import GraphAttnError
from graphattn.models.inspection._attention_map import for_display
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection._branch_scores import BranchScores

if TYPE_CHECKING:
    from graphattn.models.inspection._widget import AttentionWidget, ComparisonWidget

STRONGEST = 8
MOST_TOKENS = 200
_CELL = "padding:1px 6px;text-align:left"
BOX = "display:inline-block;margin:1px;padding:1px 4px;border-radius:3px"


def attention_html(attention: AttentionWeights) -> str:
    """Prediction, what decides it, texts with tokens shaded by the attention they receive, and the strongest edges."""
    parts = []
    if attention.prediction is not None:
        parts.append(f"<p><b>{_format_prediction(attention.prediction)}</b>{_format_probabilities(attention)}</p>")
    parts.append(format_branches(attention.branches))
    received = _attention_received(attention)
    for text in attention.sentences:
        parts.append(_format_tokens(attention.tokens[text], received[text]))
    table = for_display(attention.top(STRONGEST))
    if len(table):
        parts.append(_format_table(table))
    return "<div>" + "".join(parts) + "</div>"


def attention_bundle(attention: AttentionWeights, **options: Any) -> Any:
    """The interactive view for IPython, which adds :func:`attention_html` for programs that cannot show it.

    None without anywidget, in a terminal, and for a text that is too large for a browser.
    """
    ipython = sys.modules.get("IPython")
    widget = _try_widget(attention) if ipython and hasattr(ipython.get_ipython(), "kernel") else None
    bundle = None if widget is None else widget._repr_mimebundle_(**options)
    if bundle is None:
        return None
    formats, metadata = bundle
    return {**formats, "text/plain": repr(attention)}, metadata


def display_in_marimo(attention: AttentionWeights) -> Any:
    """The interactive view for marimo, or :func:`attention_html`."""
    return _try_widget(attention) or sys.modules["marimo"].Html(attention_html(attention))


def make_widget(*attentions: AttentionWeights) -> AttentionWidget:
    """The interactive view of texts by one model, see :meth:`Attention.widget`."""
    import_optional("anywidget", "the interactive view needs", "notebook")
    from graphattn.models.inspection._widget import AttentionWidget

    return AttentionWidget(attentions)


def make_comparison(first: AttentionWeights, second: AttentionWeights) -> ComparisonWidget:
    """Two results side by side, see :meth:`Attention.compare`."""
    import_optional("anywidget", "the interactive view needs", "notebook")
    from graphattn.models.inspection._widget import ComparisonWidget

    return ComparisonWidget([first], [second])


def _try_widget(attention: AttentionWeights) -> AttentionWidget | None:
    with suppress(GraphAttnError):
        return make_widget(attention)
    return None


def graph_html(graph: Graph, tokens: Sequence[str] | None = None) -> str:
    """The number of nodes and edges of each type, and the tokens if given."""
    graph = as_batch(graph)
    node_types = list(graph.node_features)
    texts = len(graph.batch_num_nodes(TOKEN)) if TOKEN in node_types else 1
    nodes = ", ".join(f"{graph.num_nodes(node_type):,} {escape(node_type)}" for node_type in node_types)
    rows = [
        {"relation": name, "from": source, "to": target, "edges": f"{edges.num_edges:,}"}
        for (source, name, target), edges in graph.edges.items()
    ]
    token_row = "" if tokens is None else _format_tokens(tokens, np.zeros(len(tokens)))
    head = f"<p><b>{texts:,} text{'' if texts == 1 else 's'}</b>: {nodes}</p>"
    return (
        f"<div>{head}{token_row}{_format_table(pd.DataFrame(rows, columns=['relation', 'from', 'to', 'edges']))}</div>"
    )


def _format_prediction(prediction: Any) -> str:
    labels = prediction if isinstance(prediction, (tuple, list)) else [prediction]
    return escape(", ".join(map(str, labels)) or "no label")


def _format_probabilities(attention: AttentionWeights) -> str:
    if not isinstance(attention.probabilities, dict) or not attention.probabilities:
        return ""
    return " · " + escape(
        ", ".join(f"{name} {probability:.3f}" for name, probability in attention.probabilities.items())
    )


def format_branches(branches: BranchScores | None) -> str:
    """A paragraph on how much each branch gives; nothing without a linear branch."""
    return "" if branches is None else f"<p>{'<br>'.join(map(escape, branches.lines()))}</p>"


def _attention_received(attention: AttentionWeights) -> dict[str, Any]:
    """Text -> (N,) weight that each token receives from others, relative to the largest."""
    sums = {text: np.zeros(len(attention.tokens[text])) for text in attention.sentences}
    for attention_map in attention.maps:
        if attention_map.source_part in sums:
            others = (attention_map.sources != attention_map.targets) | (
                attention_map.source_part != attention_map.target_part
            )
            np.add.at(
                sums[attention_map.source_part],
                attention_map.sources[others],
                attention_map.weights[others].sum(axis=1),
            )
    return {text: received / (received.max(initial=0) or 1) for text, received in sums.items()}


def _format_tokens(tokens: Sequence[str], shares: Any) -> str:
    boxes = [
        f'<span style="{BOX};background:rgba(0,114,178,{0.5 * share:.2f})">{escape(token)}</span>'
        for token, share in zip(tokens[:MOST_TOKENS], shares, strict=False)
    ]
    more = len(tokens) - MOST_TOKENS
    return f"<p{format_direction(tokens)}>{' '.join(boxes)}{f' … {more:,} more' if more > 0 else ''}</p>"


def format_direction(words: Iterable[str]) -> str:
    """The attribute of an element whose text runs from right to left, or nothing."""
    return ' dir="rtl"' if is_right_to_left("".join(words)) else ""


def is_right_to_left(text: str) -> bool:
    """Whether most of its letters belong to scripts that run from right to left."""
    directions = [unicodedata.bidirectional(letter) for letter in text]
    return sum(direction in ("R", "AL") for direction in directions) > directions.count("L")


def _format_table(table: pd.DataFrame) -> str:
    head = "".join(f'<th style="{_CELL}">{escape(str(name))}</th>' for name in table)
    rows = [
        "".join(f'<td style="{_CELL}">{escape(_format_cell(value))}</td>' for value in row)
        for row in table.itertuples(index=False)
    ]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _format_cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, (float, np.floating)) else str(value)


def load_ipython_extension(ipython: Any) -> None:
    """Display graphs as :func:`graph_html` after ``%load_ext graphattn.models.inspection.notebook``."""
    formatter = ipython.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("dgl.heterograph", "DGLGraph", graph_html)
    formatter.for_type_by_name("graphattn.builders._batch", "TextBatch", graph_html)
    formatter.for_type_by_name("torch_geometric.data.hetero_data", "HeteroData", graph_html)


def printable(text: str, longest: int = 24) -> str:
    r"""The text on one line, with escapes for unprintable characters and without its middle if it is long.

    Examples
    --------
    >>> print(printable("a\nb"), printable(""), printable("x" * 30), sep="|")
    a\nb|''|xxxxxxxxxxxxxxxx…xxxxxxx
    """
    line = escape_unprintable(text)
    if not line.strip():
        line = line.replace(" ", "␣") or "''"
    return line if len(line) <= longest else f"{line[: longest - 8]}…{line[-7:]}"


def escape_unprintable(text: str) -> str:
    """The text with escapes for unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)

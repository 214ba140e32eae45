"""The page's view as a widget of notebooks, which synchronizes what is chosen with Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anywidget
import numpy as np
import pandas as pd
import traitlets

from graphattn.models.inspection._attention_map import AttentionMap
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection.page import PageModel
from graphattn.models.inspection.page._document import dump_data, render_module
from graphattn.models.inspection.page._page_values import to_page

_SIDES = ("", "other_")
"""Prefixes of the names of a view's choices."""


class AttentionWidget(anywidget.AnyWidget):
    """The view of some texts by one model; see :meth:`Attention.widget`."""

    _esm = render_module()
    data = traitlets.Unicode().tag(sync=True)
    text = traitlets.Int(0).tag(sync=True)
    view = traitlets.CaselessStrEnum(["arcs", "matrix"], "arcs").tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(None, allow_none=True).tag(sync=True)
    relation = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    token = traitlets.Int(None, allow_none=True).tag(sync=True)
    edges = traitlets.List(traitlets.Tuple(traitlets.Int(), traitlets.Int())).tag(sync=True)

    def __init__(self, *columns: Sequence[AttentionWeights]):
        self._columns = dict(zip(_SIDES, columns, strict=False))
        models = [PageModel("", (to_page(attention, arrays=True) for attention in column)) for column in columns]
        super().__init__(data=dump_data(models))
        for side, (first, *_) in self._columns.items():
            setattr(self, f"{side}layer", max(each.layer for each in first.maps))
        self.observe(self._clear_choices, "text")

    @traitlets.validate("text")
    def _check_text(self, proposal: Any) -> int:
        number, count = proposal["value"], len(self._columns[""])
        if not 0 <= number < count:
            raise traitlets.TraitError(f"text is {number}; this view has the texts 0 to {count - 1}")
        return number

    @property
    def selected(self) -> pd.DataFrame:
        """What is chosen, as rows of :meth:`Attention.table`."""
        return self._select("")

    def _clear_choices(self, change: Any) -> None:
        for side in self._columns:
            setattr(self, f"{side}token", None)
            setattr(self, f"{side}edges", [])

    def _select(self, side: str) -> pd.DataFrame:
        choices = ("layer", "head", "relation", "token", "edges")
        layer, head, relation, token, edges = (getattr(self, side + name) for name in choices)
        attention = self._columns[side][self.text].only(layer=layer, head=head, relation=relation)
        if token is None and not edges:
            return attention.table()
        counts = [len(tokens) for tokens in attention.tokens.values()]
        starts = dict(zip(attention.tokens, np.cumsum(counts) - counts, strict=True))

        def is_chosen(each: AttentionMap) -> Any:
            sources, targets = each.sources + starts[each.source_part], each.targets + starts[each.target_part]
            if not edges:
                return targets == token
            chosen = np.array(edges) @ (sum(counts), 1)
            return np.isin(sources * sum(counts) + targets, chosen)

        maps = tuple(each.of_edges(is_chosen(each)) for each in attention.maps)
        return replace(attention, maps=maps).table()


class ComparisonWidget(AttentionWidget):
    """The views of the same number of texts by two models, side by side; see :meth:`Attention.compare`."""

    other_layer = traitlets.Int(0).tag(sync=True)
    other_head = traitlets.Int(None, allow_none=True).tag(sync=True)
    other_relation = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    other_token = traitlets.Int(None, allow_none=True).tag(sync=True)
    other_edges = traitlets.List(traitlets.Tuple(traitlets.Int(), traitlets.Int())).tag(sync=True)

    @property
    def other_selected(self) -> pd.DataFrame:
        """What is chosen in the second view, as rows of :meth:`Attention.table`."""
        return self._select("other_")

"""Two models on the same texts: their summaries side by side."""

from __future__ import annotations

import pandas as pd

from graphattn.models.inspection.summary import AttentionSummary

_KEYS = ("layer", "head", "relation", "distance", "kind")


def compare_summaries(
    one: AttentionSummary, other: AttentionSummary, names: tuple[str, str] = ("one", "other")
) -> dict[str, pd.DataFrame]:
    """The tables of two models, row beside row where layer, head and relation are the same.

    Parameters
    ----------
    one, other : summaries of the same texts
    names : what to call the models in the columns

    Returns
    -------
    Name of a table -> it, each column of figures twice, ``mass_one`` and ``mass_other``; NaN where one model has no
    such head, distance or kind.
    """
    tables = {}
    for (name, left), right in zip(one.tables().items(), other.tables().values(), strict=True):
        keys = [key for key in _KEYS if key in left]
        suffixes = (f"_{names[0]}", f"_{names[1]}")
        tables[name] = left.merge(right, on=keys, how="outer", suffixes=suffixes).sort_values(keys, ignore_index=True)
    return tables

"""Columns beside texts: standardization, ids and one-hot entries against independent computations."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.preprocessing import StandardScaler

from graphattn.builders.readers._cells import parse_cell_columns
from graphattn.exceptions import Hint
from graphattn.models._features.text_columns import (
    FARTHEST,
    WIDEST,
    ColumnFeatures,
    Gaps,
    TextColumns,
    count_columns,
    list_entries,
)

KINDS = parse_cell_columns(["priority:category", "amount:number", "team:category"])
DRAW = np.random.default_rng(0)
CELLS = {
    "priority": [None if number % 5 == 0 else ("low", "high", "mid")[number % 3] for number in range(40)],
    "amount": [None if number % 7 == 0 else float(value) for number, value in enumerate(DRAW.gamma(2, 30, 40))],
    "team": [f"t{number % 20:02}" for number in range(40)],
}
COLUMNS = TextColumns.fit(KINDS, CELLS)


def one_hot(cells):
    """The design that pandas and scikit-learn make, with the mean in place of missing numbers."""
    known = {column.name: column for column in COLUMNS.columns}
    parts = []
    for name in ("priority", "amount", "team"):
        if name == "amount":
            trained = pd.Series(CELLS[name], dtype=float)
            scaler = StandardScaler().fit(trained.dropna().to_numpy()[:, None])
            filled = pd.Series(cells[name], dtype=float).fillna(trained.mean())
            parts.append(scaler.transform(filled.to_numpy()[:, None]).clip(-FARTHEST, FARTHEST))
            continue
        values = pd.Categorical(
            [cell if cell in known[name].values else None for cell in cells[name]], known[name].values
        )
        parts.append(
            pd.get_dummies(pd.Series(values), dummy_na=True)
            .astype(float)
            .to_numpy()[:, [-1, *range(len(values.categories))]]
        )
    return np.hstack(parts)


@pytest.mark.parametrize("cells", [CELLS, {"priority": ["new", "low"], "amount": [1e9, -3.0], "team": [None, "t03"]}])
def test_entries_are_one_hot_and_standardized(cells):
    encoded, sizes = torch.from_numpy(COLUMNS.encode(cells)), COLUMNS.sizes
    columns, values = list_entries(encoded, sizes)
    rows = torch.arange(len(encoded)).repeat_interleave(3)
    shape = (len(encoded), count_columns(sizes))
    design = csr_matrix((values.flatten().numpy(), (rows.numpy(), columns.flatten().numpy())), shape).toarray()
    np.testing.assert_allclose(design, one_hot(cells), atol=1e-6)


def test_each_column_of_the_design_has_the_mean_square_of_a_text():
    amounts = [cell for cell in CELLS["amount"] if cell is not None]
    _, values = list_entries(
        torch.from_numpy(TextColumns.fit(KINDS[1:2], {"amount": amounts}).encode({"amount": amounts})),
        torch.tensor([0]),
    )
    assert float((values**2).mean()) == pytest.approx(1, abs=1e-6)


def test_weights_are_copies():
    weights = DRAW.integers(0, 4, 40).astype(float)
    copies = {name: np.repeat(np.array(cells, object), weights.astype(int)).tolist() for name, cells in CELLS.items()}
    weighted, copied = TextColumns.fit(KINDS, CELLS, weights).columns[1], TextColumns.fit(KINDS, copies).columns[1]
    assert (weighted.mean, weighted.deviation) == pytest.approx((copied.mean, copied.deviation))


def test_features_of_a_head():
    """One-hot rows of few categories, random ones of many, and zeros for empty cells and new values."""
    features = ColumnFeatures(COLUMNS)
    assert features.width == 3 + 1 + WIDEST
    encoded = COLUMNS.encode({"priority": ["mid", None], "amount": [None, 50.0], "team": ["t07", "new"]})
    rows = features(torch.from_numpy(encoded))
    assert rows[:, :3].tolist() == [[0, 0, 1], [0, 0, 0]]  # high, low, mid
    assert rows[:, 3].tolist() == encoded[:, 1].tolist()
    assert rows[1, 4:].abs().max() == 0
    assert 0.3 < rows[0, 4:].detach().norm().item() < 3
    rows.sum().backward()
    assert all(table.weight.grad[0].abs().max() > 0 for table in features.tables)  # that of empty cells is trained


def test_one_hot_tables_of_many_categories():
    features = ColumnFeatures(TextColumns.fit(KINDS, CELLS, one_hot=True))
    assert features.tables[1].weight[1:].tolist() == torch.eye(20).tolist()


def test_saving():
    again = TextColumns.of_config(COLUMNS.to_config())
    assert again.columns == COLUMNS.columns
    assert (again.encode(CELLS) == COLUMNS.encode(CELLS)).all()


def test_values_in_words():
    row = COLUMNS.encode({"priority": ["high"], "amount": [50.0], "team": [None]})[0]
    assert COLUMNS.show(row.tolist()) == ["priority=high", "amount=50", "team unknown"]


def test_gaps_of_several_parts():
    gaps = Gaps()
    gaps.add(COLUMNS, {"priority": ["high", "new"], "amount": [None, None], "team": ["t01", None]})
    gaps.add(COLUMNS, {"priority": ["low"], "amount": [0.0], "team": ["t00"]})
    priority, amount, team = gaps.describe(COLUMNS).values()
    assert priority == "1 of 3 texts has a priority that the training set lacks, such as 'new'; it counts as none"
    assert amount.startswith("2 of 3 texts have no amount; the mean, ")
    assert team == "1 of 3 texts has no team, which is a category of its own"
    gaps = Gaps()
    gaps.add(COLUMNS, {"priority": ["low"], "amount": [0.0], "team": ["t00"]})
    assert not gaps.describe(COLUMNS)


def test_a_hint_at_empty_cells_does_not_hide_one_at_unknown_values():
    columns, full = TextColumns(COLUMNS.columns), {"amount": [0.0], "team": ["t00"]}
    for priority, words in ((None, "no priority"), ("new", "a priority that the training set lacks")):
        with pytest.warns(Hint, match=words):
            columns.hint_at_gaps({"priority": [priority], **full}, "")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            columns.hint_at_gaps({"priority": [priority], **full}, "")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"priority": ["low"] * 40}, "the same in all texts, 'low'"),
        ({"amount": [2.0] * 40}, "the same in all texts, 2.0"),
        ({"amount": [2.0, None] * 20}, "the same in all texts, 2.0"),
        ({"amount": [None] * 40}, "empty"),
        ({"team": [f"ticket {number}" for number in range(40)]}, "40 categories in 40 texts, like an id"),
    ],
)
def test_columns_that_tell_nothing(cells, words):
    columns = TextColumns.fit(KINDS, {**CELLS, **cells})
    (doubt,) = columns.list_doubts({**CELLS, **cells})
    assert words in doubt
    assert np.isfinite(columns.encode({**CELLS, **cells})).all()


def test_usual_columns_raise_no_doubt():
    assert not list(COLUMNS.list_doubts(CELLS))
    flag = {**CELLS, "priority": ["high", None] * 20}  # empty cells are a category
    assert not list(TextColumns.fit(KINDS, flag).list_doubts(flag))

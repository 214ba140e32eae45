"""Rows of figures: ratios, targets, cells."""

import pytest

from graphattn.experiments.benchmarks.clock import Job, Spread
from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, compare, figure, merged, timing_row
from graphattn.experiments.benchmarks.contenders import Contender
from graphattn.experiments.benchmarks.workloads import Workload, uniform

RAN = []


class Ours(Contender):
    name, title = "ours", "Ours"

    def job(self, problem, *, backward):
        return Job(lambda _: RAN.append((self.name, problem, backward)))


class Peer(Ours):
    name, title = "dense", "Dense"


class ForwardOnly(Ours):
    name, title, has_backward = "flex", "Flex", False


class Absent(Ours):
    name, title, package = "pyg", "PyG", "no_such_package"


def test_everybody_runs_on_everything_in_turns():
    RAN.clear()
    contenders = [Ours(), Peer(), ForwardOnly(), Absent()]
    workloads = [uniform(1, 2), uniform(1, 3)]
    settings = Settings(("1x2", "1x3"), repeats=2)
    rows, left_out = compare(
        contenders, workloads, {"forward": False, "both": True}, lambda workload: workload.tokens, settings
    )
    assert [(row["workload"], row["task"], row["contender"]) for row in rows] == [
        (name, task, who)
        for name in ("1x2", "1x3")
        for task, own in (("forward", ("ours", "dense", "flex")), ("both", ("ours", "dense")))
        for who in own
    ]
    assert all(len(row["times_ms"]) == 2 for row in rows)
    first = ["ours", "dense", "flex"] * 2 + ["dense", "flex", "ours"]
    assert RAN[:9] == [(name, 2, False) for name in first]
    assert left_out == [
        "PyG: no_such_package is not installed (pip install no_such_package)",
        "Flex: no backward pass on a CPU (1x2, both; 1x3, both)",
    ]


def test_a_row_has_ratio_and_verdict():
    ours, peer = Spread((10.0, 20.0, 40.0)), Spread((90.0, 90.0, 100.0))
    row = timing_row(uniform(128, 22), "forward", "dense", "Dense", peer, ours)
    assert (row["ratio"], row["target"]) == (4.5, ">= 5: short")
    assert row["ratio_quartiles"] == [3.5, 6.75]  # of 9, 4.5 and 2.5
    assert (row["length"], row["tokens"], row["median_ms"], row["quartiles_ms"]) == (22, 2816, 90, [90, 95])
    assert [cell(row) for cell in COLUMNS.values()] == [
        *("128x22", "forward", "Dense", "90", "90 - 95", "3", "4.50", "3.50 - 6.75", ">= 5: short"),
    ]


def test_our_own_row_has_none():
    spread = Spread((1.0,))
    row = timing_row(Workload("mr", ((3, 2),)), "forward", "ours", "Ours", spread, spread)
    assert row["length"] is None
    assert "ratio" not in row
    assert [cell(row) for cell in COLUMNS.values()][-3:] == ["", "", ""]


def test_nothing_promised_nothing_judged():
    spread = Spread((1.0,))
    row = timing_row(uniform(1, 2), "forward", "dense", "Dense", spread, spread)
    assert row["target"] is None
    assert COLUMNS["target"](row) == ""


@pytest.mark.parametrize(
    ("value", "shown"), [(0.00123, "0.00123"), (1.0, "1"), (99.94, "99.9"), (123.4, "123"), (1234567.8, "1,234,568")]
)
def test_figures_are_short(value, shown):
    assert figure(value) == shown


def test_like_reasons_are_told_once():
    lines = ["A, 1x2: too large", "B, 1x2: too large", "A, 1x3: too large", "A, 1x4: larger"]
    assert merged(lines) == ["A: too large (1x2; 1x3)", "B: too large (1x2)", "A: larger (1x4)"]


def test_settings_become_json():
    assert Settings(("22",), 3, ("dgl",), 60.0).as_row() == {
        "lengths": ("22",),
        "repeats": 3,
        "peers": ("dgl",),
        "seconds": 60.0,
    }


def test_titles_have_no_comma_for_lines_are_cut_there():
    from graphattn.experiments.benchmarks import attention, encoder, fresh_process

    kinds = [*attention.CONTENDERS, *encoder.CONTENDERS, *fresh_process.CONTENDERS[fresh_process.ATTENTION]]
    assert [kind.title for kind in kinds if "," in kind.title] == []

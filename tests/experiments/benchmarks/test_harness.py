"""The harness: interleaved rounds, ratios, contenders that cannot run, and rows with their cells."""

import time
from dataclasses import replace

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._contenders import Contender, Job, Settings, UnableError
from graphattn.experiments.benchmarks._harness import (
    COLUMNS,
    Case,
    Comparison,
    check_peers,
    compare,
    compare_times,
    describe_skipped,
    measure_times,
    select,
    summarize_times,
    time_interleaved,
    time_jobs,
)
from graphattn.experiments.benchmarks._report import BenchmarkReport
from graphattn.experiments.benchmarks._workloads import Workload, uniform

CALLS = []


class Working(Contender):
    problem = staticmethod(lambda workload: workload.tokens)

    def make_job(self, problem, *, backward):
        return Job(lambda _: CALLS.append((self.name, problem, backward)))


class Large(Working):
    def estimate_bytes(self, problem, *, backward):
        return problem * 2**30 * (2 if backward else 1)


class Absent(Working):
    packages = ("no_such_package",)


class Failing(Working):
    def make_job(self, problem, *, backward):
        raise UnableError("does not compile here (no room)")


OURS, LARGE, ABSENT = Working("ours", "Ours"), Large("large", "Large peer"), Absent("pyg", "PyG")
FORWARD_ONLY, FAILING = Working("flex", "Flex", has_backward=False), Failing("failing", "Failing peer")
KINDS = (OURS, LARGE, Large("large-tuned", "Large peer, another setting", is_trial=True), ABSENT, FORWARD_ONLY)
CASE = Case(uniform(1, 3), "forward", False)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only ``advance`` moves."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def test_rounds_rotate_after_one_untimed_run():
    calls = []
    timings = time_interleaved({name: Job(lambda _, name=name: calls.append(name)) for name in "abc"}, rounds=4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {name: len(times) for name, times in timings.items()} == {"a": 4, "b": 4, "c": 4}
    assert all(time >= 0 for times in timings.values() for time in times)


def test_every_run_gets_a_new_state():
    states, used = [], []

    def prepare():
        states.append(object())
        return states[-1]

    time_interleaved({"a": Job(used.append, prepare)}, rounds=3)
    assert used == states
    assert len(set(map(id, states))) == 4


def test_preparation_is_not_timed(clock):
    assert Job(lambda _: clock(0.25), lambda: clock(7)).time() == 250


@pytest.mark.parametrize(("seconds", "rounds"), [(11, 2), (0, 1), (float("inf"), 9)])
def test_no_round_starts_after_the_time_limit(clock, seconds, rounds):
    jobs = {"a": Job(lambda _: clock(2)), "b": Job(lambda _: clock(4))}
    timings = time_interleaved(jobs, 9, seconds=seconds)
    assert timings == {"a": [2000] * rounds, "b": [4000] * rounds}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ["ours", "large", "pyg", "flex"]),
        (["flex", "large"], ["ours", "large", "flex"]),
        (["large-tuned"], ["ours", "large-tuned"]),
        ([], ["ours"]),
    ],
)
def test_selected_peers(names, expected):
    assert [contender.name for contender in select(KINDS, names)] == expected


@pytest.mark.parametrize("name", ["ours", "xformers"])
def test_unknown_peers_are_errors(name):
    with pytest.raises(ConfigError) as error:
        check_peers(KINDS, ["large", name])
    assert str(error.value) == f"--peers has {name!r}; choose from: large, large-tuned, pyg, flex; or none"


@pytest.mark.parametrize(
    ("backward", "names", "lines"),
    [
        (False, ["ours", "large", "flex"], ["Failing peer: does not compile here (no room) (1x3, forward)"]),
        (
            True,
            ["ours"],
            [
                "Large peer: needs about 6.0 GiB; 5.0 GiB may be used (1x3, forward)",
                "Flex: no backward pass on a CPU (1x3, forward)",
                "Failing peer: does not compile here (no room) (1x3, forward)",
            ],
        ),
    ],
)
def test_contenders_that_cannot_solve_a_problem_are_reported(monkeypatch, backward, names, lines):
    monkeypatch.setattr("graphattn.experiments.benchmarks._contenders.available_bytes", lambda: 5 * 2**30)
    skipped, case = [], replace(CASE, backward=backward)
    contenders = [OURS, LARGE, FORWARD_ONLY, FAILING]
    assert list(measure_times(contenders, case, Settings((), repeats=1), skipped)) == names
    assert describe_skipped(skipped) == lines


def test_all_contenders_run_on_all_workloads_interleaved():
    CALLS.clear()
    report = BenchmarkReport("some", "", {}, {})
    settings = Settings(("1x2", "1x3"), repeats=2)
    add = {"add_columns": lambda contender, workload: {"more": f"{contender.name} {workload.name}"}}
    compare(report, settings, Comparison((OURS, ABSENT, FORWARD_ONLY), {"forward": False, "both": True}, **add))
    assert [(row["workload"], row["task"], row["contender"], len(row["times_ms"])) for row in report.rows] == [
        (name, task, contender, 2)
        for name in ("1x2", "1x3")
        for task, contenders in (("forward", ("ours", "flex")), ("both", ("ours",)))
        for contender in contenders
    ]
    assert CALLS[:6] == [(name, 2, False) for name in ("ours", "flex", "ours", "flex", "flex", "ours")]
    assert report.rows[1]["more"] == "flex 1x2"
    assert report.left_out == [
        "PyG: no_such_package is not installed",
        "Flex: no backward pass on a CPU (1x2, both; 1x3, both)",
    ]


def test_cells_of_a_peer():
    row = Case(uniform(128, 22), "forward", False).as_row("dense", "Dense")
    assert (row["length"], row["tokens"]) == (22, 2816)
    times = (90.0, 90.0, 100.0)
    row |= summarize_times(times) | compare_times(times, (10.0, 20.0, 40.0))
    assert [cell(row) for cell in COLUMNS.values()] == [
        *("128x22", "forward", "Dense", "90", "90 - 95", "3", "4.50", "3.50 - 6.75"),
    ]


def test_cells_of_ours_have_no_ratio():
    row = Case(Workload("mr", ((3, 2),)), "forward", False).as_row("ours", "Ours") | summarize_times((1.0,))
    assert row["length"] is None
    assert [cell(row) for cell in COLUMNS.values()][-2:] == ["", ""]


def test_ratios_are_to_the_base():
    rows = time_jobs({"a": Job(lambda _: None), "b": Job(lambda _: None)}, Settings((), repeats=2), base="b")
    assert rows["a"]["ratio"] == rows["a"]["median_ms"] / rows["b"]["median_ms"]
    assert "ratio" not in rows["b"]

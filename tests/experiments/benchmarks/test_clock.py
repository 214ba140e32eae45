"""Turns, medians and quartiles; how long things take is no test's business."""

import pytest

from graphattn.experiments.benchmarks import clock
from graphattn.experiments.benchmarks.clock import Job, Spread, interleaved, quartiles, ratio, ratio_quartiles, timed


def test_jobs_take_turns_after_a_run_that_does_not_count():
    seen = []
    spreads = interleaved({name: Job(lambda _, name=name: seen.append(name)) for name in "abc"}, rounds=4)
    assert "".join(seen) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {name: len(spread.times) for name, spread in spreads.items()} == {"a": 4, "b": 4, "c": 4}
    assert all(time >= 0 for spread in spreads.values() for time in spread.times)


def test_every_run_gets_something_new(monkeypatch):
    made, used = [], []

    def make():
        made.append(object())
        return made[-1]

    interleaved({"a": Job(used.append, make)}, rounds=3)
    assert used == made
    assert len(set(map(id, made))) == 4


def test_what_is_made_anew_is_not_timed(monkeypatch):
    now = [0.0]

    def advance(seconds):
        now[0] += seconds

    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    assert timed(Job(lambda _: advance(0.25), lambda: advance(7))) == 250


def test_rounds_end_when_the_time_is_up(monkeypatch):
    now = [0.0]

    def advance(seconds):
        now[0] += seconds

    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    jobs = {"a": Job(lambda _: advance(2)), "b": Job(lambda _: advance(4))}
    assert interleaved(jobs, 9, seconds=11)["a"].times == (2000, 2000)
    assert interleaved(jobs, 9, seconds=0)["b"].times == (4000,)
    assert interleaved(jobs, 9)["b"].times == (4000,) * 9


def test_medians_and_quartiles():
    assert Spread((4.0, 1.0, 3.0, 2.0)).median == 2.5
    assert Spread((5.0, 1.0, 9.0)).median == 5
    assert quartiles([1, 2, 3, 4]) == (1.75, 3.25)
    assert quartiles([7]) == (7, 7)
    assert Spread((4.0, 1.0, 3.0, 2.0)).quartiles == (1.75, 3.25)


def test_ratios_are_of_medians_and_within_rounds():
    ours, other = Spread((1.0, 2.0, 4.0)), Spread((6.0, 6.0, 6.0))
    assert ratio(other, ours) == 3
    assert ratio_quartiles(other, ours) == pytest.approx((2.25, 4.5))  # of 6, 3 and 1.5

"""Processes do every task once, take tasks as they need them, and tell when one of them dies."""

import os
import signal

import pytest

from graphattn.builders.store.engines import LocalEngine
from graphattn.exceptions import BuildError, DataError


def square(number):
    return number * number


def refuse(number):
    if number == 5:
        raise DataError("no fives", path="a.txt", line=number)
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def process_id(_):
    return os.getpid()


@pytest.fixture(scope="module")
def engine():
    engine = LocalEngine(2)
    yield engine
    engine.close()


def test_every_task_is_done_once(engine):
    assert sorted(engine.run(square, range(40))) == [n * n for n in range(40)]
    assert list(engine.run(square, [])) == []


def test_tasks_are_taken_as_they_are_needed(engine):
    taken = []
    results = engine.run(square, (taken.append(n) or n for n in range(100)))
    next(results)
    assert len(taken) <= 6
    results.close()


def test_a_single_task_is_done_here(engine):
    assert list(engine.run(process_id, [0])) == [os.getpid()]
    assert os.getpid() not in set(engine.run(process_id, range(9)))
    assert set(LocalEngine(1).run(process_id, range(3))) == {os.getpid()}


def test_errors_come_back_whole(engine):
    with pytest.raises(DataError) as caught:
        list(engine.run(refuse, range(9)))
    assert (str(caught.value), caught.value.line) == ("a.txt, line 5: no fives", 5)


def test_a_dead_worker_is_told():
    engine = LocalEngine(2)
    with pytest.raises(BuildError) as caught:
        list(engine.run(die, range(4)))
    assert str(caught.value) == (
        "a worker process was killed, perhaps for want of memory. What is done is kept: run the same command again to "
        "go on, with fewer --jobs if memory is short"
    )
    engine.close()

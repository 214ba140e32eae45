"""Processes do every task once, take tasks as they need them, and tell when one of them dies."""

import os
import sys
from importlib import import_module

import pytest

from graphattn.builders.store.executors import LocalEngine
from graphattn.exceptions import BuildError, DataError

TASKS = """
import os, signal
from graphattn.exceptions import DataError

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
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A module that worker processes can import too; they take the path of their parent."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "engine_tasks.py").write_text(TASKS)
    sys.path.insert(0, str(folder))
    yield import_module("engine_tasks")
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def engine(tasks):
    engine = LocalEngine(2)
    yield engine
    engine.close()


def test_every_task_is_done_once(engine, tasks):
    assert sorted(engine.run(tasks.square, range(40))) == [n * n for n in range(40)]
    assert list(engine.run(tasks.square, [])) == []


def test_tasks_are_taken_as_they_are_needed(engine, tasks):
    taken = []
    results = engine.run(tasks.square, (taken.append(n) or n for n in range(100)))
    next(results)
    assert len(taken) <= 6
    results.close()


def test_a_single_task_is_done_here(engine, tasks):
    assert list(engine.run(tasks.process_id, [0])) == [os.getpid()]
    assert os.getpid() not in set(engine.run(tasks.process_id, range(9)))
    assert set(LocalEngine(1).run(tasks.process_id, range(3))) == {os.getpid()}


def test_errors_come_back_whole(engine, tasks):
    with pytest.raises(DataError) as caught:
        list(engine.run(tasks.refuse, range(9)))
    assert (str(caught.value), caught.value.line) == ("a.txt, line 5: no fives", 5)


def test_a_dead_worker_is_told(tasks):
    engine = LocalEngine(2)
    with pytest.raises(BuildError) as caught:
        list(engine.run(tasks.die, range(4)))
    assert str(caught.value) == (
        "a worker process was killed, perhaps for want of memory. What is done is kept: run the same command again to "
        "go on, with fewer --jobs if memory is short"
    )
    engine.close()

"""What holds for every task: its constructor is thin, and its task object says what the command line needs."""

import inspect
from dataclasses import fields

import pytest

from graphattn.builders.readers._formats import corpus_kind
from graphattn.models import TASKS, Estimator, Task
from graphattn.options import Parameters


@pytest.mark.parametrize("name", TASKS)
def test_a_constructor_is_one_level_above_the_estimator(name):
    levels = [level for level in TASKS[name].__mro__ if issubclass(level, Parameters)]
    assert levels == [TASKS[name], Estimator, Parameters]


@pytest.mark.parametrize("name", TASKS)
def test_each_group_of_options_is_an_argument(name):
    estimator = TASKS[name]
    of_task = {item.name for item in fields(estimator.option_groups["task"])}
    groups = estimator.option_groups.keys() - {"files", "task"}
    assert groups | of_task | {"warm_start"} <= inspect.signature(estimator.__init__).parameters.keys()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_describes_itself(name):
    task = TASKS[name].task
    assert issubclass(task, Task)
    assert task.name == name
    assert (corpus_kind(task.corpus_kind).second is True) == (task.texts_per_input == 2)
    assert task.output_formats[0] == "json"

"""What stays small: the root of models, the estimator, a task and its parts, and the task of docs/extend-model.md."""

import inspect
import re

import pytest

from graphattn.models import Estimator, Labels, Predictor, Task

MOST_MODULES, MOST_PUBLIC, MOST_PRIVATE, MOST_OF_TASK, MOST_LINES = 8, 48, 17, 25, 25


def test_models_has_few_modules_at_its_root(root):
    assert len(list((root / "models").glob("*.py"))) <= MOST_MODULES


def test_an_estimator_has_few_methods_also_with_those_of_its_bases():
    members = [pair for level in inspect.getmro(Estimator)[:-1] for pair in vars(level).items()]
    methods = [name for name, value in members if callable(value) or isinstance(value, property | classmethod)]
    public = [name for name in methods if not name.startswith("_")]
    assert len(public) <= MOST_PUBLIC
    assert len(methods) - len(public) <= MOST_PRIVATE


def test_an_estimator_has_one_base_at_each_level():
    for level in inspect.getmro(Estimator)[:-1]:
        assert len(level.__bases__) == 1


@pytest.mark.parametrize("part", [Task, Labels, Predictor], ids=lambda part: part.__name__)
def test_a_task_and_its_parts_have_few_methods(part):
    methods = [value for value in vars(part).values() if inspect.isroutine(value) or isinstance(value, property)]
    assert len(methods) <= MOST_OF_TASK


def test_a_task_is_short(root):
    page = (root / "docs" / "extend-model.md").read_text(encoding="utf-8")
    section = page[page.index("## A task") : page.index("## Where next")]
    (block,) = (code for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if "@register_task" in code)
    assert sum(bool(line.strip()) for line in block.splitlines()) <= MOST_LINES

"""docs/options.md has the tables that its script writes, and their examples can be set."""

import importlib
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "list_options.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("there is no clone")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module("list_options")


def test_the_tables_are_those_of_the_code(script):
    assert script.format_tables() in script.PAGE.read_text(encoding="utf-8"), "run docs/list_options.py"


def test_examples_are_values_that_change_something(script):
    for entries in script.collect_entries().values():
        for entry in entries:
            _, *values = shlex.split(entry.example)
            for value in values:
                assert entry.flag.parse(value) != entry.flag.default, entry.example


def test_a_reason_names_tasks_only_where_they_differ(script):
    tasks = ("classify", "pair", "tag", "translate")
    assert script.name_tasks(tasks, tasks) == ""
    assert script.name_tasks(("tag",), tasks) == " (tag)"
    assert script.name_tasks(("classify", "pair", "tag"), tasks) == " (not translate)"

"""What holds for every task: its constructor is thin, and its task object says what the command line needs."""

import inspect
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers._formats import corpus_kind
from graphattn.exceptions import DataError
from graphattn.models import TASKS, Estimator, Labels, Predictor, SequenceTagger, Task, TextClassifier
from graphattn.models._estimators.tasks.classify import Classification, PairClassification
from graphattn.models._estimators.tasks.tag import Tagging
from graphattn.models._estimators.tasks.translate import Translation


@pytest.mark.parametrize("name", TASKS)
def test_an_estimator_inherits_from_one_class_at_each_level(name):
    levels = [level for level in TASKS[name].__mro__ if issubclass(level, Estimator)]
    assert all(len(level.__bases__) == 1 for level in levels)
    assert len(levels) <= 4


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


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_its_own_labels_and_head(name):
    task, other = TASKS[name]().task_, TASKS[name]().task_
    assert isinstance(task.labels, Labels)
    assert isinstance(task.head, Predictor)
    assert task.labels is not other.labels


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "label 1 is None, a missing value"), (float("nan"), "label 1 is nan, a missing value"),
     (pd.NA, "label 1 is <NA>, a missing value"), (pd.NaT, "label 1 is NaT, a missing value"),
     ("", "label 1 is empty"), (" ", "label 1 is empty"), (np.str_(""), "label 1 is empty")],
)  # fmt: skip
def test_a_class_without_a_name(value, problem):
    for task, X in ((Classification(), ["a", "b"]), (PairClassification(), [("a", "b")] * 2)):
        forms = [["p", value], ("p", value), np.array(["p", value], object), pd.Series(["p", value], dtype=object)]
        for y in forms:
            with pytest.raises(DataError) as caught:
                task.labels.resolve(X, y)
            assert caught.value.message == problem
    several = Classification(multilabel=True)
    if isinstance(value, str):  # as in files
        assert several.labels.resolve(["a", "b"], [["p"], ["q", value]]) == [("p",), ("q",)]
    else:
        with pytest.raises(DataError, match="label 1 is"):
            several.labels.resolve(["a", "b"], [["p"], ["q", value]])
    with pytest.raises(DataError, match=r"label 1, .*, is not a collection"):
        several.labels.resolve(["a", "b"], [["p"], value])


@pytest.mark.parametrize("value", ["", " "])
def test_a_tag_without_a_name(value):
    for X, y in (([["a", "b"]], [["N", value]]), ([Sentence(["a", "b"], tags=["N", value])], None)):
        with pytest.raises(DataError, match=r"the tag of word 1 is empty in input 0"):
            Tagging().labels.resolve(X, y)
    for y in (np.array("N"), {"N"}, {"N": 1}):
        with pytest.raises(DataError, match="the tags of input 0 are"):
            Tagging().labels.resolve([["a"]], [y])


@pytest.mark.parametrize(
    ("make", "name", "bad", "good"),
    [
        (TextClassifier, "a.jsonl", '{"text": "b", "label": [""]}', '{"text": "a", "label": "p"}'),
        (SequenceTagger, "a.jsonl", '{"tokens": ["b"], "tags": [""]}', '{"tokens": ["a"], "tags": ["N"]}'),
        (SequenceTagger, "a.jsonl", '{"tokens": null, "tags": ["N"]}', '{"tokens": ["a"], "tags": ["N"]}'),
        (SequenceTagger, "a.conll", "b\t ", "a\tN"),
    ],
)
def test_items_without_names_are_skipped_with_their_lines(tmp_path, make, name, bad, good):
    separator = "\n\n" if name.endswith("conll") else "\n"
    (tmp_path / name).write_text(separator.join([good, bad, good, ""]))
    with pytest.raises(DataError) as caught:
        make().read([tmp_path / name])
    errors = []
    X, _ = make().read([tmp_path / name], skip=errors.append)
    assert (len(X), caught.value.line) == (2, 2 if separator == "\n" else 3)
    assert [str(error) for error in errors] == [str(caught.value)]


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 3, b"a", [None], ["a", 3]], ids=repr)
def test_a_target_that_is_no_text(value):
    with pytest.raises(DataError, match="target 2"):
        Translation().labels.resolve(["a", "b"], ["x", value])

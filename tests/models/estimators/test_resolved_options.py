"""The value of every option, for each task, encoder, preset and kind of start: as recorded in ``tests/data``.

A change of a default is a change for users. To accept one: ``python tests/models/estimators/test_resolved_options.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.training_plan import list_encoders
from graphattn.models import TASKS

RECORDED = Path(__file__).parents[2] / "data" / "resolved_options.json"
SET_VALUES: dict[str, list[dict[str, Any]]] = {
    "classify": [
        {"head__linear_branch": True, "pretrained": "folder"},
        {"pretrained": "folder", "pretrained__contrastive": True, "head__pooling": "mean"},
        {"pretrained": "folder", "encoder": "bilstm", "inputs__cls": False},
        {"training__average_epochs": 2, "pretrained": "folder"},
        {"inputs__cls": False},
        {"inputs__cls": False, "head__pooling": "cls"},
        {"inputs__vectors": "vectors.txt"},
        {"inputs__vectors": "vectors.txt", "head__linear_branch": False},
        {"encoder": "mtsa", "head__head_hidden": 7},
        {"preset": "paper", "training__patience": 2, "inputs__characters": True},
        {"pretrained__frozen": True},
        {"pretrained": "folder", "pretrained__frozen": True, "head__head_hidden": 3},
    ],
    "pair": [
        {"pretrained": "folder", "head__linear_branch": True},
        {"pretrained": "folder", "head__linear_branch": True, "pretrained__join_pairs": False},
        {"pretrained": "folder", "pretrained__frozen": True, "head__pooling": "mean"},
    ],
    "tag": [
        {"training__label_smoothing": 0.1},
        {"class_weight": "balanced"},
        {"class_weight": "balanced", "head__crf": True},
        {"head__crf": False},
        {"inputs__characters": False, "preset": "ner"},
    ],
    "translate": [{"preset": "deep", "encoder__layers": 3}, {"inputs__vectors": "vectors.txt"}],
}
"""Task -> arguments as ``set_params`` takes them."""


def list_cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> task and arguments."""
    cases = []
    for task, estimator in TASKS.items():
        presets = estimator.option_groups["task"].__dataclass_fields__["preset"].metadata["choices"]
        for encoder in list_encoders(estimator):
            for preset in presets:
                cases.append((task, {"encoder": encoder, "preset": preset}))
                cases.append((task, {"encoder": encoder, "preset": preset, "pretrained": "folder"}))
        cases += [(task, {}), (task, {"pretrained": "folder"})]
        cases += [(task, changes) for changes in SET_VALUES.get(task, [])]
    return {f"{task} " + " ".join(f"{name}={value}" for name, value in of.items()): (task, of) for task, of in cases}


def resolve(task: str, arguments: dict[str, Any]) -> Any:
    """Group -> options that differ from their class's defaults, or the error of a combination."""
    estimator = TASKS[task]().set_params(**arguments)
    try:
        estimator.prepare()
    except ConfigError as error:
        return ["error", *error.options]
    changed = {}
    for group, options in {"encoder": estimator.encoder_, **estimator.options_}.items():
        defaults = type(options)().to_dict()
        values = {name: value for name, value in options.to_dict().items() if value != defaults[name]}
        changed |= {group: values} if values else {}
    return json.loads(json.dumps({"name": estimator.encoder_name, **changed}))


CASES = list_cases()


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_options_have_the_recorded_values(task):
    recorded = json.loads(RECORDED.read_text())
    resolved = {name: resolve(*case) for name, case in CASES.items() if case[0] == task}
    assert resolved == {name: values for name, values in recorded.items() if name.split(" ")[0] == task}


if __name__ == "__main__":
    rows = [f"{json.dumps(name)}: {json.dumps(resolve(*case))}" for name, case in CASES.items()]
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")

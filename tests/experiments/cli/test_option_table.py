"""``graphattn train ... --explain``."""

from __future__ import annotations

import pytest

from graphattn.experiments._cli.option_table import format_options
from graphattn.experiments._cli.training_plan import TrainingPlan
from graphattn.models import SequenceTagger, TextClassifier, TrainingOptions
from graphattn.models._encoders import encoder_options
from graphattn.models.defaults import Facts


def explain(task, flags, **facts):
    plan = TrainingPlan.of(task, flags)
    estimator = plan.estimator(progress=False)
    table = format_options(
        estimator.resolve_options(Facts(**facts)), set_names=plan.set_names, unused=task.unused_options
    )
    return {line.split()[0]: line.split(None, 2)[1:] for line in table.splitlines()}


def test_each_option_has_a_value_and_a_reason():
    rows = explain(TextClassifier, {"clip": 1.0, "preset": "paper"}, examples=40)
    assert rows["option"] == ["value", "decided by"]
    assert rows["--encoder"] == ["ms-trans", "default"]
    assert rows["--scales"] == ["1,3,N/16,N/8,N/4", "default"]
    assert rows["--clip"] == ["1.0", "you"]
    assert rows["--preset"] == ["paper", "you"]
    assert rows["--patience"] == ["none", "preset"]
    assert rows["--cls"] == ["true", "encoder"]
    assert rows["--progress"] == ["false", "this command"]
    assert "--crf" not in rows  # without an effect on texts


@pytest.mark.parametrize(
    ("task", "flags", "option", "row"),
    [
        (TextClassifier, {"encoder": "mtsa"}, "--encoder", ["mtsa", "you"]),
        (TextClassifier, {"pretrained": "folder"}, "--encoder", ["pretrained", "pretrained", "model"]),
        (TextClassifier, {}, "--epochs", ["20", "training", "set"]),
        (SequenceTagger, {}, "--crf", ["true", "task"]),
    ],
)
def test_reasons(task, flags, option, row):
    assert " ".join(explain(task, flags, examples=40)[option]).split() == row


def test_options_of_a_model_to_continue_from_are_its_own():
    encoder = encoder_options({"name": "ms-trans", "hidden": 40})
    options = TextClassifier(encoder, training=TrainingOptions(clip=1.0)).resolve_options()
    table = format_options(options, set_names={"hidden", "clip"}, trained_names={"hidden"})
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in table.splitlines()}
    assert rows["--hidden"] == ["40", "model to continue from"]
    assert rows["--clip"] == ["1.0", "you"]

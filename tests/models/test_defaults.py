"""Which layer decides an option; the values themselves are recorded in ``tests/data/resolved_options.json``."""

from __future__ import annotations

import pytest

from graphattn.exceptions import ConfigError
from graphattn.models import (
    HeadOptions,
    InputOptions,
    MSTransOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TrainingOptions,
    Translator,
    load,
)
from graphattn.models.defaults import Facts
from graphattn.models.pretrained._options import PretrainedOptions


@pytest.mark.parametrize(
    ("estimator", "option", "value", "reason"),
    [
        (TextClassifier(), "clip", 5.0, "default"),
        (TextClassifier(training=TrainingOptions(clip=5.0)), "clip", 5.0, "set"),
        (TextClassifier(preset="paper"), "patience", None, "preset"),
        (TextClassifier(preset="paper", training=TrainingOptions(patience=2)), "patience", 2, "set"),
        (TextClassifier("mtsa"), "pooling", "source2token", "encoder"),
        (TextClassifier(inputs=InputOptions(cls=False)), "pooling", "max", "encoder"),
        (TextClassifier("mtsa"), "cls", False, "encoder"),
        (TextClassifier(), "max_tokens_per_text", 8192, "encoder"),
        (TextClassifier(MSTransOptions(scales=("3", "15"))), "max_tokens_per_text", None, "default"),
        (TextClassifier(MSTransOptions(heads="window:3=2,window:33|global=2")), "max_tokens_per_text", None, "default"),
        (TextClassifier(MSTransOptions(scales=("3", "N"))), "max_tokens_per_text", 8192, "encoder"),
        (TextClassifier(MSTransOptions(scales=("3",), relations="all=1")), "max_tokens_per_text", 8192, "encoder"),
        (SequenceTagger(), "max_tokens_per_text", None, "default"),
        (TextClassifier(pretrained="folder"), "optimizer", "adamw", "pretrained model"),
        (TextClassifier(pretrained="folder", preset="paper"), "precision", "auto", "default"),
        (
            TextClassifier(pretrained="folder", training=TrainingOptions(average_epochs=2)),
            "average",
            None,
            "other options",
        ),
        (
            PairClassifier(pretrained=PretrainedOptions("folder", frozen=True), head=HeadOptions(pooling="cls")),
            "join_pairs",
            False,
            "other options",
        ),
        (SequenceTagger(), "characters", True, "task"),
        (SequenceTagger(), "alpha", 1.0, "task"),
        (SequenceTagger(), "crf", True, "task"),
        (SequenceTagger(class_weight="balanced"), "crf", False, "task"),
        (SequenceTagger(head=HeadOptions(crf=False, linear_branch=True)), "linear_branch", False, "other options"),
        (Translator(preset="base"), "decoder_layers", 6, "preset"),
    ],
)
def test_a_value_has_the_reason_of_its_layer(estimator, option, value, reason):
    resolved = estimator.resolve_options()
    values = {name: row_value for _, name, row_value, _ in resolved.rows()}
    assert (values[option], resolved.why(option)) == (value, reason)


@pytest.mark.parametrize(
    ("facts", "option", "value", "reason"),
    [
        (Facts(examples=10), "epochs", 20, "training set"),
        (Facts(examples=100_000), "epochs", 3, "training set"),
        (Facts(has_predicates=True), "linear_branch", False, "training set"),
        (Facts(metric="chrf"), "metric", "chrf", "training set"),
        (Facts(tuning={"training": {"dev_fraction": 0.0}}), "dev_fraction", 0.0, "cross-validation"),
        (Facts(trained={"head": {"pooling": "cls"}}), "pooling", "cls", "model to continue from"),
    ],
)
def test_facts_of_the_training_set_decide(facts, option, value, reason):
    resolved = SequenceTagger().resolve_options(facts)
    assert resolved.why(option) == reason
    assert [row[2] for row in resolved.rows() if row[1] == option] == [value]


def test_resolving_changes_nothing():
    estimator = TextClassifier(pretrained="folder", training=TrainingOptions(epochs=3))
    before = {name: dict(vars(getattr(estimator, name))) for name in ("inputs", "head", "training", "pretrained")}
    assert estimator.resolve_options() == estimator.resolve_options()
    assert {name: dict(vars(getattr(estimator, name))) for name in before} == before


def test_every_option_has_a_reason_and_an_unknown_one_is_an_error():
    resolved = TextClassifier().resolve_options()
    assert all(reason for *_, reason in resolved.rows())
    assert [name for _, name, _, _ in resolved.rows(unused=["crf"])].count("crf") == 0
    with pytest.raises(ConfigError, match="epochs"):
        resolved.why("epoch")


def test_an_error_of_the_encoder_names_its_option():
    with pytest.raises(ConfigError, match="scale 2 is even") as caught:
        TextClassifier(MSTransOptions(scales=("2",))).prepare()
    assert caught.value.options == ("scales",)


def test_rules_name_both_options():
    with pytest.raises(ConfigError) as caught:
        PairClassifier(pretrained="folder", head=HeadOptions(linear_branch=True)).validate()
    assert caught.value.options == ("linear_branch", "join_pairs")


def test_a_loaded_model_has_the_reasons_of_training(tiny, corpus, tmp_path):
    texts, labels = corpus("classifier", 16)
    trained = tiny("classifier").set_params(training__patience=1).fit(texts, labels)
    loaded = load(trained.save(tmp_path / "model"))
    for option in ("epochs", "patience", "pooling", "clip", "hidden"):
        assert loaded.resolved_.why(option) == trained.resolved_.why(option)
    assert loaded.changed_options() == trained.changed_options()

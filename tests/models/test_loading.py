"""From a directory to the estimator that wrote it, or to an error that says what is wrong."""

import json

import pytest

import graphattn
from graphattn.exceptions import ModelDirectoryError
from graphattn.models import PairClassifier, SequenceTagger, TextClassifier, load
from graphattn.models.saving import task_of


@pytest.fixture
def model(corpus, tiny, tmp_path):
    return tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier", 12)).save(tmp_path / "model")


def change(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    config.update(values)
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not ...}))


def failure(folder):
    with pytest.raises(ModelDirectoryError) as caught:
        load(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "estimator"),
    [
        ("classifier", TextClassifier),
        ("multilabel", TextClassifier),
        ("pair", PairClassifier),
        ("tagger", SequenceTagger),
        ("crf", SequenceTagger),
    ],
)
def test_the_same_kind_comes_back(kind, estimator, corpus, tiny, tmp_path):
    trained = tiny(kind, training={"epochs": 1}).fit(*corpus(kind, 16))
    loaded = graphattn.load(str(trained.save(tmp_path / "model")))
    assert type(loaded) is estimator
    assert loaded.classes_.tolist() == trained.classes_.tolist()
    assert loaded.classes_.dtype == trained.classes_.dtype
    assert loaded.history_ == trained.history_
    assert getattr(loaded, "multilabel", False) == (kind == "multilabel")
    for name in ("encoder", "inputs", "head", "training"):
        assert getattr(loaded, f"{name}_") == getattr(trained, f"{name}_")
    assert loaded.score(*corpus(kind, 16)) == trained.score(*corpus(kind, 16))


def test_unknown_task(model):
    change(model, task="sing")
    assert failure(model) == (
        f"{model} is a model for the task 'sing'; this GraphAttn knows classify, pair, tag, translate"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"encoder": ...}, "'encoder'"),
        (
            {"head": {"pool": 1}},
            "HeadOptions has no option 'pool'; it has: crf, head_dropout, head_hidden, pair_features, pooling",
        ),
        ({"training": {"epochs": 0}}, "epochs is 0; it must be at least 1"),
        ({"history": ...}, "'history'"),
    ],
)
def test_config_that_does_not_fit(changes, reason, model):
    change(model, **changes)
    assert failure(model) == (
        f"{model} is damaged: config.json does not fit the other files ({reason}). Save the model again"
    )


def test_an_encoder_that_is_not_registered(model):
    config = json.loads((model / "config.json").read_text())
    change(model, encoder={**config["encoder"], "name": "gru"})
    assert failure(model) == (
        f"{model} is a model with the encoder 'gru', which is not registered. Call register_encoder "
        "before you load it; on the command line, name the module that does so: graphattn --import MODULE ..."
    )


def test_a_relation_that_is_not_registered(model):
    config = json.loads((model / "config.json").read_text())
    change(model, encoder={**config["encoder"], "relations": ["clause:2:1"]})
    assert failure(model) == (
        f"{model} is a model with heads on the relation 'clause:2', which is not registered. Call register_relation "
        "before you load it; on the command line, name the module that does so: graphattn --import MODULE ..."
    )


def test_weights_that_do_not_fit(model):
    config = json.loads((model / "config.json").read_text())
    change(model, encoder={**config["encoder"], "hidden": 24})
    message = failure(model)
    assert message.startswith(f"{model} is damaged: config.json does not fit the other files (Error(s) in loading")
    assert message.endswith("). Save the model again")


def test_the_task_alone(model):
    (model / "model.safetensors").unlink()
    assert task_of(model) == "classify"
    change(model, task="sing")
    with pytest.raises(ModelDirectoryError, match="is a model for the task 'sing'"):
        task_of(model)
    with pytest.raises(ModelDirectoryError, match=r"is no model directory: it has no config\.json\."):
        task_of(model / "no")

"""Options: checked, copied, written as plain values, known to scikit-learn."""

import json
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from graphattn import Scale
from graphattn.exceptions import ConfigError
from graphattn.models import (
    BiLSTMOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    TrainingOptions,
    TransformerOptions,
)

ALL = (InputOptions, TrainingOptions, HeadOptions, MSTransOptions, TransformerOptions, BiLSTMOptions)


@pytest.mark.parametrize("kind", ALL)
def test_defaults_are_possible_and_explained(kind):
    kind().check()
    assert [item.name for item in fields(kind) if not item.metadata.get("help")] == []


@pytest.mark.parametrize("kind", ALL)
def test_plain_values_and_back(kind):
    values = json.loads(json.dumps(kind().to_dict()))
    values.pop("name", None)
    assert kind.from_dict(values) == kind()


@pytest.mark.parametrize("kind", ALL)
def test_scikit_learn_sees_the_fields(kind):
    assert set(kind().get_params()) == {item.name for item in fields(kind)}
    copy = clone(kind())
    assert copy == kind()


def test_set_params():
    options = TrainingOptions().set_params(epochs=3, clip=None)
    assert (options.epochs, options.clip) == (3, None)
    with pytest.raises(ValueError, match="epoch"):
        options.set_params(epoch=3)


def test_numbers_of_numpy_and_paths_become_plain():
    options = TrainingOptions(
        epochs=np.int64(3), learning_rate=np.float32(0.5), logs=np.bool_(False), run_dir=Path("x")
    )
    options.check()
    values = options.to_dict()
    assert (values["epochs"], values["learning_rate"], values["logs"], values["run_dir"]) == (3, 0.5, False, "x")
    assert json.loads(json.dumps(values)) == values


def test_scales_and_numbers_of_other_types_become_plain():
    options = MSTransOptions(scales=(Scale(1), Scale("N/4"), "N/2"), alpha=Fraction(1, 2))
    options.check()
    values = options.to_dict()
    assert (values["scales"], values["alpha"]) == (("1", "N/4", "N/2"), 0.5)
    by_relation = MSTransOptions(hidden=8, heads={"window:3": np.int64(2)})
    by_relation.check()
    assert json.loads(json.dumps(by_relation.to_dict()))["heads"] == {"window:3": 2}


def test_one_file_of_vectors_or_several():
    for given, files in [(None, ()), ("a", ("a",)), (Path("a"), ("a",)), (["a", Path("b")], ("a", "b"))]:
        options = InputOptions(vectors=given)
        options.check()
        assert options.copied().vector_files() == files
        assert InputOptions.from_dict(json.loads(json.dumps(options.to_dict()))).vector_files() == files


def test_copies_are_plain_and_apart():
    options = MSTransOptions(hidden=np.int32(8), scales=["1", "3"])
    copy = options.copied()
    options.scales.append("5")
    assert (type(copy), type(copy.hidden), copy.hidden, copy.scales) == (MSTransOptions, int, 8, ("1", "3"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (InputOptions(level="char"), "level is 'char'; choose one of: word, bpe"),
        (InputOptions(split="tabs"), "split is 'tabs'; choose one of: words, whitespace"),
        (InputOptions(vectors_words="some"), "vectors_words is 'some'; choose one of: all, corpus"),
        (InputOptions(embedding=0), "embedding is 0; it must be at least 1"),
        (InputOptions(vocabulary_size=0), "vocabulary_size is 0; it must be at least 1"),
        (InputOptions(word_dropout=1.0), "word_dropout is 1.0; it must be at least 0 and below 1"),
        (InputOptions(embedding_dropout=-0.1), "embedding_dropout is -0.1; it must be at least 0 and below 1"),
        (
            InputOptions(level="bpe", vectors="vectors.txt"),
            "vectors are for whole words; leave them out, or set level=word",
        ),
        (InputOptions(vectors=3), "vectors is 3; it must be a list or a text"),
        (InputOptions(lowercase="yes"), "lowercase is 'yes'; it must be true or false"),
        (
            HeadOptions(pooling="sum"),
            "pooling is 'sum'; choose one of: cls+max, concat, max, mean, mean-max, cls, source2token",
        ),
        (HeadOptions(head_hidden=-1), "head_hidden is -1; it must be at least 0"),
        (HeadOptions(head_dropout=2), "head_dropout is 2; it must be at least 0 and below 1"),
        (TrainingOptions(epochs=0), "epochs is 0; it must be at least 1"),
        (TrainingOptions(epochs="10"), "epochs is '10'; it must be a whole number"),
        (TrainingOptions(epochs=1.5), "epochs is 1.5; it must be a whole number"),
        (TrainingOptions(epochs=True), "epochs is True; it must be a whole number"),
        (TrainingOptions(batch_size=None), "batch_size is None; it must be a whole number"),
        (TrainingOptions(patience=0), "patience is 0; it must be at least 1"),
        (TrainingOptions(max_tokens=0), "max_tokens is 0; it must be at least 1"),
        (TrainingOptions(max_edges=-1), "max_edges is -1; it must be at least 1"),
        (TrainingOptions(accumulate=0), "accumulate is 0; it must be at least 1"),
        (TrainingOptions(devices=0), "devices is 0; it must be at least 1"),
        (TrainingOptions(optimizer="sgd"), "optimizer is 'sgd'; choose one of: adam, adamw"),
        (TrainingOptions(schedule="step"), "schedule is 'step'; choose one of: linear, cosine, constant, inverse-sqrt"),
        (TrainingOptions(precision="16"), "precision is '16'; choose one of: 32, bf16, auto"),
        (TrainingOptions(learning_rate=0.0), "learning_rate is 0.0; it must be positive, 5e-4 is usual"),
        (TrainingOptions(learning_rate=float("nan")), "learning_rate is nan; it must be positive, 5e-4 is usual"),
        (TrainingOptions(learning_rate="5e-4"), "learning_rate is '5e-4'; it must be a number"),
        (TrainingOptions(weight_decay=-1.0), "weight_decay is -1.0; it must be at least 0"),
        (TrainingOptions(weight_decay=float("nan")), "weight_decay is nan; it must be at least 0"),
        (TrainingOptions(warmup=1.0), "warmup is 1.0; it must be at least 0 and below 1"),
        (TrainingOptions(label_smoothing=1.0), "label_smoothing is 1.0; it must be at least 0 and below 1"),
        (TrainingOptions(warmup_steps=0), "warmup_steps is 0; it must be at least 1"),
        (TrainingOptions(beta2=1.0), "beta2 is 1.0; it must be at least 0 and below 1"),
        (TrainingOptions(average_epochs=0), "average_epochs is 0; it must be at least 1"),
        (
            TrainingOptions(average=0.9, average_epochs=3),
            "average and average_epochs are both given; leave one of them out",
        ),
        (TrainingOptions(average=1.0), "average is 1.0; it must be at least 0 and below 1"),
        (TrainingOptions(dev_fraction=-0.5), "dev_fraction is -0.5; it must be at least 0 and below 1"),
        (TrainingOptions(clip=0.0), "clip is 0.0; it must be positive, or none for no clipping"),
        (TrainingOptions(seed=-1), "seed is -1; it must be at least 0"),
        (TrainingOptions(seed=2**32), "seed is 4294967296; it must be below 2**32"),
        (MSTransOptions(scales="3"), "scales is '3'; it must be a list"),
    ],
    ids=str,
)
def test_impossible_values(options, message):
    with pytest.raises(ConfigError) as caught:
        options.check()
    assert str(caught.value) == message


def test_unknown_option_is_named():
    with pytest.raises(ConfigError) as caught:
        HeadOptions.from_dict({"pooling": "max", "pool": 1})
    assert str(caught.value) == (
        "HeadOptions has no option 'pool'; it has: crf, head_dropout, head_hidden, pair_features, pooling"
    )

"""Options: bounds, copies, plain values, scikit-learn's parameters, precision."""

import json
import pickle
from copy import deepcopy
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

from graphattn import Scale
from graphattn._devices import GPU, Hardware
from graphattn.exceptions import ConfigError
from graphattn.models import (
    BiLSTMOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    TrainingOptions,
    TransformerOptions,
    TranslationTraining,
)
from graphattn.models._encoders import ENCODERS
from graphattn.models._options import BF16_FLAGS, resolve_precision, supports_bf16
from graphattn.options import Options

ALL = (InputOptions, TrainingOptions, HeadOptions, MSTransOptions, TransformerOptions, BiLSTMOptions)


@pytest.mark.parametrize("kind", ALL)
def test_defaults_are_valid_and_have_help(kind):
    kind().validate()
    assert [item.name for item in fields(kind) if not item.metadata.get("help")] == []


@pytest.mark.parametrize("kind", [kind for kind, _ in ENCODERS.values()] + [TranslationTraining])
def test_a_redefined_option_keeps_its_bounds(kind):
    for base in kind.mro():
        for item in fields(base) if is_dataclass(base) else ():
            assert item.metadata.keys() <= kind.__dataclass_fields__[item.name].metadata.keys(), item.name


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


@pytest.mark.parametrize("copied", [clone, deepcopy, lambda options: pickle.loads(pickle.dumps(options)), Options.copy])
def test_copies_keep_what_was_set(copied):
    options = TrainingOptions(5, clip=5.0).set_params(seed=0)
    options.patience = None
    assert vars(copied(options)) == {"epochs": 5, "clip": 5.0, "seed": 0, "patience": None}
    filled = copied(options).fill()
    assert (filled.epochs, filled.patience, filled.beta2) == (5, None, TrainingOptions().beta2)
    assert vars(filled).keys() == {item.name for item in fields(TrainingOptions)}


def test_numpy_numbers_and_paths_become_plain():
    options = TrainingOptions(
        epochs=np.int64(3), learning_rate=np.float32(0.5), logs=np.bool_(False), run_dir=Path("x")
    )
    options.validate()
    values = options.to_dict()
    assert (values["epochs"], values["learning_rate"], values["logs"], values["run_dir"]) == (3, 0.5, False, "x")
    assert json.loads(json.dumps(values)) == values


def test_scales_and_numbers_of_other_types_become_plain():
    options = MSTransOptions(scales=(Scale(1), Scale("N/4"), "N/2"), alpha=Fraction(1, 2))
    options.validate()
    values = options.to_dict()
    assert (values["scales"], values["alpha"]) == (("1", "N/4", "N/2"), 0.5)
    by_relation = MSTransOptions(hidden=8, heads={"window:3": np.int64(2)})
    by_relation.validate()
    assert json.loads(json.dumps(by_relation.to_dict()))["heads"] == {"window:3": 2}


def test_vectors_accept_one_or_several_files():
    for given, files in [(None, ()), ("a", ("a",)), (Path("a"), ("a",)), (["a", Path("b")], ("a", "b"))]:
        options = InputOptions(vectors=given)
        options.validate()
        assert options.copy().vector_files() == files
        assert InputOptions.from_dict(json.loads(json.dumps(options.to_dict()))).vector_files() == files


def test_copies_are_plain_and_independent():
    options = MSTransOptions(hidden=np.int32(8), scales=["1", "3"])
    copy = options.copy()
    options.scales.append("5")
    assert (type(copy), type(copy.hidden), copy.hidden, copy.scales) == (MSTransOptions, int, 8, ("1", "3"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (InputOptions(level="char"), ["level"]),
        (InputOptions(split="tabs"), ["split"]),
        (InputOptions(vectors_words="some"), ["vectors_words"]),
        (InputOptions(embedding=0), ["embedding"]),
        (InputOptions(vocabulary_size=0), ["vocabulary_size"]),
        (InputOptions(word_dropout=1.0), ["word_dropout"]),
        (InputOptions(embedding_dropout=-0.1), ["embedding_dropout"]),
        (InputOptions(level="bpe", vectors="vectors.txt"), ["vectors", "level"]),
        (HeadOptions(pooling="sum"), ["pooling"]),
        (HeadOptions(head_hidden=-1), ["head_hidden"]),
        (HeadOptions(head_dropout=2), ["head_dropout"]),
        (TrainingOptions(epochs=-1), ["epochs"]),
        (TrainingOptions(patience=0), ["patience"]),
        (TrainingOptions(max_tokens=0), ["max_tokens"]),
        (TrainingOptions(max_edges=-1), ["max_edges"]),
        (TrainingOptions(accumulate=0), ["accumulate"]),
        (TrainingOptions(devices=0), ["devices"]),
        (TrainingOptions(device="gpu"), ["device"]),
        (TrainingOptions(device="cuda:0", devices=2), ["device", "devices"]),
        (TrainingOptions(optimizer="lion"), ["optimizer"]),
        (TrainingOptions(schedule="step"), ["schedule"]),
        (TrainingOptions(precision="16"), ["precision"]),
        (TrainingOptions(learning_rate=0.0), ["learning_rate"]),
        (TrainingOptions(learning_rate=float("nan")), ["learning_rate"]),
        (TrainingOptions(weight_decay=-1.0), ["weight_decay"]),
        (TrainingOptions(weight_decay=float("nan")), ["weight_decay"]),
        (TrainingOptions(warmup=1.0), ["warmup"]),
        (TrainingOptions(label_smoothing=1.0), ["label_smoothing"]),
        (TrainingOptions(warmup_steps=0), ["warmup_steps"]),
        (TrainingOptions(beta2=1.0), ["beta2"]),
        (TrainingOptions(average_epochs=0), ["average_epochs"]),
        (TrainingOptions(average=0.9, average_epochs=3), ["average", "average_epochs"]),
        (TrainingOptions(average=1.0), ["average"]),
        (TrainingOptions(dev_fraction=-0.5), ["dev_fraction"]),
        (TrainingOptions(clip=0.0), ["clip"]),
        (TrainingOptions(seed=-1), ["seed"]),
        (TrainingOptions(seed=2**32), ["seed"]),
        (TrainingOptions(seed=None), ["seed"]),
        (TrainingOptions(epochs=2.0), ["epochs"]),
        (TrainingOptions(epochs=True), ["epochs"]),
        (TrainingOptions(learning_rate="1e-3"), ["learning_rate"]),
        (TrainingOptions(max_edges=1e6), ["max_edges"]),
        (InputOptions(characters=1), ["characters"]),
        (InputOptions(embedding=32.0), ["embedding"]),
        (HeadOptions(linear_branch="no"), ["linear_branch"]),
        (MSTransOptions(scales=(1, 3)), ["scales"]),
        (MSTransOptions(scales="1,3"), ["scales"]),
        (MSTransOptions(scales=np.array(["1", "3"])), ["scales"]),
        (MSTransOptions(hidden=32.0), ["hidden"]),
        (MSTransOptions(positions="no"), ["positions"]),
    ],
    ids=str,
)
def test_invalid_values(options, named):
    with pytest.raises(ConfigError) as caught:
        options.validate()
    assert list(caught.value.options) == named


def test_unknown_option_is_named():
    with pytest.raises(ConfigError) as caught:
        HeadOptions.from_dict({"pooling": "max", "pool": 1})
    assert str(caught.value) == (
        "HeadOptions has no option 'pool'; did you mean 'pooling'? it has: "
        "crf, head_dropout, head_hidden, linear_branch, pair_features, pooling, word_pieces"
    )


def simulate_cpu(monkeypatch, *flags, name="any"):
    monkeypatch.setattr(Hardware, "detect", Hardware)
    facts = dict.fromkeys(flags, True) | {"architecture": "any", "cpu_name": name}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: facts, raising=False)


def resolve_auto(device="auto"):
    return TrainingOptions(precision="auto", device=device).resolve_precision()


@pytest.mark.parametrize("flag", BF16_FLAGS)
def test_auto_precision_is_bf16_on_a_cpu_that_supports_it(monkeypatch, flag):
    simulate_cpu(monkeypatch, "avx2", flag)
    assert supports_bf16("cpu")
    assert resolve_auto("cpu") == resolve_auto() == "bf16"


def test_auto_precision_is_bf16_with_avx512_bf16_on_amd_only(monkeypatch):
    simulate_cpu(monkeypatch, "avx512_bf16", name="AMD EPYC 9R14")
    assert resolve_auto() == "bf16"
    simulate_cpu(monkeypatch, "avx512_bf16", name="Intel Xeon")
    assert resolve_auto() == "32"
    simulate_cpu(monkeypatch, "avx512_bf16", "amx_bf16", name="Intel Xeon")
    assert resolve_auto() == "bf16"


def test_auto_precision_is_float32_elsewhere(monkeypatch):
    simulate_cpu(monkeypatch, "avx2", "avx512_f")
    assert resolve_auto() == "32"
    simulate_cpu(monkeypatch, "amx_bf16")
    assert resolve_auto("mps") == "32"
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # an older PyTorch
    assert resolve_auto("cpu") == "32"


TURING, AMPERE, PASCAL = (GPU("card", capability, 2**34) for capability in ((7, 5), (8, 6), (6, 0)))


@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [
        ("auto", [TURING], False),
        ("auto", [AMPERE], True),
        ("auto", [PASCAL, AMPERE], True),
        ("auto", [PASCAL], True),  # which is not used
        ("cuda", [TURING, AMPERE], False),
        ("cuda:1", [TURING, AMPERE], True),
        ("cuda:1", [AMPERE, TURING], False),
        ("cuda:1", [AMPERE], False),
        ("cpu", [TURING], True),
    ],
)
def test_auto_precision_is_that_of_the_device(monkeypatch, device, gpus, expected):
    simulate_cpu(monkeypatch, "amx_bf16")
    assert supports_bf16(device, Hardware(tuple(gpus), has_cuda=True)) == expected


def test_predictions_are_in_float32_on_a_cpu_unless_another_precision_is_given(monkeypatch):
    simulate_cpu(monkeypatch, "amx_bf16")
    assert resolve_precision(None, torch.device("cpu")) == "32"
    assert resolve_precision("auto", torch.device("cpu")) == "bf16"
    monkeypatch.setattr(Hardware, "detect", lambda: Hardware((TURING, AMPERE), has_cuda=True))
    assert resolve_precision(None, torch.device("cuda", 1)) == "bf16"
    assert resolve_precision("32", torch.device("cuda", 1)) == "32"


def test_other_precisions_do_not_change(monkeypatch):
    simulate_cpu(monkeypatch)
    assert TrainingOptions(precision="bf16").resolve_precision() == "bf16"
    assert TrainingOptions().resolve_precision() == "32"
    simulate_cpu(monkeypatch, "amx_bf16")
    assert TrainingOptions(precision="32").resolve_precision() == "32"
    assert TrainingOptions().resolve_precision() == "bf16"


@pytest.mark.parametrize(("flags", "precision"), [((), "32"), (("amx_bf16",), "bf16")])
def test_training_resolves_the_precision(monkeypatch, flags, precision, corpus, tiny):
    simulate_cpu(monkeypatch, *flags)
    auto, explicit = (
        tiny("classifier", "transformer", training={"precision": name}).fit(*corpus("classifier", 16))
        for name in ("auto", precision)
    )
    assert auto.history_ == explicit.history_

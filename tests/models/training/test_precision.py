"""Number formats of training: what ``auto`` stands for."""

import pytest
import torch

from graphattn.models import TrainingOptions
from graphattn.models.training.precision import BF16_FLAGS, resolve_precision, supports_bf16


def processor(monkeypatch, *flags):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(flags, True) | {"architecture": "any"})


@pytest.mark.parametrize("flag", BF16_FLAGS)
def test_auto_is_bf16_on_a_processor_that_multiplies_it(monkeypatch, flag):
    processor(monkeypatch, "avx2", flag)
    assert supports_bf16("cpu")
    assert resolve_precision("auto", "cpu") == resolve_precision("auto") == "bf16"


def test_auto_is_float32_on_other_processors_and_devices(monkeypatch):
    processor(monkeypatch, "avx2", "avx512_f")
    assert resolve_precision("auto") == "32"
    processor(monkeypatch, "amx_bf16")
    assert resolve_precision("auto", "mps") == "32"


def test_a_pytorch_that_cannot_tell_gets_float32(monkeypatch):
    processor(monkeypatch)
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert resolve_precision("auto", "cpu") == "32"


@pytest.mark.parametrize("supported", [False, True])
def test_auto_asks_the_gpu_where_there_is_one(monkeypatch, supported):
    processor(monkeypatch, "amx_bf16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)
    assert resolve_precision("auto") == ("bf16" if supported else "32")
    assert resolve_precision("auto", "cpu") == "bf16"


def test_what_is_given_stays(monkeypatch):
    processor(monkeypatch)
    assert resolve_precision("bf16") == "bf16"
    processor(monkeypatch, "amx_bf16")
    assert resolve_precision("32") == TrainingOptions().precision == "32"


@pytest.mark.parametrize(("flags", "same_as"), [((), "32"), (("amx_bf16",), "bf16")])
def test_training_with_auto_is_training_with_what_it_stands_for(monkeypatch, flags, same_as, corpus, tiny):
    processor(monkeypatch, *flags)
    chosen, given = (
        tiny("classifier", "transformer", training={"precision": precision, "epochs": 2}).fit(*corpus("classifier"))
        for precision in ("auto", same_as)
    )
    assert [row["train_loss"] for row in chosen.history_] == [row["train_loss"] for row in given.history_]

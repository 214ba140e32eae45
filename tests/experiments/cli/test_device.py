"""``--device`` of every command that runs a model."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.loaded_models import ModelSettings
from graphattn.experiments._cli.resumable import CHUNK, GPU_CHUNK, choose_chunk, choose_gpus

UNKNOWN = "error: --device is 'gpu'; give auto, cpu, cuda, cuda:1 or mps"
ABSENT = "error: --device is 'cuda:99', but "


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "MODEL", "a film"),
        ("evaluate", "MODEL", "TRAIN"),
        ("encode", "MODEL", "a film"),
        ("inspect", "MODEL", "a film"),
        ("train", "classify", "TRAIN", "--out", "new"),
        ("tune", "classify", "TRAIN", "--out", "trials.log"),
        ("bench", "attention"),
    ],
    ids=lambda command: command[0],
)
def test_a_device_that_is_not_there(graphattn, classifier, corpora_folder, tmp_path, monkeypatch, command):
    if command[0] == "tune":
        pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    words = [{"MODEL": classifier, "TRAIN": corpora_folder / "reviews.tsv"}.get(word, word) for word in command]
    for device, error in (("gpu", UNKNOWN), ("cuda:99", ABSENT)):
        answer = graphattn(*words, "--device", device)
        assert answer.code == 1
        assert answer.err.startswith(error)
        assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_device_and_several_processes_contradict_each_other(graphattn, corpora_folder, tmp_path):
    answer = graphattn(
        *("train", "classify", corpora_folder / "reviews.tsv", "--out", tmp_path / "model"),
        *("--device", "cuda:1", "--devices", "2"),
    )
    assert answer.err == "error: --device cuda:1 is one GPU and --devices is 2; let --device be cuda\n"


def test_the_device_of_predictions_is_resolved_once_and_decides_the_results(classifier):
    on_cpu, on_ray = ModelSettings.of(classifier, device="cpu"), ModelSettings.of(classifier, engine="ray")
    assert (on_cpu.device, on_cpu.has_gpu, choose_chunk(on_cpu)) == ("cpu", False, CHUNK)
    assert on_ray.device == "auto"
    assert on_ray.load_to_read("ray").model_.device.type == "cpu"
    first, second = (ModelSettings(classifier, "0", device=device) for device in ("cuda:0", "cuda:1"))
    assert choose_chunk(first) == GPU_CHUNK
    assert first.decisive == second.decisive != ModelSettings(classifier, "0", device="cpu").decisive


def test_gpus_of_an_actor():
    assert [choose_gpus(device, "--device") for device in ("auto", "cpu", "cuda")] == [None, 0.0, 1.0]
    with pytest.raises(ConfigError) as caught:
        choose_gpus("cuda:1", "--device")
    assert str(caught.value) == (
        "--device is 'cuda:1'; with --engine ray give cpu or cuda: Ray chooses a GPU for each worker"
    )

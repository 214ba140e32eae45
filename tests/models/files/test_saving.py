"""Model directories: written atomically, verified when read, loaded as the estimator that wrote them."""

import errno
import json
import os
import resource
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from sklearn.base import clone

from graphattn.builders._paths import describe_directory
from graphattn.builders._subwords import BLANK
from graphattn.builders.store._manifest import MANIFEST
from graphattn.exceptions import ConfigError, GraphAttnError, GraphAttnWarning, ModelDirectoryError
from graphattn.experiments.drawing import draw_arcs
from graphattn.models import (
    TASKS,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TextRegressor,
    Translator,
    load,
    register_task,
)
from graphattn.models._estimators import loading
from graphattn.models._estimators.tasks.classify import Classification
from graphattn.models._files import saving
from graphattn.models._files.saving import FORMAT, ModelFiles, check_notes, read_config, read_model, write_model
from graphattn.models.inspection import summarise
from graphattn.models.inspection._summary import save_tables

NAMES = {"config.json", "labels.json", "model.safetensors", "tokenizer.json"}


def files(value=1.0):
    return ModelFiles({"task": "classify"}, ["a", "b"], '{"a": "é"}', {"weight": torch.full((3, 2), value)})


def pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")


def sparse(path):
    path.touch()
    os.truncate(path, 10**11)


UNSUITABLE = {
    os.mkfifo: "a named pipe, not a regular file",
    (lambda path: path.symlink_to("/dev/zero")): "a device, not a regular file",
    pointer: "a pointer of Git LFS, not the file itself; fetch it: git lfs pull",
    sparse: "100,000,000,000 bytes, and such a file has at most",
}


def failure(call, *arguments):
    with pytest.raises(ModelDirectoryError) as caught:
        call(*arguments)
    return str(caught.value)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model", files())


def test_files_round_trip(model):
    read = read_model(model)
    assert {path.name for path in model.iterdir()} == NAMES
    assert read.config["task"] == "classify"
    assert read.config["format_version"] == FORMAT == 1
    assert (read.labels, read.tokenizer) == (["a", "b"], '{"a": "é"}')
    assert torch.equal(read.weights["weight"], torch.ones(3, 2))
    assert list(model.parent.iterdir()) == [model]  # no other files remain


def test_all_files_have_the_same_permissions(model):
    assert len({path.stat().st_mode for path in model.iterdir()}) == 1


def test_notes_are_saved_with_the_model(tmp_path):
    noted = files()
    noted.notes = {"metrics.json": "{}"}
    folder = write_model(tmp_path / "model", noted)
    assert (folder / "metrics.json").read_text() == "{}"
    assert read_model(folder).notes == {"metrics.json": "{}"}
    (folder / "metrics.json").write_text("edited")
    assert read_model(folder).notes == {}
    (folder / "metrics.json").unlink()
    read_model(folder)


def test_files_of_other_folders_are_rejected(tmp_path):
    noted = files()
    noted.notes = {"../other.txt": "a", "train.yaml": "b"}
    folder = write_model(tmp_path / "model", noted)
    with pytest.raises(ModelDirectoryError, match="is damaged \\(it lists files of other folders\\)"):
        read_model(folder)


def test_files_of_two_models_are_not_mixed(tmp_path):
    """Every one of them is intact."""
    one, other = files(), replace(files(2.0), labels=["c"], tokenizer="{}", notes={"metrics.json": "{}"})
    other.source_tokenizer, one.source_tokenizer, one.notes = "{}", "{ }", {"metrics.json": "[]"}
    folder, newer = write_model(tmp_path / "one", one), write_model(tmp_path / "other", other)
    for file in newer.iterdir():
        mixed = shutil.copytree(folder, tmp_path / f"with {file.name}")
        shutil.copy(file, mixed)
        check = check_notes if file.name == "metrics.json" else read_model
        assert "its checksum is not the one in config.json" in failure(check, mixed)


def test_parent_folders_are_created(tmp_path):
    assert read_model(write_model(tmp_path / "some" / "where", files())).labels == ["a", "b"]


def test_saving_again_replaces(model):
    write_model(model, files(2.0))
    assert read_model(model).weights["weight"][0, 0] == 2.0
    assert {path.name for path in model.iterdir()} == NAMES
    assert list(model.parent.iterdir()) == [model]


def test_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_model(Path("."), files())
    monkeypatch.chdir(tmp_path)
    assert read_model(Path("here")).labels == ["a", "b"]


def test_a_link_stays_a_link(model, tmp_path):
    target, link = tmp_path / "run3", tmp_path / "latest"
    link.symlink_to(target)
    for _ in range(3):
        written = write_model(link, read_model(model))
        assert written == target
        assert link.is_symlink()
        assert read_model(link).labels == read_model(model).labels
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")) == []


def test_an_empty_folder_is_used(tmp_path):
    assert read_model(write_model(tmp_path, files())).labels == ["a", "b"]


def test_a_folder_with_files_of_killed_writers_is_used(tmp_path):
    (tmp_path / ".store.json.123.new").touch()
    assert read_model(write_model(tmp_path, files())).labels == ["a", "b"]


def test_other_folders_and_files_are_not_changed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    for name in ("mine", "file"):
        assert failure(write_model, tmp_path / name, files()) == (
            f"{tmp_path}/{name} exists and is no model directory; choose another place to save to"
        )
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "file"}


WRITERS = {
    "model": lambda fitted, path: fitted.save(path),
    "vocabulary": lambda fitted, path: fitted.vocabulary_.save(path),
    "attention": lambda fitted, path: fitted.attention("a").save(f"{path}.csv"),
    "picture": lambda fitted, path: draw_arcs(fitted.attention("a"), f"{path}.png"),
    "statistics": lambda fitted, path: save_tables(summarise(fitted, ["a"]).tables(), path),
    "run": lambda fitted, path: clone(fitted).set_params(training__run_dir=str(path)).fit(["a", "b"], [0, 1]),
}


@pytest.mark.parametrize("path", ["file/x", "a\0b", "/proc/x/y"])
@pytest.mark.parametrize("writer", WRITERS)
def test_paths_that_no_file_can_have(writer, path, fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphAttnError):
        WRITERS[writer](fitted("classifier"), tmp_path / path)


@pytest.mark.parametrize("config", ['{"name": "my web app"}', "{not json", "[]", '{"format_version": 1}'])
def test_configs_of_other_programs_are_not_overwritten(config, tmp_path):
    """For example a model of another library, with files of the same names."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text(config)
    (mine / "model.safetensors").write_text("weights")
    (mine / "tokenizer.json").write_text("{}")
    assert failure(write_model, mine, files()) == (
        f"{mine} exists and is no model directory; choose another place to save to"
    )
    assert len(list(mine.iterdir())) == 3


def test_a_model_with_a_damaged_config_can_be_replaced(model):
    (model / "config.json").write_text("{half")
    write_model(model, files())
    assert read_model(model).config["format_version"] == 1


# Failures while saving.


@pytest.mark.parametrize("failing", ["save_file", "fsync", "write_text", "rename", "second rename"])
def test_a_full_disk_leaves_the_old_directory(failing, model, monkeypatch):
    before, calls = contents(model), []
    rename = os.rename

    def full(*arguments, **keywords):
        calls.append(arguments)
        if failing == "second rename" and len(calls) != 2:
            return rename(*arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner, name = {
        "save_file": (saving, "save_file"),
        "fsync": (os, "fsync"),
        "write_text": (Path, "write_text"),
        "rename": (os, "rename"),
        "second rename": (os, "rename"),
    }[failing]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, full)
        message = failure(write_model, model, files(2.0))
    assert message == f"{model} could not be written (No space left on device); what was there before is unchanged"
    assert contents(model) == before
    assert list(model.parent.iterdir()) == [model]
    write_model(model, files(3.0))
    assert read_model(model).weights["weight"][0, 0] == 3.0


def test_a_file_that_grows_too_large(model):
    """The operating system raises an error in the middle of the weights."""
    before = contents(model)
    large = files()
    large.weights = {"weight": torch.zeros(100_000)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        message = failure(write_model, model, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message.startswith(f"{model} could not be written (")
    assert message.endswith("); what was there before is unchanged")
    assert contents(model) == before
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize("moment", ["beside half written", "between the renames", "before the old one is removed"])
def test_a_kill_while_saving(moment, model):
    """After a kill the old or the new directory loads, and the next save works."""
    beside, old = model.with_name(".model.new"), model.with_name(".model.old")
    expected = 1.0
    if moment == "beside half written":
        beside.mkdir()
        (beside / "model.safetensors").write_bytes(b"half")
    elif moment == "between the renames":
        shutil.copytree(model, beside)
        model.rename(old)
    else:
        shutil.copytree(model, old)
        write_model(model.with_name("other"), files(2.0)).rename(beside)
        shutil.rmtree(model)
        beside.rename(model)
        expected = 2.0
    assert read_model(model).weights["weight"][0, 0] == expected
    write_model(model, files(3.0))
    assert read_model(model).weights["weight"][0, 0] == 3.0
    assert not old.exists()


@pytest.mark.parametrize("name", ["labels.json", "tokenizer.json", "model.safetensors"])
def test_a_directory_that_is_replaced_while_it_is_read(name, model, monkeypatch):
    """All files are of the new model, whether another replaced it before or after a file was opened."""
    system_open = os.open
    for after in (False, True):
        write_model(model, files(1.0))
        replacements = [files(2.0)]
        replacements[0].labels = ["c"]

        def open_replaced(path, *arguments, after=after, replacements=replacements, **keywords):
            opened = system_open(path, *arguments, **keywords) if after else None
            if path == os.fspath(model / name) and replacements:
                write_model(model, replacements.pop())
            return system_open(path, *arguments, **keywords) if opened is None else opened

        monkeypatch.setattr(os, "open", open_replaced)
        read = read_model(model)
        assert (read.labels, read.weights["weight"][0, 0]) == (["c"], 2.0)


# Errors while loading.


def test_missing_directory(tmp_path, model):
    expected = "{} is no model directory: it has no config.json. Give one that `save` or `train` wrote"
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "missing", tmp_path / "empty", model / "labels.json"):
        assert failure(read_model, path) == expected.format(path)
        assert failure(load, path) == expected.format(path)


@pytest.mark.parametrize("name", sorted(NAMES - {"config.json"}))
@pytest.mark.parametrize("how", ["missing", "changed", "cut", "longer"])
def test_a_missing_or_damaged_file(name, how, model):
    whole = bytearray((model / name).read_bytes())
    if how == "missing":
        (model / name).unlink()
        assert failure(read_model, model) == f"{model} is incomplete: {name} is missing. Copy the whole directory again"
        return
    if how == "changed":
        whole[-3] ^= 1
    (model / name).write_bytes(whole[:-1] if how == "cut" else whole + (b"x" if how == "longer" else b""))
    assert failure(read_model, model) == (
        f"{model}/{name} is damaged: its checksum is not the one in config.json. Copy the directory again"
    )


def change(folder, **values):
    """Edit values in a config, ``a__b`` inside others and ``...`` for none, and remove its checksum."""
    config = json.loads((folder / "config.json").read_text())
    for name, value in {"checksum": ..., **values}.items():
        *outer, inner = name.split("__")
        place = config[outer[0]] if outer else config
        place[inner] = value
        if value is ...:
            del place[inner]
    (folder / "config.json").write_text(json.dumps(config))


VERSION = (
    "{{}} has format {}, this GraphAttn reads format 1. Install the GraphAttn that wrote it, or train again".format
)
DAMAGED = "{{}}/config.json is damaged ({}). Save the model again".format


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"", DAMAGED("Expecting value: line 1 column 1 (char 0)")),
        (
            b'{"format_version": 1,',
            DAMAGED("Expecting property name enclosed in double quotes: line 1 column 22 (char 21)"),
        ),
        (b"{}", DAMAGED("'format_version' is missing")),
        (b'{"format_version": 1}', DAMAGED("'sha256' is missing")),
        (b"[]", DAMAGED("it is not an object")),
        (b"[" * 100_000, "{}/config.json is damaged (maximum recursion depth exceeded"),
        (b"\xff\xfe\x00", "{}/config.json is damaged ("),
        (
            b'{"architectures": ["Bert"]}',
            "{} is no model directory: another program wrote its config.json. Give one that `save` or `train` wrote",
        ),
        *(({"format_version": version}, VERSION(version)) for version in (0, 2, "1", None)),
        *(
            ({"sha256": sums}, DAMAGED("its checksums are missing"))
            for sums in ({}, {"labels.json": "0"}, ["model.safetensors"])
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_config_that_cannot_be_read(config, message, model):
    if isinstance(config, bytes):
        (model / "config.json").write_bytes(config)
    else:
        change(model, **config)
    assert failure(read_model, model).startswith(message.format(model))


def test_weights_that_are_not_finite(tmp_path):
    folder = write_model(tmp_path / "model", files(float("nan")))
    assert "has NaN or infinity" in failure(read_model, folder)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_files_that_are_not_regular(name, model):
    for make, reason in UNSUITABLE.items():
        if make is sparse and name == "model.safetensors":
            continue  # weights have any size
        (model / name).unlink()
        make(model / name)
        message = failure(read_model, model)
        assert message.startswith(f"{model / name} cannot be read ({reason}") or (
            message.startswith(f"{model} is no model directory") and name == "config.json"
        )


def test_tensors_that_were_read_do_not_follow_the_file(model):
    read = read_model(model)
    size = (model / "model.safetensors").stat().st_size
    (model / "model.safetensors").write_bytes(b"\xff" * size)
    assert torch.equal(read.weights["weight"], torch.ones(3, 2))
    os.truncate(model / "model.safetensors", 0)
    assert torch.equal(read.weights["weight"], torch.ones(3, 2))


def test_a_loaded_model_does_not_follow_its_files(fitted, tmp_path):
    """Another model is copied over it while it answers."""
    folder = fitted("classifier").save(tmp_path / "model")
    loaded = load(folder)
    expected = loaded.predict_proba(["a b", "c"])
    for path in folder.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    np.testing.assert_array_equal(loaded.predict_proba(["a b", "c"]), expected)


# Whole models.

VARIANTS = {
    "classifier": ("classifier", {}),
    "numbers as labels": ("classifier", {}),
    "frozen vectors": ("classifier", {"inputs": {"vectors": "FILE"}}),
    "tuned vectors": ("classifier", {"inputs": {"vectors": "FILE", "tune_vectors": True}}),
    "characters": ("classifier", {"inputs": {"characters": True, "lowercase": False}}),
    "sub-words": ("classifier", {"inputs": {"level": "bpe", "vocabulary_size": 40}}),
    "concatenation": ("classifier", {"head": {"pooling": "concat", "head_hidden": 7}}),
    "n-grams": ("classifier", {"head": {"linear_branch": True}}),
    "n-grams of pairs": ("pair", {"head": {"linear_branch": True}}),
    "crf on spelling": ("crf", {"head": {"linear_branch": True}}),
    "several labels": ("multilabel", {}),
    "pairs with vectors": ("pair", {"inputs": {"vectors": "FILE", "normalize_vectors": False}}),
    "plain tags": ("tagger", {}),
    "crf": ("crf", {}),
    "crf with vectors": ("crf", {"inputs": {"vectors": "FILE", "tune_vectors": True}}),
    "crf on sub-words": ("crf", {"inputs": {"level": "bpe", "vocabulary_size": 40}}),
    "translator": ("translator", {"encoder": "transformer"}),
}


@pytest.fixture(scope="module")
def saved(corpus, tiny, vectors_file, figures, tmp_path_factory):
    """Saved models of every kind, without the files of word vectors: name -> model, folder, inputs, figures."""
    folder = tmp_path_factory.mktemp("saved")
    vectors = Path(shutil.copy(vectors_file, folder / "vectors.txt"))
    models = {}
    for name, (kind, arguments) in VARIANTS.items():
        if "vectors" in arguments.get("inputs", {}):
            arguments = {**arguments, "inputs": {**arguments["inputs"], "vectors": str(vectors)}}
        X, y = corpus(kind)
        if name == "numbers as labels":
            y = [7 if label == "good" else -1 for label in y]
        estimator = tiny(kind, **arguments, training={"epochs": 1}).fit(X, y)
        X = [*X[:8], ("", "x") if kind == "pair" else "never seen other3"]
        path = estimator.save(folder / name.replace(" ", "-"))
        models[name] = (estimator, path, X, figures(estimator, X))
    vectors.unlink()
    return models


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_loaded_model_is_the_same(name, saved, figures):
    estimator, path, X, expected = saved[name]
    loaded = load(str(path))
    assert type(loaded) is type(estimator)
    assert list(loaded.predict(X)) == list(estimator.predict(X))
    assert all(map(np.array_equal, figures(loaded, X), expected))
    assert loaded.history_ == estimator.history_
    assert loaded.encoder_ == estimator.encoder_
    assert loaded.options_ == estimator.options_
    changed = {"scheme": loaded.scheme} if hasattr(loaded, "scheme") else {}  # a saved tagger has that of its tags
    assert {**loaded.changed_options(), **changed} == {**estimator.changed_options(), **changed}
    if name != "translator":
        assert loaded.classes_.tolist() == estimator.classes_.tolist()
        assert loaded.classes_.dtype == estimator.classes_.dtype
        assert getattr(loaded, "multilabel", False) == (name == "several labels")


@pytest.mark.slow
def test_predictions_in_a_new_process(saved, fresh_process, tmp_path):
    script = """
import graphattn

for name, (path, X) in given["models"].items():
    estimator = graphattn.load(path)
    labels = estimator.predict(X)
    print(json.dumps([name, labels.tolist() if hasattr(labels, "tolist") else labels]))
    if hasattr(estimator, "predict_proba"):
        figures = [np.atleast_2d(row) for row in estimator.predict_proba(X)]
    else:
        figures = [[[output.score]] for (output,) in estimator.outputs(X)]
    np.save(name + ".npy", np.concatenate(figures))
"""
    done = fresh_process(script, models={name: (str(path), X) for name, (_, path, X, _) in saved.items()})
    assert (done.returncode, done.stderr) == (0, "")
    printed = dict(json.loads(line) for line in done.stdout.splitlines())
    for name, (estimator, _, X, expected) in saved.items():
        labels = estimator.predict(X)
        if isinstance(labels, np.ndarray):
            labels = labels.tolist()
        else:
            labels = [label if isinstance(label, str) else list(label) for label in labels]
        assert printed[name] == labels, name
        rows = np.concatenate([np.atleast_2d(row) for row in expected])
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), rows), name


@pytest.mark.parametrize("name", VARIANTS)
def test_files_contain_no_code(name, saved):
    """Only JSON and safetensors: no archive, no pickle."""
    path = saved[name][1]
    assert {file.name for file in path.iterdir()} == NAMES | {"README.md"}
    for file in path.iterdir():
        assert not zipfile.is_zipfile(file)
        if file.suffix == ".json":
            json.loads(file.read_text(encoding="utf-8"))
        elif file.name != "README.md":
            start = file.read_bytes()
            length = int.from_bytes(start[:8], "little")
            header = json.loads(start[8 : 8 + length])
            ends = [entry["data_offsets"][1] for entry in header.values() if "data_offsets" in entry]
            assert 8 + length + max(ends) == len(start)  # the header accounts for every byte


@pytest.mark.parametrize("name", ["classifier", "tuned vectors", "crf with vectors", "several labels"])
def test_saving_a_loaded_model_gives_the_same_files(name, saved, tmp_path):
    path = saved[name][1]
    again = load(path).save(tmp_path / "again")
    for file in NAMES - {"model.safetensors"}:
        first, second = (json.loads((folder / file).read_text()) for folder in (path, again))
        if file == "config.json":
            first["sha256"].pop("model.safetensors")
            second["sha256"].pop("model.safetensors")
        assert first == second
    first, second = read_model(path).weights, read_model(again).weights
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_loaded_model_can_be_trained_again(saved, corpus):
    loaded = load(saved["classifier"][1])
    texts, labels = corpus("classifier")
    assert loaded.training.epochs == 1
    loaded.set_params(training__epochs=2).fit(texts, labels)
    assert len(loaded.history_) == 2


SHORT = {"training__epochs": 1, "encoder__hidden": 12, "encoder__heads": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "estimator", "preset"),
    [
        ("classifier", TextClassifier().set_params(**SHORT, inputs__embedding=9), "paper"),
        ("pair", PairClassifier(preset="paper").set_params(**SHORT, head__head_dropout=0.2), "default"),
        ("tagger", SequenceTagger().set_params(**SHORT, inputs__characters=False), "paper"),
        ("regressor", TextRegressor().set_params(**SHORT), "paper"),
        ("translator", Translator().set_params(**SHORT, inputs__vocabulary_size=90, decoder__decoder_heads=4), "deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_loaded_model_follows_another_preset_except_in_options_that_were_set(
    kind, estimator, preset, corpus, tmp_path
):
    path = estimator.fit(*corpus(kind)).save(tmp_path / "model")
    loaded = load(path)
    for name in (estimator.preset, preset):
        loaded.set_params(preset=name)
        estimator.set_params(preset=name)
        expected = dict(estimator.resolve_options())
        assert {**loaded.resolve_options(), "task": expected["task"]} == expected


def test_loading_does_not_change_the_global_generator(saved):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load(saved["crf"][1])
    assert torch.equal(torch.get_rng_state(), before)


def test_settings_are_readable(saved):
    config = json.loads((saved["crf"][1] / "config.json").read_text())
    assert config["task"] == "tag"
    assert config["encoder"]["name"] == "ms-trans"
    assert config["encoder"]["scales"] == ["1", "3", "N/4"]
    assert config["head"]["crf"] is True
    assert config["training"]["epochs"] == 1
    assert config["scheme"] == "IOB2"
    assert json.loads((saved["numbers as labels"][1] / "labels.json").read_text()) == [-1, 7]


@pytest.mark.parametrize(("file", "name"), [(MANIFEST, "a store"), (saving.WEIGHTS, "a model")])
def test_readers_know_models_and_stores_by_their_files(tmp_path, file, name):
    """The lower module cannot import these names."""
    (tmp_path / file).touch()
    assert describe_directory(tmp_path).startswith(f"{name}, for ")


def test_weights_can_have_any_strides(tmp_path):
    turned = torch.arange(6.0).view(2, 3).t()
    write_model(tmp_path / "model", ModelFiles({"task": "x"}, [], "{}", {"turned": turned}))
    assert torch.equal(read_model(tmp_path / "model").weights["turned"], turned)


SAVED = Path(__file__).parents[2] / "data" / "models"
"""Models in the first released format, one of each task and of some encoders, with their predictions."""
SAVED_TASKS = ("classify", "pair", "tag", "translate")
TASK_OF = {"duo": "classify", "mtsa": "tag", "umst": "translate"}


@pytest.mark.parametrize("name", [*SAVED_TASKS, *TASK_OF])
def test_a_saved_model_predicts_the_same(name):
    task = TASK_OF.get(name, name)
    expected = json.loads((SAVED / "predictions.json").read_text())[name]
    inputs = [tuple(x) if task == "pair" else x for x in expected["inputs"]]
    estimator = load(SAVED / name)
    assert type(estimator) is TASKS[task]
    assert [x if isinstance(x, str) else list(x) for x in estimator.predict(inputs)] == expected["predictions"]
    if task == "translate":
        scores = [outputs[0].score for outputs in estimator.outputs(inputs)]
        np.testing.assert_allclose(scores, expected["scores"], atol=1e-6)
    else:
        for actual, row in zip(estimator.predict_proba(inputs), expected["probabilities"], strict=True):
            np.testing.assert_allclose(actual, np.reshape(row, actual.shape), atol=1e-6)


def test_a_model_from_before_the_first_release_is_rejected_in_one_line(tmp_path):
    folder = shutil.copytree(SAVED / "classify", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["format"] = config.pop("format_version")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelDirectoryError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{folder} was saved before the first release of GraphAttn, whose models have other files. Train it again"
    )


@pytest.mark.parametrize("task", SAVED_TASKS)
def test_predictions_in_bfloat16_are_close(task):
    inputs = json.loads((SAVED / "predictions.json").read_text())[task]["inputs"]
    inputs = [tuple(x) if task == "pair" else x for x in inputs]
    exact, fast = load(SAVED / task), load(SAVED / task, precision="bf16")
    if task == "translate":
        expected, actual = ([[o.score for o in outputs] for outputs in m.outputs(inputs)] for m in (exact, fast))
    else:
        expected, actual = exact.predict_proba(inputs), fast.predict_proba(inputs)
    expected, actual = (np.concatenate([np.asarray(row).ravel() for row in rows]) for rows in (expected, actual))
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, atol=0.02)
    assert (actual != expected).any(), "the matrix products were in bfloat16"


def test_an_unknown_precision_is_rejected():
    with pytest.raises(ConfigError) as caught:
        load(SAVED / "classify", precision="16")
    assert caught.value.options == ("precision",)


@pytest.mark.parametrize("task", SAVED_TASKS)
def test_a_saved_model_splits_as_before(task):
    inputs = load(SAVED / task).encode_inputs([("a #tag", "b :)") if task == "pair" else "a #tag b :)"])
    words = [word.removeprefix(BLANK) for sentences in inputs.sentences.values() for word in sentences[0].words]
    assert words[:6] == ["a", "#", "tag", "b", ":", ")"]


@pytest.fixture(scope="module")
def saved_classifier(corpus, tiny, tmp_path_factory):
    classifier = tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier", 12))
    return classifier.save(tmp_path_factory.mktemp("classifier") / "model")


@pytest.fixture
def folder(saved_classifier, tmp_path):
    """The model directory of a classifier."""
    return shutil.copytree(saved_classifier, tmp_path / "model")


UNREGISTERED = (
    "{{}} is a model with the {0} {1!r}, which is not registered. Call register_{0} before you load it; on the command "
    "line, name the module that does so: graphattn --import MODULE ..."
).format
MISFIT = "{{}} is damaged: config.json does not fit the other files ({}".format


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"task": "sing"},
            UNREGISTERED("task", "sing").replace(
                ", which is not registered", "; known tasks are classify, pair, tag, regress, regress-pair, translate"
            ),
        ),
        ({"encoder__name": "gru"}, UNREGISTERED("encoder", "gru")),
        ({"encoder__relations": ["clause:2:1"]}, UNREGISTERED("relation", "clause:2")),
        ({"inputs__level": "byte"}, UNREGISTERED("inputs", "byte")),
        (
            {"head": {"pool": 1}},
            MISFIT(
                "HeadOptions has no option 'pool'; did you mean 'pooling'? it has: crf, head_dropout, head_hidden, "
                "linear_branch, pair_features, pooling, word_pieces). Save the model again"
            ),
        ),
        ({"training": {"epochs": -1}}, MISFIT("epochs is -1; it must be at least 0). Save the model again")),
        ({"encoder__hidden": 24}, MISFIT("Error(s) in loading")),
        ({"encoder": ...}, DAMAGED("'encoder' is missing")),
        ({"encoder": ["ms-trans"]}, DAMAGED('encoder is ["ms-trans"], not an object')),
        ({"encoder": {"hidden": 8}}, DAMAGED("'name' is missing in encoder")),
        ({"encoder__hidden": "8"}, DAMAGED('encoder.hidden is "8", not a whole number')),
        ({"training__epochs": 1.5}, DAMAGED("training.epochs is 1.5, not a whole number or null")),
        ({"head": None}, DAMAGED("head is null, not an object")),
        ({"inputs__vectors": [1]}, DAMAGED("inputs.vectors[0] is 1, not a string")),
        ({"history": ...}, DAMAGED("'history' is missing")),
        ({"history": [1]}, DAMAGED("history[0] is 1, not an object")),
        ({"widths": [8, "x"]}, DAMAGED('widths[1] is "x", not a whole number')),
        ({"parsing__parser": None}, DAMAGED("parsing.parser is null, not a string")),
    ],
    ids=str,
)
def test_a_config_that_does_not_fit(changes, message, folder):
    change(folder, **changes)
    assert failure(load, folder).startswith(message.format(folder))


@pytest.mark.parametrize("version", [None, 0])
def test_features_of_words_of_another_version(version, corpus, tiny, tmp_path):
    folder = (
        tiny("crf", inputs={"suffixes": 2}, training={"epochs": 1}).fit(*corpus("crf", 12)).save(tmp_path / "tagger")
    )
    change(folder, features=version)
    assert "Install the GraphAttn that wrote the model, or train again" in failure(load, folder)


def test_loading_parses_the_config_once(folder, monkeypatch):
    parsed, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text, **options: parsed.append(text) or loads(text, **options))
    load(folder)
    assert sum("format_version" in str(text) for text in parsed) == 1


def test_a_tagger_that_was_stopped_before_its_linear_branch(corpus, tiny, tmp_path):
    class Stop(Callback):
        def on_train_epoch_start(self, trainer, module):
            if trainer.current_epoch == 1:
                raise ValueError("stop")

    X, y = corpus("crf", 12)
    tagger = tiny("crf", head={"linear_branch": True}, training={"epochs": 3})
    with pytest.raises(ValueError, match="stop"):
        tagger.fit(X, y, callbacks=[Stop()])
    assert load(tagger.save(tmp_path / "tagger")).predict(X) == tagger.predict(X)


def test_the_run_of_a_tagger_has_its_linear_model(corpus, tiny, tmp_path):
    run = tmp_path / "run"
    training = {"epochs": 2, "run_dir": str(run), "logs": False}
    fitted = tiny("crf", head={"linear_branch": True}, training=training).fit(*corpus("crf", 12))
    assert fitted.mixture_
    with pytest.warns(GraphAttnWarning, match="training has not ended"):
        loaded = load(run)
    assert loaded.history_ == fitted.history_
    assert loaded.mixture_ == pytest.approx(fitted.mixture_)
    assert loaded.model_.linear_branch is not None


def test_an_edited_config_must_lose_its_checksum(folder):
    path = folder / "config.json"
    text = path.read_text()
    edited = text.replace('"dropout": 0.3', '"dropout": 0.2')
    path.write_text(edited)
    assert failure(load, folder) == (
        f"{path} was changed after it was saved: its checksum does not match. Copy the directory again; or, if you "
        "edited the file, delete its line 'checksum'"
    )
    path.write_text(json.dumps(json.loads(text), indent=4))  # other blanks are no change
    assert load(folder).encoder_.dropout == 0.3
    path.write_text("".join(line for line in edited.splitlines(keepends=True) if '"checksum"' not in line))
    assert load(folder).encoder_.dropout == 0.2


def test_flipped_bits_of_a_config_are_noticed(model):
    """Except in the name of the checksum, and where the same value remains."""
    path = model / "config.json"
    content, config = path.read_bytes(), read_config(model)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            read = read_config(model)
        except ModelDirectoryError:
            continue
        assert {name: value for name, value in read.items() if name in config} == config


VALUES = (None, True, -1, 7, 1.5, "x", [], ["x"], {}, {"x": "y"})


def places(value, place=()):
    """The path of each value in a JSON value, below the first elements of lists."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


@pytest.mark.slow
@pytest.mark.parametrize("task", SAVED_TASKS)
def test_any_change_of_a_config_without_checksum_is_harmless_or_one_error(task, tmp_path):
    folder = shutil.copytree(SAVED / task, tmp_path / "model")
    text = (folder / "config.json").read_text()
    inputs = json.loads((SAVED / "predictions.json").read_text())[task]["inputs"][:2]
    errors = 0
    for number, place in enumerate(places(json.loads(text))):
        # a few values for each place, other ones for the next
        for value in (..., *(VALUES[(3 * number + step) % len(VALUES)] for step in range(2))):
            config = inner = json.loads(text)
            for key in place[:-1]:
                inner = inner[key]
            if not place:
                config = value if value is not ... else {}
            elif value is ...:
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            (folder / "config.json").write_text(json.dumps(config))
            try:
                load(folder).predict([tuple(x) if task == "pair" else x for x in inputs])
            except ModelDirectoryError:
                errors += 1
    assert errors > 50


def test_a_task_that_is_not_registered(folder):
    change(folder, task="sing")
    with pytest.raises(ModelDirectoryError, match="is a model with the task 'sing'"):
        load(folder)
    with pytest.raises(ModelDirectoryError, match=r"is no model directory: it has no config\.json\."):
        load(folder / "no")


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(loading, "TASKS", dict(TASKS))
    return loading.TASKS


class MoodClassification(Classification):
    name = "mood"


def test_a_registered_task_is_loaded_with_its_class(registry, corpus, tiny, tmp_path):
    @register_task
    class Mood(TextClassifier):
        task = MoodClassification

    trained = tiny("classifier", training={"epochs": 1})
    mood = Mood(**trained.get_params(deep=False)).fit(*corpus("classifier", 12))
    loaded = load(mood.save(tmp_path / "mood"))
    assert type(loaded) is Mood
    assert list(registry)[-1] == loaded.task.name == "mood"


def test_a_task_belongs_to_one_class(registry):
    class Other(TextClassifier):
        pass

    with pytest.raises(ConfigError, match="the task 'classify' is registered already; give Other another one"):
        register_task(Other)
    assert registry["classify"] is register_task(TextClassifier)

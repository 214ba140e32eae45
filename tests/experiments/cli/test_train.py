"""``graphattn train``: its files, resumed and repeated runs, and errors."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from safetensors.numpy import load_file

from graphattn import TextClassifier, load
from graphattn.experiments._cli.training_plan import TrainingPlan
from graphattn.experiments._cli.training_run import check_overwrite
from graphattn.experiments.demo._steps import Demo
from graphattn.models import Estimator
from graphattn.models.training._module import TrainingModule


def weights(model):
    return {name: array.tobytes() for name, array in load_file(model / "model.safetensors").items()}


def test_a_model_directory_predicts_and_has_metrics(classifier):
    written = sorted(path.name for path in classifier.iterdir())
    assert written == [
        "README.md",
        "config.json",
        "labels.json",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
        "train.yaml",
    ]
    figures = json.loads((classifier / "metrics.json").read_text())
    assert figures["task"] == "classify"
    assert figures["encoder"] == "ms-trans"
    assert figures["examples"] == {"training": 40}
    assert figures["epochs"] == 2
    assert figures["best_epoch"] in (1, 2)
    assert sorted(figures["dev"]) == ["accuracy", "macro_f1", "macro_precision", "macro_recall"]
    assert load(classifier).predict(["a good film"]).shape == (1,)
    card = (classifier / "README.md").read_text()
    assert "| training | `reviews.tsv` | 36 |\n| dev | held out of the training set | 4 |\n" in card
    assert str(classifier.parent) not in card


def test_checkpoints_are_deleted_and_histories_kept(classifier):
    run = classifier.with_name("classifier.run")
    assert (run / "history.json").exists()
    assert not list(run.glob("*.ckpt"))
    assert not list(run.glob("*.safetensors"))


def test_logs_are_kept_beside_the_model(graphattn, corpora_folder, tmp_path, tiny):
    flags = [flag for flag in tiny if flag != "--no-logs"]
    graphattn("train", "classify", corpora_folder / "reviews.tsv", "--out", tmp_path / "model", *flags)
    assert (tmp_path / "model.run" / "logs" / "csv").is_dir()
    assert (tmp_path / "model.run" / "logs" / "tensorboard").is_dir()


def test_a_second_logger_adds_a_tracker(graphattn, corpora_folder, tmp_path, tiny):
    pytest.importorskip("tensorboard")
    flags = ["--logger", "csv", "--logger", "tensorboard", "--out", tmp_path / "model"]
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", *flags, *tiny)
    assert answer.code == 0, answer.err
    assert {path.name for path in (tmp_path / "model.run" / "logs").iterdir()} == {"csv", "tensorboard"}


def test_a_tracker_gets_options_metrics_and_reports(graphattn, corpora_folder, tmp_path, tiny):
    reviews, out = corpora_folder / "reviews.tsv", tmp_path / "model"
    answer = graphattn("train", "classify", reviews, "--test", reviews, "--logger", "csv", "--out", out, *tiny)
    assert answer.code == 0
    (run,) = (tmp_path / "model.run" / "logs" / "csv").iterdir()
    files = {file.name for file in run.iterdir()} - {"test_confusion.png"}  # needs Matplotlib
    assert files == {"hparams.yaml", "metrics.csv", "metrics.json", "test_report.txt", "train.yaml"}
    header = (run / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"train_loss", "dev_accuracy", "test_accuracy", "test_macro_f1"} <= {*header}
    answer = graphattn("train", "classify", reviews, "--logger", "neptune", "--out", tmp_path / "other", *tiny)
    assert answer.code == 2


def test_metrics_are_printed_one_per_line(graphattn, corpora_folder, tmp_path, tiny):
    reviews = corpora_folder / "reviews.tsv"
    out = tmp_path / "model"
    answer = graphattn("train", "classify", reviews, "--dev", reviews, "--test", reviews, "--out", out, *tiny)
    names = [line.rpartition(": ")[0] for line in answer.out.splitlines()]
    metrics = ["accuracy", "macro precision", "macro recall", "macro f1"]
    of_probabilities = ["brier", "calibration error", "roc auc", "average precision"]
    expected = [f"dev {name}" for name in metrics] + [f"test {name}" for name in metrics + of_probabilities]
    assert names == [*expected, "model"]
    figures = json.loads((out / "metrics.json").read_text())
    labels, texts = zip(*rows(reviews), strict=True)
    assert figures["test"] == load(out).report(texts, labels).metrics
    assert figures["dev"].items() <= figures["test"].items(), "the model has the weights of the best epoch"


@pytest.mark.slow
def test_each_test_set_has_its_metrics(graphattn, corpora_folder, tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = (corpora_folder / "reviews.tsv").read_text().splitlines(keepends=True)
    Path("a,b.tsv").write_text("".join(lines[:10]))
    Path("c.tsv").write_text("".join(lines[:1] + lines[20:]))
    flags = ["--test", "a,b.tsv", "--test", "c.tsv"]
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", *flags, "--out", "model", *tiny)
    assert (answer.code, answer.err) == (0, "")
    figures = json.loads(Path("model/metrics.json").read_text())
    assert figures["examples"]["test"] == {"a,b.tsv": 9, "c.tsv": 21}
    for name in ("a,b.tsv", "c.tsv"):
        labels, texts = zip(*rows(Path(name)), strict=True)
        assert figures["test"][name] == load("model").report(texts, labels).metrics
        assert f"test {name} accuracy: {figures['test'][name]['accuracy']:.2f}" in answer.out.splitlines()
    assert yaml.safe_load(Path("model/train.yaml").read_text())["test"] == ["a,b.tsv", "c.tsv"]


@pytest.mark.parametrize(
    ("line", "names"),
    [("test: null", None), ("test: reviews.tsv", ["reviews.tsv"]), ("test: ['a,b.tsv', c.tsv]", ["a,b.tsv", "c.tsv"])],
)
def test_settings_have_several_test_sets_or_one_or_none(line, names, tmp_path):
    (tmp_path / "train.yaml").write_text(line)
    test = TrainingPlan.of(TextClassifier, {}, tmp_path / "train.yaml").values["test"]
    assert test == (None if names is None else tuple(names))


def rows(path):
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("task", ["tag", "pair"])
def test_every_task_has_its_metrics(request, task):
    model = request.getfixturevalue({"tag": "tagger", "pair": "pair_classifier"}[task])
    figures = json.loads((model / "metrics.json").read_text())
    assert figures["task"] == task
    assert ("f1" if task == "tag" else "macro_f1") in figures["dev"]


def test_the_saved_config_repeats_the_run(graphattn, classifier, corpora_folder, tmp_path):
    again = tmp_path / "again"
    config = classifier / "train.yaml"
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", "--config", config, "--out", again)
    assert answer.code == 0
    assert weights(again) == weights(classifier)
    assert (again / "metrics.json").read_text() == (classifier / "metrics.json").read_text()
    assert (again / "train.yaml").read_text() == config.read_text()


def test_heads_by_relation_reach_the_model(graphattn, corpora_folder, tmp_path, tiny):
    index = tiny.index("--heads")
    (tmp_path / "settings.yaml").write_text("heads:\n  window:3: 1\n  star: 1\n")
    flags = [*tiny[:index], *tiny[index + 2 :], "--config", tmp_path / "settings.yaml"]
    out = tmp_path / "model"
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", "--out", out, *flags)
    assert (answer.code, answer.err) == (0, "")
    relations = set(load(out).attention("a good film").table().relation)
    assert relations == {"window:3", "star"}


def test_invalid_heads_are_reported_before_reading(graphattn, tmp_path):
    answer = graphattn("train", "classify", "no.tsv", "--heads", "windows:3=1", "--out", tmp_path / "model")
    assert answer.error.startswith("--heads: there is no relation 'windows:3'; did you mean 'window'? ")


def test_the_saved_config_has_every_option(classifier):
    settings = yaml.safe_load((classifier / "train.yaml").read_text())
    assert settings["scales"] == ["1", "3"]
    assert settings["learning_rate"] == 2e-3
    assert settings["logs"] is False
    assert "ffn" not in settings, "an option of another encoder"
    assert not {"run_dir", "crf", "scheme"} & settings.keys()


def test_several_corpora_are_concatenated(graphattn, corpora_folder, tmp_path, tiny):
    out = tmp_path / "model"
    copy = tmp_path / "copy.conll"
    copy.write_text((corpora_folder / "tags.conll").read_text())
    graphattn("train", "tag", corpora_folder / "tags.conll", copy, "--out", out, *tiny)
    assert json.loads((out / "metrics.json").read_text())["examples"] == {"training": 40}


@pytest.mark.slow
def test_several_labels_are_trained_predicted_and_evaluated(graphattn, tmp_path, tiny):
    corpus, out, flags = tmp_path / "several.csv", tmp_path / "model", ["--label-separator", "|"]
    corpus.write_text("text,label\n" + "a calm day,calm|day\nno day,day\nnothing,\n" * 8)
    assert graphattn("train", "classify", corpus, *flags, "--out", out, *tiny).code == 0
    assert sorted(json.loads((out / "metrics.json").read_text())["dev"]) == ["exact_match", "macro_f1", "micro_f1"]
    assert all(isinstance(labels, tuple) for labels in load(out).predict(["a calm day", ""]))
    row = json.loads(graphattn("predict", out, "--probabilities", stdin="a day").out)
    assert row["labels"] == [name for name, chance in row["probabilities"].items() if chance > 0.5]
    corpus.write_text("text,label\na calm day,new|calm\n")
    assert graphattn("evaluate", out, corpus, *flags, "--unknown", "error").code == 1
    answer = graphattn("evaluate", out, corpus, *flags)
    assert "has label 'new', which the training set lacks (1 in all)" in answer.err
    assert json.loads(answer.out)["exact_match"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("several.jsonl", '{"text": "a day", "label": ["x", "y"]}\n{"text": "b", "label": ["x"]}\n'),
        ("several.txt", "__label__x __label__y a day\n__label__x b\n"),
    ],
    ids=["lists", "fasttext"],
)
def test_several_labels_without_a_separator(graphattn, tmp_path, tiny, name, content):
    (tmp_path / name).write_text(content * 10)
    command = ["train", "classify", tmp_path / name, "--out", tmp_path / "model", *tiny]
    assert "--multilabel" in graphattn(*command).error
    assert graphattn(*command, "--multilabel").code == 0
    assert load(tmp_path / "model").classes_.tolist() == ["x", "y"]


@pytest.mark.slow
def test_a_model_is_overwritten_only_with_the_flag(graphattn, corpora_folder, tmp_path, tiny):
    command = ["train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "model", *tiny]
    graphattn(*command)
    before = weights(tmp_path / "model")
    answer = graphattn(*command)
    assert answer.error == f"{tmp_path / 'model'} already has a model; give --overwrite to replace it, or another --out"
    assert graphattn(*command, "--overwrite", "--seed", "1").code == 0
    assert weights(tmp_path / "model") != before


def test_other_folders_are_never_overwritten(graphattn, corpora_folder, tmp_path, tiny):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    answer = graphattn("train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "notes", "--overwrite", *tiny)
    assert answer.error == f"{tmp_path / 'notes'} exists and is no model directory; choose another --out"


@pytest.mark.slow
def test_a_folder_of_killed_writers_is_used(tmp_path):
    (tmp_path / ".store.json.123.new").touch()
    check_overwrite(tmp_path, overwrite=False)
    assert Demo(tmp_path).out == tmp_path


@pytest.mark.slow
def test_only_the_same_command_resumes(graphattn, corpora_folder, tmp_path, tiny, monkeypatch):
    """A run whose model could not be saved leaves a checkpoint that only the same command can resume."""
    command = ["train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "model", *tiny]
    with monkeypatch.context() as patch:
        patch.setattr(Estimator, "save", interrupted)
        answer = graphattn(*command)
    assert (answer.code, answer.err) == (130, "stopped; run the same command again to resume\n")
    answer = graphattn(*command, "--hidden", "20")
    assert answer.error == (
        f"a run with other options (--hidden: 16, now 20) is in {tmp_path / 'model.run'}; --no-resume discards it, "
        "another --run-dir keeps it"
    )
    assert graphattn(*command).code == 0
    graphattn(*command, "--out", tmp_path / "undisturbed")
    assert weights(tmp_path / "model") == weights(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--no-resume", "--overwrite"])
def test_a_corrected_command_discards_the_run_of_an_interrupted_one(
    graphattn, corpora_folder, tmp_path, tiny, monkeypatch, flag
):
    corpus, model = tmp_path / "tags.conll", tmp_path / "model"
    shutil.copy(corpora_folder / "tags.conll", corpus)
    command = ["train", "tag", corpus, "--out", model, *tiny]
    with monkeypatch.context() as patch:
        patch.setattr(Estimator, "save", interrupted)
        assert graphattn(*command).code == 130
    corpus.write_text(corpus.read_text().replace("\n\n", "\n\n\n") + "\nagain O\n")
    answer = graphattn(*command)
    assert answer.error == (
        f"a run with other data (training set) is in {model}.run; --no-resume discards it, another --run-dir keeps it"
    )
    assert graphattn(*command, flag).code == 0
    assert (model / "model.safetensors").exists()


@pytest.mark.slow
def test_overwrite_resumes_the_run_of_the_same_command(graphattn, corpora_folder, tmp_path, tiny, monkeypatch):
    command = ["train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "model", *tiny, "--overwrite"]
    with monkeypatch.context() as patch:
        patch.setattr(Estimator, "save", interrupted)
        assert graphattn(*command).code == 130
    monkeypatch.setattr(TrainingModule, "training_step", interrupted)  # no step is left
    assert graphattn(*command).code == 0


def interrupted(*_arguments, **_keywords):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--heads", "3"], "--hidden is 16; it must be a multiple of --heads (3), or set --head-feats"),
        (
            ["--ffn", "8"],
            "--ffn is not an option of the encoder ms-trans; mtsa, duo-transformer, umst, tnt, multi-stage, muse and "
            "transformer have it. Leave it out, or choose another --encoder",
        ),
        (
            ["--encoder", "bilstm"],
            "--heads is not an option of the encoder bilstm; ms-trans, mtsa, duo-transformer, umst, tnt, multi-stage, "
            "muse and transformer have it. Leave it out, or choose another --encoder",
        ),
        (["--config", "none.yaml"], "none.yaml: file not found; give --config a YAML file"),
        (["--learning-rate", "-1"], "--learning-rate is -1.0; it must be above 0"),
        (
            ["--level", "bpe", "--vectors", "x.txt"],
            "--vectors are for whole words; leave them out, or set --level word",
        ),
    ],
)
def test_invalid_options_are_rejected_before_reading(graphattn, tmp_path, tiny, flags, message):
    answer = graphattn("train", "classify", tmp_path / "no-such-file.tsv", "--out", tmp_path / "model", *tiny, *flags)
    assert answer.error == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epochs", "many"], "'many'; it must be a whole number"),
        (["--schedule", "steep"], "'steep'; choose one of: linear, cosine, constant"),
        (["--warp", "9"], "No such option: --warp"),
    ],
)
def test_invalid_flags_are_usage_errors(graphattn, tmp_path, flags, message):
    answer = graphattn("train", "classify", "train.tsv", "--out", tmp_path / "model", *flags)
    assert answer.code == 2
    assert message in " ".join(answer.err.replace("│", "").split())


def test_an_invalid_test_set_keeps_the_model(graphattn, corpora_folder, tmp_path, tiny):
    invalid, out = tmp_path / "invalid.conll", tmp_path / "model"
    invalid.write_text("Ada X-PER\nsaw O\n\n")
    known = corpora_folder / "tags.conll"
    answer = graphattn("train", "tag", known, "--test", known, "--test", invalid, "--out", out, *tiny)
    assert answer.code == 1
    assert f"test {known} accuracy: " in answer.out
    assert answer.err.startswith(f"error: {invalid}")
    assert answer.err.endswith(f"The model is saved in {out}; measure it with graphattn evaluate.\n")
    assert list(json.loads((out / "metrics.json").read_text())["test"]) == [str(known)]


def test_a_corpus_given_twice_is_rejected(graphattn, corpora_folder, tmp_path, tiny):
    known = corpora_folder / "reviews.tsv"
    other = corpora_folder / ".." / corpora_folder.name / "reviews.tsv"
    answer = graphattn("train", "classify", known, other, "--out", tmp_path / "model", *tiny)
    assert answer.error == f"{known} is given twice to train on; give each file once"


def test_unknown_labels_of_a_test_set_count_as_wrong(graphattn, corpora_folder, tmp_path, tiny):
    strange, out = tmp_path / "strange.tsv", tmp_path / "model"
    strange.write_text("label\ttext\nodd\ta film\nodd\ta play\npos\ta play\n")
    known = corpora_folder / "reviews.tsv"
    answer = graphattn("train", "classify", known, "--test", known, "--test", strange, "--out", out, *tiny)
    assert answer.code == 0
    assert f"test {known} accuracy: " in answer.out
    assert "'odd', which the training set lacks (2 in all); these count as wrong" in answer.err
    assert json.loads((out / "metrics.json").read_text())["test"][str(strange)]["accuracy"] < 50


def test_a_run_can_have_no_folder(graphattn, corpora_folder, tmp_path, tiny):
    command = ["train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "model", *tiny]
    assert graphattn(*command, "--run-dir", "none").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_a_run_can_have_another_folder(graphattn, corpora_folder, tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["train", "tag", corpora_folder / "tags.conll", *tiny]
    assert graphattn(*command, "--run-dir", "run", "--out", "model").code == 0
    assert graphattn(*command, "--out", "other/model").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other", "run"]
    assert yaml.safe_load(Path("model/train.yaml").read_text())["run_dir"] == "run"


@pytest.mark.slow
def test_progress_and_hints_are_printed_unless_quiet(graphattn, corpora_folder, tmp_path, tiny):
    """Without a terminal there is a line for each epoch."""
    loud = [flag for flag in tiny if flag != "--quiet"]
    command = ["train", "classify", corpora_folder / "reviews.tsv", *loud]
    hint, *lines = graphattn(*command, "--out", tmp_path / "loud").err.splitlines()
    assert hint.startswith("hint: 40 examples are few to learn word vectors from; a pretrained model usually helps")
    epoch = r"epoch \d/2: loss [\d.]+, dev accuracy [\d.]+, [\d.]+ s, best .*"
    assert re.fullmatch(r"linear model: dev accuracy [\d.]+, [\d.]+ s", lines[0])
    assert lines[1] == f"usable from now on: graphattn predict {tmp_path / 'loud.run'}"
    assert all(re.fullmatch(epoch, line) for line in lines[2:4])
    assert all(line.startswith(("linear model: with the dev set", "temperature")) for line in lines[4:])
    assert graphattn(*command, "--quiet", "--out", tmp_path / "quiet").err == ""
    assert "quiet" not in (tmp_path / "quiet" / "train.yaml").read_text()
    assert (tmp_path / "quiet" / "train.yaml").read_text() == (tmp_path / "loud" / "train.yaml").read_text()


@pytest.mark.slow
def test_hints_about_a_file_are_printed_once_unless_quiet(graphattn, tmp_path, tiny):
    part = b"\xef\xbb\xbfpos\ta good film\nneg\ta bad film\n"
    (tmp_path / "a.tsv").write_bytes(part * 5)
    flags = [flag for flag in tiny if flag != "--quiet"]
    command = ["train", "classify", tmp_path / "a.tsv", *flags, "--out", tmp_path / "model", "--overwrite"]
    first, *lines = graphattn(*command).err.splitlines()
    assert first.startswith(f"hint: {tmp_path / 'a.tsv'}: byte order marks (U+FEFF)")
    assert first.endswith("lines: 4")
    assert not any("U+FEFF" in line for line in lines)
    assert json.loads((tmp_path / "model" / "labels.json").read_text()) == ["neg", "pos"]
    assert graphattn(*command, "--quiet").err == ""


@pytest.mark.slow
def test_large_corpora_and_given_vectors_need_no_hint(graphattn, corpora_folder, tmp_path, tiny, monkeypatch):
    loud = [flag for flag in tiny if flag != "--quiet"]
    command = ["train", "classify", corpora_folder / "reviews.tsv", *loud]
    (tmp_path / "v.txt").write_text("good 1 0\nbad 0 1\nfilm 1 1\n")
    assert "hint" not in graphattn(*command, "--vectors", tmp_path / "v.txt", "--out", tmp_path / "vectors").err
    assert "hint" not in graphattn(*command, "--level", "bpe", "--out", tmp_path / "bpe").err
    monkeypatch.setattr("graphattn.models.training._hints.FEW_EXAMPLES", 40)
    assert "hint" not in graphattn(*command, "--out", tmp_path / "many").err


@pytest.mark.slow
def test_a_model_is_trained_further(graphattn, classifier, tmp_path):
    """Options come from the model; labels and words may be new."""
    corpus, out = tmp_path / "more.tsv", tmp_path / "model"
    corpus.write_text("label\ttext\n" + "neutral\ta plain zebra\npos\ta good film\n" * 10)
    flags = ["--epochs", "1", "--no-logs", "--quiet", "--out", out]
    answer = graphattn("train", "classify", corpus, "--init-from", classifier, *flags)
    assert (answer.code, answer.err) == (0, "")
    model, settings = load(out), yaml.safe_load((out / "train.yaml").read_text())
    assert model.classes_.tolist() == ["neg", "neutral", "pos"]
    assert {"zebra", "good", "poor"} <= {*model.vocabulary_.words}
    assert (model.encoder_.hidden, settings["hidden"], settings["embedding"]) == (16, 16, 16)
    assert settings["init_from"] == str(classifier)
    again = graphattn(
        "train", "classify", corpus, "--config", out / "train.yaml", "--quiet", "--out", tmp_path / "again"
    )
    assert again.code == 0
    assert weights(tmp_path / "again") == weights(out)


@pytest.mark.slow
def test_old_examples_are_mixed_in_and_measured(graphattn, classifier, corpora_folder, tmp_path):
    old, new = corpora_folder / "reviews.tsv", tmp_path / "new.tsv"
    new.write_text("label\ttext\n" + "neutral\ta good film\nneutral\ta bad film\n" * 20)
    short = ["--init-from", classifier, "--epochs", "1", "--no-logs", "--keep-dev", old]
    answer = graphattn("train", "classify", new, *short, "--quiet", "--learning-rate", "0.01", "--out", tmp_path / "a")
    assert "on --keep-dev fell from " in answer.err
    assert "mix old examples in: --keep-from" in answer.err
    answer = graphattn("train", "classify", new, *short, "--keep-from", old, "--out", tmp_path / "b")
    assert re.search(r"^\d+ of \d+ old examples mixed in$", answer.err, re.MULTILINE)
    figures = json.loads((tmp_path / "b" / "metrics.json").read_text())
    assert figures["examples"]["training"] > 40
    assert {*figures["old_dev"]} == {"before", "after"}
    answer = graphattn("train", "classify", new, "--keep-from", old, "--out", tmp_path / "c")
    assert answer.error == "--keep-from needs a model to continue from: --init-from"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--tune-threshold", "none"], ["--tune-threshold", "accuracy"]])
def test_a_tuned_threshold_of_the_model_to_continue_from(graphattn, tmp_path, tiny, flags):
    """It is dropped with one line when it no longer fits, and can be left out; asked for again, it is an error."""
    corpus, out, model = tmp_path / "more.tsv", tmp_path / "out", tmp_path / "model"
    corpus.write_text("label\ttext\n" + "neg\ta bad film\npos\ta good film\n" * 10)
    assert graphattn("train", "classify", corpus, *tiny, "--tune-threshold", "f1", "--out", model).code == 0
    corpus.write_text("label\ttext\n" + "neg\ta bad film\npos\ta good film\nneutral\ta film\n" * 10)
    short = ["--epochs", "1", "--no-logs", "--quiet", "--out", out]
    answer = graphattn("train", "classify", corpus, "--init-from", model, *short, *flags)
    problem = "--tune-threshold is for two classes, or several labels for a text; there are 3 classes"
    if "accuracy" in flags:
        assert answer.error == f"{problem}, so leave it out"
        assert not out.exists()
        return
    dropped = f"warning: --tune-threshold of the model to continue from is dropped: {problem}\n"
    assert (answer.code, answer.err) == (0, "" if flags else dropped)
    assert load(out).tune_threshold is None


@pytest.mark.parametrize(
    ("task", "flags", "message"),
    [
        ("classify", ["--hidden", "20"], "--hidden is 20, but the model to continue from has 16; leave it out, or tra"),
        ("classify", ["--encoder", "bilstm"], "--encoder is 'bilstm', but the model to continue from has 'ms-trans'; "),
        ("tag", [], "{} is a model of another task; use graphattn train classify"),
    ],
)
def test_conflicts_with_a_model_to_continue_from(graphattn, classifier, tmp_path, task, flags, message):
    answer = graphattn("train", task, "no-such-file", "--init-from", classifier, *flags, "--out", tmp_path / "model")
    assert answer.error.startswith(message.format(classifier))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "mark", "rows"),
    [
        ("classify", "-1", ["0\ta b", "1\tc d", "-1\te f", "2\tc"]),
        ("regress", "n/a", ["1.5\ta b", "2.5\tc d", "n/a\te f"]),
        ("tag", "-100", ["a\tX", "b\tY", "c\t-100", ""]),
    ],
)
def test_labels_that_stand_for_none_are_left_out(graphattn, tmp_path, tiny, task, mark, rows):
    corpus, model = tmp_path / "corpus.tsv", tmp_path / "model"
    corpus.write_text("\n".join(rows * 8) + "\n")
    flags = ["--drop-label", mark]
    answer = graphattn("train", task, corpus, "--test", corpus, "--out", model, *tiny, *flags)
    assert (answer.code, answer.err) == (0, "")
    assert mark not in map(str, getattr(load(model), "classes_", ()))  # a regressor has none
    answer = graphattn("evaluate", model, corpus, *flags)
    assert answer.code == 0
    assert re.search(r"^hint: .*corpus.tsv: 8 of \d+ (texts|words) are left out", answer.err)
    answer = graphattn("evaluate", model, corpus)
    assert answer.code == (task == "regress")
    assert f"--drop-label {mark} leaves it out." in answer.err
    options = ["--format", "conll"] if task == "tag" else []
    answer = graphattn("build", corpus, "--out", tmp_path / "store", *options, *flags)
    assert re.match(r"(8|16|24|32) sentences", answer.out)
    answer = graphattn("train", task, tmp_path / "store", "--out", tmp_path / "other", *tiny, *flags)
    assert answer.error == "--drop-label is for files; give it to graphattn build"


GOOD, BAD = ["pos\ta film", "neg\tdull"] * 6, ["one field", "\tno label"]
CONLLU = "1\ta\t_\t{}\t_\t_\t{}\troot\t_\t_\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "name", "good", "bad", "first"),
    [
        ("classify", "a.tsv", GOOD, BAD, "line 13: 1 field, 2 expected (label, text)"),
        ("regress", "a.tsv", ["1\ta c", "2\tb c", "2\td"] * 4, ["high\ta c", "3\tb\tc"],
         "line 13: the target 'high' is not a number"),
        ("tag", "a.conllu", [CONLLU.format("X", 0), CONLLU.format("Y", 0)] * 6,
         [CONLLU.format("X", 1), CONLLU.format("_", 0)],
         "line 25, field 'heads': heads form a cycle through word 1 ('a')"),
    ],
)  # fmt: skip
def test_bad_lines_are_left_out(graphattn, tmp_path, tiny, task, name, good, bad, first):
    path, out = tmp_path / name, tmp_path / "model"
    path.write_text("\n".join([*good, *bad]) + "\n")
    words = ("train", task, path, "--out", out, *(flag for flag in tiny if flag != "--quiet"))
    assert graphattn(*words).code == 1
    answer = graphattn(*words, "--skip-bad")
    assert answer.code == 0
    lines = answer.err.replace(str(tmp_path) + "/", "").splitlines()
    at = lines.index("hint: 2 lines left out")
    assert lines[at + 1] == f"  {name}, {first}"
    assert json.loads((out / "metrics.json").read_text())["examples"]["training"] == len(good)


@pytest.mark.slow
def test_bad_lines_are_left_out_on_request(graphattn, tmp_path, tiny):
    path = tmp_path / "a.tsv"
    words = ("train", "classify", path, "--out", tmp_path / "model", *tiny)
    path.write_text("text\tlabel\n\n\na\n")
    answer = graphattn(*words, "--skip-bad")
    assert (answer.code, answer.err.count("\n")) == (1, 1), "no line can be used"
    path.write_text("\n".join([*GOOD * 20, *BAD * 4]))
    assert graphattn(*words).err.endswith("Or leave out such lines with --skip-bad.\n")
    test = graphattn(*words, "--skip-bad", "--test", path)
    assert test.code == 1, "the lines of a test set are not left out"
    assert graphattn(*words, "--skip-bad").err == ""
    loud = [word for word in words if word != "--quiet"]
    assert "  and 3 more\n" in graphattn(*loud, "--skip-bad", "--overwrite").err


@pytest.mark.slow
def test_empty_lines_of_sources_and_targets(graphattn, tmp_path):
    (tmp_path / "en").write_text("a\n\nb\nc\n")
    (tmp_path / "de").write_text("x\ny\n\nz\n")
    words = ("train", "translate", tmp_path / "en", tmp_path / "de", "--out", tmp_path / "model", "--epochs", "1",
             "--hidden", "8", "--heads", "2", "--layers", "1", "--decoder-layers", "1")  # fmt: skip
    assert graphattn(*words).err == (
        f"error: {tmp_path / 'en'}, line 2: the line is empty, and 1 more pair has such a line. Delete it in both "
        "files, or complete it. Or leave out such lines with --skip-bad.\n"
    )
    answer = graphattn(*words, "--skip-bad")
    assert answer.code == 0
    assert "hint: 2 lines left out\n" in answer.err


def test_a_file_of_texts_and_one_of_labels(graphattn, tmp_path, tiny):
    """As TweetEval has them."""
    rows = [(f"a {word} film {number}", label) for number in range(8) for word, label in (("good", "1"), ("bad", "0"))]
    for name, side in zip(("texts.txt", "labels.txt"), zip(*rows, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    (tmp_path / "all.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    pair, model = f"{tmp_path / 'texts.txt'},{tmp_path / 'labels.txt'}", tmp_path / "model"
    answer = graphattn("train", "classify", pair, "--dev", pair, "--test", pair, "--out", model, *tiny)
    assert answer.code == 0, answer.err
    assert "texts.txt labels.txt" in (model / "README.md").read_text()
    measured = [json.loads(graphattn("evaluate", model, corpus).out) for corpus in (pair, tmp_path / "all.tsv")]
    assert measured[0] == measured[1]
    (tmp_path / "labels.txt").write_text("1\n0\n")
    assert graphattn("evaluate", model, pair).error == (
        f"{tmp_path / 'texts.txt'}, line 3: there is no label, since {tmp_path / 'labels.txt'} ends before it. Give as "
        "many texts as labels."
    )
    missing = f"{tmp_path / 'texts.txt'},{tmp_path / 'no.txt'}"
    answer = graphattn("train", "classify", missing, "--out", tmp_path / "other", *tiny)
    assert answer.error == f"{tmp_path / 'no.txt'}: there is no such file. Check the path."
    answer = graphattn("evaluate", model, pair, "--text-column", "body")
    assert answer.error.endswith("have a text and a label on each line, so leave --text-column out")

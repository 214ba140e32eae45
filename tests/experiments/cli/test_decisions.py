"""Thresholds, the best classes and abstention on the command line, weights of classes by value, and curves."""

import json

import pytest
import yaml
from pyarrow import parquet

from graphattn import load

TINY = ("--hidden", 8, "--heads", 2, "--layers", 1, "--scales", "1,3", "--epochs", 1, "--quiet")


@pytest.fixture(scope="module")
def several(graphattn, tmp_path_factory):
    """The folder of a model of several labels, and its corpus."""
    folder = tmp_path_factory.mktemp("several")
    rows = ["good,film\ta good film", "good\ta good play", "film\ta film", "\ta play"] * 20
    (folder / "corpus.tsv").write_text("label\ttext\n" + "".join(f"{row}\n" for row in rows))
    flags = ["--multilabel", "--label-separator", ",", "--no-linear-branch", "--class-weight", "good=2, film=0.5"]
    answer = graphattn("train", "classify", folder / "corpus.tsv", "--out", folder / "model", *flags, *TINY)
    assert (answer.code, answer.err) == (0, "")
    return folder


def test_weights_of_classes_by_value(several):
    weights = {"good": 2.0, "film": 0.5}
    assert load(several / "model").class_weight == weights
    assert yaml.safe_load((several / "model" / "train.yaml").read_text())["class_weight"] == weights


def test_weights_of_classes_in_a_file_of_options(graphattn, several, tmp_path):
    (tmp_path / "options.yaml").write_text("class_weight: {good: x}\n")
    answer = graphattn(
        "train", "classify", several / "corpus.tsv", "--config", tmp_path / "options.yaml", "--out", tmp_path / "m"
    )
    assert answer.error == (
        f"{tmp_path / 'options.yaml'}, line 1: class_weight is {{'good': 'x'}}; it must be balanced, or classes with "
        "their weights such as spam=5,ham=1, or none"
    )


def test_thresholds_of_all_labels_or_of_some(graphattn, several):
    model = several / "model"
    everything = json.loads(graphattn("predict", model, "a good film", "--threshold", 0, "--top-k", 1).out)
    assert everything["labels"] == ["film", "good"]
    assert len(everything["top"]) == 1
    some = json.loads(graphattn("predict", model, "a good film", "--threshold", "film=1,good=0").out)
    assert some["labels"] == ["good"]


def test_a_confidence_below_the_smallest_leaves_the_label_empty(graphattn, classifier):
    row = json.loads(graphattn("predict", classifier, "a film", "--min-confidence", 1, "--top-k", 1).out)
    ((best, share),) = row["top"].items()
    assert row == {"text": "a film", "label": None, "confidence": share, "top": {best: share}}
    table = graphattn("predict", classifier, "a film", "--min-confidence", 1, "--top-k", 1, "--output", "csv").out
    assert table == f"text,label,confidence,top_1,top_1_probability\na film,,{share},{best},{share}\n"


def test_the_best_classes_are_columns_of_parquet(graphattn, classifier, tmp_path):
    flags = ["--top-k", 2, "--probabilities", "--out", tmp_path / "out.parquet", "--chunk", 1]
    assert graphattn("predict", classifier, *flags, stdin="a film\na book\n").code == 0
    for row in parquet.read_table(tmp_path / "out.parquet").to_pylist():
        assert (row["top_1"], row["top_1_probability"]) == (row["label"], row["confidence"])
        assert row[f"p({row['top_2']})"] == row["top_2_probability"]


def test_info_shows_thresholds(graphattn, several, tmp_path):
    load(several / "model").set_thresholds({"good": 0.25, "film": 0.5}).save(tmp_path / "model")
    assert "\nthresholds: film 0.500, good 0.250\n" in graphattn("info", tmp_path / "model").out
    load(several / "model").set_thresholds(None).save(tmp_path / "plain")
    assert graphattn("info", tmp_path / "plain").out.endswith("* has the weights that are kept\n")


def test_curves_of_probabilities(graphattn, several, tagger, corpora_folder, tmp_path):
    flags = ["--label-separator", ",", "--curves"]
    answer = graphattn("evaluate", several / "model", several / "corpus.tsv", *flags, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {"brier", "calibration_error", "roc_auc", "micro_average_precision"} <= json.loads(answer.out).keys()
    assert "\nBrier score 0." in answer.err
    answer = graphattn("evaluate", tagger, corpora_folder / "tags.conll", "--curves", tmp_path / "tags.png")
    assert answer.error == f"--curves does not apply to {tagger}, which tags words; leave it out"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--threshold", "0.3"], "--threshold needs a class, such as 0.3 for neg"),
        (["--threshold", "pos=2"], "--threshold is 2.0; it must be at least 0 and at most 1"),
        (["--threshold", "odd=0.5"], "the threshold has label 'odd', which the training set lacks. Known: neg, pos."),
        (
            ["--threshold", "pos"],
            "--threshold is 'pos'; write a probability, or CLASS=PROBABILITY with commas between several",
        ),
        (["--top-k", 3], "--top-k is 3; it must be at least 1 and at most 2"),
    ],
)
def test_decisions_that_cannot_be(graphattn, classifier, flags, message):
    assert graphattn("predict", classifier, "a film", *flags).error == message


@pytest.mark.parametrize("flags", [["--threshold", 0.3], ["--top-k", 2], ["--min-confidence", 0.5]])
def test_taggers_have_no_such_decisions(graphattn, tagger, flags):
    answer = graphattn("predict", tagger, "a film", *flags)
    assert answer.error == f"{flags[0]} does not apply to {tagger}, which tags words; leave it out"
    answer = graphattn("train", "tag", "x.conll", "--out", "model", "--tune-threshold", "f1")
    assert "No such option" in answer.err


def test_where_a_classifier_decides_alone(graphattn, classifier, corpora_folder, tmp_path):
    corpus, table = corpora_folder / "reviews.tsv", tmp_path / "coverage.tsv"
    flags = ["--min-confidence", 0.6, "--min-accuracy", 60]
    answer = graphattn("evaluate", classifier, corpus, *flags, "--coverage", table)
    assert answer.code == 0, answer.err
    rows = [line.split("\t") for line in corpus.read_text().splitlines()[1:]]
    labels, texts = zip(*rows, strict=True)
    coverage = load(classifier).report(texts, labels).coverage
    result = json.loads(answer.out)
    assert result["decided"] == coverage.at(0.6).to_row()
    assert result["coverage_area"] == coverage.area
    reached = result["min_accuracy"]["reached"]
    assert {**reached, "confidence_interval": None} == {**coverage.reach(60).to_row(), "confidence_interval": None}
    assert f"from confidence 0.6 on {coverage.at(0.6)}\n" in answer.err
    assert f"60 % right: --min-confidence {reached['min_confidence']:g} (95 % confidence interval " in answer.err
    answers = [
        json.loads(line)
        for line in graphattn(
            "predict", classifier, corpus, "--min-confidence", reached["min_confidence"]
        ).out.splitlines()
    ]
    assert sum(row["label"] is not None for row in answers) == reached["texts"]
    assert len(table.read_text().splitlines()) == len(coverage.to_rows()) + 1
    assert graphattn("evaluate", classifier, corpus, "--coverage", tmp_path / "coverage.svg").code == 0
    assert (tmp_path / "coverage.svg").read_text().startswith("<?xml")


def test_several_labels_have_no_single_confidence(graphattn, several):
    answer = graphattn("evaluate", several / "model", several / "corpus.tsv", "--min-accuracy", 90)
    assert answer.error == "--min-accuracy is for one label for each text; several have --threshold"


def test_evaluate_with_other_thresholds(graphattn, several, classifier, corpora_folder):
    model = load(several / "model")
    texts, labels = model.read([several / "corpus.tsv"], label_separator=",")
    answer = graphattn("evaluate", several / "model", several / "corpus.tsv", "--threshold", "film=0.01,good=0.9")
    expected = model.set_thresholds({"film": 0.01, "good": 0.9}).report(texts, labels)
    assert json.loads(answer.out) == expected.summary
    model = load(classifier).set_thresholds({"neg": 0.3})
    X, y = model.read([corpora_folder / "reviews.tsv"])
    answer = graphattn("evaluate", classifier, corpora_folder / "reviews.tsv", "--threshold", "neg=0.3")
    assert json.loads(answer.out) == model.report(X, y).summary
    flags = ["--threshold", "neg=0.3", "--card"]
    assert graphattn("evaluate", classifier, corpora_folder / "reviews.tsv", *flags).error == (
        "--card has results of the saved model; leave --threshold out"
    )

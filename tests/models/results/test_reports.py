"""Reports against scikit-learn, seqeval and scipy."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from seqeval.metrics import classification_report as entity_report
from seqeval.scheme import IOB2
from sklearn.metrics import classification_report, confusion_matrix
from sklearn.preprocessing import MultiLabelBinarizer

from graphattn.builders.tag_schemes import extract_spans
from graphattn.models._results.reports import NONE, Outcomes


def assert_same_rows(actual, expected):
    """Compare with a report of scikit-learn or seqeval, whose scores are shares."""
    for name, row in actual.items():
        assert row.pop("support") == expected[name]["support"]
        theirs = {"f1" if key == "f1-score" else key: 100 * value for key, value in expected[name].items()}
        theirs.pop("support")
        assert row == pytest.approx(theirs), name


def assert_same_averages(report, expected):
    assert_same_rows({f"{name} avg": row for name, row in report["averages"].items()}, expected)


def test_classes_equal_scikit_learn(fitted, corpus):
    texts, labels = corpus("classifier")
    labels = ["odd" if number == 7 else label for number, label in enumerate(labels)]
    classifier = fitted("classifier")
    report, predicted = classifier.report(texts, labels, unknown="wrong"), classifier.predict(texts)
    expected = classification_report(labels, predicted, output_dict=True, zero_division=0)
    assert list(report["classes"]) == ["bad", "good", "odd"]
    assert_same_rows(report["classes"], expected)
    assert_same_averages(report, expected)
    names, matrix = report.outcomes.confusion()
    assert matrix.tolist() == confusion_matrix(labels, predicted, labels=names).tolist()
    metrics = classifier.evaluate(texts, labels, unknown="wrong")
    assert {name: report[name] for name in metrics} == metrics


def test_several_labels_equal_scikit_learn(fitted, corpus):
    texts, labels = corpus("multilabel")
    classifier = fitted("multilabel")
    binary = MultiLabelBinarizer(classes=classifier.classes_).fit(labels)
    predicted = classifier.predict(texts)
    report = classifier.report(texts, labels)
    both = binary.transform(labels), binary.transform(predicted)
    expected = classification_report(*both, target_names=classifier.classes_, output_dict=True, zero_division=0)
    assert_same_averages(report, expected)
    assert_same_rows(report["classes"], expected)
    assert report["micro_f1"] == pytest.approx(classifier.score(texts, labels) * 100)


def test_entities_equal_seqeval(entity_tagger, corpus):
    words, tags = corpus("crf", 80)
    report, predicted = entity_tagger.report(words, tags), entity_tagger.predict(words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = entity_report(tags, predicted, output_dict=True, mode="strict", scheme=IOB2, zero_division=0)
    assert 0 < report["f1"] < 100
    averages = report["averages"]
    assert averages["micro"]["f1"] == pytest.approx(report["f1"])
    assert_same_averages(report, expected)
    assert_same_rows(report["classes"], expected)
    names, matrix = report.outcomes.confusion()
    assert names == ["LOC", "ORG", NONE]
    gold, found = ([{*extract_spans(own, "IOB2")} for own in side] for side in (tags, predicted))
    assert np.diag(matrix).sum() == sum(len(some & others) for some, others in zip(gold, found, strict=True))
    assert matrix[:2].sum() == sum(map(len, gold))
    assert matrix[:, :2].sum() == sum(map(len, found))


def test_types_that_differ_in_a_hyphen_count_as_different(tiny):
    words = [["Na+", "and", "Cl-"]] * 8
    tagger = tiny("crf").fit(words, [["B-ion", "O", "B-ion-"]] * 8)
    report = tagger.report(words, [["B-ion-", "O", "B-ion"]] * 8)
    assert {name: row["support"] for name, row in report["classes"].items()} == {"ion": 8, "ion-": 8}
    found = report.outcomes.confusion()[1].trace()
    bounds = report["confidence_interval"]
    assert bounds["low"] <= report["f1"] <= bounds["high"]
    assert (report["f1"] > 0) == (found > 0)


def test_plain_tags_equal_scikit_learn(fitted, corpus):
    words, tags = corpus("tagger")
    tagger = fitted("tagger")
    report, predicted = tagger.report(words, tags), tagger.predict(words)
    flat = [[tag for own in side for tag in own] for side in (tags, predicted)]
    expected = classification_report(*flat, output_dict=True, zero_division=0)
    assert_same_averages(report, expected)
    assert_same_rows(report["classes"], expected)


def test_the_interval_of_an_accuracy_is_binomial():
    """Resampling n texts of which a share p is right draws from a binomial distribution."""
    size, right = 400, 300
    outcomes = Outcomes.of([(n, "a", "a" if n < right else "b") for n in range(size)], size, ["a", "b"])
    expected = 100 * binom.ppf([0.025, 0.975], size, right / size) / size
    assert outcomes.sums.interval() == pytest.approx(tuple(expected), abs=0.6)


def test_a_report_prints_and_is_json(fitted, corpus):
    report = fitted("classifier").report(*corpus("classifier"))
    lines = str(report).splitlines()
    assert lines[0].split() == ["precision", "recall", "f1", "support"]
    assert [line.split()[0] for line in lines[1:3]] == ["bad", "good"]
    bounds = report["confidence_interval"]
    assert lines[-1].startswith(f"Brier score {report['brier']:.4f}, expected calibration error ")
    assert lines[-2] == (
        f"accuracy: {report['accuracy']:.2f} (95 % confidence interval {bounds['low']:.2f} to {bounds['high']:.2f})"
    )
    assert json.loads(json.dumps(report)) == report
    assert report.summary == {name: value for name, value in report.items() if name not in ("classes", "averages")}


def test_mistakes_are_the_wrong_texts(fitted, corpus):
    texts, labels = corpus("classifier")
    classifier = fitted("classifier")
    predicted, shares = classifier.predict(texts), classifier.predict_proba(texts).max(1)
    expected = [
        (text, gold, found, pytest.approx(share, abs=1e-5))
        for text, gold, found, share in zip(texts, labels, predicted.tolist(), shares, strict=True)
        if gold != found
    ]
    mistakes = classifier.report(texts, labels).mistakes
    assert expected
    assert [tuple(row.values()) for row in mistakes] == sorted(expected, key=lambda row: -row[3].expected)


def test_mistakes_of_several_labels_have_the_surest_wrong_one(fitted, corpus):
    texts, labels = corpus("multilabel")
    classifier = fitted("multilabel")
    shares = dict(zip(texts, classifier.predict_proba(texts), strict=True))
    mistakes = classifier.report(texts, labels).mistakes
    assert mistakes
    for row in mistakes:
        chances = dict(zip(classifier.classes_, shares[row["text"]], strict=True))
        wrong = {*row["gold"]} ^ {*row["predicted"]}
        sure = max(chances[name] if name in row["predicted"] else 1 - chances[name] for name in wrong)
        assert row["confidence"] == pytest.approx(float(sure), abs=1e-5)


def test_mistakes_of_pairs_have_both_texts(fitted, corpus):
    pairs, labels = corpus("pair")
    mistakes = fitted("pair").report(pairs, labels).mistakes
    assert {(row["text"], row["second"]) for row in mistakes} <= {*pairs}
    assert mistakes


def test_mistakes_of_a_tagger_are_places(entity_tagger):
    words = ["the", "Paris", "was", "dull"]
    (tags,) = entity_tagger.predict([words])
    assert tags == ["O", "B-LOC", "O", "O"]
    (mistake,) = entity_tagger.report([words], [["B-ORG", "I-ORG", "O", "O"]]).mistakes
    (rows,) = entity_tagger.predict_proba([words])
    chances = dict(zip(entity_tagger.classes_, rows.T, strict=True))
    confidence = float(chances["O"][0] * chances["S-LOC"][1])
    assert mistake.pop("confidence") == pytest.approx(confidence, abs=1e-5)
    assert mistake == {
        "text": "the Paris was dull",
        "start": 0,
        "end": 9,
        "words": "the Paris",
        "gold": "ORG: the Paris",
        "predicted": "LOC: Paris",
    }
    missed, found = entity_tagger.report([words], [["B-ORG", "O", "O", "O"]]).mistakes
    assert {(row["gold"], row["predicted"]) for row in (missed, found)} == {("ORG: the", ""), ("", "LOC: Paris")}


def test_mistakes_of_plain_tags_are_words(fitted, corpus):
    words, tags = corpus("tagger")
    tagger = fitted("tagger")
    mistakes = tagger.report(words, tags).mistakes
    wrong = [
        (word, gold, found)
        for own in zip(words, tags, tagger.predict(words), strict=True)
        for word, gold, found in zip(*own, strict=True)
        if gold != found
    ]
    assert wrong
    assert sorted((row["words"], row["gold"], row["predicted"]) for row in mistakes) == sorted(wrong)

"""Temperature and thresholds against scikit-learn and direct search, and how a classifier uses them."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics

from graphattn import load
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning
from graphattn.models import HeadOptions, MSTransOptions, TextClassifier, TrainingOptions
from graphattn.models.training import _decisions as decisions
from graphattn.models.training._decisions import GRID, METRICS, ScoredTexts
from graphattn.models.training._threshold_goals import ThresholdGoals
from graphattn.models.training.callbacks import EpochLines

SMALL = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"))
TRAINING = TrainingOptions(epochs=1, progress=False)
GRAPH_ALONE = HeadOptions(linear_branch=False)
NAMES = ("good", "bad", "film", "rare")
TOO_FEW = "thresholds need 5 training examples or more, and two of each class. Give more, or leave tune_threshold out."
WORDS = (*NAMES[:3], "plot", "not", "very", "actor", "the")


def random_texts(count, temperature, classes=3, seed=0):
    """Targets drawn from the softmax of scores, which are then multiplied by a temperature."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, (count, classes))
    targets = np.array([random.choice(classes, p=row) for row in softmax(scores, axis=1)])
    return ScoredTexts.of(scores * temperature, targets, None)


def make_texts(count, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, 9))) for _ in range(count)]


def rare_labels(texts):
    return ["spam" if text.count("good") > 1 else "ham" for text in texts]


def word_labels(texts):
    return [tuple(name for name in NAMES if name in text) for text in texts]


@pytest.mark.parametrize("temperature", [0.3, 1.7, 4.0])
def test_the_temperature_is_found_again(temperature):
    assert decisions.fit_temperature(random_texts(3000, temperature)) == pytest.approx(temperature, rel=0.1)


def test_the_loss_is_the_cross_entropy():
    texts = random_texts(50, 2.0)
    expected = metrics.log_loss(texts.targets, softmax(texts.scores / 1.5, axis=1)) * 50
    assert texts.loss(1.5) == pytest.approx(expected)
    several = ScoredTexts.of(texts.scores, np.eye(3)[texts.targets], np.full(50, 2.0))
    cells = metrics.log_loss(several.targets.ravel(), expit(several.scores / 1.5).ravel()) * 150
    assert several.loss(1.5) == pytest.approx(2 * cells)


def test_a_temperature_that_only_fits_noise_is_left_out():
    kept = [decisions.fit_temperature(random_texts(40, 1.0, seed=seed)) for seed in range(20)]
    assert kept.count(1.0) > 5
    assert decisions.fit_temperature(random_texts(4, 5.0)) == 1, "too few texts for folds"
    perfect = ScoredTexts.of(np.eye(2)[[0, 1] * 5] * 4, np.array([0, 1] * 5), None)
    assert decisions.fit_temperature(perfect) > 0.9, "no mistakes in ten texts do not make a model certain"


@pytest.mark.parametrize("margin", [0.5, 1, 2, 8])
def test_a_few_texts_change_little(margin):
    few = ScoredTexts.of(np.eye(2)[[0, 1] * 3] * margin, np.array([0, 1] * 3), None)
    assert 0.8 < decisions.fit_temperature(few) <= 1


def test_weights_count_as_copies():
    texts = random_texts(60, 3.0)
    weights = np.arange(60) % 3
    repeated = ScoredTexts.of(np.repeat(texts.scores, weights, 0), np.repeat(texts.targets, weights), None)
    weighted = ScoredTexts.of(texts.scores, texts.targets, weights)
    assert weighted.loss(2.0) == pytest.approx(repeated.loss(2.0))
    chosen = [
        decisions.choose_thresholds(*each.binarize(None), each.weights, "f1")
        for each in map(one_hot, (weighted, repeated))
    ]
    np.testing.assert_array_equal(*chosen)


def one_hot(texts):
    return ScoredTexts.of(texts.scores, np.eye(3)[texts.targets], texts.weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
def test_a_threshold_is_the_best_of_all_for_scikit_learn(name):
    random = np.random.default_rng(1)
    gold = random.random((300, 1)) < 0.15
    log_odds = random.normal(-2, 1.5, (300, 1)) + 2 * gold
    (threshold,) = decisions.choose_thresholds(log_odds, gold, np.ones(300), name)
    score = getattr(metrics, {"f1": "f1_score"}.get(name, name if name == "matthews_corrcoef" else f"{name}_score"))
    values = {point: score(gold[:, 0], log_odds[:, 0] > point) for point in GRID}
    assert values[threshold] == pytest.approx(max(values.values()))


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("mean", "scale"), [(0, 1.0), (-3, 0.3), (3, 0.3), (0, 9.0)])
def test_no_threshold_is_better_not_even_one_above_or_below_all_texts(name, mean, scale):
    for seed in range(20):
        random = np.random.default_rng(seed)
        gold = random.random((30, 1)) < random.choice([0.05, 0.5, 0.9])
        log_odds, weights = random.normal(mean, scale, (30, 1)), random.integers(0, 4, 30) + 0.5

        def measure(threshold):
            return decisions._measure(log_odds > threshold, gold, weights, name)  # noqa: B023

        (threshold,) = decisions.choose_thresholds(log_odds, gold, weights, name)
        best = max(map(measure, [-np.inf, *GRID[np.isfinite(GRID)], np.inf]))
        assert measure(threshold) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("factor", [1, 10], ids=["inside the grid", "beyond it"])
def test_a_threshold_for_nobody_or_for_all_is_kept(factor):
    """Sure scores that say nothing of the labels, most of which are negative, or positive."""
    random = np.random.default_rng(0)
    log_odds, log = factor * random.normal(0, 3, 200), []
    for share in (0.1, 0.9):
        targets = (random.random(200) < share).astype(int)
        texts = ScoredTexts.of(np.stack([np.zeros(200), log_odds], 1), targets, None)
        thresholds = decisions.tune_thresholds(texts, "accuracy", 1, log.append)
        assert sum(thresholds) == 1
        assert (expit(log_odds) > thresholds[1]).all() == (share > 0.5)
        assert (expit(log_odds) > thresholds[1]).any() == (share > 0.5)
        if factor == 10:
            assert thresholds[1] == (share < 0.5)


def test_rare_labels_share_a_threshold():
    """Two labels with opposite thresholds, and one with a single text, which alone would have about -5."""
    random = np.random.default_rng(2)
    gold = random.random((500, 3)) < (0.3, 0.3, 0.0)
    gold[0, 2] = True
    log_odds = random.normal(0, 0.3, (500, 3)) + 2 * gold + (-3, 3, -6)
    low, high, rare = decisions.choose_thresholds(log_odds, gold, np.ones(500), "f1")
    assert low < -1 < 3 < high
    micro = {point: metrics.f1_score(gold, log_odds > point, average="micro") for point in GRID}
    assert micro[rare] == pytest.approx(max(micro.values()), abs=0.02)


@pytest.mark.parametrize("value", [-30.0, -7.0, *GRID[66:75].tolist(), 9.0])
def test_equal_scores_have_some_threshold(value):
    (threshold,) = decisions.choose_thresholds(np.full((8, 1), value), np.ones((8, 1)), np.ones(8), "f1")
    assert threshold < value or value < GRID[1]


def test_thresholds_that_do_not_help_other_folds_are_left_out():
    lines = []
    texts = random_texts(200, 1.0, classes=2)
    assert decisions.tune_thresholds(texts, "accuracy", 1, lines.append) is None
    assert lines[0].startswith("thresholds stay at 0.5: accuracy ")


@pytest.fixture(scope="module")
def rare():
    texts, held_out = make_texts(200), make_texts(300, seed=3)
    training = TrainingOptions(epochs=3, learning_rate=0.01, progress=False)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training, tune_threshold="balanced_accuracy")
    return classifier.fit(texts, rare_labels(texts), dev=(held_out, rare_labels(held_out)))


@pytest.mark.slow
def test_the_rarer_of_two_classes_has_a_threshold(rare, tmp_path):
    texts = make_texts(100, seed=1)
    thresholds = rare.thresholds_
    assert thresholds["spam"] < 0.4
    assert thresholds["ham"] == pytest.approx(1 - thresholds["spam"])
    assert 0 < (rare.predict(texts) == "spam").sum() < 100
    shares = rare.predict_proba(texts)[:, 1]
    np.testing.assert_array_equal(rare.predict(texts) == "spam", shares > thresholds["spam"])
    again = load(rare.save(tmp_path / "model"))
    assert (again.thresholds_, again.temperature_) == (thresholds, rare.temperature_)
    np.testing.assert_array_equal(again.predict(texts), rare.predict(texts))
    np.testing.assert_array_equal(again.predict_proba(texts), rare.predict_proba(texts))
    text = texts[int(np.argmax(shares > thresholds["spam"]))]
    assert again.attention(text).prediction == "spam"
    again.set_thresholds({"ham": 0.0})
    assert set(again.predict(texts)) == {"ham"}
    assert again.set_thresholds(None).thresholds_ == {}
    np.testing.assert_array_equal(again.predict(texts) == "spam", shares > 0.5)


@pytest.mark.slow
def test_a_small_dev_set_is_replaced_by_cross_validation(capsys):
    texts = make_texts(120)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=TRAINING, tune_threshold="balanced_accuracy")
    classifier.fit(texts, rare_labels(texts), callbacks=[EpochLines()])
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[0] for line in lines].count("epoch") == 1, "folds print no lines"
    assert "thresholds: 5 models for cross-validation, since the dev set is small" in lines
    assert [line.partition(",")[0] for line in lines if line.startswith("thresholds: model")] == [
        f"thresholds: model {number}/5" for number in range(1, 6)
    ]
    assert lines[-1].startswith("thresholds ")


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [False, True])
def test_several_labels_have_thresholds_by_default(matrix):
    texts = make_texts(300)
    labels = word_labels(texts)
    y = np.array([[name in several for name in NAMES] for several in labels], int) if matrix else labels
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=TRAINING, multilabel=True).fit(
        texts[:200], y[:200], dev=(texts[200:], y[200:])
    )
    thresholds = np.array(list(classifier.thresholds_.values()))
    assert len(thresholds) == (4 if matrix else 3)
    assert (thresholds != 0.5).any()
    decided = classifier.predict(texts[200:])
    shares = classifier.predict_proba(texts[200:])
    if not matrix:
        decided = [[name in several for name in classifier.classes_] for several in decided]
    np.testing.assert_array_equal(np.array(decided, bool), shares > thresholds)
    tuned = classifier.dev_metrics()
    assert tuned == pytest.approx(classifier.evaluate(texts[200:], y[200:]))
    plain = classifier.set_thresholds(0.5).evaluate(texts[200:], y[200:])
    assert tuned["micro_f1"] > plain["micro_f1"] + 1
    best = classifier.best_epoch()["dev_micro_f1"]
    assert plain["micro_f1"] == pytest.approx(best), "the temperature changes no label"


@pytest.mark.slow
def test_cross_validation_without_dev_sets():
    """The metric that chooses the best epoch has nothing to measure in the folds."""
    texts = make_texts(40)
    training = TrainingOptions(epochs=1, progress=False, dev_fraction=0, metric="macro_f1")
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training, tune_threshold="f1")
    classifier.fit(texts, rare_labels(texts), dev=(texts[:20], rare_labels(texts[:20])))
    assert classifier.training_.metric == "macro_f1"


@pytest.mark.slow
def test_a_threshold_is_dropped_if_a_class_of_the_model_to_continue_from_does_not_occur():
    texts = make_texts(40)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=TRAINING, tune_threshold="f1", warm_start=True).fit(
        texts, rare_labels(texts)
    )
    with pytest.warns(GraphAttnWarning, match="tune_threshold of the model to continue from is dropped"):
        classifier.fit(texts, ["ham"] * 40)
    assert classifier.task_.head.thresholds is None


@pytest.mark.slow
def test_cross_validation_with_the_labels_of_the_model_to_continue_from():
    texts = make_texts(40)
    labels = word_labels(texts)
    matrix = np.array([[name in several for name in sorted(NAMES[:3])] for several in labels], int)
    classifier = TextClassifier(
        SMALL, head=GRAPH_ALONE, training=TRAINING, multilabel=True, tune_threshold="f1", warm_start=True
    )
    assert list(classifier.fit(texts, labels).fit(texts, matrix).thresholds_) == sorted(NAMES[:3])


@pytest.mark.slow
def test_cross_validation_knows_all_labels(capsys):
    """A label that occurs once is unknown to the model that predicts its text."""
    texts = [*make_texts(60), "rare", "rare good"]
    training = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training, multilabel=True, tune_threshold="f1")
    classifier.fit(texts, word_labels(texts), callbacks=[EpochLines()])
    assert "cross-validation" in capsys.readouterr().err
    assert classifier.classes_.tolist() == sorted(NAMES)


@pytest.mark.slow
def test_the_temperature_is_folded_into_the_scores(tmp_path):
    """Smoothed labels make a model that is not sure enough."""
    texts = make_texts(300)
    labels = ["pos" if "good" in text else "neg" for text in texts]
    training = TrainingOptions(epochs=4, learning_rate=0.01, label_smoothing=0.4, progress=False)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training).fit(texts, labels)
    assert classifier.temperature_ < 0.8
    difference = classifier.decision_function(texts)
    np.testing.assert_allclose(expit(difference), classifier.predict_proba(texts)[:, 1], atol=1e-6)
    sharp = classifier.report(texts, labels)["brier"]
    classifier.model_.scale(classifier.temperature_)
    assert sharp < classifier.report(texts, labels)["brier"]


def test_pairs_of_texts_have_a_threshold(fitted, corpus, tmp_path):
    pairs, _ = corpus("pair")
    pair_classifier = load(fitted("pair").save(tmp_path / "pairs"))
    assert set(pair_classifier.set_thresholds({"same": 0.0}).predict(pairs)) == {"same"}


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (
            ["a", "b", "c"] * 4,
            ["x", "y", "z"] * 4,
            "tune_threshold is for two classes, or several labels for a text; there are 3 classes, so leave it out",
        ),
        (
            ["a", "b", "c"],
            ["x", "y", "y"],
            TOO_FEW,
        ),
        (
            ["a", "b"] * 4,
            ["x", *["y"] * 7],
            TOO_FEW,
        ),
    ],
)
def test_training_sets_without_a_threshold(texts, labels, message):
    with pytest.raises((ConfigError, DataError)) as caught:
        TextClassifier(SMALL, training=TRAINING, tune_threshold="f1").fit(texts, labels)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (0.3, "threshold needs a class, such as 0.3 for ham"),
        ({"spam": 1.5}, "threshold is 1.5; it must be at least 0 and at most 1"),
        ({"spam": 0.3, "ham": 0.2}, "threshold of two classes must add up to 1; give one of them"),
        ({"eggs": 0.5}, "the threshold has label 'eggs', which the training set lacks. Known: ham, spam."),
    ],
)
def test_thresholds_that_are_none(rare, thresholds, message):
    with pytest.raises((ConfigError, DataError)) as caught:
        rare.set_thresholds(thresholds)
    assert str(caught.value).startswith(message)


def test_one_of_many_classes_has_no_threshold(corpus):
    texts, _ = corpus("classifier")
    three = TextClassifier(SMALL, head=GRAPH_ALONE, training=TRAINING).fit(texts, ["a", "b", "c", "c"] * 10)
    with pytest.raises(ConfigError, match="two classes or several labels, and the model has 3 classes; min_confidence"):
        three.set_thresholds({"a": 0.3})


def test_rows_have_the_best_classes_and_abstain(rare):
    texts = make_texts(20, seed=2)
    shares = rare.predict_proba(texts)
    rows = rare.predict_rows(texts, top_k=2, min_confidence=0.9)
    for row, label, share in zip(rows, rare.predict(texts), shares, strict=True):
        by_class = dict(zip(("ham", "spam"), share.tolist(), strict=True))
        assert list(row["top"]) == sorted(by_class, key=by_class.get, reverse=True)
        assert row["top"] == pytest.approx(by_class, abs=1e-6)
        assert row["label"] == (label if by_class[label] >= 0.9 else None)
        assert "probabilities" not in row
    assert {row["label"] for row in rows} >= {None}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("classifier", {"top_k": 3}, "top_k is 3; it must be at least 1 and at most 2"),
        ("classifier", {"top_k": 0}, "top_k is 0; it must be at least 1 and at most 2"),
        ("classifier", {"min_confidence": 1.1}, "min_confidence is 1.1; it must be at least 0 and at most 1"),
        (
            "multilabel",
            {"min_confidence": 0.5},
            "min_confidence is for one label for each text; several have threshold",
        ),
    ],
)
def test_rows_that_cannot_be(fitted, kind, options, message):
    with pytest.raises(ConfigError) as caught:
        fitted(kind).predict_rows(["a film"], **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("goal", ["precision=0.8", "recall=0.7", "precision=0.999"])
def test_a_wanted_share_has_the_best_other_one(goal):
    """Against all thresholds of the grid, by scikit-learn."""
    random = np.random.default_rng(1)
    gold = random.random((400, 1)) < 0.3
    log_odds = random.normal(-1, 1.5, (400, 1)) + 1.5 * gold
    (threshold,) = decisions.choose_thresholds(log_odds, gold, np.ones(400), goal)
    kind, wanted = goal.split("=")
    shares = {}
    for point in GRID:
        found = [
            score(gold[:, 0], log_odds[:, 0] > point, zero_division=0)
            for score in (metrics.precision_score, metrics.recall_score)
        ]
        shares[point] = found if kind == "precision" else found[::-1]
    reached = {point: other for point, (share, other) in shares.items() if share >= float(wanted)}
    if reached:
        assert reached[threshold] == pytest.approx(max(reached.values()))
    else:
        assert shares[threshold][0] == pytest.approx(max(share for share, _ in shares.values()))


def test_costs_have_the_threshold_of_the_least_sum():
    random = np.random.default_rng(3)
    gold = random.random((500, 2)) < (0.3, 0.6)
    log_odds = random.normal(-1, 1.5, (500, 2)) + 1.5 * gold
    thresholds = decisions.choose_thresholds(log_odds, gold, np.ones(500), "cost=10:1")
    for column, threshold in enumerate(thresholds):
        sums = {}
        for point in GRID:
            decided = log_odds[:, column] > point
            sums[point] = 10 * (gold[:, column] & ~decided).sum() + (~gold[:, column] & decided).sum()
        assert sums[threshold] == min(sums.values())


def test_a_calibrated_model_has_the_threshold_of_the_decision_theory():
    """Elkan (2001): predict a class above cost of a wrong one / (cost of a wrong one + cost of a missed one)."""
    random = np.random.default_rng(0)
    shares = random.uniform(0, 1, 60_000)
    targets = (random.random(60_000) < shares).astype(int)
    log_odds = np.log(shares / (1 - shares))
    texts = ScoredTexts.of(np.stack([np.zeros(60_000), log_odds], 1), targets, None)
    lines = []
    thresholds = decisions.tune_thresholds(texts, "cost=4:1", 1, lines.append)
    assert thresholds[1] == pytest.approx(0.2, abs=0.03)
    assert "cost 0." in lines[0]


def test_what_a_wanted_precision_costs_is_told():
    texts, lines = random_texts(600, 1.0, classes=2), []
    thresholds = decisions.tune_thresholds(texts, "precision=0.95", 1, lines.append)
    assert 0.5 < thresholds[1] < 1
    assert lines[0].count("precision ") == 2
    assert lines[0].endswith(" at 0.5")
    log_odds, gold = texts.binarize(1)
    decided = expit(log_odds[:, 0]) > thresholds[1]
    assert metrics.precision_score(gold[:, 0], decided) >= 0.95
    noise = ScoredTexts.of(np.ones((300, 2)), np.arange(300) % 2, None)
    with pytest.warns(GraphAttnWarning, match=r"no threshold reaches a precision of 0\.99; the nearest has 0\.500"):
        decisions.tune_thresholds(noise, "precision=0.99", 1, lines.append)


@pytest.mark.parametrize("name", ["", "{film}"])
def test_a_wanted_precision_that_other_texts_do_not_have_is_a_warning(name):
    """Scores that say nothing: a threshold above all but a few texts is right for these by chance."""
    random = np.random.default_rng(1)
    scores, lines = np.stack([np.zeros(60), random.normal(0, 2, 60)], 1), []
    texts = ScoredTexts.of(
        scores, np.where(scores[:, 1] >= np.sort(scores[:, 1])[-2], 1, random.integers(2, size=60)), None
    )
    with pytest.warns(GraphAttnWarning) as caught:
        decisions.tune_thresholds(texts, "precision=0.9", 1, lines.append, name=name)
    (warning,) = caught
    start, _, rest = str(warning.message).partition(
        "a precision of 0.9 is not reached on texts that the threshold is not "
    )
    assert start == ("tune_threshold: {film}: " if name else "tune_threshold: ")
    share = float(rest.removeprefix("chosen on: ").partition(";")[0])
    assert f"precision {100 * share:.2f} " in lines[0]
    assert lines[0].startswith("{film}: thresholds" if name else "thresholds")


@pytest.mark.parametrize(
    ("goal", "positive"), [("ham:recall=0.9", "ham"), ("spam:recall=0.9", "spam"), ("ham:spam=3,spam:ham=1", None)]
)
def test_goals_of_one_class_and_costs(goal, positive, tmp_path, capsys):
    texts, held_out = make_texts(100), make_texts(200, seed=3)
    training = TrainingOptions(epochs=2, learning_rate=0.01, progress=False)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training, tune_threshold=goal)
    classifier.fit(texts, rare_labels(texts), dev=(held_out, rare_labels(held_out)), callbacks=[EpochLines()])
    line = capsys.readouterr().err.splitlines()[-1]
    assert ("precision " in line) == (positive is not None)
    if positive is not None:
        report = classifier.report(held_out, rare_labels(held_out))["classes"][positive]
        kind, wanted = goal.split(":")[1].split("=")
        assert report[kind] >= 100 * float(wanted) - 1e-9
    assert load(classifier.save(tmp_path / "model")).tune_threshold == goal


@pytest.mark.parametrize(("goal", "is_told"), [("spam:precision=0.9", False), (None, True)])
def test_decisions_of_a_wanted_share_are_no_sign_of_bad_training(goal, is_told):
    """Without it, they are: an untrained model gives nearly all texts the same class."""
    texts = make_texts(500)
    training = TrainingOptions(epochs=1, learning_rate=1e-5, progress=False, dev_fraction=0.5)
    classifier = TextClassifier(SMALL, head=GRAPH_ALONE, training=training, tune_threshold=goal)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(texts, rare_labels(texts))
    assert any("of the predictions on the dev set are" in str(warning.message) for warning in caught) == is_told


def test_each_of_several_labels_has_its_goal():
    texts = make_texts(300)
    labels = word_labels(texts)
    classifier = TextClassifier(
        SMALL, head=GRAPH_ALONE, training=TRAINING, multilabel=True, tune_threshold="good:recall=0.9,bad:precision=0.6"
    ).fit(texts[:200], labels[:200], dev=(texts[200:], labels[200:]))
    classes = classifier.report(texts[200:], labels[200:])["classes"]
    assert classes["good"]["recall"] >= 90
    assert set(classifier.thresholds_) == {"good", "bad", "film"}


@pytest.mark.parametrize("goal", ["f2", "precision", "precision=2", "recall=0", "spam=0.3", "a:b=-1", "a:b=1,c:f1", ""])
def test_goals_that_are_none(goal):
    with pytest.raises(ConfigError) as raised:
        TextClassifier(SMALL, tune_threshold=goal).validate()
    assert raised.value.options == ("tune_threshold",)


def test_goals_of_unknown_classes():
    texts = make_texts(60)
    with pytest.raises(ConfigError, match="names 'eggs', which is no class; classes are ham, spam"):
        TextClassifier(SMALL, training=TRAINING, tune_threshold="eggs:recall=0.9").fit(texts, rare_labels(texts))


@pytest.mark.parametrize(("classes", "multilabel"), [(["ham", "spam"], False), (["ham", "spam", "ads"], True)])
def test_costs_of_no_mistake(classes, multilabel):
    for costs in ("ham:ham=3", "spam:ads=3" if multilabel else "spam:spam=3"):
        with pytest.raises(ConfigError, match=r"which is no mistake; write ham:(none|spam), for example"):
            ThresholdGoals.parse(costs).list_metrics(classes, multilabel=multilabel)


def test_rows_can_have_thresholds_of_their_own(rare):
    texts = make_texts(60, seed=4)
    expected = load_copy(rare).set_thresholds({"spam": 0.15})
    rows = rare.predict_rows(texts, threshold={"spam": 0.15}, top_k=1, min_confidence=0.3)
    assert rows == expected.predict_rows(texts, top_k=1, min_confidence=0.3)
    assert rare.predict_rows(texts, threshold={"ham": 0.85}) == expected.predict_rows(texts)
    with pytest.raises(ConfigError, match="needs a class"):
        rare.predict_rows(texts, threshold=0.3)


def load_copy(estimator):
    with TemporaryDirectory() as folder:
        return load(estimator.save(Path(folder) / "model"))

"""Frozen pretrained models, the contrastive start, and the choice among them when there are few labels."""

import json
import shutil

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from graphattn import PairClassifier, SequenceTagger, TextClassifier, TextRegressor, Translator, load
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.training_plan import TrainingPlan
from graphattn.experiments._cli.training_run import format_plan
from graphattn.models import HeadOptions, TrainingOptions
from graphattn.models._estimators.tuning import TUNINGS, has_enough_classes, select_tuning
from graphattn.models.pretrained import SentenceEncoder
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.training._contrastive import contrastive_loss, draw_batches
from graphattn.models.training._frozen import STRENGTHS
from graphattn.models.training.callbacks import EpochLines, Tracker

from .conftest import write_model

TEXTS = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 4
TEXTS = [f"{text} {'abcdefghijklmnop'[number]}" for number, text in enumerate(TEXTS)]
LABELS = ["pos", "neg"] * 8
SEVERAL = [("film", "good"), ("film",), ("good",), ()] * 4
PAIRS = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))
WHOLE = TrainingOptions(dev_fraction=0, progress=False, precision="32")


@pytest.fixture(scope="module")
def folder(make_reference, tmp_path_factory):
    return write_model(make_reference("bert"), tmp_path_factory.mktemp("bert"))


def make(kind, folder, training=WHOLE, arguments=None, **options):
    return kind(pretrained=PretrainedOptions(str(folder), **options), training=training, **(arguments or {}))


@pytest.mark.slow
def test_a_frozen_classifier_is_logistic_regression_on_sentence_vectors(folder):
    classifier = make(TextClassifier, folder, frozen=True).fit(TEXTS, LABELS)
    vectors = SentenceEncoder(folder).transform(TEXTS)
    scale = np.linalg.norm(vectors, axis=1).mean()
    candidates = [LogisticRegression(C=c, max_iter=1000).fit(vectors / scale, LABELS) for c in STRENGTHS]
    expected = [candidate.decision_function(vectors / scale) for candidate in candidates]
    scores = classifier.decision_function(TEXTS) * classifier.temperature_
    assert min(np.abs(scores - each).max() for each in expected) < 0.02
    for name, weights in classifier.model_.encoder.state_dict().items():
        torch.testing.assert_close(weights, SentenceEncoder(folder).fit().encoder_.state_dict()[name])


def test_a_frozen_classifier_of_pairs_compares_more_than_it_reads(folder):
    classifier = make(PairClassifier, folder, frozen=True).fit(PAIRS, LABELS)
    first, second = (SentenceEncoder(folder).transform(texts) for texts in zip(*PAIRS, strict=True))
    parts = [(first, 0.3), (second, 0.3), (np.abs(first - second), 1), (first - second, 0.3)]
    features = np.concatenate([length * part / np.linalg.norm(part, axis=1).mean() for part, length in parts], axis=1)
    candidates = [LogisticRegression(C=c, max_iter=1000).fit(features, LABELS) for c in STRENGTHS]
    scores = classifier.decision_function(PAIRS) * classifier.temperature_
    assert min(np.abs(scores - each.decision_function(features)).max() for each in candidates) < 0.02


def test_a_frozen_classifier_reads_columns_beside_the_vectors(folder, tmp_path):
    """It is logistic regression on vectors of about length 1, one-hot categories and standardized numbers."""
    rows = [{"text": text, "level": "abcd"[number % 4], "size": number} for number, text in enumerate(TEXTS)]
    labels = ["high" if row["level"] == "b" else "low" for row in rows]
    columns = {"feature_columns": ("level:category", "size:number")}
    classifier = make(TextClassifier, folder, frozen=True, arguments=columns).fit(rows, labels)
    assert classifier.score(rows, labels) == 1.0
    vectors, sizes = SentenceEncoder(folder).transform(TEXTS), np.arange(len(rows))
    of_levels = [[row["level"] == level for level in "abcd"] for row in rows]
    numbers = (sizes - sizes.mean()) / sizes.std()
    features = np.column_stack([vectors / np.linalg.norm(vectors, axis=1).mean(), of_levels, numbers])
    candidates = [LogisticRegression(C=c, max_iter=1000).fit(features, labels) for c in STRENGTHS]
    scores = classifier.decision_function(rows) * classifier.temperature_
    assert min(np.abs(scores - each.decision_function(features)).max() for each in candidates) < 0.02
    np.testing.assert_array_equal(
        load(classifier.save(tmp_path / "m")).predict_proba(rows), classifier.predict_proba(rows)
    )


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_of_unit_length_stay_so(save_sentence_model, pooling):
    folder = save_sentence_model(pooling=pooling, limit=40)
    classifier = make(TextClassifier, folder, frozen=True).fit(TEXTS, LABELS)
    assert classifier.head_.pooling == f"unit-{pooling}"
    np.testing.assert_allclose(classifier.encode(TEXTS), SentenceEncoder(folder).transform(TEXTS), atol=1e-5)


def test_a_frozen_regressor_is_ridge_regression(folder):
    numbers = [float(len(text)) for text in TEXTS]
    regressor = make(TextRegressor, folder, frozen=True).fit(TEXTS, numbers)
    vectors = SentenceEncoder(folder).transform(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1).mean()
    expected = [Ridge(alpha=4 / strength).fit(vectors, numbers).predict(vectors) for strength in STRENGTHS]
    assert min(np.abs(regressor.predict(TEXTS) - each).max() for each in expected) < 0.02


def test_the_dev_set_chooses_the_strength_and_is_learnt_last(folder):
    training = TrainingOptions(dev_fraction=0.25, progress=False, precision="32")
    held_out = make(TextClassifier, folder, training, frozen=True).fit(TEXTS, LABELS)
    assert held_out.num_examples_ == {"training": 12, "dev": 4}
    assert held_out.dev_metrics()["accuracy"] in (0, 25, 50, 75, 100)
    given = make(TextClassifier, folder, frozen=True).fit(TEXTS[:12], LABELS[:12], dev=(TEXTS[12:], LABELS[12:]))
    assert given.num_examples_ == {"training": 12, "dev": 4}
    assert len(given.history_) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "X", "y", "arguments", "options"),
    [
        (TextClassifier, TEXTS, LABELS, {}, {"frozen": True}),
        (TextClassifier, TEXTS, LABELS, {}, {"contrastive": True}),
        (TextClassifier, TEXTS, LABELS, {"class_weight": "balanced"}, {"contrastive": True}),
        (TextClassifier, TEXTS, SEVERAL, {"multilabel": True}, {"contrastive": True}),
        (PairClassifier, PAIRS, LABELS, {}, {"contrastive": True}),
        (PairClassifier, PAIRS, LABELS, {}, {"frozen": True, "join_pairs": True}),
        (TextClassifier, TEXTS, LABELS, {"head": HeadOptions(linear_branch=True)}, {"frozen": True}),
    ],
)
def test_saved_models_predict_the_same(folder, tmp_path, kind, X, y, arguments, options):
    estimator = make(kind, folder, arguments=arguments, **options).fit(X, y)
    assert np.mean([a == b for a, b in zip(estimator.predict(X), y, strict=True)]) >= 0.75
    estimator.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), estimator.predict_proba(X))
    assert loaded.pretrained_ == estimator.pretrained_
    assert loaded.pretrained_.frozen
    if kind is PairClassifier:
        assert loaded.pretrained_.join_pairs is options.get("join_pairs", False)


@pytest.mark.slow
def test_a_contrastive_start_may_precede_fine_tuning(folder):
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, precision="32", learning_rate=1e-9)
    options = {"contrastive": True, "frozen": False, "tuning_rate": 1e-3}
    started = make(TextClassifier, folder, training, **options).fit(TEXTS, LABELS)
    frozen = make(TextClassifier, folder, tuning_rate=1e-3, frozen=True).fit(TEXTS, LABELS)

    def separation(classifier):
        rows = classifier.encode(TEXTS)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        same = np.equal.outer(LABELS, LABELS)
        cosines = rows @ rows.T
        return cosines[same].mean() - cosines[~same].mean()

    assert separation(started) > separation(frozen) + 0.03


@pytest.mark.parametrize("several", [False, True])
def test_contrastive_loss_compares_all_pairs(several):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((6, 4))
    targets = np.array([0, 1, 0, 2, 1, 0])
    if several:
        targets = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1]])
    losses = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        cosines = [vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j]) for j in others]
        if several:
            sets = [set(np.flatnonzero(row)) for row in targets]
            shared = [len(sets[i] & sets[j]) / len(sets[i] | sets[j]) if sets[i] | sets[j] else 1.0 for j in others]
        else:
            shared = [float(targets[i] == targets[j]) for j in others]
        shares = np.exp(np.array(cosines) / 0.1)
        if sum(shared):  # the text of the class 2 has no other of its class
            losses.append(-np.dot(shared, np.log(shares / shares.sum())) / sum(shared))
    expected = np.mean(losses)
    loss = contrastive_loss(torch.from_numpy(vectors), torch.from_numpy(targets))
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_batches_have_pairs_of_all_classes():
    few = list(draw_batches(np.repeat([0, 1], [3, 100]), 0))
    assert all(len(batch) == len(set(batch)) == 19 for batch in few)  # all 3 of one class, 16 of the other
    many = list(draw_batches(np.repeat(np.arange(40), 50), 0))
    assert all(np.array_equal(np.unique(np.array(batch) // 50, return_counts=True)[1], [2] * 16) for batch in many)
    assert sum(map(len, many)) >= 2000
    assert list(draw_batches(np.repeat([0, 1], [3, 100]), 0)) == few


# -- the choice --------------------------------------------------------------------------------------------------------


def fold(count, number=3):
    return [(np.setdiff1d(np.arange(count), held), held) for held in np.array_split(np.arange(count), number)]


@pytest.mark.parametrize(
    ("right", "count", "choice", "trained"),
    [
        ({"contrastive": 0.7, "frozen": 0.7, "fine-tuned": 0.7}, 90, "contrastive", 9),
        ({"contrastive": 0.7, "frozen": 0.73, "fine-tuned": 0.7}, 90, "contrastive", 7),
        ({"contrastive": 0.5, "frozen": 0.9, "fine-tuned": 0.9}, 90, "frozen", 7),
        ({"contrastive": 0.2, "frozen": 0.3, "fine-tuned": 1.0}, 90, "fine-tuned", 3),
        ({"contrastive": 0.7, "frozen": 0.7, "fine-tuned": 0.7}, 1200, "contrastive", 3),  # one fold is enough
    ],
)
def test_a_choice_that_is_clearly_better_wins(right, count, choice, trained):
    targets, calls = np.zeros(count, np.int64), []

    def score(tuning, rest, held):
        calls.append(tuning)
        wrong = np.arange(len(held)) >= round(right[tuning] * len(held))
        return np.stack([~wrong, wrong], axis=1).astype(float)

    lines = []
    chosen, shares, scores, numbers = select_tuning(targets, score, fold(count), lines.append)
    assert chosen == choice
    assert len(calls) == trained
    assert shares[choice] == pytest.approx(100 * right[choice], abs=1)
    assert len(scores) == len(numbers)
    assert lines[-1] == f"chosen: {choice}"
    assert list(TUNINGS) == list(right)


@pytest.mark.slow
def test_few_labels_with_columns(folder):
    rows = [{"text": text, "level": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    chosen = TextClassifier(pretrained=str(folder), feature_columns=("level:category",)).fit(rows, LABELS)
    assert set(chosen.mixture_) == {"contrastive", "frozen"}
    assert chosen.score(rows, LABELS) == 1.0


@pytest.mark.slow
def test_few_labels_are_cross_validated(folder, capsys):
    chosen = TextClassifier(pretrained=str(folder)).fit(TEXTS, LABELS, callbacks=[EpochLines()])
    assert "few labels" in capsys.readouterr().err
    assert set(chosen.mixture_) == {"contrastive", "frozen"}  # fine-tuning needs 32 texts of a class
    assert chosen.pretrained_.frozen is not None
    assert chosen.num_examples_ == {"training": 16}  # all texts are learnt
    grown = chosen.set_params(warm_start=True).fit([*TEXTS, "a new kind x"], [*LABELS, "other"])
    assert grown.pretrained_.frozen is chosen.pretrained_.frozen
    assert grown.num_examples_ == {"training": 17}
    assert set(grown.classes_) == {"neg", "other", "pos"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "y", "training", "options"),
    [
        (TextClassifier, LABELS, {"epochs": 1}, {}),
        (TextClassifier, LABELS, {"max_tokens": 400}, {"tuned_layers": 0}),
        (TextRegressor, [1.0, 2.0] * 8, {}, {}),
        (SequenceTagger, [["A", "B"] * 2 + ["A"]] * 16, {}, {}),
    ],
)
def test_options_of_fine_tuning_and_other_tasks_leave_no_choice(folder, kind, y, training, options):
    estimator = make(kind, folder, TrainingOptions(progress=False, precision="32", **training), **options)
    X = TEXTS if kind is not SequenceTagger else [["a", "film", "is", "good", "x"]] * 16
    estimator.fit(X, y)
    assert not estimator.pretrained_.frozen
    assert not estimator.mixture_


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (TextRegressor, "contrastive", "a model that predicts a number for texts has no contrastive; leave it out"),
        (SequenceTagger, "frozen", "a model that tags words has no frozen; leave it out"),
        (Translator, "frozen", "a model that writes texts has no frozen; leave it out"),
        (Translator, "contrastive", "a model that writes texts has no contrastive; leave it out"),
    ],
)
def test_ways_of_training_of_other_tasks(folder, kind, name, message):
    with pytest.raises(ConfigError) as error:
        kind(pretrained=PretrainedOptions(pretrained=str(folder), **{name: True})).validate()
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        ({"encoder": "ms-trans"}, {}, "encoder"),
        ({"head": HeadOptions(head_hidden=8)}, {}, "head_hidden"),
        ({"head": HeadOptions(pooling="source2token")}, {}, "pooling"),
        ({}, {"pretrained": None}, "pretrained"),
    ],
)
def test_what_a_frozen_model_cannot_have(folder, arguments, options, name):
    options = PretrainedOptions(**{"pretrained": str(folder), "frozen": True, **options})
    with pytest.raises(ConfigError) as error:
        TextClassifier(pretrained=options, **arguments).fit(TEXTS, LABELS)
    assert error.value.options == ("frozen", name)


@pytest.mark.slow
def test_vectors_in_the_run_folder_are_read_again(folder, tmp_path):
    def fit():
        training = TrainingOptions(dev_fraction=0, progress=False, precision="32", run_dir=str(tmp_path / "run"))
        return make(TextClassifier, folder, training, frozen=True).fit(TEXTS, LABELS).predict_proba(TEXTS)

    first = fit()
    (cache,) = (tmp_path / "run").glob("vectors-*.npy")
    written = cache.stat().st_mtime_ns
    np.testing.assert_array_equal(fit(), first)
    assert cache.stat().st_mtime_ns == written
    cache.write_bytes(cache.read_bytes()[:-9])  # damaged, so it is made again
    np.testing.assert_array_equal(fit(), first)
    assert cache.stat().st_mtime_ns != written


@pytest.mark.slow
def test_options_that_no_flag_sets_leave_the_choice(folder):
    made = TrainingPlan.of(TextClassifier, {"pretrained": str(folder), "seed": 1}).estimator(progress=False)
    assert set(made.fit(TEXTS * 5, LABELS * 5).mixture_) == set(TUNINGS)


def test_settings_of_a_run_leave_the_same_choice(folder, tmp_path):
    plan = TrainingPlan.of(TextClassifier, {"pretrained": str(folder), "patience": 3})
    (tmp_path / "train.yaml").write_text(format_plan(plan))
    again = TrainingPlan.of(TextClassifier, {}, tmp_path / "train.yaml").estimator()
    assert again.training.patience == 3
    assert vars(again.pretrained).keys().isdisjoint({"frozen", "contrastive", "tuning_rate", "join_pairs"})
    assert vars(again.training).keys().isdisjoint({"epochs", "learning_rate", "dev_fraction"})
    frozen = TrainingPlan.of(TextClassifier, {"pretrained": str(folder), "frozen": True})
    assert "frozen: true" in format_plan(frozen)


def test_folds_without_two_classes_are_left_out():
    assert not has_enough_classes(np.array([1, 1]))
    assert has_enough_classes(np.array([1, 0]))
    assert not has_enough_classes(np.zeros((2, 3)))
    assert has_enough_classes(np.eye(3))


@pytest.mark.slow
def test_a_class_with_one_example_and_a_weight(folder):
    X, y = TEXTS[:7], ["a"] * 3 + ["b"] * 3 + ["c"]
    few = make(TextClassifier, folder, arguments={"class_weight": {"a": 1, "b": 2, "c": 3}}).fit(X, y)
    assert set(few.mixture_) == {"contrastive", "frozen"}
    assert few.temperature_ < 3  # the score of a class that is unknown in a fold does not count


@pytest.mark.slow
def test_a_metric_needs_a_dev_set(folder):
    training = TrainingOptions(metric="macro_f1", progress=False, precision="32")
    assert make(TextClassifier, folder, training).fit(TEXTS * 5, LABELS * 5).num_examples_ == {"training": 72, "dev": 8}


@pytest.mark.slow
def test_thresholds_are_chosen_on_the_same_scores_as_the_temperature(folder, capsys):
    arguments = {"tune_threshold": "f1"}
    tuned = make(TextClassifier, folder, arguments=arguments).fit(TEXTS * 5, LABELS * 5, callbacks=[EpochLines()])
    assert tuned.mixture_
    lines = capsys.readouterr().err
    assert "thresholds" in lines
    assert "models for cross-validation" not in lines


def test_a_contrastive_start_needs_layers(folder):
    with pytest.raises(ConfigError) as error:
        make(TextClassifier, folder, contrastive=True, tuned_layers=0).fit(TEXTS, LABELS)
    assert error.value.options == ("contrastive", "tuned_layers")


@pytest.mark.slow
def test_cached_vectors_are_those_of_the_options(folder, tmp_path):
    def fit(pooling, run_dir):
        training = TrainingOptions(dev_fraction=0, progress=False, precision="32", run_dir=run_dir)
        options = {"head": HeadOptions(pooling=pooling)}
        return make(TextClassifier, folder, training, options, frozen=True).fit(TEXTS, LABELS).predict_proba(TEXTS)

    fit("mean", str(tmp_path))
    np.testing.assert_array_equal(fit("cls", str(tmp_path)), fit("cls", None))


def test_a_frozen_model_is_continued_without_its_directory(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "copy")
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{path or 'Transformer'}"} for path in ("", "Pooling")
    ]
    (copied / "modules.json").write_text(json.dumps(modules))
    (copied / "Pooling").mkdir()
    (copied / "Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    make(TextClassifier, copied, frozen=True).fit(TEXTS, LABELS).save(tmp_path / "model")
    shutil.rmtree(copied)
    again = load(tmp_path / "model").set_params(warm_start=True).fit(TEXTS, LABELS)
    assert again.head_.pooling == "cls"


def test_trackers_get_the_metrics_of_a_frozen_model(folder, tmp_path):
    tracker = Tracker("csv", {}, folder=tmp_path)
    make(TextClassifier, folder, frozen=True).fit(TEXTS, LABELS, callbacks=[tracker])
    (metrics,) = tmp_path.rglob("metrics.csv")
    assert "train_loss" in metrics.read_text()


def test_a_frozen_model_can_be_fine_tuned(folder):
    classifier = make(TextClassifier, folder, frozen=True).fit(TEXTS, LABELS)
    changed = classifier.changed_options()
    assert changed["frozen"] is True
    assert changed.keys().isdisjoint({"join_pairs", "epochs"})  # it has no pairs, and was not trained in epochs
    fitted = classifier.model_.head.output.weight.clone()
    training = {"training__epochs": 1, "training__learning_rate": 1e-9, "pretrained__tuning_rate": 1e-9}
    tuned = classifier.set_params(warm_start=True, pretrained__frozen=False, **training).fit(TEXTS, LABELS)
    torch.testing.assert_close(tuned.model_.head.output.weight * tuned.temperature_, fitted, atol=1e-4, rtol=1e-3)

import itertools
import math
import re
from functools import wraps

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, Ridge
from torch.nn import functional as F

from graphattn import load
from graphattn.models import HeadOptions, PairClassifier, SequenceTagger, TextClassifier, TextRegressor, TrainingOptions
from graphattn.models._encoders import encoder_options
from graphattn.models._estimators import fitting
from graphattn.models._estimators.state import make_corpus
from graphattn.models.heads._word_features import list_word_keys
from graphattn.models.training import _branch_fitting as linear_branch
from graphattn.models.training._linear_models import fit_logistic_regression
from graphattn.models.training.callbacks import EpochLines

SMALL = {"name": "ms-trans", "hidden": 8, "layers": 1, "scales": ("1", "3"), "heads": 2}
TRAINING = TrainingOptions(epochs=1, progress=False)
GRAPH_ALONE = HeadOptions(linear_branch=False)
WORDS = ["good", "bad", "film", "plot", "not", "very", "actor", "the"]


def make_texts(count, rng):
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]
    return texts, ["pos" if text.count("good") > text.count("bad") else "neg" for text in texts]


@pytest.fixture(scope="module")
def corpus():
    return make_texts(200, np.random.default_rng(0))


@pytest.fixture(scope="module")
def classifier(corpus):
    return TextClassifier(encoder_options(SMALL), training=TRAINING).fit(*corpus)


def scores_of(classifier, texts):
    """Logarithms of the probabilities of a model without its linear branch, and those of the whole model."""
    full = np.log(classifier.predict_proba(texts).astype(float))
    branch, classifier.model_.linear_branch = classifier.model_.linear_branch, None
    try:
        graph = np.log(classifier.predict_proba(texts).astype(float))
    finally:
        classifier.model_.linear_branch = branch
    return graph, full


@pytest.mark.slow
def test_the_linear_branch_learns_what_a_graph_model_of_one_epoch_does_not(corpus, classifier):
    alone = TextClassifier(encoder_options(SMALL), head=GRAPH_ALONE, training=TRAINING).fit(*corpus)
    unseen, gold = make_texts(200, np.random.default_rng(1))
    assert alone.model_.linear_branch is None
    assert classifier.score(unseen, gold) > 0.85 > alone.score(unseen, gold)
    assert classifier.dev_metrics()["accuracy"] > alone.dev_metrics()["accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "estimator"),
    [(TextClassifier, LogisticRegression), (TextRegressor, Ridge)],
    ids=["classifier", "regressor"],
)
def test_trackers_that_wrap_fit_do_not_see_the_models_inside(kind, estimator, corpus, monkeypatch):
    original, seen = estimator.fit, []

    @wraps(original)
    def fit(self, *arguments, **named):  # as mlflow.autolog
        seen.append(self)
        return original(self, *arguments, **named)

    monkeypatch.setattr(estimator, "fit", fit)
    texts, labels = corpus
    model = kind(encoder_options(SMALL), training=TRAINING).fit(texts, [float(label == "pos") for label in labels])
    assert not seen
    assert model.model_.linear_branch is not None


def test_probabilities_are_a_product_of_both_models(corpus, classifier):
    texts, _ = corpus
    graph, full = scores_of(classifier, texts[:20])
    batch = make_corpus(classifier, texts[:20])[list(range(20))]
    with torch.no_grad():
        linear = classifier.model_.linear_branch(batch).double().numpy()
    product = torch.from_numpy(graph + linear).softmax(1).numpy()
    np.testing.assert_allclose(np.exp(full), product, atol=1e-5)


def test_the_factors_have_the_least_loss_on_the_dev_set(corpus):
    texts, labels = corpus
    dev = make_texts(400, np.random.default_rng(2))
    classifier = TextClassifier(encoder_options(SMALL), training=TRAINING).fit(texts, labels, dev=dev)
    deep, linear = classifier.mixture_["deep"], classifier.mixture_["linear"]
    batch = make_corpus(classifier, dev[0])[list(range(400))]
    gold = torch.tensor([classifier.classes_.tolist().index(label) for label in dev[1]])
    with torch.no_grad():
        added = classifier.model_.linear_branch(batch).double() / linear
        branch, classifier.model_.linear_branch = classifier.model_.linear_branch, None
        graph = classifier.model_(batch).double() / deep
        classifier.model_.linear_branch = branch

    def loss(first, second):
        prior = 0.5 * ((math.log(first) - math.log(1 / 3)) ** 2 + (math.log(second) - math.log(2 / 3)) ** 2)
        return float(F.cross_entropy(first * graph + second * added, gold, reduction="sum")) + prior

    for first, second in itertools.product((0.8, 1, 1.25), repeat=2):
        assert loss(deep, linear) <= loss(first * deep, second * linear) + 0.05


@pytest.mark.slow
def test_a_branch_that_lowers_the_dev_metric_is_left_out(corpus, tmp_path):
    """The numbers are noise, and those of the dev set what the graph encoder alone predicts."""
    texts, numbers = corpus[0], np.random.default_rng(4).standard_normal(200)
    training = TrainingOptions(epochs=1, learning_rate=5e-4, progress=False)  # the same with and without a branch
    alone = TextRegressor(encoder_options(SMALL), head=GRAPH_ALONE, training=training)
    held_out = make_texts(100, np.random.default_rng(3))[0]
    predicted = alone.fit(texts, numbers, dev=(held_out, numbers[:100])).predict(held_out)
    regressor = TextRegressor(encoder_options(SMALL), training=training)
    regressor.fit(texts, numbers, dev=(held_out, predicted))
    assert regressor.model_.linear_branch is None
    assert regressor.mixture_ == {"deep": 1.0, "linear": 0.0}
    assert regressor.dev_metrics()["pearson"] == pytest.approx(100)
    np.testing.assert_array_equal(regressor.predict(texts), alone.predict(texts))
    again = load(regressor.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(texts), alone.predict(texts))
    again.set_params(warm_start=True).fit(texts, [float(label == "pos") for label in corpus[1]])
    assert again.model_.linear_branch is not None


def test_each_fit_of_the_linear_model_has_a_line(corpus, capsys):
    texts, labels = corpus
    classifier = TextClassifier(encoder_options(SMALL), training=TRAINING).fit(texts, labels, callbacks=[EpochLines()])
    first, epoch, refit, *_ = capsys.readouterr().err.splitlines()
    alone, whole = classifier.history_
    assert re.fullmatch(rf"linear model: dev accuracy {alone['dev_accuracy']:.2f}, [\d.]+ s", first)
    assert f"dev accuracy {whole['dev_accuracy']:.2f}" in epoch
    assert re.fullmatch(r"linear model: with the dev set, [\d.]+ s", refit)
    options = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    tagger = SequenceTagger(encoder_options(SMALL), training=options)
    words = [text.split() for text in texts[:20]]
    tagger.fit(words, words, callbacks=[EpochLines()])
    assert re.fullmatch(r"linear model: [\d.]+ s", capsys.readouterr().err.splitlines()[0])


def test_without_a_dev_set_the_factors_are_typical_ones(corpus):
    options = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    classifier = TextClassifier(encoder_options(SMALL), training=options).fit(*corpus)
    assert (classifier.mixture_["deep"], classifier.mixture_["linear"]) == (1 / 3, 2 / 3)


def test_several_labels_are_separate_regressions(corpus):
    texts, _ = corpus
    labels = [tuple(word for word in ("good", "bad") if word in text) for text in texts]
    classifier = TextClassifier(encoder_options(SMALL), training=TRAINING, multilabel=True).fit(texts, labels)
    assert classifier.evaluate(texts, labels)["micro_f1"] > 90


def test_pairs_learn_from_common_words():
    rng = np.random.default_rng(0)
    first, labels = make_texts(300, rng)
    pairs = [(text, text if index % 2 else make_texts(1, rng)[0][0]) for index, text in enumerate(first)]
    labels = ["same" if index % 2 else "other" for index in range(300)]
    classifier = PairClassifier(encoder_options(SMALL), training=TRAINING).fit(pairs, labels)
    assert classifier.score(pairs, labels) > 0.95


def test_weights_of_examples_reach_the_linear_branch(corpus):
    texts, labels = corpus
    options = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    flipped = ["neg" if label == "pos" else "pos" for label in labels]
    weights = [1.0] * 200 + [0.0] * 200
    classifier = TextClassifier(encoder_options(SMALL), training=options)
    classifier.fit(texts * 2, labels + flipped, sample_weight=weights)
    assert classifier.score(texts, labels) > 0.9


def test_weights_of_held_out_examples_reach_the_linear_branch(corpus, monkeypatch):
    texts, labels = corpus
    dev_sets, fit = [], fitting.fit_linear_model

    def spy(head, corpus, dev, *arguments):
        dev_sets.append(dev)
        return fit(head, corpus, dev, *arguments)

    monkeypatch.setattr(fitting, "fit_linear_model", spy)
    options = TrainingOptions(epochs=1, progress=False, dev_fraction=0.5)
    weights = 1 + np.arange(len(texts)) % 2
    TextClassifier(encoder_options(SMALL), training=options).fit(texts, labels, sample_weight=weights)
    least, most = np.unique(dev_sets[0].weights)
    assert most == pytest.approx(2 * least)


def test_a_tagger_adds_a_crf_on_spelling(tmp_path):
    rng = np.random.default_rng(0)
    sentences = [rng.choice(["Anna", "Bob", "runs", "Runs", "eats", "xANNA"], 6).tolist() for _ in range(150)]
    tags = [["B-PER" if word[0].isupper() else "O" for word in words] for words in sentences]
    tagger = SequenceTagger(encoder_options(SMALL), training=TRAINING).fit(sentences, tags)
    unseen = [["Zora", "walks", "Tim"], ["sings"], []]
    assert tagger.predict(unseen) == [["B-PER", "O", "B-PER"], ["O"], []]
    tagger.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for one, other in zip(tagger.predict_proba(unseen), again.predict_proba(unseen), strict=True):
        np.testing.assert_array_equal(one, other)


def test_spelling_that_tells_no_tags_apart():
    tagger = SequenceTagger(encoder_options(SMALL), training=TRAINING).fit([["a"]] * 16, [["X"], ["Y"]] * 8)
    assert not tagger.model_.linear_branch.weights.any()
    np.testing.assert_allclose(tagger.predict_proba([["a"]])[0].sum(1), 1, atol=1e-5)


def test_a_crf_on_spelling_alone_has_the_probabilities_of_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    sentences = [rng.choice(["Anna", "Bob", "runs", "eats"], rng.integers(1, 6)).tolist() for _ in range(60)]
    tags = [[("A" if word[0] == "A" else "V") if rng.random() < 0.9 else "X" for word in words] for words in sentences]
    options = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    tagger = SequenceTagger(encoder_options(SMALL), training=options).fit(sentences, tags)
    encoded = make_corpus(tagger, sentences, tags)
    branch, head = linear_branch.WordFeatureFitter(tagger.model_.head).fit(encoded, 1.0)
    with torch.no_grad():
        for parameter in tagger.model_.head.output.parameters():
            parameter.zero_()
        for target, fitted in zip(tagger.model_.head.crf.parameters(), head.crf.parameters(), strict=True):
            target.copy_(fitted)
    tagger.model_.linear_branch = branch
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True})
    keys = list(list_word_keys(encoded))
    for words, names in zip(keys, tags, strict=True):
        trainer.append(words, names)
    trainer.train(str(tmp_path / "crf"))
    reference = pycrfsuite.Tagger()
    reference.open(str(tmp_path / "crf"))
    for words, rows in zip(keys, tagger.predict_proba(sentences), strict=True):
        reference.set(words)
        expected = [[reference.marginal(name, i) for name in tagger.classes_] for i in range(len(words))]
        np.testing.assert_allclose(rows, expected, atol=1e-4)


def test_characters_share_weights_between_similar_words():
    rows = linear_branch.count_character_ngrams(["wonderful", "wonderfully", "dull"]).toarray()
    assert rows[0] @ rows[1] > 0.1 > rows[0] @ rows[2]
    np.testing.assert_allclose((rows[:2] ** 2).sum(1), 0.25, atol=1e-6)
    assert linear_branch.count_character_ngrams(["a"]) is None


def fit_regression(design, targets, classes):
    return fit_logistic_regression(csr_matrix(design), targets, np.ones(len(targets)), classes, 3.0, None)


def test_dense_features_have_the_coefficients_of_scikit_learn():
    rng = np.random.default_rng(0)
    design, targets = rng.standard_normal((90, 5)), rng.integers(0, 3, 90)
    coefficients, bias = fit_logistic_regression(design, targets, np.ones(90), 4, 3.0, None)
    reference = LogisticRegression(C=3.0, max_iter=1000).fit(design, targets)
    np.testing.assert_allclose(coefficients[:3], reference.coef_, atol=1e-5)
    np.testing.assert_allclose(bias[:3], reference.intercept_, atol=1e-5)
    assert not coefficients[3].any()
    assert bias[3] < -4


def test_classes_with_sparse_features_are_fitted_one_by_one():
    rng = np.random.default_rng(0)
    design, targets = rng.standard_normal((200, 5)), rng.integers(0, 12, 200)
    coefficients, bias = fit_regression(design, targets, 13)
    with_ones = np.hstack([design, np.ones((200, 1))])  # the bias is regularised, too
    for number in range(12):
        reference = LogisticRegression(C=3.0, fit_intercept=False).fit(with_ones, targets == number)
        np.testing.assert_allclose([*coefficients[number], bias[number]], reference.coef_[0], atol=0.01)
    assert not coefficients[12].any()
    assert bias[12] < -4

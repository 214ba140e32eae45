"""Common behaviour of all estimators: scikit-learn's conventions, dev sets, class weights, errors."""

import pickle
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.exceptions import NotFittedError as NotFittedErrorOfScikitLearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from graphattn.builders import Example, Sentence
from graphattn.exceptions import (
    ConfigError,
    DataError,
    GraphAttnError,
    GraphAttnWarning,
    NotFittedError,
    TruncationWarning,
    UnknownLabelError,
)
from graphattn.models import (
    Estimator,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TrainingOptions,
    Translator,
    load,
)
from graphattn.models._encoders import ENCODERS
from graphattn.models._encoders.bilstm import BiLSTMOptions
from graphattn.models._estimators.tasks.classify import Classification, TextLabels
from graphattn.models._estimators.tasks.recipes import CONLL, STAR_TRANSFORMER, expand_recipe
from graphattn.models._options import EPOCHS_BESIDE_LINEAR_MODEL
from graphattn.models.defaults import Facts
from graphattn.models.inspection import summarise

KINDS = ("classifier", "multilabel", "pair", "tagger", "crf", "translator")
ESTIMATORS = (TextClassifier, PairClassifier, SequenceTagger)


def message_of(kind, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters(estimator):
    names = {"encoder", "preset", "inputs", "head", "training", "class_weight", "parsing", "pretrained", "warm_start"}
    own = {
        TextClassifier: {"multilabel", "tune_threshold", "feature_columns"},
        PairClassifier: {"tune_threshold", "feature_columns"},
        SequenceTagger: {"feature_columns", "scheme", "repair_tags"},
    }[estimator]
    assert set(estimator().get_params(deep=False)) == names | own
    deep = estimator(MSTransOptions()).get_params()
    assert deep["training__epochs"] is None
    assert deep["encoder__scales"] == ("1", "3", "N/16", "N/8", "N/4")
    assert deep["head__pooling"] is None
    assert deep["inputs__lowercase"] is True


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_set_parameters(estimator):
    made = estimator(MSTransOptions()).set_params(training__epochs=3, encoder__hidden=50, head__crf=True)
    assert (made.training.epochs, made.encoder.hidden, made.head.crf) == (3, 50, True)
    with pytest.raises(ValueError, match="epoch"):
        made.set_params(training__epoch=3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_options_of_an_encoder_that_is_a_name(estimator):
    made = estimator("mtsa").set_params(encoder__hidden=50)
    assert made.resolve_options()["encoder"] == replace(estimator("mtsa").resolve_options()["encoder"], hidden=50)
    assert estimator().set_params(encoder="bilstm", encoder__hidden=50).encoder.name == "bilstm"
    with pytest.raises(ValueError, match="alpha"):
        made.set_params(encoder__alpha=0.5)
    with pytest.raises(ConfigError, match="encoder 'gru' does not exist"):
        estimator("gru").set_params(encoder__hidden=50)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_clones_and_instances_share_nothing(estimator):
    weights = {"a": 2.0}
    original = estimator(MSTransOptions(), training=TrainingOptions(epochs=3), class_weight=weights)
    copy = clone(original)
    assert copy.get_params(deep=True).keys() == original.get_params(deep=True).keys()
    assert copy.training == original.training
    copy.set_params(training__epochs=9, encoder__layers=1, inputs__embedding=5)
    copy.class_weight["b"] = 1.0
    assert (original.training.epochs, original.encoder.layers, original.inputs.embedding) == (3, 3, 300)
    assert original.class_weight == {"a": 2.0}
    estimator().training.epochs = 1
    assert estimator().training.epochs is None


def test_estimator_tags_of_scikit_learn():
    assert is_classifier(TextClassifier())
    assert is_classifier(PairClassifier())
    assert not is_classifier(SequenceTagger())  # a class for each word
    assert get_tags(TextClassifier(multilabel=True)).classifier_tags.multi_label
    assert get_tags(TextClassifier()).target_tags.required
    accepted = get_tags(TextClassifier()).input_tags
    assert (accepted.string, accepted.one_d_array, accepted.two_d_array) == (True, True, True)
    assert repr(TextClassifier("bilstm", training=TrainingOptions(epochs=3))) == (
        "TextClassifier(encoder='bilstm', training=TrainingOptions(epochs=3))"
    )


def test_defaults_of_taggers():
    encoder = MSTransOptions(scales=("1", "3", "5", "7", "9"), alpha=1.0, layers=2, hidden=200)
    assert SequenceTagger().resolve_options()["encoder"] == encoder
    assert TextClassifier(preset="paper").resolve_options()["encoder"] == MSTransOptions()


@pytest.mark.parametrize(
    ("estimator", "encoder", "epochs"),
    [
        (TextClassifier(), (2, 200), 4),
        (TextClassifier(head=HeadOptions(linear_branch=False)), (3, 300), 20),
        (TextClassifier(preset="paper"), (3, 300), 20),
        (TextClassifier("transformer"), (3, 300), 4),
        (SequenceTagger(), (2, 200), 4),
        (SequenceTagger(head=HeadOptions(crf=False)), (3, 300), 20),
    ],
    ids=str,
)
def test_a_graph_encoder_beside_a_linear_model_is_trained_for_less_time(estimator, encoder, epochs):
    options = estimator.resolve_options(Facts(examples=5000))
    assert (options["encoder"].layers, options["encoder"].hidden) == encoder
    assert options["training"].epochs == epochs
    assert options["training"].learning_rate == 5e-4 or epochs == 4


@pytest.mark.parametrize("kind", ["classifier", "pair", "tagger", "crf"])
def test_learns(kind, corpus, able):
    X, y = corpus(kind, 60)
    assert able(kind).fit(X, y).score(X, y) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fit_returns_a_fitted_self(kind, corpus, tiny):
    estimator = tiny(kind, training={"epochs": 1})
    assert estimator.fit(*corpus(kind, 16)) is estimator
    check_is_fitted(estimator)
    assert 0 <= estimator.score(*corpus(kind, 16)) <= 1


@pytest.mark.parametrize("kind", ["classifier", "pair", "multilabel"])
def test_decision_function(kind, corpus, fitted):
    X, _ = corpus(kind)
    estimator = fitted(kind)
    scores, probabilities = estimator.decision_function(X), estimator.predict_proba(X)
    if kind != "multilabel":  # two classes
        probabilities = probabilities[:, 1]
        assert (estimator.classes_[(scores > 0).astype(int)] == estimator.predict(X)).all()
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), probabilities, atol=1e-6)


def test_decision_function_of_three_classes(corpus, tiny):
    texts, _ = corpus("classifier", 12)
    estimator = tiny("classifier", training={"epochs": 1}).fit(texts, ["a", "b", "c"] * 4)
    shares = np.exp(estimator.decision_function(texts))
    np.testing.assert_allclose(shares / shares.sum(1, keepdims=True), estimator.predict_proba(texts), atol=1e-6)


@pytest.mark.slow
def test_pipeline(corpus, tiny):
    texts, labels = corpus("classifier")
    pipeline = make_pipeline(FunctionTransformer(lambda X: [text.upper() for text in X]), tiny("classifier"))
    pipeline.fit(texts, labels)
    alone = tiny("classifier").fit([text.upper() for text in texts], labels)
    assert pipeline.predict(texts).tolist() == alone.predict([text.upper() for text in texts]).tolist()
    assert pipeline.score(texts, labels) == alone.score([text.upper() for text in texts], labels)


@pytest.mark.slow
def test_cross_validation(corpus, tiny):
    texts, labels = corpus("classifier")
    rare = [*texts, "odd one"], [*labels, "odd"]
    assert np.isfinite(cross_val_score(tiny("classifier"), *rare, cv=KFold(2), error_score="raise")).all()
    scores = cross_val_score(tiny("classifier"), np.array(texts, dtype=object), labels, cv=2, error_score="raise")
    assert len(scores) == 2
    assert all(0 <= score <= 1 for score in scores)


def test_cross_validation_of_taggers(tiny):
    """One fold can have only entities of two words, another only of one word: both have all tags of the type."""
    words = [["NATO", "was"], ["the", "NATO", "Paris"]] * 4
    tags = [["B-ORG", "O"], ["O", "B-ORG", "I-ORG"]] * 4
    scores = cross_val_score(
        tiny("crf", training={"epochs": 1}), words, tags, cv=[([0, 2], [1, 3])], error_score="raise"
    )
    assert len(scores) == 1


@pytest.mark.slow
def test_grid_search(corpus, tiny):
    texts, labels = corpus("classifier", 24)
    search = GridSearchCV(
        Pipeline([("classify", tiny("classifier"))]),
        {"classify__training__epochs": np.array([1, 2]), "classify__encoder__layers": [1]},
        cv=2,
        error_score="raise",
    ).fit(texts, labels)
    best = search.best_estimator_.named_steps["classify"]
    assert len(best.history_) == search.best_params_["classify__training__epochs"]
    assert len(best.model_.encoder.layers) == 1
    assert search.predict(texts[:2]).shape == (2,)


def test_parameters_set_after_fit_apply_to_the_next_fit(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier")
    estimator = tiny("classifier").fit(texts, labels)
    before = estimator.predict_proba(texts)
    estimator.set_params(encoder__layers=1, head__pooling="mean", inputs__characters=True, training__epochs=1)
    assert np.array_equal(estimator.predict_proba(texts), before)
    assert np.array_equal(load(estimator.save(tmp_path / "model")).predict_proba(texts), before)
    estimator.fit(texts, labels)
    assert len(estimator.model_.encoder.layers) == 1
    assert len(estimator.history_) == 1


@pytest.mark.slow
def test_a_second_fit_starts_from_scratch(corpus, tiny):
    texts, labels = corpus("classifier")
    once = tiny("classifier").fit(texts, labels)
    twice = tiny("classifier").fit(["x y"] * 4, [1, 2, 1, 2]).fit(texts, labels)
    assert np.array_equal(once.predict_proba(texts), twice.predict_proba(texts))
    assert twice.classes_.tolist() == ["bad", "good"]


def test_global_generators_do_not_change(corpus, tiny):
    import random

    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    tiny("crf").fit(*corpus("crf")).predict_proba(corpus("crf")[0])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]


@pytest.mark.slow
def test_forms_of_inputs_and_labels(corpus, tiny):
    texts, labels = corpus("classifier", 16)
    training = {"epochs": 1}
    expected = tiny("classifier", training=training).fit(texts, labels).predict_proba(texts)
    for X, y in (
        (np.array(texts), np.array(labels)),
        (texts, np.array(labels).reshape(-1, 1)),
        (pd.Series(texts), pd.Series(labels)),
        (tuple(texts), iter(labels)),
        ((text for text in texts), labels),
        ([Example(text, label=label) for text, label in zip(texts, labels, strict=True)], None),
        ([Sentence(text.split(), label=label) for text, label in zip(texts, labels, strict=True)], None),
        ([text.split() for text in texts], labels),
    ):
        assert np.array_equal(tiny("classifier", training=training).fit(X, y).predict_proba(texts), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "regressor", "pair regressor"])
def test_a_table_of_texts_or_pairs(kind, corpus, tiny, same_weights):
    """Targets may be in a table, too, unless there are several for an input."""
    X, y = corpus(kind, 16)
    targets = column = y
    if kind not in ("multilabel", "tagger", "crf"):
        targets, column = pd.DataFrame({"target": y}), np.array(y).reshape(-1, 1)
    if "pair" in kind:
        table = np.array(X, object)
    else:
        table = np.empty((len(X), 1), object)
        table[:, 0] = X
    training = {"epochs": 1}
    estimator = tiny(kind, training=training).fit(pd.DataFrame(table), targets, dev=(table, y))
    expected = tiny(kind, training=training).fit(X, y, dev=(X, y))
    assert same_weights(estimator, expected)
    assert estimator.predict_rows(table) == expected.predict_rows(X)
    assert estimator.evaluate(table, targets) == expected.evaluate(X, y)
    assert estimator.report(table, column).summary == expected.report(X, y).summary
    assert estimator.score(pd.DataFrame(table), column) == expected.score(X, y)
    assert summarise(estimator, table).scales().equals(summarise(expected, X).scales())
    at = int(np.argmax([len(str(x)) for x in X]))
    assert estimator.attention(table[at]).table().equals(expected.attention(X[at]).table())
    with pytest.raises(DataError, match="shape"):
        estimator.predict(np.concatenate([table] * 3, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ensemble",
    [
        lambda classifier: make_pipeline(
            ColumnTransformer([("text", SimpleImputer(strategy="constant", fill_value=""), ["text"])]), classifier
        ),
        lambda classifier: BaggingClassifier(classifier, n_estimators=1, bootstrap=False),
        lambda classifier: AdaBoostClassifier(classifier, n_estimators=1),
    ],
    ids=["column transformer", "bagging", "boosting"],
)
def test_ensembles_and_pipelines_with_a_table(ensemble, corpus, able):
    texts, labels = corpus("classifier")
    frame = pd.DataFrame({"text": texts})
    fitted = ensemble(able("classifier")).fit(frame, labels)
    assert fitted.score(frame.map(lambda text: f"{text} a film"), labels) > 0.9  # texts that are one word: 0.5


@pytest.mark.slow
def test_threads_fit_and_predict(corpus, tiny, fitted, figures, same_weights):
    kinds = ("classifier", "crf", "translator")
    alone = [tiny(kind).fit(*corpus(kind)) for kind in kinds]
    predicted = figures(fitted("pair"), corpus("pair")[0])
    fits = [delayed(lambda kind: tiny(kind).fit(*corpus(kind)))(kind) for kind in kinds]
    predictions = [delayed(figures)(fitted("pair"), corpus("pair")[0])] * 5
    *together, first, second, third, fourth, last = Parallel(len(kinds) + 1, backend="threading")([*fits, *predictions])
    for one, other in zip(alone, together, strict=True):
        assert same_weights(one, other)
    for again in (first, second, third, fourth, last):
        assert np.array_equal(again, predicted)


def test_metadata_routing(corpus, tiny):
    texts, labels = corpus("classifier", 24)
    weights = np.array([0.0, 1.0] * 12)
    estimator = tiny("classifier", training={"epochs": 1})
    with config_context(enable_metadata_routing=True):
        with pytest.raises(TypeError, match="has no argument 'groups'"):
            estimator.set_fit_request(groups=True)
        with pytest.raises(UnsetMetadataPassedError):
            cross_validate(estimator, texts, labels, params={"sample_weight": weights})
        estimator.set_fit_request(sample_weight="w").set_score_request(sample_weight=True)
        folds = [(list(range(16)), list(range(16, 24)))]
        scored = cross_validate(
            make_pipeline(clone(estimator)),
            texts,
            labels,
            cv=folds,
            params={"w": weights, "sample_weight": weights},
            return_estimator=True,
        )
    expected = tiny("classifier", training={"epochs": 1}).fit(texts[:16], labels[:16], sample_weight=weights[:16])
    fitted = scored["estimator"][0][-1]
    assert np.array_equal(fitted.predict_proba(texts), expected.predict_proba(texts))
    assert scored["test_score"][0] == expected.score(texts[16:], labels[16:], weights[16:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "regressor", "tagger"])
def test_cross_val_predict(kind, corpus, tiny):
    X, y = corpus(kind, 24)
    folds = [(list(range(12)), list(range(12, 24))), (list(range(12, 24)), list(range(12)))]
    estimator = tiny(kind, training={"epochs": 1})
    predicted = cross_val_predict(estimator, X, y, cv=folds)
    assert list(predicted[12:]) == list(clone(estimator).fit(X[:12], y[:12]).predict(X[12:]))
    assert len(predicted) == 24


def test_cross_val_predict_of_probabilities_of_tags(corpus, tiny):
    """As cleanlab takes them; scikit-learn cannot encode tags that are given apart."""
    sentences = [Sentence(words, tags=tags) for words, tags in zip(*corpus("tagger", 24), strict=True)]
    shares = cross_val_predict(tiny("tagger", training={"epochs": 1}), sentences, cv=2, method="predict_proba")
    assert [len(rows) for rows in shares] == [len(sentence.words) for sentence in sentences]
    assert all(np.allclose(rows.sum(1), 1) for rows in shares if len(rows))


@pytest.mark.slow
def test_the_dev_set_selects_the_epoch(corpus, tiny):
    texts, labels = corpus("classifier")
    wrong = ["bad" if label == "good" else "good" for label in labels]
    training = {"epochs": 4}
    estimators = [
        tiny("classifier", training=training).fit(texts, labels, dev=dev)
        for dev in (
            ([text.split() for text in texts], np.array(wrong)),
            [texts, wrong],
            [Example(text, label=label) for text, label in zip(texts, wrong, strict=True)],
        )
    ]
    first = estimators[0]
    assert set(first.history_[0]) == {
        "epoch", "train_loss", "dev_accuracy", "dev_macro_precision", "dev_macro_recall", "dev_macro_f1"
    }  # fmt: skip
    best = max(row["dev_accuracy"] for row in first.history_)
    assert first.evaluate(texts, wrong)["accuracy"] == best
    for other in estimators[1:]:
        assert other.history_ == first.history_


class MeasuredLabels(TextLabels):
    """Labels that keep what they measure."""

    def measure(self, labels, decisions, weights=None):
        MeasuredLabels.gold, MeasuredLabels.weights = labels, weights
        return super().measure(labels, decisions, weights)


class Measurement(Classification):
    labels_type = MeasuredLabels


class Measured(TextClassifier):
    task = Measurement


def test_held_out_data_is_not_trained_on(corpus, tiny):
    texts, labels = corpus("classifier", 40)
    training = tiny("classifier", training={"dev_fraction": 0.25, "epochs": 1}).get_params(deep=False)
    Measured(**training).fit(texts, labels)
    gold = MeasuredLabels.gold
    assert len(gold) == 10
    assert abs(gold.count("bad") - labels.count("bad") / 4) <= 1  # the same fraction of each class


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fit_with_weights(kind, corpus, tiny, same_weights):
    """Equal weights change nothing but rounding; examples of weight 0 do not influence the others."""
    inputs, labels = corpus(kind, 16)
    options = {"training": {"epochs": 1, "dev_fraction": 0.25, "batch_size": 100}}
    plain = tiny(kind, **options).fit(inputs, labels)
    twos = tiny(kind, **options).fit(inputs, labels, sample_weight=np.full(16, 2.0))
    assert twos.history_[0] == pytest.approx(plain.history_[0])
    some = tiny(kind, **options).fit(inputs, labels, sample_weight=[1.0, 3.0] * 8)
    assert some.history_[0]["train_loss"] != pytest.approx(plain.history_[0]["train_loss"])
    assert not same_weights(some, plain)


@pytest.mark.parametrize("kind", ["classifier", "multilabel", "tagger"])
def test_scores_with_weights_equal_those_of_repeated_examples(kind, corpus, fitted):
    inputs, labels = corpus(kind, 16)
    weights = [number % 4 for number in range(16)]
    repeated = [
        [own for own, count in zip(part, weights, strict=True) for _ in range(count)] for part in (inputs, labels)
    ]
    estimator = fitted(kind)
    assert estimator.score(inputs, labels, sample_weight=weights) == pytest.approx(estimator.score(*repeated))
    assert estimator.score(inputs, labels, weights) != estimator.score(inputs, labels)


def test_held_out_examples_keep_their_weights(corpus, tiny):
    texts, labels = corpus("classifier", 40)
    training = tiny("classifier", training={"dev_fraction": 0.25, "epochs": 1}).get_params(deep=False)
    Measured(**training).fit(texts, labels, sample_weight=[2.0 if label == "good" else 0.5 for label in labels])
    assert MeasuredLabels.weights.tolist() == [2.0 if label == "good" else 0.5 for label in MeasuredLabels.gold]


@pytest.mark.parametrize("kind", ["multilabel", "regressor"])
def test_texts_without_weight_are_not_held_out(kind, corpus, tiny):
    """Else there is nothing to measure, or nothing to train on."""
    texts, labels = corpus(kind, 20)
    if kind == "regressor":
        labels = [number / 4 for number in range(20)]  # equal ones are not held out
    weights = np.zeros(20)
    weights[[3, 14]] = 1
    estimator = tiny(kind, training={"dev_fraction": 0.5, "epochs": 1}).fit(texts, labels, sample_weight=weights)
    assert estimator.num_examples_ == {"training": 20}
    weights[[5, 8]] = 1
    estimator.fit(texts, labels, sample_weight=weights)
    assert estimator.num_examples_ == {"training": 18, "dev": 2}


def test_a_translator_is_not_scored_with_weights(corpus, fitted):
    with pytest.raises(ConfigError, match="sample_weight does not apply to bleu; leave it out"):
        fitted("translator", "transformer").score(*corpus("translator", 4), sample_weight=[1, 2, 3, 4])


@pytest.mark.parametrize("fraction", [0.0, 0.01])
def test_without_a_dev_set_the_last_epoch_is_kept(fraction, corpus, tiny):
    estimator = tiny("classifier", training={"dev_fraction": fraction}).fit(*corpus("classifier"))
    assert [set(row) for row in estimator.history_] == [{"epoch", "train_loss"}] * 2


X, Y = ["a b", "b"] * 4, ["x", "y"] * 4


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("fit", ([], []), "there are no training examples"),
        ("fit", (["a", "b"], ["x"]), "2 inputs but 1 labels. Give one for each."),
        ("fit", (["a", "b"],), "input 0 has no label. Give y, or inputs with labels."),
        ("fit", ([Example("a", label="x"), Example("b")],), "input 1 has no label. Give y, or inputs with labels."),
        ("fit", (["a", "b"], ["x", "x"]), "all 2 labels are 'x'; training needs at least two different ones"),
        (
            "fit",
            (["a", "b"], [("x",), "y"]),
            "label ('x',) is a collection. Of one-hot rows give the column of the one, "
            "as np.argmax(y, axis=1) does; for texts with several labels use TextClassifier(multilabel=True).",
        ),
        ("fit", (["a", "b"], ["x", 1]), "labels of several types: [\"'x'\", '1']; use strings"),
        ("fit", (X, Y, (X, Y, 1)), "the dev set has 3 parts. Give (inputs, labels), or inputs with labels."),
        ("fit", (X, Y, (X[:1], Y)), "the dev set: 1 inputs but 8 labels. Give one for each."),
        ("fit", (X, Y, (["a"], ["z"])), "the dev set has label 'z', which the training set lacks. Known: x, y."),
        (
            "fit",
            (X, Y, (["a"], [None])),
            "the dev set: label 0 is None, a missing value. Leave this input out, or name its class.",
        ),
        ("fit", (X, Y, X), "the dev set: input 0 has no label. Give y, or inputs with labels."),
        (
            "fit",
            (X, Y, ([], [])),
            "the dev set: there are no examples in it. Without a dev set, a share of the training set is held out.",
        ),
        ("fit", (X, Y, "a b"), "the dev set: a str is given where many inputs are expected. Put it into a list."),
        ("evaluate", ([], []), "there are no examples to evaluate on"),
        ("evaluate", (["a", "b"], ["good"]), "2 inputs but 1 labels. Give one for each."),
        ("evaluate", ("a", ["good"]), "a str is given where many inputs are expected. Put it into a list."),
    ],
)
def test_invalid_data(method, arguments, message, tiny, fitted):
    if method == "evaluate":
        assert message_of(DataError, fitted("classifier").evaluate, *arguments) == message
    else:
        dev = {"dev": arguments[2]} if len(arguments) == 3 else {}
        assert message_of(DataError, tiny("classifier").fit, *arguments[:2], **dev) == message


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.GraphAttnWarning")
def test_unknown_labels_count_as_wrong(corpus, fitted):
    texts, labels = corpus("classifier")
    estimator = fitted("classifier")
    right = [estimator.predict([texts[0]])[0], "fine"]
    with pytest.warns(GraphAttnWarning, match="'fine', which the training set lacks"):
        assert estimator.evaluate([texts[0]] * 2, right)["accuracy"] == 50.0
    assert estimator.evaluate([texts[0]] * 2, right)["macro_f1"] == pytest.approx(100 / 3)
    with pytest.raises(UnknownLabelError) as caught:
        estimator.evaluate([texts[0]] * 2, right, unknown="error")
    assert caught.value.count == 1
    assert estimator.score([texts[0]] * 2, right) == 0.5  # a fold of a cross-validation can lack a class
    assert message_of(ConfigError, estimator.evaluate, texts, labels, unknown="skip") == (
        "unknown is 'skip'; choose wrong or error"
    )


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Translator(training=TrainingOptions()), "training of Translator is TrainingOptions; give TranslationTraining"),
        (TextClassifier(inputs={"level": "bpe"}), "inputs of TextClassifier is dict; give InputOptions"),
    ],
)
def test_options_of_another_class(estimator, message):
    assert message_of(ConfigError, estimator.fit, ["a", "b"], ["c", "d"]) == message


def test_warnings_point_at_the_callers_line(tiny, corpus):
    texts, labels = corpus("classifier")
    estimator = tiny(inputs={"max_tokens_per_text": 2}, training={"epochs": 1})
    uses = [
        lambda: estimator.fit(texts, labels),
        lambda: estimator.fit(texts, labels, dev=(texts, labels)),
        lambda: estimator.predict(texts),
        lambda: estimator.evaluate(texts, labels),
        lambda: estimator.report(texts, labels).mistakes,
        lambda: estimator.predict_rows(texts, probabilities=True),
        lambda: estimator.attention(texts[0]),
    ]
    for use in uses:
        with pytest.warns(TruncationWarning) as caught:
            use()
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("estimator", [*ESTIMATORS, Translator])
def test_methods_before_fit_raise_an_error(estimator, tmp_path):
    expected = f"this {estimator.__name__} is not trained yet; call fit, or graphattn.load a saved one"
    made = estimator()
    for call, arguments in (
        (made.predict, (["a"],)),
        (getattr(made, "predict_proba", made.predict), (["a"],)),
        (made.changed_options, ()),
        (made.score, (["a"], ["x"])),
        (made.evaluate, (["a"], ["x"])),
        (made.attention, ("a",)),
        (made.save, (tmp_path / "model",)),
    ):
        assert message_of(NotFittedError, call, *arguments) == expected
        with pytest.raises(NotFittedErrorOfScikitLearn) as caught:
            call(*arguments)
        sent = pickle.loads(pickle.dumps(caught.value))  # from a process
        assert isinstance(sent, NotFittedError)
        assert isinstance(sent, NotFittedErrorOfScikitLearn)
        assert str(sent) == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__epochs": -1}, "epochs is -1; it must be at least 0"),
        ({"inputs__level": "char"}, "level is 'char'; choose one of: word, bpe"),
        (
            {"head__pooling": "sum"},
            "pooling is 'sum'; choose one of: cls+max, concat, max, mean, mean-max, cls, last, unit-mean, unit-cls, "
            "unit-last, source2token",
        ),
        ({"encoder__heads": 5}, "hidden is 12; it must be a multiple of heads (5), or set head_feats"),
        ({"encoder": "gru"}, "encoder 'gru' does not exist; choose one of: " + ", ".join(ENCODERS)),
        (
            {"training__metric": "f1"},
            "metric 'f1' is not measured; choose one of: accuracy, macro_precision, macro_recall, macro_f1",
        ),
        ({"class_weight": "equal"}, "class_weight is 'equal'; choose one of: balanced"),
        ({"class_weight": {"good": float("nan")}}, "class_weight of 'good' is nan; it must be 1e-30 to 1e+30"),
        ({"class_weight": {"good": 0}}, "class_weight of 'good' is 0; it must be 1e-30 to 1e+30"),
        ({"class_weight": {"good": 10**400}}, f"class_weight of 'good' is {10**400}; it must be 1e-30 to 1e+30"),
    ],
)
def test_options_are_validated_by_fit(changes, message, corpus, tiny):
    estimator = tiny("classifier").set_params(**changes)
    assert message_of(ConfigError, estimator.fit, *corpus("classifier", 12)) == message
    assert not hasattr(estimator, "model_")


@pytest.mark.parametrize("kind", ["classifier", "pair", "tagger"])
def test_class_weights_are_validated_by_each_estimator_that_has_them(kind, corpus, tiny):
    estimator = tiny(kind, class_weight="equal")
    message = "class_weight is 'equal'; choose one of: balanced"
    assert message_of(ConfigError, estimator.fit, *corpus(kind, 12)) == message


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_fit_changes_nothing(kind, corpus, tiny, figures):
    inputs, labels = corpus(kind, 16)
    estimator = tiny(kind, training={"epochs": 1})
    before = dict(vars(estimator))
    wrong = {"dev": (inputs[:2], labels[:1])}
    with pytest.raises(DataError):
        estimator.fit(inputs, labels, **wrong)
    assert vars(estimator) == before
    expected = figures(estimator.fit(inputs, labels), inputs)
    with pytest.raises(DataError):
        estimator.fit(inputs, labels, **wrong)
    assert all(np.array_equal(row, other) for row, other in zip(figures(estimator, inputs), expected, strict=True))


@pytest.mark.parametrize(
    "changes", [{"inputs__vectors": "missing.txt"}, {"encoder": MSTransOptions(hidden=30, heads=4)}], ids=str
)
def test_a_fit_with_invalid_options_leaves_the_fitted_model(changes, corpus, tiny, tmp_path):
    texts, labels = corpus("classifier", 16)
    estimator = tiny("classifier", training={"epochs": 1}).fit(texts, labels)
    expected = estimator.predict_proba(texts)
    with pytest.raises(GraphAttnError):
        estimator.set_params(**changes).fit(texts, labels)
    assert np.array_equal(estimator.predict_proba(texts), expected)
    assert np.array_equal(load(estimator.save(tmp_path / "model")).predict_proba(texts), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_metric_is_an_error_before_training(kind, corpus, tiny, fitted, monkeypatch):
    data = corpus(kind, 12)
    names = ", ".join(fitted(kind).evaluate(*data))
    monkeypatch.setattr("graphattn.models.training._loop.train", None)
    message = message_of(ConfigError, tiny(kind, training={"metric": "auc"}).fit, *data)
    assert message == f"metric 'auc' is not measured; choose one of: {names}"


def test_a_dev_metric_requires_a_dev_set(corpus, tiny):
    estimator = tiny("classifier", training={"dev_fraction": 0.0, "metric": "macro_f1"})
    assert message_of(ConfigError, estimator.fit, *corpus("classifier", 12)) == (
        "metric needs a dev set; give one or a larger dev_fraction, or leave metric out"
    )


@pytest.mark.parametrize(("examples", "epochs"), [(50, 20), (1_500, 10), (5_000, 4), (10_000, 4), (25_000, 3)])
def test_small_corpora_have_more_epochs_beside_a_linear_model(examples, epochs):
    assert TrainingOptions().resolve_epochs(examples, **EPOCHS_BESIDE_LINEAR_MODEL) == epochs
    assert TrainingOptions(epochs=7).resolve_epochs(examples, **EPOCHS_BESIDE_LINEAR_MODEL) == 7


def test_taggers_with_vectors_are_trained_for_longer():
    epochs = [
        kind(inputs=InputOptions(vectors="glove.txt")).resolve_options(Facts(examples=14_000))["training"].epochs
        for kind in (SequenceTagger, TextClassifier)
    ]
    assert epochs == [7, 3]


@pytest.mark.parametrize(("examples", "epochs"), [(8, 20), (7_500, 20), (25_000, 6), (100_000, 3)])
def test_large_corpora_have_fewer_epochs(examples, epochs):
    assert TrainingOptions().resolve_epochs(examples) == epochs
    assert TrainingOptions(epochs=7).resolve_epochs(examples) == 7


@pytest.mark.parametrize(("estimator", "preset"), [(TextClassifier, "sst-phrases"), (SequenceTagger, "ner")])
def test_presets_of_one_task(estimator, preset):
    recipe = {"sst-phrases": STAR_TRANSFORMER, "ner": CONLL}[preset]
    for encoder in ("ms-trans", "bilstm"):
        model = estimator(encoder, preset=preset)
        model.validate()
        groups = {"encoder": model.resolve_options()["encoder"], **model.resolve_options()}
        for group, values in expand_recipe(recipe, encoder).items():
            assert {name: getattr(groups[group], name) for name in values} == values
    assert estimator(BiLSTMOptions(dropout=0.1), preset=preset).resolve_options()["encoder"].dropout == 0.1
    with pytest.raises(ConfigError, match=f"preset is '{preset}'; choose one of: default, paper"):
        PairClassifier(preset=preset).validate()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_papers_settings_by_name(estimator):
    paper = estimator(preset="paper").resolve_options()
    values = paper["head"].linear_branch, paper["inputs"].embedding_start, paper["training"].patience
    assert values == (False, "random", None)
    assert estimator().set_params(preset="paper").resolve_options() == paper
    own = estimator(head=HeadOptions(head_dropout=0.1)).set_params(preset="paper").resolve_options()["head"]
    assert (own.head_dropout, own.linear_branch) == (0.1, False)
    with pytest.raises(ConfigError, match="preset"):
        estimator(preset="papers").fit(["a", "b"], [0, 1])


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        ("classifier", ["x", "y", "y", "y", "y"], [5 / (2 * 1), 5 / (2 * 4)]),
        ("multilabel", [("x",), ("x", "y"), (), ("x",), ("x",)], [1 / 4, 4 / 1]),
    ],
)
def test_balanced_class_weights(kind, labels, expected, tiny):
    estimator = tiny(kind, class_weight="balanced", training={"dev_fraction": 0.0, "epochs": 1})
    estimator.fit(["a b", "b c", "c d", "d", "a"], labels)
    assert estimator.model_.head.class_weights.tolist() == pytest.approx(expected)


def test_class_weights_by_name(tiny):
    estimator = tiny("classifier", class_weight={2: 5}, training={"epochs": 1})
    estimator.fit(["a", "b", "c", "d"], [1, 2, 3, 2])
    assert estimator.model_.head.class_weights.tolist() == [1.0, 5.0, 1.0]
    unknown = tiny("classifier", class_weight={"z": 5.0})
    assert message_of(DataError, unknown.fit, ["a", "b"], ["x", "y"]) == (
        "the class_weight has label 'z', which the training set lacks. Known: x, y."
    )


@pytest.mark.slow
def test_class_weights_change_the_model(corpus, tiny):
    texts, labels = corpus("classifier")
    training = {"epochs": 5}
    for favoured in ("good", "bad"):
        estimator = tiny("classifier", class_weight={favoured: 1000.0}, training=training).fit(texts, labels)
        assert set(estimator.predict(texts)) == {favoured}


def test_nothing_is_held_out_if_one_text_would_remain(tiny):
    estimator = tiny("classifier", training={"epochs": 1, "dev_fraction": 0.6})
    message = (
        "dev_fraction 0.6 of 3 examples would leave 1 to train on, so nothing is held out and the last epoch is kept; "
    )
    with pytest.warns(GraphAttnWarning, match=re.escape(message)):
        estimator.fit(["a", "b", "c"], ["x", "y", "x"])
    assert set(estimator.history_[0]) == {"epoch", "train_loss"}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([80.0, 90.0, 85.0], 1),
        ([90.0, 80.0, 90.0], 2),  # ties go to the last epoch
        ([None, None, None], 2),
    ],
)
def test_best_epoch_has_the_kept_weights(figures, expected):
    rows = [{"epoch": epoch, **({} if one is None else {"dev_accuracy": one})} for epoch, one in enumerate(figures)]
    made = SimpleNamespace(history_=rows, training_=SimpleNamespace(metric=None), main_metric="accuracy")
    assert Estimator.best_epoch(made)["epoch"] == expected


def test_changed_options(tiny, corpus, tmp_path):
    estimator = TextClassifier("bilstm", training=tiny("classifier").training)
    estimator.set_params(encoder__hidden=8, inputs__embedding=6, training__epochs=1, class_weight="balanced")
    estimator.fit(*corpus("classifier", 12))
    options = estimator.changed_options()
    assert (options["hidden"], options["embedding"]) == (8, 6)
    assert options["class_weight"] == "balanced"
    assert "pooling" not in options  # the encoder's option
    assert load(estimator.save(tmp_path / "model")).changed_options() == options


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["balanced", None, np.int64, np.bool_, np.str_, np.float64])
def test_class_weights_are_saved(kind, tiny, corpus, tmp_path):
    texts, labels = corpus("classifier", 16)
    given = kind
    if isinstance(kind, type):
        labels = np.array([label == labels[0] for label in labels]).astype(kind)
        given = dict.fromkeys(np.unique(labels), 2.0)
    estimator = tiny("classifier", class_weight=given, training={"epochs": 1}).fit(texts, labels)
    assert load(estimator.save(tmp_path / "model")).class_weight == given

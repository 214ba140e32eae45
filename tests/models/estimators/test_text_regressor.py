"""Regressors: numbers for texts and pairs, their errors, metrics and files."""

import json

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.model_selection import cross_val_score

from graphattn.builders import Example
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning
from graphattn.models import HeadOptions, PairRegressor, TextRegressor, TrainingOptions, load
from graphattn.models._estimators.inspectable import encode_input
from graphattn.models._files.model_card import _format_report
from graphattn.models.inspection.attributions._gradient_times_weight import gradient_times_weight

KINDS = ("regressor", "pair regressor")


@pytest.mark.parametrize("kind", KINDS)
def test_learns_its_corpus(kind, able, corpus):
    X, y = corpus(kind, 60)
    regressor = able(kind).fit(X, y)
    predicted = regressor.predict(X)
    assert np.corrcoef(predicted, y)[0, 1] > 0.95
    assert regressor.score(X, y) == pytest.approx(1 - np.mean((predicted - y) ** 2) / np.var(y), abs=1e-6)
    assert regressor.evaluate(X, y)["mse"] == pytest.approx(np.mean((predicted - y) ** 2))
    assert abs(predicted.mean() - np.mean(y)) < 0.3  # in the targets' units


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linear_branch", [True, False])
def test_saved_models_predict_the_same(kind, linear_branch, tiny, corpus, tmp_path):
    X, y = corpus(kind)
    regressor = tiny(kind, head={"linear_branch": linear_branch}).fit(X, y)
    loaded = load(regressor.save(tmp_path / "model"))
    assert type(loaded) is type(regressor)
    assert np.array_equal(loaded.predict(X), regressor.predict(X))
    assert loaded.evaluate(X, y) == regressor.evaluate(X, y)


def test_units_do_not_matter(tiny, corpus):
    texts, y = corpus("regressor")
    first = tiny("regressor").fit(texts, y).predict(texts)
    shifted = tiny("regressor").fit(texts, [1e6 + 1000 * value for value in y]).predict(texts)
    assert shifted == pytest.approx(1e6 + 1000 * first, rel=1e-6)


@pytest.mark.slow
def test_inputs_with_their_targets(tiny, corpus):
    texts, y = corpus("regressor")
    expected = tiny("regressor").fit(texts, y).predict(texts)
    examples = [Example(text, label=str(value)) for text, value in zip(texts, y, strict=True)]
    assert np.array_equal(tiny("regressor").fit(examples).predict(texts), expected)
    assert np.array_equal(tiny("regressor").fit(texts, np.array(y)).predict(texts), expected)


@pytest.mark.slow
def test_weights_are_like_copies(tiny, corpus):
    texts, y = corpus("regressor")
    regressor = tiny("regressor").fit(texts, y)
    weights = [1 + number % 3 for number in range(len(texts))]
    copies = [number for number, weight in enumerate(weights) for _ in range(weight)]
    weighted = regressor.evaluate(texts, y, sample_weight=weights)
    copied = regressor.evaluate([texts[n] for n in copies], [y[n] for n in copies])
    assert weighted == pytest.approx(copied)
    heavy = [1e-6] * 39 + [1.0]
    only = tiny("regressor", training={"epochs": 20, "dev_fraction": 0.0}).fit(texts, y, sample_weight=heavy)
    assert abs(only.predict(texts)[39] - y[39]) < 0.2


def test_equal_targets_are_not_held_out(tiny):
    texts, y = [f"the {word} film" for word in ("good", "bad", "dull")] * 4, [4.5, 1.0, 3.0] * 4
    with pytest.warns(GraphAttnWarning, match="that dev_fraction holds out are .* so nothing is held out"):
        regressor = tiny("regressor", training={"epochs": 1, "dev_fraction": 0.1}).fit(texts, y)
    assert "dev_pearson" not in regressor.history_[-1]


@pytest.mark.slow
def test_linear_branch_is_ridge_regression(tiny, corpus):
    texts, y = corpus("regressor", 200)
    regressor = tiny("regressor", head={"linear_branch": True}, training={"epochs": 1}).fit(texts, y)
    assert regressor.mixture_.keys() == {"deep", "linear"}
    assert regressor.dev_metrics().keys() >= {"pearson", "mse"}
    assert regressor.evaluate(texts, y)["pearson"] > 90
    assert regressor.evaluate(texts, y)["pearson"] > tiny("regressor").fit(texts, y).evaluate(texts, y)["pearson"]


def test_warm_start_keeps_the_scale(tiny, corpus):
    texts, y = corpus("regressor")
    regressor = tiny("regressor", warm_start=True).fit(texts, y)
    mean, scale = regressor.mean_, regressor.scale_
    regressor.fit([*texts, "a word that is new"], [*y, 40.0])
    assert (regressor.mean_, regressor.scale_) == (mean, scale)


def test_report(tiny, corpus):
    texts, y = corpus("regressor")
    regressor = tiny("regressor").fit(texts, y)
    report = regressor.report(texts, y)
    assert sum(row["support"] for row in report["ranges"].values()) == len(texts)
    bounds = report["confidence_interval"]
    assert bounds["metric"] == "pearson"
    assert bounds["low"] <= report["pearson"] <= bounds["high"]
    errors = [abs(row["error"]) for row in report.mistakes]
    assert len(errors) == len(texts)
    assert errors == sorted(errors, reverse=True)
    first = report.mistakes[0]
    assert first["error"] == pytest.approx(first["predicted"] - first["gold"], abs=1e-5)
    header, *rows = str(report).splitlines()
    assert header.split() == ["gold", "predicted", "mse", "support"]
    assert rows[-1].startswith("pearson: ")
    json.dumps(report, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "offset"), [(1e-7, 3e-7), (10.0, 1.6e9), (1e30, 0.0), (1e-30, 0.0)])
def test_targets_of_any_magnitude(scale, offset, tiny, corpus):
    """Data keep their digits, and the table of ranges all texts."""
    texts, y = corpus("regressor")
    targets = [offset + scale * (value + number / 100) for number, value in enumerate(y)]
    regressor = tiny("regressor").fit(texts, targets)
    predicted, unit = regressor.predict(texts), 1e-6 * np.std(targets)
    assert [row["value"] for row in regressor.predict_rows(texts)] == pytest.approx(predicted, abs=unit)
    assert regressor.attention(texts[0]).prediction == pytest.approx(predicted[0], abs=100 * unit)
    report = regressor.report(texts, targets)
    errors = {row["text"]: (row["predicted"], row["error"]) for row in report.mistakes}
    for text, target, value in zip(texts, targets, predicted, strict=True):
        assert errors[text] == pytest.approx((value, value - target), abs=unit)
    assert sum(row["support"] for row in report["ranges"].values()) == len(texts)
    assert len(report["ranges"]) == 5
    bounds = report["confidence_interval"]
    assert bounds["low"] < bounds["high"]
    _, *rows = str(report).splitlines()
    for table in (rows, _format_report(report).partition("ranges")[2].splitlines()[2:]):
        cells = [row.replace("|", " ").split()[-4:-1] for row in table[:5]]
        assert len({gold for gold, _, _ in cells}) == 5
        assert all(float(mse) for _, _, mse in cells)


def test_inspection(tiny, corpus):
    texts, y = corpus("regressor")
    regressor = tiny("regressor").fit(texts, y)
    attention = regressor.attention(texts[0])
    assert attention.prediction == pytest.approx(regressor.predict(texts[:1])[0], abs=1e-4)
    assert gradient_times_weight(regressor, texts[0])["attribution"].abs().sum() > 0
    inputs = encode_input(regressor, texts[0])
    scores = regressor.model_(inputs.first_batch)
    with pytest.raises(ConfigError, match="label is not for a model that predicts a number"):
        regressor.explainer_.choose_target(inputs, scores, label="good")


@pytest.mark.slow
def test_scikit_learn(tiny, corpus):
    texts, y = corpus("regressor")
    regressor = tiny("regressor")
    assert is_regressor(regressor)
    assert not hasattr(regressor.fit(texts, y), "classes_")
    assert cross_val_score(regressor, texts, y, cv=2).shape == (2,)


@pytest.mark.parametrize("estimator", [TextRegressor, PairRegressor])
def test_parameters(estimator):
    names = {
        "encoder",
        "preset",
        "inputs",
        "head",
        "training",
        "parsing",
        "pretrained",
        "warm_start",
        "feature_columns",
    }
    assert set(estimator().get_params(deep=False)) == names
    assert not estimator(preset="paper").resolve_options()["head"].linear_branch


@pytest.mark.parametrize("target", ["good", "1_000", float("nan"), float("inf"), "nan", True, None, (1.0,)])
def test_targets_that_are_no_numbers(target, tiny):
    with pytest.raises(DataError, match=r"target 1 .* is not a number"):
        tiny("regressor").fit(["a", "b", "c"], [1.0, target, 2.0])


@pytest.mark.parametrize("target", [-2e38, 1e308, "1e39", 10**400])
def test_targets_that_are_too_large(target, tiny):
    with pytest.raises(DataError, match=r"target 1 .* is too large"):
        tiny("regressor").fit(["a", "b", "c"], [1.0, target, 2.0])


def test_constant_targets(tiny, corpus):
    with pytest.raises(DataError, match="all targets are 3; training needs at least two"):
        tiny("regressor").fit(["a", "b"], [3, 3.0])
    with pytest.raises(DataError, match="all targets are 1e-200; training needs at least two"):
        tiny("regressor").fit(["a", "b"], [1e-200, 2e-200])
    texts, y = corpus("regressor")
    regressor = tiny("regressor").fit(texts, y)
    with pytest.raises(DataError, match="all targets of the evaluation set are 2, so there is no correlation"):
        regressor.evaluate(["a", "b"], [2, 2])
    with pytest.raises(DataError, match="all targets of the dev set are 2"):
        tiny("regressor").fit(texts, y, dev=(["a", "b"], [2, 2]))


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("train.csv", "text,label\na,1\nb,good\n", 3),
        ("train.csv", 'text,label\n"a\nc",1\nb,inf\n', 4),
        ("train.csv", "text,label\na,1\nb,1_000\n", 3),
        ("train.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": true}\n', 2),
        ("train.jsonl", '{"text": "a", "label": 1' + 400 * "0" + "}\n", 1),
        ("train.txt", "1\ta b\nx\tb c\n2.5\td e\n", 2),
    ],
)
def test_files_with_other_targets(name, content, line, tmp_path):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="is not a number") as caught:
        TextRegressor().read([path])
    assert (caught.value.path, caught.value.line, caught.value.options) == (str(path), line, ("label",))


@pytest.mark.parametrize(
    ("estimator", "name", "content"),
    [
        (TextRegressor, "train.csv", "text,label\na,1\nb,1e308\n"),
        (PairRegressor, "train.tsv", "text\tsecond\tlabel\na\tb\t1\na\tb\t1e308\n"),
        (TextRegressor, "train.jsonl", '{"text": "a", "label": 1}\n' * 2 + '{"text": "b", "label": -1e300}\n'),
    ],
)
def test_files_with_too_large_targets(estimator, name, content, tmp_path):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="is too large") as caught:
        estimator().read([path])
    assert (caught.value.path, caught.value.line) == (str(path), 3)


def test_files(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("4.5\ta b\n-1e3\tb c\n2\td e\n", encoding="utf-8")
    items, labels = TextRegressor().read([path])
    assert labels is None
    assert [item.label for item in items] == ["4.5", "-1e3", "2"]


def test_unknown_metric(corpus):
    training = TrainingOptions(epochs=1, metric="mse")
    with pytest.raises(ConfigError, match="choose one of: pearson, spearman, r2"):
        TextRegressor(head=HeadOptions(linear_branch=False), training=training).fit(*corpus("regressor"))

"""Columns beside texts as features of classifiers and regressors: learning, inputs, saving, explanations."""

import random
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from graphattn import PairClassifier, TextClassifier, TextRegressor, compare, load
from graphattn.builders import Example, TextGraphBuilder, Window
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import ConfigError, DataError, Hint
from graphattn.models._estimators.inspectable import encode_input
from graphattn.models.inspection.attributions._integrated_gradients import integrate

COLUMNS = ("priority:category", "amount:number")


def make_rows(count, seed=0):
    """Texts that tell nothing about the label, which is in the columns; some cells are empty."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        text, priority = (
            " ".join(draw.choices("uvwxyz", k=draw.randint(1, 6))),
            draw.choice(["low", "mid", "high", None]),
        )
        amount = draw.choice([None, *(draw.gauss(100, 30) for _ in range(4))])
        label = "yes" if priority == "high" or (amount or 0) > 130 else "no"
        rows.append({"text": text, "priority": priority, "amount": amount, "label": label})
    return rows


ROWS, HELD_OUT = make_rows(240), make_rows(80, seed=1)
LABELS = [row["label"] for row in HELD_OUT]
PLAIN = [{name: row[name] for name in ("text", "priority", "amount")} for row in HELD_OUT]


def fit(estimator, rows=ROWS, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Hint)
        return estimator.fit(rows, **arguments)


@pytest.fixture(scope="module")
def encoder_alone(tiny):
    """A classifier without a linear branch."""
    training = {"epochs": 8, "dev_fraction": 0.0, "learning_rate": 0.02}
    return fit(tiny("classifier", training=training, feature_columns=COLUMNS))


@pytest.fixture(scope="module")
def linear(tiny):
    """A classifier that is the linear model alone."""
    return fit(tiny("classifier", head={"linear_branch": True}, training={"epochs": 0}, feature_columns=COLUMNS))


@pytest.mark.parametrize("name", ["encoder_alone", "linear"])
def test_a_label_in_the_columns_is_learned(name, request):
    assert request.getfixturevalue(name).score(HELD_OUT) > 0.93


def test_without_the_columns_it_is_not(tiny):
    classifier = fit(tiny("classifier", head={"linear_branch": True}, training={"epochs": 0}))
    assert classifier.score(HELD_OUT) < 0.75


def test_a_regressor_and_pairs_learn_from_them(tiny):
    options = {"head": {"linear_branch": True}, "training": {"epochs": 0}, "feature_columns": COLUMNS}
    rows = [{**row, "label": 3.0 * (row["priority"] == "high") + (row["amount"] or 100) / 30} for row in ROWS]
    regressor = fit(tiny("regressor", **options), rows[:160])
    assert regressor.score(rows[160:]) > 0.95
    pairs = [{**row, "second": row["text"]} for row in ROWS]
    classifier = fit(tiny("pair", **options), pairs[:160])
    assert classifier.score(pairs[160:]) > 0.93
    assert len(classifier.predict_proba([Example("u", "v", cells={"priority": "high", "amount": None})])) == 1


@pytest.mark.parametrize("name", ["encoder_alone", "linear"])
def test_all_inputs_are_equal(name, request):
    classifier = request.getfixturevalue(name)
    expected = classifier.predict_proba(PLAIN)
    table = pd.DataFrame(PLAIN)
    examples = [Example(row["text"], cells={name: row[name] for name in ("priority", "amount")}) for row in PLAIN]
    columns = {name: [row[name] for row in PLAIN] for name in PLAIN[0]}
    for inputs in (
        table,
        table.iloc[:, ::-1],
        pa.table(columns),
        examples,
        iter(PLAIN),
        [row for _, row in table.iterrows()],
    ):
        np.testing.assert_array_equal(classifier.predict_proba(inputs), expected)
    one_by_one = np.concatenate([classifier.predict_proba([row]) for row in PLAIN])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-5)
    words = [{**row, "text": row["text"].split()} for row in PLAIN]
    np.testing.assert_allclose(classifier.predict_proba(words), expected, atol=1e-6)
    assert [row["label"] for row in classifier.predict_rows(PLAIN)] == classifier.predict(PLAIN).tolist()


def test_the_scores_of_the_linear_branch(linear):
    """Those of n-grams and columns are scores of a dense design."""
    corpus = linear.encode_inputs(PLAIN)
    branch, batch = linear.model_.linear_branch, corpus.batch(range(len(corpus)))
    design = np.zeros((len(corpus), len(branch.weights)))
    start = 0
    for items, rows, columns, values in branch.design_entries(corpus.layouts, corpus.cells):
        np.add.at(design, (start + rows.numpy(), columns.numpy()), values.numpy())
        start += items
    np.testing.assert_allclose(branch(batch), design @ branch.weights.numpy() + branch.bias.numpy(), atol=1e-4)
    of_columns = branch.score_columns(batch).sum(1)
    width = 1 + 3 + 1  # empty, high, low, mid; amount
    np.testing.assert_allclose(of_columns, design[:, -width:] @ branch.weights[-width:].numpy(), atol=1e-4)


def test_columns_are_parts_of_a_score(linear):
    row = next(row for row in PLAIN if row["priority"] == "high" and row["amount"] is not None)
    branches = linear.attention(row).branches
    assert list(branches.scores) == ["n-grams", "priority=high", f"amount={row['amount']:.4g}", "graph encoder"]
    corpus = linear.encode_inputs([row])
    scores = linear.decision_function([row])[0]
    assert sum(number for (number,) in branches.scores.values()) == pytest.approx(abs(scores), abs=1e-4)
    part = linear.model_.linear_branch.score_columns(corpus.first_batch)[0, 0]
    assert branches.scores["priority=high"][0] == pytest.approx(float(abs(part[1] - part[0])), abs=1e-4)


@pytest.mark.parametrize("name", ["encoder_alone", "linear"])
def test_words_are_explained_beside_the_columns(name, request):
    """The value without words is that of the columns alone; attributions sum to the rest."""
    classifier = request.getfixturevalue(name)
    integral = integrate(classifier, encode_input(classifier, PLAIN[0]))
    attributions = integral.table.attribution.sum()
    assert attributions == pytest.approx(integral.end - integral.start, abs=0.02)


def test_saving(encoder_alone, linear, tmp_path):
    for number, classifier in enumerate((encoder_alone, linear)):
        again = load(classifier.save(tmp_path / str(number)))
        np.testing.assert_array_equal(again.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
        assert again.feature_columns == COLUMNS
        assert load(again.save(tmp_path / f"{number} again")).predict(PLAIN).tolist() == again.predict(PLAIN).tolist()


def test_a_model_without_columns_has_nothing_of_them(corpus, tiny, tmp_path):
    model = tiny("classifier", head={"linear_branch": True}, training={"epochs": 1}).fit(*corpus("classifier"))
    model.save(tmp_path / "model")
    config = (tmp_path / "model" / "config.json").read_text()
    assert not {name for name in ("feature_columns", "text_columns") if name in config}
    assert not [name for name in model.model_.state_dict() if "sizes" in name or "columns" in name]


def test_held_out_sets_and_dev_sets(tiny):
    options = {"head": {"linear_branch": True}, "feature_columns": COLUMNS}
    held_out = fit(tiny("classifier", training={"epochs": 1, "dev_fraction": 0.2}, **options))
    assert held_out.dev_metrics()["accuracy"] > 90
    given = fit(tiny("classifier", training={"epochs": 1}, **options), dev=HELD_OUT)
    assert given.dev_metrics()["accuracy"] == pytest.approx(100 * given.score(HELD_OUT))


def test_weights_are_copies(tiny):
    options = {
        "head": {"linear_branch": True},
        "training": {"epochs": 0, "dev_fraction": 0.0},
        "feature_columns": COLUMNS,
    }
    weights = [number % 3 for number in range(60)]
    weighted = fit(tiny("classifier", **options), ROWS[:60], sample_weight=weights)
    rows = [row for row, weight in zip(ROWS, weights, strict=False) for _ in range(weight)]
    copied = fit(tiny("classifier", **options), rows)
    np.testing.assert_allclose(weighted.predict_proba(PLAIN), copied.predict_proba(PLAIN), atol=0.02)


@pytest.mark.slow
def test_a_resumed_run_is_equal(tiny, tmp_path, same_weights):
    options = {"head": {"linear_branch": True}, "feature_columns": COLUMNS}

    def train(folder, rows=ROWS[:60]):
        return fit(tiny("classifier", training={"epochs": 2, "run_dir": str(folder)}, **options), rows)

    whole = train(tmp_path / "a")

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    from lightning.pytorch import Callback

    class StopAfterFirst(Callback):
        def on_train_epoch_start(self, trainer, module):
            if trainer.current_epoch == 1:
                raise Stop

    with pytest.raises(Stop):
        fit(
            tiny("classifier", training={"epochs": 2, "run_dir": str(tmp_path / "b")}, **options),
            ROWS[:60],
            callbacks=[StopAfterFirst()],
        )
    assert same_weights(train(tmp_path / "b"), whole)
    with pytest.raises(Exception, match="another"):
        train(tmp_path / "a", [{**row, "amount": 1.0 + number} for number, row in enumerate(ROWS[:60])])


def test_training_on_keeps_categories_and_means(linear, tmp_path, tiny):
    loaded = load(linear.save(tmp_path / "model")).set_params(warm_start=True)
    rows = [{**row, "priority": "new", "amount": 1000.0} for row in ROWS[:20]]
    fit(loaded, ROWS[:40] + rows)
    assert loaded.text_inputs_.text_columns.columns == linear.text_inputs_.text_columns.columns
    assert loaded.score(HELD_OUT) > 0.8
    plain = fit(tiny("classifier", head={"linear_branch": True}, training={"epochs": 0}, warm_start=True))
    with pytest.raises(ConfigError, match="feature_columns") as caught:
        fit(plain.set_params(feature_columns=COLUMNS))
    assert "feature_columns" in caught.value.options


def test_empty_cells_and_new_values_are_said_once(encoder_alone, tmp_path):
    loaded = load(encoder_alone.save(tmp_path / "model"))
    rows = [{"text": "u", "priority": "new", "amount": None}, {"text": "v", "priority": None, "amount": 3}]
    with pytest.warns(Hint) as caught:
        loaded.predict(rows)
    said = " ".join(str(each.message) for each in caught)
    assert "1 of 2 texts has no amount; the mean, " in said
    assert "such as 'new'" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.predict(rows)
    empty, new = ({"text": "u", "priority": priority, "amount": 100} for priority in (None, "new"))
    assert (loaded.predict_proba([empty]) == loaded.predict_proba([new])).all()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["a text"], "input 0 has no 'priority', a feature"),
        ([Example("a", cells={"priority": "low"})], "input 0 has no 'amount'"),
        ([Example("a", cells={"priority": "low", "amount": "many"})], "input 0: 'many' is not a number"),
        ([{"text": "a", "priority": "low"}], "no column 'amount'"),
        (pd.DataFrame({"text": ["a"], "amount": [1]}), "no column 'priority'"),
        ([{"text": "a", "priority": "low", "amount": "many"}], "row 0: 'many' is not a number"),
        ([{"text": "a", "priority": ["low"], "amount": 1}], "where a category was expected"),
    ],
)
def test_inputs_without_the_columns(inputs, words, encoder_alone):
    with pytest.raises(DataError, match=words):
        encoder_alone.predict(inputs)


def test_a_store_has_no_columns(tiny, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na b,x\nc d,y\n")
    build_store([CorpusFile(tmp_path / "a.csv")], tmp_path / "store", StoreSettings(TextGraphBuilder([Window(3)])))
    store = Store(tmp_path / "store")
    with pytest.raises(DataError, match="a store has no columns priority, amount"):
        tiny("classifier", feature_columns=COLUMNS).fit(store)


def test_the_label_is_no_feature(tiny):
    with pytest.raises(ConfigError, match="the column of the label"):
        tiny("classifier", feature_columns=("label:category",)).fit(ROWS)


@pytest.mark.parametrize("estimator", [TextClassifier, PairClassifier, TextRegressor])
def test_kinds_are_checked(estimator):
    with pytest.raises(ConfigError, match="amount:category or amount:number"):
        estimator(feature_columns=("amount:float",)).validate()


def test_exports_refuse(encoder_alone):
    with pytest.raises(ConfigError, match="columns beside the text"):
        encoder_alone.to_dense()


def test_comparing_with_a_model_without_columns(encoder_alone, tiny):
    plain = fit(tiny("classifier", training={"epochs": 1, "dev_fraction": 0.0}))
    assert compare(encoder_alone, plain, HELD_OUT).difference > 10

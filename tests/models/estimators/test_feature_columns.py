"""Taggers with features of words from further columns: learning, inputs, errors, saving, training on, attributions."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from graphattn import Sentence, load
from graphattn.builders.readers import read_conll
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._estimators.inspectable import encode_input
from graphattn.models._estimators.state import make_corpus
from graphattn.models._features.lexicon import COLUMN_WIDTH, FeatureValues
from graphattn.models.inspection.attributions._integrated_gradients import integrate


def make_rows(count, seed=0):
    """Rows whose tags are the values of the words in lower case; the words tell nothing."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        values = draw.choices("PQ", k=draw.randint(2, 6))
        words, ones, tags = draw.choices("uvwxyz", k=len(values)), [1] * len(values), list(map(str.lower, values))
        rows.append({"tokens": words, "pos": values, "no": ones, "tags": tags})
    return rows


def tag_pairs(rows):
    """Rows whose tags tell whether a word has the value of the word before."""
    pairs = [pairwise([None, *row["pos"]]) for row in rows]
    tags = [["same" if before == after else "other" for before, after in of_row] for of_row in pairs]
    return [{**row, "tags": of_row} for row, of_row in zip(rows, tags, strict=True)]


ROWS, HELD_OUT = make_rows(60), make_rows(60, seed=1)


def to_sentences(rows):
    return [Sentence(row["tokens"], tags=row["tags"], features={"pos": row["pos"]}) for row in rows]


def to_table(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture(scope="module")
def tagger(tiny):
    training = {"epochs": 6, "dev_fraction": 0.0}
    return tiny("tagger", inputs={"embedding_dropout": 0.0}, training=training, feature_columns=("pos",)).fit(ROWS)


@pytest.mark.slow
def test_the_encoder_learns_from_values(tagger):
    assert tagger.score(HELD_OUT) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("level", ["word", "bpe"])
def test_the_linear_branch_learns_from_values(level, tiny):
    """An encoder that has learnt nothing leaves the tags to it; pairs of values tell them."""
    inputs = {"level": level, "vocabulary_size": 20, "characters": False}
    tagger = tiny("crf", inputs=inputs, head={"linear_branch": True}, training={"epochs": 1}, feature_columns=("pos",))
    tagger.fit(tag_pairs(ROWS))
    assert tagger.model_.linear_branch is not None
    assert tagger.score(tag_pairs(HELD_OUT)) == 1.0


def test_all_inputs_are_equal(tagger):
    expected = tagger.predict(HELD_OUT)
    shuffled = [{name: row[name] for name in ("pos", "no", "tokens")} for row in HELD_OUT]
    arrays = [{**row, "pos": np.array(row["pos"])} for row in HELD_OUT]
    inputs = [to_sentences(HELD_OUT), pd.DataFrame(HELD_OUT), pa.table(to_table(HELD_OUT)), iter(shuffled), arrays]
    inputs.append(pd.DataFrame(HELD_OUT).rename(columns={"tokens": "text"}))
    for each in inputs:
        assert tagger.predict(each) == expected
    assert [row["tags"] for row in tagger.predict_rows(HELD_OUT)] == expected
    assert tagger.evaluate(pd.DataFrame(HELD_OUT)) == tagger.evaluate(to_sentences(HELD_OUT))


def test_numbers_of_tags_in_data_sets_become_names(tiny):
    datasets = pytest.importorskip("datasets")
    names = datasets.Sequence(datasets.ClassLabel(names=["DET", "NOUN"]))
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")), "pos_tags": names})
    table = {"tokens": [["a", "dog"]] * 8, "pos_tags": [[0, 1]] * 8}
    data = datasets.Dataset.from_dict(table, features=features)
    tagger = tiny("tagger", training={"epochs": 1}, feature_columns=("pos_tags",)).fit(data, [["X", "Y"]] * 8)
    assert tagger.text_inputs_.feature_values.values == {"pos_tags": ("DET", "NOUN")}


def test_the_embedding_appends_a_row_for_each_value(tiny):
    rows = [{**row, "no": list(range(len(row["tokens"])))} for row in ROWS]
    inputs = {"level": "bpe", "vocabulary_size": 20}
    tagger = tiny("tagger", inputs=inputs, training={"epochs": 1}, feature_columns=("pos", "no")).fit(rows)
    words = {"tokens": ["uvw", "xyz", "x"], "pos": ["Q", "P", "unknown"], "no": ["1", "9", 0]}
    sentence = tagger.vocabulary_.sentences(tagger.encode_inputs([words]).sentences["text"])[0]
    assert len(sentence) > 3  # values are those of words, not of tokens
    batch = make_corpus(tagger, [words])[[0]]
    with torch.inference_mode():
        rows_of_tokens = tagger.model_.embedding.lexicon(
            batch.graph.node_features["token"], torch.zeros(1 + len(sentence), 0)
        )
    pos, no = (module.weight for module in tagger.model_.embedding.lexicon.columns)
    values, zeros = tagger.text_inputs_.feature_values.values, torch.zeros(COLUMN_WIDTH)
    numbers = {name: {value: row for row, value in enumerate(values[name], 1)} for name in values}
    expected = [
        torch.cat([pos[numbers["pos"]["Q"]], no[numbers["no"]["1"]]]),
        torch.cat([pos[numbers["pos"]["P"]], zeros]),
        torch.cat([zeros, no[numbers["no"]["0"]]]),
    ]
    of_words = torch.stack([torch.zeros(2 * COLUMN_WIDTH), *(expected[word] for word in sentence.word_ids)])
    assert torch.equal(rows_of_tokens, of_words)


def test_values_have_one_unicode_form():
    first, second = (Sentence(["a"], features={"x": [value]}) for value in ("\u00e9", "e\u0301"))
    assert FeatureValues({"x": ()}).extend([first]).ids(second).tolist() == [[1]]


def test_unknown_values_are_alike(tagger):
    rows = [[{**row, "pos": [value] * len(row["tokens"])} for row in HELD_OUT] for value in ("unknown", "?")]
    assert tagger.predict(rows[0]) == tagger.predict(rows[1]) != tagger.predict(HELD_OUT)


def test_a_saved_model(tagger, tmp_path):
    loaded = load(tagger.save(tmp_path / "model"))
    assert loaded.predict(HELD_OUT) == tagger.predict(HELD_OUT)
    assert loaded.feature_columns == ("pos",)
    assert loaded.changed_options()["feature_columns"] == ("pos",)
    assert "- `feature_columns`: `pos`" in (tmp_path / "model" / "README.md").read_text()


def test_more_training_with_new_values(tagger, tmp_path):
    new = [{"tokens": ["new"], "pos": ["r"], "tags": ["D"]}]
    still = {"epochs": 1, "learning_rate": 1e-30, "weight_decay": 0.0, "dev_fraction": 0.0}
    loaded = load(tagger.save(tmp_path / "model"))
    loaded.set_params(warm_start=True, **{f"training__{name}": value for name, value in still.items()})
    assert loaded.fit(ROWS + new).predict(HELD_OUT) == tagger.predict(HELD_OUT)
    assert loaded.text_inputs_.feature_values.values == {
        "pos": (*tagger.text_inputs_.feature_values.values["pos"], "r")
    }
    with pytest.raises(ConfigError, match="the model to continue from has other feature_columns"):
        loaded.set_params(feature_columns=("pos", "no")).fit(ROWS)


@pytest.mark.parametrize("linear", [False, True])
def test_attributions_add_up(linear, tagger, tiny):
    if linear:
        head = {"linear_branch": True, "crf": True}
        tagger = tiny("tagger", head=head, training={"epochs": 1}, feature_columns=("pos",)).fit(tag_pairs(ROWS))
        assert tagger.model_.linear_branch is not None
    integral = integrate(tagger, encode_input(tagger, HELD_OUT[0]), word=1)
    assert integral.table.attribution.sum() == pytest.approx(integral.end - integral.start, abs=1e-3)
    assert len(tagger.attention(HELD_OUT[0]).table())


MISSING = "has no feature 'pos' of words, which the model needs"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a text"], f"sentence 0 of the data {MISSING}"),
        ([ROWS[0], ["a", "list"]], f"sentence 1 of the data {MISSING}"),
        ([Sentence(["a"], features={"other": ["p"]})], f"sentence 0 of the data {MISSING}"),
        ([ROWS[0], {"tokens": ["a"]}], "row 1: there is no such field"),
        ([{"tokens": ["a"], "pos": ["p", "q"]}], "row 0: 2 values for 1 words"),
        ([{"tokens": ["a"], "pos": "p"}], "row 0: this is not a list of strings or numbers"),
        ([{"tokens": ["a"], "pos": [["p"]]}], "row 0: this is not a list of strings or numbers"),
        (pd.DataFrame([{"tokens": ["a"], "id": 1}]), "row 0: there is no such field"),
    ],
)
def test_inputs_without_values(inputs, message, tagger):
    with pytest.raises(DataError) as caught:
        tagger.predict(inputs)
    assert caught.value.message.startswith(message)


def test_files_without_values(tagger, tiny, tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("\nu p\n")
    sentences = list(read_conll(path))
    with pytest.raises(DataError) as caught:
        tagger.evaluate(sentences)
    assert (caught.value.path, caught.value.line) == (str(path), 2)
    with pytest.raises(DataError, match="sentence 1 of the training set has no feature 'pos'"):
        tiny("tagger", feature_columns=("pos",)).fit([*to_sentences(ROWS[:1]), replace(sentences[0], origin=None)] * 4)
    with pytest.raises(ConfigError, match="feature_columns is 'pos'"):
        tiny("tagger", feature_columns="pos").fit(ROWS)

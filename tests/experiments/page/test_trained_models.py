"""Trained models on the page: every task, the weights of the prediction, and errors."""

from pathlib import Path

import numpy as np
import pytest

from graphattn import load
from graphattn.exceptions import ConfigError
from graphattn.experiments.page import page_model
from graphattn.experiments.page._packing import pack_page
from graphattn.experiments.page._request_queue import count_texts, live_model


def test_predictions_of_each_text(classifier):
    model, texts = load(classifier), ["a good film", "a bad film"]
    column = page_model(classifier, model, map(model.attention, texts))
    assert column.name == "classifier · ms-trans"
    first, second = column.results
    assert first["tokens"]["text"] == ["[CLS]", "a", "good", "film"]
    assert [first["prediction"]["label"], second["prediction"]["label"]] == model.predict(texts).tolist()


def test_weights_are_those_of_the_table(classifier):
    attention = load(classifier).attention("a good film")
    (page,) = page_model(classifier, load(classifier), [attention]).results
    table = attention.table()
    weights = np.concatenate([head_map["weight"] for head_map in page["maps"]])
    np.testing.assert_array_equal(np.sort(weights), np.sort(table["weight"]))


@pytest.mark.parametrize("kind", ["classifier", "tagger", "pair_classifier"])
def test_live_models_of_every_task(kind, request):
    estimator = load(request.getfixturevalue(kind))
    model = live_model(Path("models/toy"), estimator)
    assert model.name == "toy · ms-trans"
    texts = ["Ada saw Rome"] * count_texts([estimator])
    assert model.count_tokens(texts[0]) == 4
    page = pack_page(model.explain(texts))
    assert [len(tokens) for tokens in page["tokens"].values()] == [4] * len(texts)


def test_a_live_translator(translators):
    model = live_model(Path("models/toy"), translators[0])
    assert count_texts(translators[:1]) == 1
    page = pack_page(model.explain(["the dog"]))
    assert len(page["tokens"]["source"]) == model.count_tokens("the dog")
    assert page["prediction"]["text"] == translators[0].predict(["the dog"])[0]


def test_pairs_and_single_texts_cannot_share_a_page(classifier, pair_classifier):
    with pytest.raises(ConfigError) as caught:
        count_texts([load(classifier), load(pair_classifier)])
    assert str(caught.value) == "one model takes pairs of texts and the other single texts; they cannot share a page"

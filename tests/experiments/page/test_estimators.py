"""Trained models on the page: every kind of task, the weights of the very prediction, and clear refusals."""

from pathlib import Path

import numpy as np
import pytest

from graphattn import load
from graphattn.exceptions import ConfigError
from graphattn.experiments.page.estimators import live_models, page_models, texts_of
from graphattn.experiments.page.packing import packed


def estimators(*folders):
    return {Path(folder): load(folder) for folder in folders}


def test_each_model_says_what_it_thinks_of_each_text(classifier):
    found = estimators(classifier)
    (column,) = page_models(found, ["a good film", "a bad film"])
    assert column.name == "classifier · ms-trans"
    first, second = column.results
    assert first["tokens"]["text"] == ["[CLS]", "a", "good", "film"]
    predicted = found[Path(classifier)].predict(["a good film", "a bad film"]).tolist()
    assert [first["prediction"]["label"], second["prediction"]["label"]] == predicted


def test_weights_are_those_of_the_table(classifier):
    (column,) = page_models(estimators(classifier), ["a good film"])
    (page,) = column.results
    table = load(classifier).attention("a good film").table()
    weights = np.concatenate([one["weight"] for one in page["maps"]])
    np.testing.assert_array_equal(np.sort(weights), np.sort(table["weight"]))


@pytest.mark.parametrize("kind", ["classifier", "tagger", "pair_classifier"])
def test_every_task_can_be_asked_live(kind, request):
    folder = request.getfixturevalue(kind)
    (model,) = live_models(estimators(folder))
    said = ["Ada saw Rome"] * texts_of(estimators(folder))
    assert model.count(said[0]) == 4
    page = packed(model.look(said))
    assert [len(tokens) for tokens in page["tokens"].values()] == [4] * len(said)


def test_pairs_do_not_stand_beside_single_texts(classifier, pair_classifier):
    with pytest.raises(ConfigError) as caught:
        texts_of(estimators(classifier, pair_classifier))
    assert str(caught.value) == (
        f"{pair_classifier} takes pairs of texts and the other model does not; they cannot stand side by side"
    )

"""Runs with few labels: corpora drawn for each seed, and the systems they are compared with."""

from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._data_sets import find_data_set
from graphattn.experiments.papers._few_labels import fit_sentence_vectors
from graphattn.experiments.papers._runs import Run, execute
from graphattn.experiments.papers._settings import MINILM
from graphattn.models import TextClassifier
from graphattn.models.pretrained import SentenceEncoder


def test_each_class_has_as_many_examples(folder):
    corpus = find_data_set("sst2:2-each")
    first, second = (corpus.load_splits(seed, folder) for seed in (0, 1))
    assert Counter(example.label for example in first["train"]) == {"0": 2, "1": 2}
    assert set(first) == {"train", "test"}
    assert first["test"] == second["test"]
    assert corpus.load_splits(0, folder) == first
    assert set(corpus.load_splits(0, folder, on_test=False)) == {"train"}
    fold = corpus.load_splits(0, folder, fold=1)
    assert set(fold) == {"train", "held_out"}
    assert not {example.text for example in fold["train"]} & {example.text for example in fold["held_out"]}


@pytest.mark.parametrize("name", ["sst2:two-each", "sst2:-each", "multi30k:8-each"])
def test_what_cannot_be_drawn(name):
    with pytest.raises(ConfigError, match="data set"):
        find_data_set(name)


def test_logistic_regression_on_sentence_vectors_is_scikit_learns(folder):
    corpus = find_data_set("sst2:2-each")
    splits = corpus.load_splits(0, folder)
    row = fit_sentence_vectors(TextClassifier(pretrained=str(folder / MINILM)), corpus, splits)
    encoder = SentenceEncoder(folder / MINILM)
    vectors = {name: encoder.transform([str(item.text) for item in items]) for name, items in splits.items()}
    labels = {name: [item.label for item in items] for name, items in splits.items()}
    expected = LogisticRegression(max_iter=1000).fit(vectors["train"], labels["train"])
    assert row["test"] == pytest.approx(100 * np.mean(expected.predict(vectors["test"]) == labels["test"]), abs=0.01)


def test_options_of_other_systems_are_rejected(folder, tmp_path):
    for encoder, data_set, changes in (
        ("sentence-vectors", "sst2", {"training": {"epochs": 2}}),
        ("sentence-vectors", "conll2003", {}),
    ):
        with pytest.raises(ConfigError, match="the run sentence-vectors"):
            execute([Run(data_set, encoder, 0, changes)], tmp_path / "out.jsonl", folder=folder)

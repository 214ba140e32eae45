"""The data of a page equal the table."""

import json

import pandas as pd
import pytest


def test_the_page_equals_the_table(estimators):
    estimator, (first, second) = estimators["pair"]
    attention = estimator.attention((first, second))
    page = json.loads(json.dumps(attention.to_page()))
    assert list(page) == ["version", "title", "prediction", "tokens", "parts", "words", "word_texts", "maps"]
    assert page["word_texts"] == {part: list(words) for part, words in attention.words.items()}
    assert page["title"] == "the longest dogs bark loudly today / dogs sleep"
    assert page["prediction"]["label"] == attention.prediction
    assert page["parts"] == ["first", "second"]
    assert page["words"]["second"] == attention.to_page()["words"]["second"]
    rows = pd.concat([pd.DataFrame(own) for own in page["maps"]]).sort_values(["layer", "head"], kind="stable")
    table = attention.table()
    assert rows.source.tolist() == table.source.tolist()
    assert rows.target_part.tolist() == table.target_part.tolist()
    assert rows.weight.tolist() == pytest.approx(table.weight.tolist(), abs=1e-6)


def test_the_page_of_other_tasks(estimators):
    estimator, x = estimators["multilabel"]
    assert estimator.attention(x).to_page()["prediction"]["labels"] == list(estimator.predict([x])[0])
    estimator, words = estimators["tagger"]
    actual = estimator.attention(words).to_page()["prediction"]
    assert (actual["words"], actual["tags"]) == (words, estimator.predict([words])[0])
    assert len(actual["probabilities"]) == len(words)

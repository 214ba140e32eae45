"""The data of a page equal the table."""

import json

import pandas as pd
import pytest

from graphattn.builders import Sentence
from graphattn.models import TextClassifier, TrainingOptions, UMSTOptions


def test_the_page_equals_the_table(estimators):
    estimator, (first, second) = estimators["pair"]
    attention = estimator.attention((first, second))
    page = json.loads(json.dumps(attention.to_page()))
    about = ["version", "title", "prediction", "branches"]
    assert list(page) == [*about, "tokens", "parts", "words", "word_texts", "parses", "maps"]
    assert page["word_texts"] == {part: list(words) for part, words in attention.words.items()}
    assert page["title"] == "the longest dogs bark loudly today / dogs sleep"
    assert page["prediction"]["label"] == attention.prediction
    assert list(page["parses"]) == ["first", "second"]
    assert page["parts"] == ["first", "second"]
    assert page["words"]["second"] == attention.to_page()["words"]["second"]
    rows = pd.concat([pd.DataFrame(own) for own in page["maps"]]).sort_values(["layer", "head"], kind="stable")
    table = attention.table()
    assert rows.source.tolist() == table.source.tolist()
    assert rows.target_part.tolist() == table.target_part.tolist()
    assert rows.weight.tolist() == pytest.approx(table.weight.tolist(), abs=1e-6)


def read_deprel(page, part, source, target):
    """The dependency of an edge from the parse on the page."""
    parse, words = page["parses"][part], page["words"].get(part, range(len(page["tokens"][part])))
    heads, deprels = parse["heads"], parse["deprels"]
    if heads[words[source]] == words[target]:
        return f"{deprels[words[source]]}>"
    return f"{deprels[words[target]]}<" if heads[words[target]] == words[source] else ""


def test_the_page_has_the_dependencies_of_the_table(sentences):
    options = UMSTOptions(hidden=8, heads=2, layers=2, ffn=8)
    training = TrainingOptions(epochs=1, dev_fraction=0.0)
    model = TextClassifier(options, training=training, preset="paper").fit(sentences * 2, list("abca") * 2)
    subwords = Sentence(["dog", "s", "sleep"], word_ids=[0, 0, 1], heads=[2, 0], deprels=["nsubj", "root"])
    for text in (sentences[0], subwords):
        attention = model.attention(text)
        page, table = attention.to_page(), attention.table()
        assert sorted(page["parses"]) == ["text", "text word"]
        own = table[(table.source_part == table.target_part) & table.source_part.isin(page["parses"])]
        ends = zip(own.source_part, own.source, own.target, strict=True)
        assert [read_deprel(page, *edge) for edge in ends] == own.deprel.tolist()
        assert set(own.deprel) >= {"", "nsubj>", "nsubj<"}


def test_the_page_of_other_tasks(estimators):
    estimator, x = estimators["multilabel"]
    assert estimator.attention(x).to_page()["prediction"]["labels"] == list(estimator.predict([x])[0])
    estimator, words = estimators["tagger"]
    actual = estimator.attention(words).to_page()["prediction"]
    assert estimator.attention(words).to_page()["parses"] == {}
    assert (actual["words"], actual["tags"]) == (words, estimator.predict([words])[0])
    assert len(actual["probabilities"]) == len(words)

"""Tables of other libraries, dictionaries and streams are inputs like lists of texts."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError
from graphattn.models import (
    MSTransOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TextRegressor,
    TrainingOptions,
)
from graphattn.models._estimators import inputs
from graphattn.models._estimators.tasks.classify import PairClassification
from graphattn.models._estimators.tasks.tag import Tagging

TINY = {
    "encoder": MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3")),
    "training": TrainingOptions(epochs=1, dev_fraction=0.0, progress=False),
}
TEXTS, LABELS = ["a good film", "a bad film", "so good", "so bad"] * 2, [1, 0, 1, 0] * 2
TABLE = {"ID": list(range(8)), "Text": TEXTS, "label": LABELS}


def of_datasets(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


def of_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def to_rows(columns):
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


KINDS = {
    "pandas": pd.DataFrame,
    "polars": of_polars,
    "arrow": pa.table,
    "datasets": of_datasets,
    "streamed datasets": lambda columns: of_datasets(columns).to_iterable_dataset(),
    "dictionaries": to_rows,
    "generator": lambda columns: (row for row in to_rows(columns)),
}


@pytest.fixture(scope="module")
def classifier():
    return TextClassifier(**TINY).fit(TEXTS, LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_texts_and_labels_have_names(classifier, kind):
    """The same model as from lists, whose labels keep their type."""
    from_table = TextClassifier(**TINY).fit(KINDS[kind](TABLE), dev=KINDS[kind](TABLE))
    assert from_table.classes_.tolist() == [0, 1]
    from_lists = TextClassifier(**TINY).fit(TEXTS, LABELS, dev=(TEXTS, LABELS))
    np.testing.assert_array_equal(from_table.predict_proba(TEXTS), from_lists.predict_proba(TEXTS))
    np.testing.assert_array_equal(classifier.predict(KINDS[kind](TABLE)), classifier.predict(TEXTS))
    np.testing.assert_array_equal(classifier.predict_proba(KINDS[kind](TABLE)), classifier.predict_proba(TEXTS))
    assert classifier.evaluate(KINDS[kind](TABLE)) == classifier.evaluate(TEXTS, LABELS)
    assert [row["text"] for row in classifier.predict_rows(KINDS[kind](TABLE))] == TEXTS


def test_a_column_is_given_by_name():
    for frame in (pd.DataFrame(TABLE), of_polars(TABLE), of_datasets(TABLE)):
        assert TextClassifier(**TINY).fit(frame["Text"], frame["label"]).classes_.tolist() == [0, 1]


def test_a_column_of_arrow_is_given_by_name(classifier):
    table = pa.table({"review": TEXTS, "stars": LABELS})
    from_columns = TextClassifier(**TINY).fit(table["review"], table["stars"])
    assert from_columns.classes_.tolist() == [0, 1]
    assert from_columns.predict(table["review"].chunk(0)).tolist() == classifier.predict(TEXTS).tolist()


def test_class_numbers_of_datasets_are_names():
    datasets = pytest.importorskip("datasets")
    table = of_datasets(TABLE).cast_column("label", datasets.ClassLabel(names=["neg", "pos"]))
    for form in (None, "numpy", "torch", "pandas", "arrow"):
        assert TextClassifier(**TINY).fit(table.with_format(form)).classes_.tolist() == ["neg", "pos"]
    words = {"tokens": [["Ada", "ran"], ["so"]] * 4, "ner_tags": [[1, 0], [0]] * 4, "id": ["x"] * 8}
    table = of_datasets(words)
    table = table.cast_column("ner_tags", datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"])))
    assert {"B-PER", "O"} <= {*SequenceTagger(**TINY).fit(table.with_format("numpy")).classes_}
    tagger = SequenceTagger(**TINY).fit(table)
    assert {"B-PER", "O"} <= {*tagger.classes_}
    assert tagger.predict(table) == tagger.predict(words["tokens"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dictionaries"])
def test_every_task_takes_tables(kind):
    make = KINDS[kind]
    pairs = {"second": TEXTS[::-1], "text": TEXTS}
    pairs_in_lists = list(zip(TEXTS, TEXTS[::-1], strict=True))
    with_label = PairClassifier(**TINY).fit(make({**pairs, "label": LABELS}))
    assert with_label.predict(make(pairs)).tolist() == with_label.predict(pairs_in_lists).tolist()
    regressor = TextRegressor(**TINY).fit(make({"text": TEXTS, "label": [0.5, 1.0] * 4}))
    np.testing.assert_allclose(regressor.predict(make({"text": TEXTS})), regressor.predict(TEXTS))
    several = TextClassifier(**TINY, multilabel=True).fit(make({"text": TEXTS, "label": [["a"], ["a", "b"]] * 4}))
    assert several.classes_.tolist() == ["a", "b"]
    words = {"tokens": [["Ada", "ran"], ["so"]] * 4, "tags": [["B-PER", "O"], ["O"]] * 4}
    assert {"B-PER", "O"} <= {*SequenceTagger(**TINY).fit(make(words)).classes_}
    items = inputs.as_list(make(pairs))
    assert items[0] == Example(TEXTS[0], TEXTS[-1])
    assert inputs.as_list(make(words))[0] == Sentence(["Ada", "ran"], tags=["B-PER", "O"])


def test_frames_without_names_are_columns(classifier):
    """As before there were names, for scikit-learn's ColumnTransformer and resamplers."""
    for frame in (pd.DataFrame({"review": TEXTS}), pd.DataFrame(np.array(TEXTS)[:, None]), np.array(TEXTS)[:, None]):
        np.testing.assert_array_equal(classifier.predict(frame), classifier.predict(TEXTS))
    assert inputs.as_list(pd.DataFrame({"a": ["x"], "b": ["y"]}), PairClassification()) == [("x", "y")]
    assert inputs.as_list(pd.DataFrame({"second": ["y"], "text": ["x"]}), PairClassification()) == [Example("x", "y")]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (pd.DataFrame({"review": ["a"], "stars": [1]}),
         "there is no column 'text'; the columns are 'review', 'stars'. Rename one of them, or give a column itself, "
         "such as X[name]."),
        ([{"review": "a"}], "there is no column 'text'; the columns are 'review'. Rename one of them, or give a column "
         "itself, such as X[name]."),
        (pd.DataFrame({"text": ["a", None], "label": [1, 2]}),
         "row 1: the column 'text' is nan, a missing value. Give a text, or leave the row out."),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]),
         "there are 2 columns 'text'. Rename all but one of them."),
        ([{"text": "a"}, {"text": 3}], "row 1: the column 'text' is 3. Give a text, or leave the row out."),
        ([{"text": "a", "second": None}], "row 0: the column 'second' is None, a missing value. Give a text, or leave "
         "the row out."),
        ([{"tokens": "a b"}], "field 'tokens': row 0: this is not a list of strings. A line is {\"tokens\": [\"Dogs\", "
         "\"bark\"], \"heads\": [2, 0]}."),
        ({"text": ["a"]}, "a dict is given where a list is expected. Give one of its values."),
    ],
)  # fmt: skip
def test_tables_without_texts(classifier, table, error):
    with pytest.raises(DataError) as caught:
        classifier.predict(table)
    assert str(caught.value) == error


def test_a_table_without_labels():
    with pytest.raises(DataError, match=r"input 0 has no label\. Give y"):
        TextClassifier(**TINY).fit(pd.DataFrame({"text": TEXTS, "stars": LABELS}))
    with pytest.raises(DataError, match=r"input 0 has no tags\. Give y"):
        SequenceTagger(**TINY).fit([{"tokens": ["a"], "ner_tags": ["O"], "pos_tags": ["X"]}])


def test_a_stream_is_read_some_at_a_time(classifier, monkeypatch):
    monkeypatch.setattr(inputs, "CHUNK", 3)
    taken, ahead = 0, []

    def texts():
        nonlocal taken
        for text in TEXTS:
            taken += 1
            yield text

    encode = type(classifier).encode_texts

    def watch(self, part):
        ahead.append((taken, len(part)))
        return encode(self, part)

    monkeypatch.setattr(type(classifier), "encode_texts", watch)
    assert classifier.predict(texts()).tolist() == classifier.predict(TEXTS).tolist()
    assert ahead == [(3, 3), (6, 3), (8, 2), (8, 8)]
    np.testing.assert_allclose(classifier.predict_proba(texts()), classifier.predict_proba(TEXTS), rtol=1e-5)
    assert classifier.predict(iter([])).tolist() == []
    with pytest.raises(DataError, match=r"input 1 is a int, counted from input 6\. Give a text"):
        classifier.predict(iter([*TEXTS[:7], 5]))


WORD_ROWS = {
    "Sentence #": ["Sentence: 1", None, None, "Sentence: 2"],
    "Word": ["Ada", ",", "", "ran"],
    "POS": ["NNP", ",", "X", "VBD"],
    "Tag": ["B-PER", "O", "O", "O"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table])
def test_rows_of_words_are_sentences(make):
    first, second = inputs.as_collection(make(WORD_ROWS), Tagging(feature_columns=("pos=POS",)))
    assert (first.tokens, first.tags) == (("Ada", ",", ""), ("B-PER", "O", "O"))
    assert (second.tokens, second.tags, second.features) == (("ran",), ("O",), {"pos": ("VBD",)})
    without = {name: values for name, values in WORD_ROWS.items() if name not in ("POS", "Tag")}
    assert [item.tags for item in inputs.as_collection(make(without))] == [None, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Word": ["Ada", None, "x", "ran"]}, "row 1: the word is a missing value.*keep_default_na=False"),
        ({"Tag": ["B-PER", None, "O", "O"]}, "row 1: the tag is empty"),
        ({"Sentence #": [1, 2, 1, 3]}, "row 2: sentence 1 goes on here"),
        ({"Sentence #": [None, 2, 2, 3]}, "row 0: the sentence has no number"),
        ({"POS": ["B-PER", "O", "O", "O"]}, "'POS', 'Tag' have tags of the same set"),
    ],
)
def test_rows_of_words_that_are_no_sentences(changes, message):
    with pytest.raises(DataError, match=message):
        list(inputs.as_collection(pd.DataFrame(WORD_ROWS | changes)))


def test_sentences_with_numbers_are_no_rows_of_words():
    frame = pd.DataFrame({"sentence_id": [0, 1], "tokens": [["Ada", "ran"], ["so"]], "tags": [["X", "Y"], ["Y"]]})
    assert [item.tokens for item in inputs.as_collection(frame)] == [("Ada", "ran"), ("so",)]
    texts = pd.DataFrame({"SentenceId": [0, 0], "text": ["a film", "a play"], "label": ["x", "y"]})
    assert [item.text for item in inputs.as_collection(texts)] == ["a film", "a play"]

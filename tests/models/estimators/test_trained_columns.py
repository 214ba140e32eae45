"""A model reads tables and dictionaries by the names of its training corpus's columns."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from graphattn import PairClassifier, PairRegressor, SequenceTagger, TextClassifier, TextRegressor, Translator, load
from graphattn.exceptions import DataError
from graphattn.models import DecoderOptions, MSTransOptions, TrainingOptions, TransformerOptions, TranslationTraining
from graphattn.models._estimators.state import make_corpus

try:
    import polars as pl
except ImportError:
    pl = None

ROWS = [("Offer", "buy now", 1), ("Meeting", "", 0), ("Ten", "see you", 0), ("Win", "money", 1)] * 3
TABLE = pd.DataFrame(ROWS, columns=["Subject", "body", "class"])
COLUMNS = {"text": ["subject", "body"], "label": "class"}
TINY = {"training": TrainingOptions(epochs=1, dev_fraction=0, progress=False)}
ENCODER = MSTransOptions(hidden=8, heads=2, layers=1)


@pytest.fixture(scope="module")
def train_on(tmp_path_factory):
    """Read a table as a file with these columns, train, save and load."""

    def train(estimator, table=TABLE, **columns):
        folder = tmp_path_factory.mktemp("model")
        table.to_csv(folder / "train.csv", index=False)
        return load(estimator.fit(*estimator.read([folder / "train.csv"], **columns)).save(folder / "model"))

    return train


@pytest.fixture(scope="module")
def mails(train_on):
    return train_on(TextClassifier(ENCODER, **TINY), **COLUMNS)


JOINED = [" ".join(filter(None, row[:2])) for row in ROWS]


def as_tables(table):
    """The same rows in every form."""
    rows = [row for _, row in table.iterrows()]
    tables = [table, table[table.columns[::-1]], table.to_dict("records"), rows, pa.Table.from_pandas(table)]
    return [*tables, pl.from_pandas(table)] if pl else tables


def test_trained_columns_serve_tables(mails):
    expected = mails.predict_proba(JOINED)
    labels = [str(row[2]) for row in ROWS]
    for table in as_tables(TABLE):
        np.testing.assert_array_equal(mails.predict_proba(table), expected)
        assert mails.predict(table).tolist() == mails.predict(JOINED).tolist()
        assert mails.evaluate(table) == mails.evaluate(JOINED, labels)
        assert mails.predict_rows(table) == mails.predict_rows(JOINED)
        np.testing.assert_array_equal(mails.encode(table), mails.encode(JOINED))
        assert len(make_corpus(mails, table)) == len(ROWS)
    for row in (TABLE.to_dict("records")[2], TABLE.iloc[2]):
        assert mails.attention(row).table().equals(mails.attention(JOINED[2]).table())
    assert mails.predict(TABLE.drop(columns="class")).tolist() == mails.predict(JOINED).tolist()
    missing = TABLE.assign(body=TABLE.body.replace("", None))
    np.testing.assert_array_equal(mails.predict_proba(missing), expected)
    mixed = [JOINED[0], TABLE.to_dict("records")[1], {"text": JOINED[2]}]
    np.testing.assert_allclose(mails.predict_proba(mixed), expected[:3], rtol=1e-5)  # a batch of another size


def test_trained_columns_serve_pairs(train_on):
    model = train_on(PairClassifier(ENCODER, **TINY), text="subject", second="body", label="class")
    pairs = [row[:2] for row in ROWS]
    for table in as_tables(TABLE):
        np.testing.assert_array_equal(model.predict_proba(table), model.predict_proba(pairs))
    assert model.score(TABLE) == model.score(pairs, [str(row[2]) for row in ROWS])
    assert model.predict(TABLE[["body", "Subject"]]).tolist() == model.predict(pairs).tolist()
    for missing in ("Subject", "body"):
        with pytest.raises(DataError, match=f"no column '{missing.lower()}'.*trained on 'subject' as the text"):
            model.predict(TABLE.drop(columns=missing))


def test_trained_columns_serve_numbers(train_on):
    table = TABLE.assign(price=[row / 8 for row in range(len(TABLE))])
    texts = table.Subject.tolist()
    model = train_on(TextRegressor(ENCODER, **TINY), table, text="subject", label="price")
    assert model.evaluate(table) == model.evaluate(texts, table.price)
    pairs = train_on(PairRegressor(ENCODER, **TINY), table, text="subject", second="body", label="price")
    assert pairs.evaluate(table) == pairs.evaluate(list(zip(texts, table.body, strict=True)), table.price)


def test_trained_columns_serve_several_labels(train_on):
    table = TABLE.assign(spam=TABLE["class"], short=1 - TABLE["class"])
    model = train_on(TextClassifier(ENCODER, multilabel=True, **TINY), table, text="body", label=["spam", "short"])
    labels = [("spam",) if row[2] else ("short",) for row in ROWS]
    assert model.evaluate(table) == model.evaluate(table.body, labels)
    with pytest.raises(DataError, match="no column 'short'"):
        model.evaluate(table.drop(columns="short"))
    joined = TABLE.assign(names=["spam|new" if row[2] else "short" for row in ROWS])
    model = train_on(
        TextClassifier(ENCODER, multilabel=True, **TINY), joined, text="body", label="names", label_separator="|"
    )
    assert model.evaluate(joined) == model.evaluate(joined.body, [name.split("|") for name in joined.names])


def test_trained_columns_serve_tags(tmp_path):
    row = {"tokens": ["a", "dog"], "ner": ["O", "B-X"], "pos_tags": ["D", "N"], "x_tags": ["1", "2"]}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 8)
    tagger = SequenceTagger(ENCODER, **TINY)
    tagger.fit(*tagger.read([tmp_path / "train.jsonl"], tags="ner"))
    frame = pd.DataFrame([row] * 2)
    expected = tagger.evaluate([row["tokens"]] * 2, [row["ner"]] * 2)
    assert tagger.evaluate(frame) == tagger.evaluate(frame.to_dict("records")) == expected
    assert tagger.predict(frame) == tagger.predict([row["tokens"]] * 2)


def test_trained_columns_serve_translations(train_on):
    options = {"decoder": DecoderOptions(decoder_layers=1), "training": TranslationTraining(epochs=1, progress=False)}
    table = TABLE.assign(body=TABLE.body.replace("", "none"))
    encoder = TransformerOptions(hidden=8, heads=2, layers=1)
    model = train_on(Translator(encoder, **options), table, text="Subject", second="body")
    sources = table.Subject.tolist()
    assert model.predict(table) == model.predict(table.to_dict("records")) == model.predict(sources)
    assert model.perplexity(table) == pytest.approx(model.perplexity(sources, table.body.tolist()))
    assert model.evaluate(table) == model.evaluate(sources, table.body.tolist())
    with pytest.raises(DataError, match=r"no column 'body'.*trained on 'Subject' as the text"):
        model.evaluate(table[["Subject"]])


@pytest.mark.parametrize(
    ("columns", "missing"),
    [(["Subject"], "body"), (["body", "class"], "subject"), (["class"], "subject"), (["class", "x"], "subject")],
)
def test_an_error_names_the_trained_columns(mails, columns, missing):
    table = TABLE.assign(x="a")[columns]
    for X in (table, table.to_dict("records")):
        with pytest.raises(DataError, match=f"no column '{missing}'.*'subject' and 'body' as the text, 'class' as the"):
            mails.predict(X)


def test_an_error_names_the_trained_label(mails):
    table = TABLE[["Subject", "body"]]
    for X in (table, table.to_dict("records")):
        with pytest.raises(DataError, match=r"no column 'class'; the columns are 'Subject', 'body'; .*as the label"):
            mails.score(X)

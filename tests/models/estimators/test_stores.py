"""Training on a store equals training on its corpus, bit for bit, without loading the store into memory."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from graphattn.builders import Example, Sentence, TextGraphBuilder, Vocabulary, Window
from graphattn.builders.readers import read_corpus
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store import _shards as shards
from graphattn.exceptions import ConfigError, DataError

KINDS = ("classifier", "multilabel", "pair", "tagger", "crf")


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A store of inputs with their labels, in chunks of few sentences."""
    monkeypatch.setattr(shards, "CHUNK_SENTENCES", 5)

    def build(inputs, labels, name="s", **settings):
        rows = [_row(text, label) for text, label in zip(inputs, labels, strict=True)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {"second": "second"} if "second" in rows[0] else {}
        corpus = CorpusFile(path, options=options)
        given = StoreSettings(TextGraphBuilder([Window(3)], vocabulary=settings.pop("vocabulary", None)), settings)
        build_store([corpus], tmp_path / name, replace(given, block_bytes=500))
        return Store(tmp_path / name, cached_chunks=1)

    return build


def _row(text, label):
    if isinstance(text, list):
        return {"tokens": text, "tags": label}
    if isinstance(text, tuple):
        return {"text": text[0], "second": text[1], "label": label}
    return {"text": text, "label": list(label) if isinstance(label, tuple) else label}


def _items(inputs, labels):
    """The items that a file would give."""
    for text, label in zip(inputs, labels, strict=True):
        if isinstance(text, list):
            yield Sentence(text, tags=label)
        else:
            first, second = text if isinstance(text, tuple) else (text, None)
            yield Example(first, second, label)


def _weights(estimator):
    return estimator.model_.state_dict()


PIECES = {"characters": True, "level": "bpe", "vocabulary_size": 60}
OTHER_MODELS = [*((kind, {}) for kind in KINDS[1:]), ("pair", PIECES)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "inputs"),
    [("classifier", {}), ("crf", PIECES), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_MODELS)],
)
def test_models_are_identical(kind, inputs, corpus, tiny, stored):
    texts, labels = corpus(kind)
    store, items = stored(texts, labels), list(_items(texts, labels))
    training = {"dev_fraction": 0.2, "max_edges": 400}
    expected = tiny(kind, inputs=inputs, training=training).fit(items)
    actual = tiny(kind, inputs=inputs, training=training).fit(store)
    assert actual.vocabulary_ == expected.vocabulary_
    assert actual.history_ == expected.history_
    assert all(torch.equal(own, _weights(expected)[name]) for name, own in _weights(actual).items())
    assert actual.evaluate(store) == expected.evaluate(items)
    run, reference = actual.predict_with_probabilities(store), expected.predict_with_probabilities(items)
    assert list(map(list, run[0])) == list(map(list, reference[0]))
    assert all(map(np.array_equal, run[1], reference[1]))


@pytest.mark.slow
def test_tuned_vectors(corpus, tiny, stored, vectors_file):
    texts, labels = corpus("classifier")
    inputs = {"vectors": str(vectors_file), "tune_vectors": True}
    expected = tiny(inputs=inputs).fit(texts, labels)
    actual = tiny(inputs=inputs).fit(stored(texts, labels))
    assert all(torch.equal(own, _weights(expected)[name]) for name, own in _weights(actual).items())


@pytest.mark.slow
def test_stores_as_dev_sets_and_separate_labels(corpus, tiny, stored):
    texts, labels = corpus("classifier")
    store, other = stored(texts, labels), stored(texts[:9], labels[:9], name="dev")
    expected = tiny().fit(texts, labels, dev=(texts[:9], labels[:9]))
    assert tiny().fit(store, dev=other).history_ == expected.history_
    assert tiny().fit(store, labels, dev=(other, labels[:9])).history_ == expected.history_
    with pytest.raises(DataError) as caught:
        tiny().fit(store, labels[1:])
    assert str(caught.value) == "40 inputs but 39 labels. Give one for each."


@pytest.mark.slow
def test_classifiers_use_the_first_text_of_a_pair(corpus, tiny, stored):
    pairs, labels = corpus("pair")
    expected = tiny().fit([first for first, _ in pairs], labels)
    assert tiny().fit(stored(pairs, labels)).history_ == expected.history_


@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_a_sentence_without_a_label_is_reported(kind, tiny, stored):
    store = stored([["a"], ["b"]], [["X"], None])
    with pytest.raises(DataError) as caught:
        tiny(kind).fit(store)
    number, field = (1, "tags") if kind == "tagger" else (0, "label")
    assert str(caught.value) == f"input {number} has no {field}. Give y, or inputs with {field.rstrip('s')}s."


def test_tags_of_the_wrong_length_are_reported(tiny, stored):
    store = stored([["a", "b"], ["c"]], [["X", "Y"], ["X"]])
    with pytest.raises(DataError) as caught:
        tiny("tagger", training={"dev_fraction": 0.0}).fit(store, [["X"], ["Y"]])
    assert str(caught.value) == (
        "field 'tags': sentence 0 of the training set has 2 words but 1 tags. Give one tag for each word."
    )


@pytest.mark.slow
def test_raw_texts_are_split_by_the_rule_of_the_store(corpus, tiny, stored):
    texts, labels = corpus("classifier")
    texts = [f"({text})" for text in texts]
    default, blanks = stored(texts, labels), stored(texts, labels, name="t", split="whitespace")
    own = tiny(inputs={"split": "whitespace"}).fit(texts, labels)
    assert tiny(inputs={"split": "whitespace"}).fit(blanks).history_ == own.history_
    for call in (tiny(inputs={"split": "whitespace"}).fit, own.predict, own.evaluate):
        with pytest.raises(ConfigError) as caught:
            call(default)
        assert str(caught.value) == (
            "the store's texts were tokenized by the rule 'web', not 'whitespace'; give both the same split: "
            "graphattn build --split whitespace, or split web of the inputs"
        )
    with pytest.raises(ConfigError, match=r"by the rule 'whitespace', not 'web'; "):
        tiny().fit(texts, labels, dev=blanks)


def test_the_rule_of_a_tokenizer_cannot_be_reproduced(corpus, tiny, stored):
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    store = stored(*corpus("classifier"), vocabulary=Vocabulary(tokenizer))
    with pytest.raises(ConfigError) as caught:
        tiny().fit(store)
    assert str(caught.value) == (
        "the store's texts were tokenized by a tokenizer's own rule, not 'web'; train on the corpus itself, "
        "or build the store without a tokenizer"
    )


def test_given_words_fit_any_rule(corpus, tiny, stored):
    words, tags = corpus("tagger")
    store = stored(words, tags)
    assert store.tokenized_by is None
    tiny("tagger", inputs={"split": "whitespace"}, training={"epochs": 1}).fit(store)


def test_single_texts_are_not_pairs(tiny, stored):
    store = stored(["a", "b"], ["x", "y"])
    with pytest.raises(DataError, match="sentence 0 is not part of a pair"):
        tiny("pair").fit(store)


@pytest.mark.slow
def test_the_store_is_not_loaded_into_memory(tmp_path, tiny, monkeypatch):
    """Peaks of the memory of Python and NumPy; PyTorch holds a batch and the model."""
    path = tmp_path / "corpus.tsv"
    words = [f"word{number}" for number in range(500)]
    rows = (" ".join(words[(row * 31 + place * place) % 500] for place in range(40)) for row in range(1_500))
    path.write_text("".join(f"{'xy'[row % 2]}\t{text}\n" for row, text in enumerate(rows)))
    monkeypatch.setattr(shards, "CHUNK_SENTENCES", 100)
    build_store([CorpusFile(path)], tmp_path / "s", StoreSettings(TextGraphBuilder([Window(3)])))
    estimator = tiny("classifier", "bilstm", training={"epochs": 1, "batch_size": 50, "dev_fraction": 0.01})
    estimator.fit(list(read_corpus(path))[:100])  # loads what training needs

    def measure_peak(read):
        tracemalloc.start()
        try:
            estimator.fit(read())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    lazy, loaded = measure_peak(lambda: Store(tmp_path / "s")), measure_peak(lambda: list(read_corpus(path)))
    assert lazy < 0.6 * loaded

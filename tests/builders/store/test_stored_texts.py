"""A choice of a store's sentences is what a list of them would be."""

import pickle
from collections import Counter

import numpy as np
import pytest

from graphattn.builders import Sentence, TextGraphBuilder, Window
from graphattn.builders.layout import concatenate
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store, shard
from graphattn.exceptions import DataError


@pytest.fixture
def sentences(trees):
    pieces = Sentence(["un", "der", "dog"], word_ids=[0, 0, 1], heads=[2, 0], label="x", tags=["A", "B"])
    several = Sentence(["a"], heads=[0], label=("x", "y"))
    return [*trees(30), pieces, Sentence([], heads=[]), several, *trees(30, seed=1)]


@pytest.fixture
def store(stored, sentences, monkeypatch):
    monkeypatch.setattr(shard, "CHUNK_SENTENCES", 7)
    store = stored(sentences)
    assert store.num_chunks > 8
    return store


@pytest.mark.parametrize("numbers", [list(range(63)), [], [3], [0, 1, 5, 29, 30, 31, 32, 62], [40, 2, 2, 61, 30]])
def test_a_choice_is_a_list(store, sentences, builder, numbers):
    texts, expected = store.texts().take(numbers), [sentences[number] for number in numbers]
    assert len(texts) == len(numbers)
    assert list(texts) == [sentence for part in texts.parts() for sentence in part] == expected
    assert list(texts.column("label")) == [sentence.label for sentence in expected]
    assert [tags and tuple(tags) for tags in texts.column("tags")] == [sentence.tags for sentence in expected]
    assert texts.num_words().tolist() == [sentence.num_words for sentence in expected]
    counts = Counter(word for sentence in expected for word in sentence.words)
    assert list(texts.words().items()) == list(counts.items())  # in the same order
    found, layout = concatenate(list(texts.layouts(builder))), builder.layout(expected)
    assert np.array_equal(found.word_ids, layout.word_ids)
    assert np.array_equal(found.heads, layout.heads)


def test_choices_of_choices(store, sentences):
    texts = store.texts().take([50, 31, 4]).take([2, 0])
    assert list(texts) == [sentences[4], sentences[50]]
    assert (texts[1], list(texts[1:])) == (sentences[50], [sentences[50]])
    tags = store.texts().column("tags").take([31, 4])
    assert (len(tags), tags[1], list(tags[1:])) == (2, sentences[4].tags, [list(sentences[4].tags)])
    assert list(pickle.loads(pickle.dumps(texts))) == list(texts)


def test_texts_of_pairs(tmp_path, stored, trees):
    (tmp_path / "a.csv").write_text("text,second,label\na b,c,x\nd,,y\n")
    corpus = CorpusFile(tmp_path / "a.csv", options={"second": "second"})
    settings = StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=1)
    build_store([corpus], tmp_path / "s", settings)
    first, second = Store(tmp_path / "s").pairs()
    assert [text.tokens for text in first] == [("a", "b"), ("d",)]
    assert [text.tokens for text in second] == [("c",), ()]
    assert list(Store(tmp_path / "s").texts()) == list(first)
    assert first.column("label") == ["x", "y"]
    build_store([CorpusFile(tmp_path / "a.csv")], tmp_path / "s", settings, append=True)
    assert [text.tokens for text in Store(tmp_path / "s").texts()] == [("a", "b"), ("d",), ("a", "b"), ("d",)]
    with pytest.raises(DataError) as caught:
        Store(tmp_path / "s").pairs()
    assert str(caught.value) == (
        f"{tmp_path / 's'}: sentence 4 is not part of a pair. Build a store of pairs alone: graphattn build --pairs."
    )

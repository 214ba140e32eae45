"""Sentences with any fields round-trip through rows of a table."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Sentence
from graphattn.builders.store._shards import Shard, chunk_bounds, write_shard
from graphattn.builders.store._tables import (
    SCHEMA,
    STRING_PATHS,
    add_null_columns,
    dictionary_codes,
    list_lengths,
    to_sentences,
    to_table,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def sentences(draw):
    """Any sentence."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=5))
    count = len(sizes)
    optional = lambda strategy: draw(st.none() | strategy)  # noqa: E731
    names = st.lists(texts, min_size=count, max_size=count)
    return Sentence(
        draw(st.lists(texts, min_size=sum(sizes), max_size=sum(sizes))),
        word_ids=[word for word, size in enumerate(sizes) for _ in range(size)] if sum(sizes) > count else None,
        heads=optional(st.just([max(word - draw(st.integers(1, 5)), 0) for word in range(1, count + 1)])),
        deprels=optional(names),
        label=draw(st.none() | texts | st.lists(texts, max_size=2).map(tuple)),
        tags=optional(names),
        sentence_ids=optional(st.just(list(range(count)))),
        links=optional(st.just([(0, count - 1)] if count else [])),
    )


@pytest.mark.slow
@given(st.lists(sentences(), max_size=6))
def test_sentences_round_trip_through_a_shard(tmp_path_factory, given_sentences):
    path = tmp_path_factory.mktemp("shard") / "part.parquet"
    table = to_table(given_sentences)
    assert table.schema == SCHEMA
    assert to_sentences(table) == given_sentences
    write_shard(table, path, {})
    shard = Shard(path)
    read = [shard.chunk(number) for number in range(len(shard.chunk_sizes))]
    assert [sentence for chunk in read for sentence in to_sentences(chunk)] == given_sentences


def test_absent_columns_are_null():
    table = add_null_columns(pa.table({"length": pa.array([1], pa.int32()), "tokens": pa.array([["a"]])}))
    assert (table.schema, to_sentences(table)) == (SCHEMA, [Sentence(["a"])])


def test_strings_are_read_as_codes():
    assert set(STRING_PATHS) == {
        "tokens.list.element", "deprels.list.element", "tags.list.element", "label", "labels.list.element",
    }  # fmt: skip
    codes, words = dictionary_codes(to_table([Sentence(["b", "a"]), Sentence([]), Sentence(["b"])])["tokens"])
    assert (codes.tolist(), words) == ([0, 1, 0], ["b", "a"])
    assert list_lengths(to_table([Sentence(["b"]), Sentence(["b"], heads=[0])])["heads"]).tolist() == [0, 1]


def test_chunks_are_bounded_by_tokens_and_sentences(monkeypatch):
    monkeypatch.setattr("graphattn.builders.store._shards.CHUNK_TOKENS", 10)
    monkeypatch.setattr("graphattn.builders.store._shards.CHUNK_SENTENCES", 3)
    lengths = to_table([Sentence(["a"] * n) for n in (4, 6, 1, 30, 1, 1, 1, 1)])["length"].to_numpy()
    assert chunk_bounds(lengths) == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    assert chunk_bounds(lengths[:0]) == []

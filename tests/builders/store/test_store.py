"""A store as a sequence; damage is named, and the rest can still be read; other programs read the files too."""

import errno
import json
import lzma
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from graphattn.builders import (
    Complete,
    Dependency,
    Links,
    Membership,
    RandomArcs,
    RangeRelation,
    RelativePositions,
    Sentence,
    TextGraphBuilder,
    Window,
)
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store import shard as shard_module
from graphattn.builders.store import store as store_module
from graphattn.builders.store.table import sentences_of
from graphattn.exceptions import DataError

REPAIR = "Run the same graphattn build again: it makes damaged shards anew."


def test_sentences_by_index_slice_and_iteration(stored, trees):
    sentences = trees(60)
    store = stored(sentences)
    assert len(store) == 60
    assert store.num_chunks > 3
    assert list(store) == sentences
    assert [store[n] for n in (0, 17, 59, -1, -60)] == [sentences[n] for n in (0, 17, 59, -1, -60)]
    assert store[50:10:-7] == sentences[50:10:-7]
    assert store.lengths.tolist() == list(map(len, sentences))
    assert sentences[30] in store
    for outside in (60, -61):
        with pytest.raises(IndexError, match=f"sentence {outside} of a store of 60"):
            store[outside]
    assert repr(store) == f"Store('{store.folder}': 60 sentences)"


def test_few_chunks_are_kept(stored, trees):
    sentences = trees(60)
    store = Store(stored(sentences).folder, cached_chunks=2)
    assert [store[n] for n in range(0, 60, 7)] == sentences[::7]
    assert len(store._chunks) == 2


def test_an_empty_corpus_makes_an_empty_store(tmp_path, builder):
    (tmp_path / "a.conllu").write_text("# nothing\n")
    build_store([CorpusFile(tmp_path / "a.conllu")], tmp_path / "s", StoreSettings(builder))
    store = Store(tmp_path / "s")
    assert (len(store), list(store), store.lengths.tolist()) == (0, [], [])


def test_pandas_and_datasets_read_it(stored, trees, tmp_path):
    sentences = trees(40)
    store = stored(sentences)
    frame = pd.read_parquet(store.folder / "sentences")
    assert [tuple(tokens) for tokens in frame.tokens] == [s.tokens for s in sentences]
    assert [tuple(heads) for heads in frame.heads] == [s.heads for s in sentences]
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    rows = datasets.load_dataset(
        "parquet", data_files=f"{store.folder}/sentences/*.parquet", split="train", cache_dir=str(tmp_path / "cache")
    )
    assert [tuple(row["deprels"]) for row in rows] == [s.deprels for s in sentences]


def test_a_damaged_shard_is_named_and_the_rest_can_be_read(stored, trees):
    sentences = trees(60)
    folder = stored(sentences).folder
    whole = (folder / "sentences/part-000001.parquet").read_bytes()
    first, count = Store(folder).chunk_starts[1:3]
    flipped = bytearray(whole)
    flipped[60] ^= 4
    for data, reason, listed in [
        (whole[:-100], "Parquet magic bytes not found", f"has {len(whole) - 100:,} bytes, {len(whole):,} were written"),
        (flipped, "", "has other content than was written"),
        (b"", "Parquet file size is 0 bytes", f"has 0 bytes, {len(whole):,} were written"),
    ]:
        (folder / "sentences/part-000001.parquet").write_bytes(data)
        store = Store(folder)
        with pytest.raises(DataError) as caught:
            store[int(first)]
        message = str(caught.value)
        assert message.startswith(f"{folder / 'sentences/part-000001.parquet'}: the shard is damaged (")
        assert reason in message
        assert message.endswith(REPAIR)
        assert store[0] == sentences[0]
        assert store[int(count) :] == sentences[int(count) :]
        assert store.damaged() == {"sentences/part-000001.parquet": f"sentences/part-000001.parquet {listed}"}
    (folder / "sentences/part-000001.parquet").unlink()
    with pytest.raises(DataError) as caught:
        Store(folder)[int(first)]
    assert str(caught.value) == f"{folder / 'sentences/part-000001.parquet'}: there is no such shard. {REPAIR}"
    assert Store(folder).damaged() == {"sentences/part-000001.parquet": "sentences/part-000001.parquet is missing"}


def test_every_flipped_bit_is_noticed(stored, trees):
    folder = stored(trees(12)).folder
    path = folder / "sentences/part-000000.parquet"
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        flipped = bytearray(whole)
        flipped[place] ^= 16
        path.write_bytes(flipped)
        assert Store(folder).damaged(), place


def test_versions_do_not_mix(stored, trees, monkeypatch):
    folder = stored(trees(60)).folder
    path = folder / "sentences/part-000002.parquet"
    monkeypatch.setattr(shard_module, "VERSION", 4)
    shard_module.write_shard(pq.read_table(path, schema=shard_module.SCHEMA), path, {"digest": "", "skipped": []})
    monkeypatch.undo()
    store = Store(folder)
    with pytest.raises(DataError) as caught:
        list(store)
    assert str(caught.value) == (
        f"{path}: is of version 4 of the store's schema, this GraphAttn reads version 3. "
        "Build the store again, or use the GraphAttn it was built with."
    )
    manifest = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**manifest, "version": 4}))
    with pytest.raises(DataError) as caught:
        Store(folder)
    assert str(caught.value) == (
        f"{folder}: the store is of version 4, this GraphAttn reads version 3. "
        "Build it again, or use the GraphAttn it was built with."
    )


def test_folders_that_are_no_store(tmp_path):
    with pytest.raises(DataError) as caught:
        Store(tmp_path)
    assert str(caught.value) == f"{tmp_path}: holds no store. Give a folder that graphattn build wrote."
    (tmp_path / "store.json").write_text('{"kind": "graphattn store", "version": 3}')
    with pytest.raises(DataError) as caught:
        Store(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'store.json'}: is no manifest of a store ('shards'). Run the same graphattn build again."
    )
    (tmp_path / "store.json").write_text("[]")
    with pytest.raises(DataError, match="is no manifest of a store"):
        Store(tmp_path)


def test_imdb_takes_little_more_than_its_archive(corpora, tmp_path):
    path = corpora / "imdb" / "test.tsv.xz"
    head = tmp_path / "head.tsv"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = file.readlines()[::10]
    head.write_text("".join(lines))
    options = {"columns": ("label", None, None, "text")}
    settings = StoreSettings(TextGraphBuilder([Window(3)]))
    build_store([CorpusFile(head, options=options)], tmp_path / "s", settings)
    store = Store(tmp_path / "s")
    assert len(store) == len(lines)
    archive = len(lzma.compress(head.read_bytes(), preset=9))
    on_disk = sum(file.stat().st_size for file in store.folder.iterdir())
    assert on_disk <= 2.5 * archive


def test_a_store_is_a_corpus_of_sentences(stored):
    sentences = [Sentence(["good"], label="pos"), Sentence(["bad"], label="neg"), Sentence(["odd"])]
    store = stored(sentences, relations=TextGraphBuilder([Window(1)]))
    assert [sentence.label for sentence in store] == ["pos", "neg", None]
    assert store.vocabulary.words[3:] == ["good", "bad", "odd"]


def test_few_shards_are_open_at_a_time(stored, trees, monkeypatch):
    monkeypatch.setattr(store_module, "OPEN_SHARDS", 2)
    sentences = trees(90)
    store = stored(sentences)
    assert len(store.manifest.shards) > 4

    def descriptors():
        return sum("part-" in os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())

    tables = [store.chunk(number) for number in range(store.num_chunks)]
    assert len(store._open) == 2
    if Path("/proc/self/fd").exists():
        assert descriptors() <= 2
    assert [sentence for table in tables for sentence in sentences_of(table)] == sentences, "closed, they stay whole"
    assert list(store) == sentences


def test_long_texts_and_a_users_relation_make_a_store(stored):
    """Only edges of the user's relation are looked at, and only those of short texts."""

    class Here(RangeRelation):
        name = "here"

        def bounds(self, layout):
            return np.arange(layout.num_tokens), np.arange(layout.num_tokens) + 1

    sentences = [Sentence(["a"] * 6000), Sentence(["a"] * 3)] * 32
    store = stored(sentences, relations=TextGraphBuilder([Here(), Complete()], cls=False))
    assert store.manifest.edges == {"here": 32 * 6003, "all": 32 * (6000**2 + 9)}


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            errno.EMFILE,
            "cannot be read (Too many open files). Close files, or raise the limit of open files (ulimit -n).",
        ),
        (errno.EACCES, "cannot be read (Permission denied). Make it readable for this user."),
    ],
)
def test_what_the_system_refuses_is_not_called_damaged(stored, trees, monkeypatch, number, message):
    store = stored(trees(9))

    def refuse(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(DataError) as caught:
        list(store)
    assert str(caught.value) == f"{store.folder / 'sentences/part-000000.parquet'}: {message}"
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(DataError) as caught:
        Store(store.folder)
    assert str(caught.value) == f"{store.folder / 'store.json'}: {message}"


@pytest.mark.parametrize(
    "relations",
    [
        [Links("word"), Membership()],
        [Dependency("token").reverse()],
        [Window(3) | Dependency("token")],
        [RelativePositions(Dependency("token"), 2), Window(1)],
        [Dependency(), RandomArcs(2)],
    ],
    ids=str,
)
def test_a_stores_builder_has_the_relations_it_was_built_with(stored, trees, relations):
    sentences = [replace(sentence, links=[(0, len(sentence) - 1)]) for sentence in trees(20)]
    given = TextGraphBuilder(relations)
    store = stored(sentences, relations=given)
    again = store.builder()
    assert list(map(repr, again.relations)) == list(map(repr, given.relations))
    graph, expected = again.batch(sentences), given.batch(sentences)
    assert graph.canonical_etypes == expected.canonical_etypes
    for relation in expected.canonical_etypes:
        assert [ends.tolist() for ends in graph.edges(etype=relation)] == [
            ends.tolist() for ends in expected.edges(etype=relation)
        ]


@pytest.mark.filterwarnings("ignore:some texts have no parse")
def test_a_store_of_texts_without_heads_makes_graphs_of_optional_arcs(stored, trees):
    sentences = [*trees(9), Sentence(["a", "b"])]
    store = stored(sentences, relations=TextGraphBuilder([Dependency(required=False)]))
    assert store.builder().batch(list(store)).num_edges("dependency") > 0
    assert stored(trees(9), name="parsed").builder().needs_heads

"""A store as a sequence; damaged shards are reported, the others stay readable, and other programs read the files."""

import errno
import json
import lzma
import os
import pickle
import shutil
import struct
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from graphattn._edges import Edges
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
from graphattn.builders._layout import concatenate
from graphattn.builders._stored import is_stored
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store import _shards as shards_module
from graphattn.builders.store import _store as store_module
from graphattn.builders.store._shards import Shard
from graphattn.builders.store._tables import to_sentences
from graphattn.exceptions import DataError

REPAIR = "Run the same graphattn build again: it rebuilds damaged shards."


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


def test_the_cache_of_chunks_is_bounded(stored, trees):
    sentences = trees(60)
    read = []

    class Counted(Store):
        def chunk(self, number, columns=None):
            read.append(number)
            return super().chunk(number, columns)

    store = Counted(stored(sentences).folder, cached_chunks=2)
    assert [store[n] for n in range(0, 60, 7)] == sentences[::7]
    read.clear()
    firsts = store.chunk_starts[:3].tolist()
    assert [store[n] for n in [*firsts, *firsts[:0:-1], firsts[0]]] == [
        sentences[n] for n in [0, *firsts[1:], *firsts[:0:-1], 0]
    ]
    assert read == [0, 1, 2, 0]


def test_an_empty_corpus_gives_an_empty_store(tmp_path, builder):
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
    path = folder / "sentences/part-000001.parquet"
    whole = path.read_bytes()
    first, count = Store(folder).chunk_starts[1:3]
    flipped = bytearray(whole)
    flipped[60] ^= 4
    for data, reason, check in [
        (whole[:-100], "Parquet magic bytes not found", f"has {len(whole) - 100:,} bytes instead of {len(whole):,}"),
        (flipped, "damaged", "has another checksum than in store.json"),
        (b"", "Parquet file size is 0 bytes", f"has 0 bytes instead of {len(whole):,}"),
        (None, "the shard is missing", "is missing"),
    ]:
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        store = Store(folder)
        with pytest.raises(DataError, match=reason) as caught:
            store[int(first)]
        assert (caught.value.path, caught.value.hint) == (path, REPAIR)
        assert store[0] == sentences[0]
        assert store[int(count) :] == sentences[int(count) :]
        assert store.find_damaged() == {"sentences/part-000001.parquet": f"sentences/part-000001.parquet {check}"}


@pytest.mark.slow
def test_every_flipped_bit_is_detected(stored, trees):
    store = stored([replace(sentence, label=f"label {number % 2}") for number, sentence in enumerate(trees(12))])
    files = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file() and path.stat().st_size}
    assert {path.suffix for path in files} == {".json", ".parquet"}
    for path, whole in files.items():
        for place in range(0, len(whole), 97):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            try:
                damaged = [store.folder / file for file in Store(store.folder).find_damaged()]
            except DataError as error:
                damaged = [error.path, *store.folder.glob(path.name)]
            assert path in damaged, place
        path.write_bytes(whole)
    (store.folder / "skipped.jsonl").unlink()
    assert store.find_damaged() == {"skipped.jsonl": "skipped.jsonl is missing"}


def test_files_of_two_stores_are_not_mixed(stored, trees):
    """Every one of them is intact."""
    folder, other = stored(trees(12)).folder, stored([Sentence(["b"], heads=[0])], name="other").folder
    shutil.copy(other / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(DataError) as caught:
        _ = Store(folder).vocabulary
    assert caught.value.path == folder / "tokenizer.json"
    shutil.copy(other / "store.json", folder / "store.json")
    with pytest.raises(DataError) as caught:
        list(Store(folder))
    assert caught.value.path == folder / "sentences/part-000000.parquet"


def test_labels_that_changed_places_are_detected(stored):
    """Their order gives them their numbers."""
    folder = stored([Sentence(["a"], heads=[0], label="x"), Sentence(["b"], heads=[0], label="y")]).folder
    text = (folder / "store.json").read_text()
    (folder / "store.json").write_text(text.replace('"x": 1,\n  "y": 1', '"y": 1,\n  "x": 1'))
    with pytest.raises(DataError, match="its checksum does not match"):
        Store(folder)


def test_other_versions_are_rejected(stored, trees):
    folder = stored(trees(60)).folder
    path = folder / "sentences/part-000002.parquet"
    notes = {"format_version": 5, "digest": "", "skipped": []}
    shards_module.write_shard(pq.read_table(path, schema=shards_module.SCHEMA), path, notes)
    with pytest.raises(DataError, match="the shard has version 5 of the store format, this GraphAttn reads version 1"):
        list(Store(folder))
    manifest = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**manifest, "format_version": 5}))
    with pytest.raises(DataError, match="the store has version 5, this GraphAttn reads up to version 2"):
        Store(folder)


def test_a_folder_without_a_manifest(tmp_path):
    with pytest.raises(DataError, match="is not a store") as caught:
        Store(tmp_path)
    assert "graphattn build" in caught.value.hint


def test_the_store_of_imdb_is_hardly_larger_than_its_archive(corpora, tmp_path):
    path = corpora / "imdb" / "test.tsv.xz"
    head = tmp_path / "head.tsv"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = list(islice(file, 1000))
    head.write_text("".join(lines))
    options = {"columns": ("label", None, None, "text")}
    settings = StoreSettings(TextGraphBuilder([Window(3)]))
    build_store([CorpusFile(head, options=options)], tmp_path / "s", settings)
    store = Store(tmp_path / "s")
    assert len(store) == len(lines)
    archive = len(lzma.compress(head.read_bytes(), preset=9))
    on_disk = sum(file.stat().st_size for file in store.folder.iterdir())
    assert on_disk <= 2.5 * archive


def test_the_number_of_open_shards_is_bounded(stored, trees, monkeypatch):
    monkeypatch.setattr(store_module, "OPEN_SHARDS", 2)
    sentences = trees(90)
    store = stored(sentences)
    assert len(store.manifest.shards) > 4

    def descriptors():
        return sum("part-" in os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())

    tables = [store.chunk(number) for number in range(store.num_chunks)]
    if Path("/proc/self/fd").exists():
        assert descriptors() <= 2
    assert [sentence for table in tables for sentence in to_sentences(table)] == sentences, (
        "also after the files are closed"
    )
    assert list(store) == sentences


def test_a_custom_relation_is_validated_on_short_texts_only(stored):
    """Only edges of the custom relation are validated, and only those of short texts."""

    class Here(RangeRelation):
        name = "here"

        def bounds(self, layout):
            return np.arange(layout.num_tokens), np.arange(layout.num_tokens) + 1

    sentences = [Sentence(["a"] * 6000), Sentence(["a"] * 3)] * 32
    store = stored(sentences, relations=TextGraphBuilder([Here(), Complete()], cls=False))
    assert store.manifest.edges == {"here": 32 * 6003, "all": 32 * (6000**2 + 9)}


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EMFILE, "Close files, or raise the limit of open files (ulimit -n)."),
        (errno.EACCES, "Make it readable for this user."),
    ],
)
def test_system_errors_are_not_reported_as_damage(stored, trees, monkeypatch, number, hint):
    store = stored(trees(9))

    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pq, "ParquetFile", fail)
    monkeypatch.setattr(os, "open", fail)
    for read, path in [
        (lambda: store.vocabulary, "tokenizer.json"),
        (lambda: list(store), "sentences/part-000000.parquet"),
        (lambda: Store(store.folder), "store.json"),
    ]:
        with pytest.raises(DataError, match=r"cannot be read \(") as caught:
            read()
        assert (caught.value.path, caught.value.hint) == (store.folder / path, hint)


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
def test_the_builder_of_a_store_has_its_relations(stored, trees, relations):
    sentences = [replace(sentence, links=[(0, len(sentence) - 1)]) for sentence in trees(20)]
    given = TextGraphBuilder(relations)
    store = stored(sentences, relations=given)
    again = store.builder()
    assert list(map(repr, again.relations)) == list(map(repr, given.relations))
    batch, expected = again.text_batch(sentences), given.text_batch(sentences)
    assert list(batch.edges) == list(expected.edges)
    for relation, edges in batch.edges.items():
        assert all(map(torch.equal, edges.ends_by_id(), expected.edges[relation].ends_by_id()))


@pytest.mark.filterwarnings("ignore:some texts have no parse")
def test_optional_arcs_of_stored_texts_without_heads(stored, trees):
    sentences = [*trees(9), Sentence(["a", "b"])]
    store = stored(sentences, relations=TextGraphBuilder([Dependency(required=False)]))
    assert Edges.of(store.builder().text_batch(list(store)), "dependency").num_edges > 0
    assert stored(trees(9), name="parsed").builder().needs_heads


@pytest.fixture
def sentences(trees):
    pieces = Sentence(["un", "der", "dog"], word_ids=[0, 0, 1], heads=[2, 0], label="x", tags=["A", "B"])
    several = Sentence(["a"], heads=[0], label=("x", "y"))
    return [*trees(30), pieces, Sentence([], heads=[]), several, *trees(30, seed=1)]


@pytest.fixture
def store(stored, sentences, monkeypatch):
    monkeypatch.setattr(shards_module, "CHUNK_SENTENCES", 7)
    store = stored(sentences)
    assert store.num_chunks > 8
    return store


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [list(range(63)), [], [3], [0, 1, 5, 29, 30, 31, 32, 62], [40, 2, 2, 61, 30]])
def test_a_selection_equals_a_list(store, sentences, builder, numbers):
    texts, expected = store.texts().take(numbers), [sentences[number] for number in numbers]
    assert len(texts) == len(numbers)
    assert list(texts) == [sentence for part in texts.parts() for sentence in part] == expected
    assert list(texts.column("label")) == [sentence.label for sentence in expected]
    assert [tags and tuple(tags) for tags in texts.column("tags")] == [sentence.tags for sentence in expected]
    assert texts.num_words().tolist() == [sentence.num_words for sentence in expected]
    counts = Counter(word for sentence in expected for word in sentence.words)
    assert list(texts.words().items()) == list(counts.items())  # in the same order
    actual, layout = concatenate(list(texts.layouts(builder))), builder.layout(expected)
    assert np.array_equal(actual.word_ids, layout.word_ids)
    assert np.array_equal(actual.heads, layout.heads)


def test_selections_of_selections(store, sentences):
    texts = store.texts().take([50, 31, 4]).take([2, 0])
    assert list(texts) == [sentences[4], sentences[50]]
    assert (texts[1], list(texts[1:])) == (sentences[50], [sentences[50]])
    tags = store.texts().column("tags").take([31, 4])
    assert (len(tags), tags[1], list(tags[1:])) == (2, sentences[4].tags, [list(sentences[4].tags)])
    assert list(pickle.loads(pickle.dumps(texts))) == list(texts)


def test_a_selection_is_a_store(store, sentences):
    lengths = store.lengths  # a cached value of the whole
    some = store.take([40, 3])
    assert is_stored(some)
    assert not is_stored(list(some))
    assert (len(some), some[-1], some[:1]) == (2, sentences[3], [sentences[40]])
    assert some.lengths.tolist() == lengths[[40, 3]].tolist() == [len(sentences[40]), len(sentences[3])]
    assert list(some.texts()) == list(some) == [sentences[40], sentences[3]]
    assert list(store.texts()) == list(store) == sentences
    with pytest.raises(IndexError):
        some[2]


def test_texts_of_pairs(tmp_path, stored):
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


def test_every_flipped_byte_of_a_footer_is_one_error(stored, trees):
    store = stored(trees(5))
    entry = store.manifest.shards[0]
    path, content = store.folder / entry.file, (store.folder / entry.file).read_bytes()
    (length,) = struct.unpack("<I", content[-8:-4])
    for position in range(len(content) - length - 8, len(content), 11):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError) as caught:
            Store(store.folder).chunk(0)
        assert str(caught.value).startswith(f"{path}: the shard ")
        assert str(caught.value).endswith(
            (
                ". Run the same graphattn build again: it rebuilds damaged shards.",
                ". Build the store again, or use the GraphAttn that built it.",
            )
        )


def test_a_shard_with_other_columns(stored, trees):
    store = stored(trees(5))
    path = store.folder / store.manifest.shards[0].file
    notes, table = pq.read_metadata(path).metadata, pq.read_table(path)
    for other in (
        table.drop_columns("links"),
        table.set_column(table.column_names.index("label"), "label", table["label"].cast("binary")),
        table.set_column(0, "length", table["length"].cast("int64")),
        table.rename_columns(["size", *table.column_names[1:]]),
    ):
        with pq.ParquetWriter(path, other.schema, store_schema=False) as writer:
            writer.add_key_value_metadata(notes)
            writer.write_table(other)
        with pytest.raises(DataError) as caught:
            Shard(path)
        assert str(caught.value) == (
            f"{path}: the shard is damaged (it has other columns). "
            "Run the same graphattn build again: it rebuilds damaged shards."
        )


@pytest.mark.parametrize("change", ["other bytes", "cut", "another shard"])
def test_a_shard_that_changes_while_it_is_open(stored, trees, change):
    """Nothing is mapped, so tables that were read stay, and the next read is an error."""
    store = stored(trees(60))
    entries = store.manifest.shards
    assert len(entries) > 1
    path = store.folder / entries[0].file
    first, expected = store.chunk(0), store.chunk(0).to_pylist()
    if change == "other bytes":
        path.write_bytes(bytes(entries[0].bytes))
    elif change == "cut":
        os.truncate(path, 100)
    else:
        path.write_bytes((store.folder / entries[1].file).read_bytes())
    assert first.to_pylist() == expected
    with pytest.raises(DataError, match="shard is damaged") as caught:
        store.chunk(0)
    assert caught.value.path == path
    store.chunk(store.num_chunks - 1)


def test_a_shard_that_changed_since_it_was_verified_is_verified_again(stored, trees, monkeypatch):
    monkeypatch.setattr(store_module, "OPEN_SHARDS", 1)
    store = stored(trees(60))
    first, other = (store.folder / entry.file for entry in store.manifest.shards[:2])
    store.chunk(0)
    store.chunk(store.num_chunks - 1)  # closes the first
    first.write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=r"its checksum is not the one in store\.json"):
        store.chunk(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store.json", "tokenizer.json", "skipped.jsonl", "part"])
@pytest.mark.parametrize("how", ["pipe", "device", "sparse", "pointer"])
def test_files_that_are_not_regular(stored, trees, name, how):
    store = stored(trees(9))
    path = store.folder / (store.manifest.shards[0].file if name == "part" else name)
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "device":
        path.symlink_to("/dev/zero")
    elif how == "sparse":
        path.touch()
        os.truncate(path, 10**11 if name != "skipped.jsonl" else 1)
    else:
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    if name == "store.json":
        with pytest.raises(DataError):
            Store(store.folder)
        return
    assert list(store.find_damaged()) == [path.relative_to(store.folder).as_posix()]
    if name != "skipped.jsonl":
        with pytest.raises(DataError) as caught:
            _ = store.vocabulary if name == "tokenizer.json" else store[0]
        assert caught.value.path == path

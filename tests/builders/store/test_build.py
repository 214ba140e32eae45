"""A store has the same content if it is built in parts, by several processes, or resumed after a kill."""

import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from graphattn._edges import Edges
from graphattn.builders import Dependency, Links, Sentence, TextGraphBuilder, Vocabulary, Window
from graphattn.builders._jobs import LocalEngine
from graphattn.builders._locks import folder_lock
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store._manifest import Manifest
from graphattn.exceptions import DataError


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(data, place):
    """The data with one other bit."""
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.glob("sentences/part-*")}


@pytest.fixture
def settings(builder):
    return StoreSettings(builder, block_bytes=1000)


def test_from_5000_texts_on_there_is_work_for_several_processes(tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "".join(f"{n % 2}\ta film {n}\n" for n in range(5000)))
    settings = StoreSettings(TextGraphBuilder([Window(3)]))
    build_store([CorpusFile(tmp_path / "a.tsv")], tmp_path / "s", settings)
    manifest = Store(tmp_path / "s").manifest
    assert [sum(entry.chunks) for entry in manifest.shards] == [1000] * 5
    assert manifest.settings["block_bytes"] is None


def test_a_store_keeps_the_size_of_its_shards(tmp_path, write, trees):
    """Also if a later build leaves the size out."""
    corpora = [CorpusFile(write("a.jsonl", trees(30))), CorpusFile(write("b.jsonl", trees(20, seed=1)))]
    fixed, default = (StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=size) for size in (1000, None))
    build_store(corpora, tmp_path / "fixed", fixed)
    build_store(corpora[:1], tmp_path / "s", fixed)
    build_store(corpora[:1], tmp_path / "s", default)
    build_store(corpora[1:], tmp_path / "s", default, append=True)
    (tmp_path / "s" / "sentences" / "part-000001.parquet").unlink()
    build_store(corpora, tmp_path / "s", default)
    assert content(tmp_path / "s") == content(tmp_path / "fixed")


def test_a_store_keeps_the_order_of_sentences(tmp_path, write, trees, settings):
    build_store([CorpusFile(write("a.conllu", trees(30))), CorpusFile(write("b.jsonl", trees(9, seed=1)))],
                tmp_path / "s", settings)  # fmt: skip
    assert list(Store(tmp_path / "s")) == trees(30) + trees(9, seed=1)
    assert Store(tmp_path / "s").manifest.corpora == ["a.conllu", "b.jsonl"]


def test_tags_of_any_column(tmp_path, write, trees, settings):
    """The compiled parser of CoNLL-U reads parts of speech only; its blocks are read, and sentences skipped, anyway."""
    parsed = trees(30)
    relations = [replace(sentence, tags=sentence.deprels) for sentence in parsed]
    path = write("a.conllu", parsed)
    build_store([CorpusFile(path, options={"tags": "deprel"})], tmp_path / "s", settings)
    assert list(Store(tmp_path / "s")) == relations
    plus = tmp_path / "a.conllup"
    names = "# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS X:Y\n"
    plus.write_text(names + path.read_text() + "1\tbroken\n\n" + path.read_text(), encoding="utf-8")
    corpora = [CorpusFile(plus, options={"tags": "deprel"})]
    with pytest.raises(DataError) as caught:
        build_store(corpora, tmp_path / "plus", settings)
    assert caught.value.skippable
    build_store(corpora, tmp_path / "plus", replace(settings, skip=True))
    assert list(Store(tmp_path / "plus")) == relations * 2
    assert Store(tmp_path / "plus").manifest.skipped == 1


DATA = Path(__file__).parents[2] / "data" / "stores"
"""Stores of format version 1, and their corpora."""


@pytest.mark.parametrize(
    ("name", "corpora", "settings"),
    [
        (
            "parsed",
            [CorpusFile(DATA / "parsed.jsonl"), CorpusFile(DATA / "trees.conllu")],
            StoreSettings(TextGraphBuilder([Window(3), Dependency()]), skip=True, block_bytes=150),
        ),
        (
            "pairs",
            [CorpusFile(DATA / "pairs.csv", task="pair")],
            StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=20),
        ),
    ],
)
def test_stores_of_format_version_1_open_unchanged(tmp_path, name, corpora, settings):
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(DATA / name, old)
    before = inodes(old)
    build_store(corpora, old, settings)
    assert (content(old), inodes(old)) == (content(DATA / name), before), "digests of blocks and settings do not change"
    build_store(corpora, new, settings)
    stores = Store(old), Store(new)
    assert list(stores[0]) == list(stores[1])
    assert stores[0].find_damaged() == {}
    assert [stores[0].chunk(n).equals(stores[1].chunk(n)) for n in range(stores[0].num_chunks)] == [True] * len(before)
    assert stores[0].vocabulary == stores[1].vocabulary
    first, second = (  # sizes and checksums depend on the version of Arrow
        replace(store.manifest, shards=[replace(entry, bytes=0, sha256="") for entry in store.manifest.shards])
        for store in stores
    )
    assert first == second


def test_counts_equal_those_of_the_graphs(tmp_path, write, trees, builder, settings):
    labelled = [Sentence(["a"] * 9, heads=[0] * 9, label="x"), Sentence([], label=("x", "y"))]
    sentences = [*trees(30), Sentence([]), *labelled]
    manifest = build_store([CorpusFile(write("a.jsonl", sentences))], tmp_path / "s", settings)
    graphs = [builder.text_batch([sentence]) for sentence in sentences]
    assert manifest.edges == {
        name: sum(Edges.of(graph, name).num_edges for graph in graphs)
        for name in ("window:3", "window:N/4", "dependency", "in")
    }
    assert manifest.most_edges == max(sum(edges.num_edges for edges in graph.edges.values()) for graph in graphs)
    lengths = list(map(len, sentences))
    assert (manifest.sentences, manifest.tokens, manifest.words) == (33, sum(lengths), sum(lengths))
    assert (manifest.parsed, manifest.longest) == (31, 9)
    bounds = Counter(max(low for low in (0, 1, 2, 4, 8) if low <= length) for length in lengths)
    assert manifest.lengths == {str(low): bounds[low] for low in sorted(bounds)}
    assert manifest.labels == {"x": 2, "y": 1}
    assert manifest.tags == dict(Counter(tag for s in sentences for tag in s.tags or ()).most_common())
    assert manifest.deprels == dict(Counter(name for s in sentences for name in s.deprels or ()).most_common())


def test_the_vocabulary_is_trained_on_the_corpus(tmp_path, write, trees, builder):
    for level in ("word", "bpe"):
        learn = {"level": level, "size": 40}
        build_store([CorpusFile(write("a.conllu", trees(90)))], tmp_path / level,
                    StoreSettings(builder, learn=learn, block_bytes=900))  # fmt: skip
        assert Store(tmp_path / level).vocabulary == Vocabulary.train(trees(90), **learn)
    assert Store(tmp_path / "bpe").manifest.tokens > Store(tmp_path / "bpe").manifest.words


def test_a_vocabulary_of_the_builder_is_kept(tmp_path, write, trees):
    vocabulary = Vocabulary.train(["a dog"])
    builder = TextGraphBuilder([Window(3)], vocabulary=vocabulary)
    build_store([CorpusFile(write("a.conllu", trees(9)))], tmp_path / "s", StoreSettings(builder))
    assert Store(tmp_path / "s").vocabulary == vocabulary


def test_any_number_of_processes_gives_the_same_bytes(tmp_path, write, trees):
    (tmp_path / "c.csv").write_text("text,label\n" + "a dog barks,x\nbroken\n" * 40)
    corpora = [CorpusFile(write("a.conllu", trees(60))), CorpusFile(write("b.jsonl", trees(60, seed=2)))]
    corpora.append(CorpusFile(tmp_path / "c.csv"))
    settings = StoreSettings(TextGraphBuilder([Window(3)]), skip=True, block_bytes=1000)
    build_store(corpora, tmp_path / "one", settings)
    engine = LocalEngine(2)
    build_store(corpora, tmp_path / "two", settings, engine=engine)
    engine.close()
    assert content(tmp_path / "one") == content(tmp_path / "two")
    manifest = Store(tmp_path / "one").manifest
    assert (len(manifest.shards) > 8, manifest.skipped) == (True, 40)


def test_an_interrupted_build_resumes(tmp_path, write, trees, settings):
    corpora = [CorpusFile(write("a.conllu", trees(60)))]
    build_store(corpora, tmp_path / "whole", settings)

    class Stopped(Exception):
        pass

    def stopping(after):
        def watch(items, _):
            for number, item in enumerate(items):
                if number == after:
                    raise Stopped
                yield item

        return watch

    for after in (0, 2, 2, 5):
        with pytest.raises(Stopped):
            build_store(corpora, tmp_path / "broken", settings, watch=stopping(after))
        with pytest.raises(DataError) as caught:
            Store(tmp_path / "broken")
        assert "Run the same graphattn build again to resume" in caught.value.hint
    made = inodes(tmp_path / "broken")
    assert len(made) == 6
    build_store(corpora, tmp_path / "broken", settings)
    assert content(tmp_path / "whole") == content(tmp_path / "broken")
    assert (
        made.items()
        <= {path.name: path.stat().st_ino for path in (tmp_path / "broken").glob("sentences/part-*")}.items()
    )


def test_an_append_that_was_killed_before_the_manifest_resumes(tmp_path, write, trees, settings):
    """Until then the vocabulary of the longer store is an error, instead of ids that another one gave."""
    first = CorpusFile(write("a.conllu", trees(9)))
    second = CorpusFile(write("b.jsonl", [Sentence(["new"], heads=[0])]))
    folder = tmp_path / "s"
    build_store([first], folder, settings)
    manifest = (folder / "store.json").read_bytes()
    build_store([second], folder, settings, append=True)
    complete = content(folder)
    (folder / "store.json").write_bytes(manifest)
    with pytest.raises(DataError, match=r"its checksum is not the one in store\.json") as caught:
        _ = Store(folder).vocabulary
    assert caught.value.path == folder / "tokenizer.json"
    build_store([second], folder, settings, append=True)
    assert content(folder) == complete


CHANGED = "has changed since the complete store was built"


@pytest.mark.parametrize(("corpus", "message"), [("gone", "no such file"), ("changed", CHANGED), ("shorter", CHANGED)])
def test_a_failing_repair_changes_nothing(tmp_path, write, trees, settings, corpus, message):
    """The readable shards of a damaged store are neither deleted nor replaced."""
    path, folder = write("a.conllu", trees(60)), tmp_path / "s"
    build_store([CorpusFile(path)], folder, settings)
    shard = folder / "sentences" / "part-000000.parquet"
    shard.write_bytes(flip(shard.read_bytes(), 40))
    before = content(folder)
    if corpus == "gone":
        path.unlink()
    else:  # only the sentences of the first block, or other sentences
        kept = sum(Manifest.read(folder).shards[0].chunks)
        write("a.conllu", trees(60)[:kept] if corpus == "shorter" else trees(60, seed=3))
    with pytest.raises(DataError, match=message) as caught:
        build_store([CorpusFile(path)], folder, settings)
    assert caught.value.path == str(path)
    assert content(folder) == before


@pytest.mark.parametrize("complete", [True, False])
def test_damaged_shards_are_rebuilt(tmp_path, write, trees, settings, complete):
    corpora, folder = [CorpusFile(write("a.conllu", trees(60)))], tmp_path / "s"
    build_store(corpora, folder, settings)
    before, inodes_before = content(folder), inodes(folder)
    names = [f"part-00000{number}.parquet" for number in range(3)]
    whole = [before[f"sentences/{name}"] for name in names]
    damages = [b"PAR1 no more", flip(whole[1], len(whole[1]) // 3), whole[2].replace(b'"cut": 0', b'"cut": 1')]
    for name, damaged in zip(names, damages, strict=True):
        (folder / "sentences" / name).write_bytes(damaged)
    if not complete:
        Manifest(settings.to_json(), ["a.conllu"]).write(folder)
    build_store(corpora, folder, settings)
    assert content(folder) == before
    assert {name for name, inode in inodes(folder).items() if inode != inodes_before[name]} == {*names}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_build_resumes(tmp_path, write, trees, settings, run_in_fork, jobs):
    corpora = [CorpusFile(write("a.conllu", trees(60)))]
    build_store(corpora, tmp_path / "whole", settings)

    def kill(items, _):
        for number, item in enumerate(items):
            if number == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield item

    killed = lambda: build_store(corpora, tmp_path / "killed", settings, engine=LocalEngine(jobs), watch=kill)  # noqa: E731
    assert run_in_fork(killed) == -signal.SIGKILL
    assert 2 < len(inodes(tmp_path / "killed")) < len(inodes(tmp_path / "whole"))
    build_store(corpora, tmp_path / "killed", settings)
    assert content(tmp_path / "whole") == content(tmp_path / "killed")


def test_corpora_are_appended(tmp_path, write, trees, settings):
    first, second = CorpusFile(write("a.conllu", trees(30))), CorpusFile(write("b.conllu", trees(30, seed=1)))
    build_store([first, second], tmp_path / "together", settings)
    build_store([first], tmp_path / "appended", settings)
    before = content(tmp_path / "appended")
    build_store([second], tmp_path / "appended", settings, append=True)
    assert content(tmp_path / "together") == content(tmp_path / "appended")
    for name, data in before.items():
        if name.startswith("sentences/"):
            assert (tmp_path / "appended" / name).read_bytes() == data, "existing shards do not change"


def test_texts_are_split_into_words(tmp_path, settings):
    (tmp_path / "a.csv").write_text('text,second,label\n"It isn\'t, is it?",no,x\n,,y\n')
    corpus = CorpusFile(tmp_path / "a.csv", options={"second": "second"})
    build_store([corpus], tmp_path / "s", StoreSettings(TextGraphBuilder([Window(3)])))
    assert list(Store(tmp_path / "s")) == [
        Sentence(["It", "is", "n't", ",", "is", "it", "?"], label="x"), Sentence(["no"], label="x"),
        Sentence([], label="y"), Sentence([], label="y"),
    ]  # fmt: skip


TREE = "1\tw\t_\t_\t_\t_\t0\tx\t_\t_\n\n"
BROKEN = "1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n"
LATE = "# text = a b\n1\ta\t_\t_\t_\t_\t0\tx\t_\t_\n2\tb\t_\t_\t_\t_\t5\tx\t_\t_\n\n"
FAR = "1\ta\t_\t_\t_\t_\t7\tx\t_\t_\n\n"
UNPARSED = "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
PARSED_JSON = '{"tokens": ["b"], "heads": [0]}\n\n'
LINKED = (
    '{"tokens": ["a", "b"], "heads": [0, 1], "links": [[0, 1]]}\n'
    '{"tokens": []}\n'
    '{"tokens": ["c"], "heads": [0]}\n'
    '{"tokens": ["d"], "links": []}\n'
    '{"tokens": ["e"], "heads": [0], "links": []}\n'
)
FROM_1 = "Heads are 1-based word numbers, 0 for a root."
NO_HEADS = "has no heads, but the relation 'dependency' needs them"
PARSE = (
    "Give parsed sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza wrote), or "
    "leave the relation out. Or parse the texts with parser=stanza."
)
UNKNOWN_ENCODING = "The encoding is unknown. Find out which it is, and set encoding to its name."
PAIRS = {"second": "second"}


@pytest.mark.parametrize(
    ("name", "content", "relations", "message"),
    [
        ("a.conllu", TREE * 50 + BROKEN, [Dependency()],
         ", line 101, field 'heads': heads form a cycle through word 1 ('a'). Each word must lead to a root."),
        ("a.conllu", TREE * 50 + FAR, [Dependency()],
         f", line 101, field 'heads': word 1 ('a') has head 7, the sentence has 1 words. {FROM_1}"),
        ("a.conllu", TREE * 50 + LATE, [Dependency()],
         f", line 103, field 'heads': word 2 ('b') has head 5, the sentence has 2 words. {FROM_1}"),
        ("a.conllu", TREE * 300 + UNPARSED, [Dependency()],
         f", line 601, field 'heads': sentence ('a' ...) {NO_HEADS}. {PARSE}"),
        ("a.jsonl", PARSED_JSON * 300 + '{"tokens": []}\n{"tokens": ["a"]}\n', [Dependency()],
         f", line 602, field 'heads': sentence ('a' ...) {NO_HEADS}. {PARSE}"),
        ("a.txt", "x\ta b\n", [Dependency()], f", field 'heads': sentence 1 ('a b' ...) {NO_HEADS}. {PARSE}"),
        ("a.jsonl", LINKED, [Links(), Dependency()],
         f", line 4, field 'heads': sentence ('d' ...) {NO_HEADS}. {PARSE}"),
        ("a.conllu", TREE.encode() * 999 + b"# comment\n1\t\xe9\n", [Window(3)],
         f", line 2000: byte 0xe9 at column 3 is not UTF-8. {UNKNOWN_ENCODING}"),
        ("a.jsonl", b'{"tokens":[]}\n' * 1999 + b'{"tokens": ["\xe9"]}\n', [Window(3)],
         f", line 2000: byte 0xe9 at column 14 is not UTF-8. {UNKNOWN_ENCODING}"),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_errors_name_the_line(tmp_path, name, content, relations, message):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as caught:
        build_store([CorpusFile(path)], tmp_path / "s", StoreSettings(TextGraphBuilder(relations), block_bytes=1000))
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("name", "content", "options", "relations", "kept", "skipped"),
    [
        ("a.conllu", (2 * TREE + BROKEN + TREE + FAR + UNPARSED + TREE).encode() + TREE.encode().replace(b"w", b"\xff"),
         {}, [Dependency()], [("w",)] * 4, [
             ("line 5", "heads form a cycle through word 1 ('a')"),
             ("line 10", "word 1 ('a') has head 7, the sentence has 1 words"),
             ("line 12", f"sentence ('a' ...) {NO_HEADS}"),
             ("line 16", "byte 0xff at column 3 is not UTF-8"),
         ]),
        ("a.jsonl", PARSED_JSON + '{"tokens": []}\n{"tokens": ["a"]}\n', {}, [Dependency()], [("b",), ()], [
            ("line 4", f"sentence ('a' ...) {NO_HEADS}"),
        ]),
        ("a.jsonl", LINKED, {}, [Links(), Dependency()], [("a", "b"), (), ("c",), ("e",)], [
            ("line 4", f"sentence ('d' ...) {NO_HEADS}"),
        ]),
        ("a.jsonl", '{"tokens":\r["a","b"]}\n{"tokens": 7}\n{"tokens": ["c"]}\r\n', {}, [Window(3)],
         [("a", "b"), ("c",)], [("line 2", "this is not a list of strings")]),
        ("a.csv", "text,x,y\na,1,0\nb,{label},1\n", {"label": ("x", "y")}, [Window(3)], [("a",)], [
            ("line 3", "'{label}' where 0 or 1 was expected"),
        ]),
        ("a.csv", b'text,label\na,x\nb\n"c,x\nd,y\n\xe9,y\n', {}, [Window(3)], [("a",), ("d",)], [
            ("line 3", "1 field, the header names 2"),
            ("line 6", "byte 0xe9 at column 1 is not UTF-8"),
            ("line 4", "the row that begins here has an unpaired double quote"),
        ]),
        ("a.csv", "text,label\na,\n", {}, [Window(3)], [], [("line 2", "the label is empty")]),
        ("a.csv", "text,second,label\n,a b,x\n,,y\n", PAIRS, [Dependency()], [(), ()], [
            ("sentence 1", "the other text of its pair has no heads ('' ...)"),
            ("sentence 1", "no heads ('a b' ...)"),
        ]),
        ("a.csv", "text,second,label\n,,x\n,b,y\nc,d,x\n", PAIRS, [Dependency(), Links()], [(), ()], [
            ("sentence 2", "the other text of its pair has no heads ('' ...)"),
            ("sentence 2", "no heads ('b' ...)"),
            ("sentence 3", "no heads ('c' ...)"),
            ("sentence 3", "no heads ('d' ...)"),
        ]),
    ],
)  # fmt: skip
def test_skipped_sentences_are_listed(tmp_path, name, content, options, relations, kept, skipped):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    settings = StoreSettings(TextGraphBuilder(relations), skip=True)
    manifest = build_store([CorpusFile(path, options=options)], tmp_path / "s", settings)
    assert [sentence.tokens for sentence in Store(tmp_path / "s")] == kept
    rows = [json.loads(row) for row in (tmp_path / "s" / "skipped.jsonl").read_text().splitlines()]
    assert rows == [{"corpus": name, "place": place, "reason": reason} for place, reason in skipped]
    assert manifest.skipped == len(skipped)


def test_pairs_stay_together(tmp_path):
    (tmp_path / "a.csv").write_text("text,second,label\na b,c,x\n,d,y\n")
    corpus = CorpusFile(tmp_path / "a.csv", options={"second": "second"})
    (tmp_path / "b.jsonl").write_text('{"tokens": ["e"], "label": "x"}\n')
    settings = StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=1)
    manifest = build_store([corpus, CorpusFile(tmp_path / "b.jsonl")], tmp_path / "s", settings)
    store = Store(tmp_path / "s")
    seconds = [value for number in range(store.num_chunks) for value in store.chunk(number)["second"].to_pylist()]
    assert seconds == [False, True, False, True, None]
    assert [sentence.label for sentence in store] == ["x", "x", "y", "y", "x"]
    assert (manifest.pairs, manifest.labels) == (2, {"x": 2, "y": 1})


def test_a_build_without_a_shard_leaves_no_files(tmp_path, settings):
    (tmp_path / "bad.conllu").write_text(BROKEN)
    (tmp_path / "mine").mkdir()
    for folder in ("new", "mine"):
        for path in ("bad.conllu", "missing.conllu"):
            with pytest.raises(DataError):
                build_store([CorpusFile(tmp_path / path)], tmp_path / folder, settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.conllu", "mine"]
    assert not any((tmp_path / "mine").iterdir())


def test_a_build_resumes_with_skip(tmp_path, write, trees, settings, builder):
    path = write("a.conllu", trees(60))
    with open(path, "a") as file:
        file.write(BROKEN)
    with pytest.raises(DataError, match="cycle"):
        build_store([CorpusFile(path)], tmp_path / "s", settings)
    made = inodes(tmp_path / "s")
    assert len(made) > 3
    skipping = replace(settings, skip=True)
    assert build_store([CorpusFile(path)], tmp_path / "s", skipping).skipped == 1
    assert made.items() <= inodes(tmp_path / "s").items(), "valid shards are not rebuilt"
    build_store([CorpusFile(path)], tmp_path / "whole", skipping)
    assert content(tmp_path / "s") == content(tmp_path / "whole")
    with pytest.raises(DataError, match=r"other settings \(skip: true\)"):
        build_store([CorpusFile(path)], tmp_path / "s", settings)


def test_a_build_that_skipped_does_not_resume_without_skip(tmp_path, settings, trees, as_conllu):
    path = tmp_path / "a.conllu"
    path.write_text(BROKEN + "".join(map(as_conllu, trees(60))))

    def stop(items, _):
        for _, item in zip(range(3), items, strict=False):
            yield item
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store([CorpusFile(path)], tmp_path / "s", replace(settings, skip=True), watch=stop)
    with pytest.raises(DataError, match="cycle"):
        build_store([CorpusFile(path)], tmp_path / "s", settings)


def test_a_document_of_50_000_tokens(tmp_path, write):
    document = Sentence([f"w{number % 999}" for number in range(50_000)], heads=[0, *range(1, 50_000)])
    builder = TextGraphBuilder([Window(3), Dependency()])
    manifest = build_store([CorpusFile(write("a.jsonl", [Sentence(["a"], heads=[0]), document]))], tmp_path / "s",
                           StoreSettings(builder))  # fmt: skip
    assert Store(tmp_path / "s")[1] == document
    assert (manifest.longest, manifest.edges["window:3"]) == (50_000, 3 * 50_001 - 2 + 4)


@pytest.mark.parametrize("name", [".store.json.123.new", ".writing", ".s.lock"])
def test_a_folder_in_which_a_build_was_killed_before_its_manifest(tmp_path, write, trees, settings, name):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("{")
    build_store([CorpusFile(write("a.conllu", trees(9)))], tmp_path / "s", settings)
    assert len(Store(tmp_path / "s")) == 9
    assert not list((tmp_path / "s").glob(".store.json*"))


def test_a_worker_that_was_killed_during_the_build_leaves_no_file(tmp_path, write, trees, settings):
    """An engine that repeats its task goes on."""

    def kill_a_worker(items, description):
        if description == "writing shards":
            (tmp_path / "s" / "sentences" / ".part-000001.parquet.123.new").write_text("half")
        return items

    corpora = [CorpusFile(write("a.conllu", trees(30)))]
    build_store(corpora, tmp_path / "whole", settings)
    build_store(corpora, tmp_path / "s", settings, watch=kill_a_worker)
    assert content(tmp_path / "whole") == content(tmp_path / "s")


def test_other_folders_are_not_changed(tmp_path, write, trees, settings, builder):
    corpus, folder = CorpusFile(write("a.conllu", trees(9))), tmp_path / "s"

    def check_error(match, corpus=corpus, settings=settings, **options):
        with pytest.raises(DataError, match=match) as caught:
            build_store([corpus], folder, settings, **options)
        assert caught.value.path == folder

    check_error("no store to append to", append=True)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    check_error("exists already")
    (folder / "notes.txt").unlink()
    build_store([corpus], folder, settings)
    before = content(folder)
    check_error(r"other corpora \(a\.conllu\)", corpus=CorpusFile(write("b.conllu", trees(9))))
    check_error(
        r"other settings \(tokenizer: {\"split\": \"web\", ", settings=replace(settings, learn={"level": "bpe"})
    )
    assert content(folder) == before


def test_other_readers_can_return_sentences(tmp_path, settings):
    (tmp_path / "a.conll").write_text("Ada NNP\nwrote VBD\n\nDogs NNS\n")
    build_store([CorpusFile(tmp_path / "a.conll")], tmp_path / "s", StoreSettings(TextGraphBuilder([Window(1)])))
    assert list(Store(tmp_path / "s")) == [Sentence(["Ada", "wrote"], tags=["NNP", "VBD"]), Sentence(["Dogs"],
                                           tags=["NNS"])]  # fmt: skip


def test_a_second_writer_is_rejected(tmp_path, write, trees, builder):
    folder = tmp_path / "s"
    corpus = CorpusFile(write("a.conllu", trees(5)))
    build_store([corpus], folder, StoreSettings(builder))
    with folder_lock(folder):
        with pytest.raises(DataError, match="is being written by another process"):
            build_store([corpus], folder, StoreSettings(builder))
        assert list(Store(folder)) == trees(5), "the complete store is readable during a build"
        replace(Manifest.read(folder), complete=False).write(folder)
        with pytest.raises(DataError) as caught:
            Store(folder)
        assert str(caught.value) == f"{folder}: is being written by another process. Wait until it is complete."
    build_store([corpus], folder, StoreSettings(builder))
    assert list(Store(folder)) == trees(5)
    assert not (folder / ".writing").exists()

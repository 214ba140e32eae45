"""Errors in stores and in their corpora: every command prints one line and exits with 1."""

import json
import shutil
from dataclasses import replace

import pytest

from graphattn.builders._locks import folder_lock
from graphattn.builders.store import Manifest, Store

AGAIN = "Run the same graphattn build again: it rebuilds damaged shards."


@pytest.fixture(scope="module")
def built(graphattn, tmp_path_factory):
    """A store of three shards."""
    folder = tmp_path_factory.mktemp("bad")
    rows = [f'{{"tokens": ["a{number}", "b"], "label": "{("pos", "neg")[number % 2]}"}}' for number in range(90)]
    (folder / "a.jsonl").write_text("\n".join(rows) + "\n")
    answer = graphattn("build", folder / "a.jsonl", "--out", folder / "s", "--shard-size", "0.0013")
    assert answer.out.startswith("90 sentences, 180 tokens in 3 shards"), answer
    return folder / "s"


@pytest.fixture
def store(built, tmp_path):
    """A copy of the store for a test to damage."""
    return shutil.copytree(built, tmp_path / "s")


@pytest.fixture
def commands(graphattn, classifier, tmp_path, tiny):
    """The result of each command that reads a store, or of some."""

    def run(store, *names):
        words = {
            "train": ("train", "classify", store, "--out", tmp_path / "m", *tiny),
            "evaluate": ("evaluate", classifier, store),
            "predict": ("predict", classifier, store),
            "encode": ("encode", classifier, store, "--out", tmp_path / "v.npy"),
            "show": ("show", store, "--index", "40"),
            "check": ("info", store, "--check"),
        }
        return {name: graphattn(*words[name]) for name in names or words}

    return run


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_shard_is_named_and_the_others_are_read(graphattn, commands, store, damage):
    path = store / "sentences" / "part-000001.parquet"
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-9])
    else:
        content[40] ^= 4
        path.write_bytes(content)
    answers = commands(store, *(("evaluate", "check") if damage != "flipped" else ()))
    check = answers.pop("check")
    assert (check.code, check.err) == (
        1, f"error: {store}: 1 file is damaged. Run the same graphattn build again, which keeps the others.\n",
    )  # fmt: skip
    reasons = {
        "missing": "sentences/part-000001.parquet is missing",
        "truncated": f"sentences/part-000001.parquet has {len(content) - 9:,} bytes instead of {len(content):,}",
        "flipped": "sentences/part-000001.parquet has another checksum than in store.json",
    }
    assert f"\ndamaged: {reasons[damage]}\n" in check.out
    for name, answer in answers.items():
        assert answer.code == 1, name
        assert answer.err.startswith(f"error: {path}: "), name
        assert answer.err.endswith(f". {AGAIN}\n"), name
        assert answer.err.count("\n") == 1, name
    for index in ("0", "89"):
        assert graphattn("show", store, "--index", index).out.startswith(f"a{index} b\n")
    assert graphattn("info", store).code == 0


def test_an_incomplete_store(graphattn, commands, store, tmp_path):
    replace(Manifest.read(store), complete=False).write(store)
    for answer in commands(store).values():
        assert (answer.code, answer.err) == (
            1, f"error: {store}: is incomplete: its build was interrupted. "
            "Run the same graphattn build again to resume.\n",
        )  # fmt: skip
    with folder_lock(store):
        for answer in commands(store, "train", "check").values():
            assert (answer.code, answer.err) == (
                1, f"error: {store}: is being written by another process. Wait until it is complete.\n",
            )  # fmt: skip
        (tmp_path / "a.jsonl").write_text('{"tokens": []}\n')
        answer = graphattn("build", tmp_path / "a.jsonl", "--out", store)
        assert answer.error.startswith(f"{store}: is being written by another process (")
        assert answer.err.endswith("). Wait for it, or choose another folder.\n")


def test_lines_without_a_token(graphattn, tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext\nx\ta film\ny\t\nx\t  \n")
    answer = graphattn("build", tmp_path / "a.tsv", "--out", tmp_path / "s")
    assert (answer.code, answer.err) == (0, "")
    assert [(sentence.tokens, sentence.label) for sentence in Store(tmp_path / "s")] == [
        (("a", "film"), "x"), ((), "y"), ((), "x"),
    ]  # fmt: skip
    assert graphattn("show", tmp_path / "s", "--index", "1").out.startswith("\nwindow:1: 1 edge\n")
    assert "\n0               2  " in graphattn("info", tmp_path / "s").out


@pytest.mark.slow
def test_a_document_of_50_000_tokens(graphattn, tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext\nx\t" + "word " * 50_000 + "\ny\tshort\n")
    answer = graphattn("build", tmp_path / "a.tsv", "--out", tmp_path / "s", "--relations", "window:3,star")
    assert (answer.code, answer.err) == (0, "")
    assert "\nwindow:3: 150,005 edges\n" in answer.out
    assert "50,000 at most" in graphattn("info", tmp_path / "s").out
    assert graphattn("show", tmp_path / "s", "--relations", "window:3").out.endswith("\nwindow:3: 150,001 edges\n")
    answer = graphattn("show", tmp_path / "s", "--png", "--out", tmp_path / "picture")
    assert (answer.code, answer.err.count("\n")) == (1, 1)
    assert "--out graph.graphml takes any number" in answer.err


@pytest.mark.slow
def test_a_wrong_encoding_on_a_late_line(graphattn, tmp_path):
    good = b"x\ta film\n"
    for line in (2, 6_000):
        (tmp_path / "a.tsv").write_bytes(b"label\ttext\n" + good * (line - 2) + b"y\tcaf\xe9\n" + good)
        answer = graphattn("build", tmp_path / "a.tsv", "--out", tmp_path / f"s{line}", "--shard-size", "0.02")
        assert answer.error == (
            f"{tmp_path / 'a.tsv'}, line {line}: byte 0xe9 at column 6 is not UTF-8. "
            "It is probably WINDOWS-1252, with words such as 'café'. If so, set --encoding WINDOWS-1252, or convert "
            "it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW. "
            "Or skip and list such lines with --skip-bad."
        )
    answer = graphattn("build", tmp_path / "a.tsv", "--out", tmp_path / "t", "--skip-bad", "--relations", "all")
    assert answer.code == 0
    assert f"(1 left out, see {tmp_path / 't' / 'skipped.jsonl'})" in answer.out
    assert json.loads((tmp_path / "t" / "skipped.jsonl").read_text()) == {
        "corpus": "a.tsv", "place": "line 6000", "reason": "byte 0xe9 at column 6 is not UTF-8",
    }  # fmt: skip
    assert len(Store(tmp_path / "t")) == 5_999


def test_a_store_without_sentences(graphattn, commands, tmp_path):
    (tmp_path / "a.conllu").write_text("\n\n")
    store = tmp_path / "s"
    assert graphattn("build", tmp_path / "a.conllu", "--out", store).code == 0
    for answer in commands(store, "train", "evaluate", "predict", "encode").values():
        assert (answer.code, answer.err) == (
            1, f"error: {store}: has no sentence. Build it from a corpus with at least one.\n",
        )  # fmt: skip


@pytest.mark.parametrize("command", ["evaluate", "info", "inspect"])
def test_a_text_instead_of_a_file(graphattn, classifier, command):
    text = "a lovely film " * 30
    arguments = {"info": [text], "inspect": [text, "a film"]}
    assert graphattn(command, *arguments.get(command, [classifier, text])).error

"""Blocks contain all sentences, whole, and know their first line."""

import gzip

import pytest

from graphattn.builders import Example, Sentence
from graphattn.builders.store.blocks import item_blocks, text_blocks

CONLLU = b"# a\n1\tx\n2\ty\n\n# b\n1\tz\n\n1\tw\n"


@pytest.mark.parametrize("size", [1, 7, 13, 14, 20, 1000])
@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz"])
def test_blocks_end_between_sentences(tmp_path, size, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(CONLLU) if name.endswith(".gz") else CONLLU)
    blocks = list(text_blocks(path, "conllu", {"tags": None}, size=size))
    assert b"".join(block.read() for block in blocks) == CONLLU
    for block in blocks[:-1]:
        assert block.read().endswith(b"\n\n")
    lines = [1 + CONLLU[: CONLLU.index(block.read())].count(b"\n") for block in blocks]
    assert [block.line for block in blocks] == lines
    assert all((block.data is None) is (name == "a.conllu") for block in blocks)
    assert {block.corpus for block in blocks} == {str(path)}


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    text = CONLLU.replace(b"\n", b"\r\n")
    (tmp_path / "a.conllu").write_bytes(b"\xef\xbb\xbf" + text)
    blocks = list(text_blocks(tmp_path / "a.conllu", "conllu", size=30))
    assert len(blocks) == 3
    assert b"".join(block.read() for block in blocks) == text


def test_blocks_of_json_lines_are_whole_lines(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"{1}\n{2}\n{3}")
    blocks = [block.read() for block in text_blocks(tmp_path / "a.jsonl", "sentences", size=5)]
    assert blocks == [b"{1}\n", b"{2}\n", b"{3}"]


def test_different_blocks_have_different_digests(tmp_path):
    (tmp_path / "a").write_bytes(b"{1}\n{1}\n{2}\n")
    digests = [block.digest for block in text_blocks(tmp_path / "a", "sentences", size=4)]
    assert digests[0] == digests[1] != digests[2]
    items = [Example("a b"), Example("a b"), Example("a", label="x")]
    first, second, third = item_blocks("c", items, size=1)
    assert first.digest == second.digest != third.digest


def test_items_are_counted_from_one():
    items = [Sentence(["abc"]), Example("d" * 9, "e" * 9), Example(""), Example("f")]
    blocks = list(item_blocks("c", items, size=12))
    assert [(block.first, block.items) for block in blocks] == [(1, tuple(items[:2])), (3, tuple(items[2:]))]
    assert list(item_blocks("c", [], size=1)) == []

"""Blocks contain all sentences, whole, and know their first line."""

import gzip
from itertools import repeat

import numpy as np
import pytest

from graphattn.builders import Example, Sentence
from graphattn.builders.store._blocks import item_blocks, text_blocks
from graphattn.exceptions import DataError

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


@pytest.mark.parametrize("changed", [b"{1}\n{2}\n{4}", b"{1}\n{2}\n"])
def test_a_file_that_changes_before_a_block_is_read_is_an_error(tmp_path, changed):
    """Else a shard would have the digest of another text, and a resume would keep it."""
    (tmp_path / "a.jsonl").write_bytes(b"{1}\n{2}\n{3}")
    *unchanged, last = text_blocks(tmp_path / "a.jsonl", "sentences", size=5)
    (tmp_path / "a.jsonl").write_bytes(changed)
    assert [block.read() for block in unchanged] == [b"{1}\n", b"{2}\n"]
    with pytest.raises(DataError, match="changed"):
        last.read()


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


@pytest.mark.parametrize(
    ("texts", "length", "most", "expected"),
    [
        (900, 100, 32 << 20, [900]),
        (5_000, 100, 32 << 20, [1000] * 5),
        (25_000, 130, 32 << 20, [1000] * 16 + [1000, 1063, 1129, 1200, 1275, 1355, 1439, 539]),
        (40_000, 34, 34_001, [1000] * 17 + [1001] * 3),
    ],
)
def test_blocks_of_texts_grow_with_the_corpus(texts, length, most, expected):
    """A thousand texts, later a sixteenth of those before, and never more than the largest block."""
    sizes = [len(block.items) for block in item_blocks("c", repeat(Example("x" * (length - 1)), texts), most=most)]
    assert sizes[: len(expected)] == expected
    assert sum(sizes) == texts
    assert max(sizes) <= -(-most // length)
    before = np.cumsum(sizes) - sizes
    assert all(size == 1000 or size == max(1000, -(-done // 16)) or size == 1001
               for size, done in zip(sizes[:-1], before[:-1], strict=True))  # fmt: skip
    assert len(sizes) < 16 + 16 * np.log(max(texts / 16_000, 1)) + texts * length / most + 2


def test_blocks_of_long_texts_are_bounded():
    assert [len(block.items) for block in item_blocks("c", [Example("x" * (17 << 20))] * 5)] == [2, 2, 1]
    assert [len(block.items) for block in item_blocks("c", [Example("x" * (1 << 19))] * 5, most=1 << 20)] == [2, 2, 1]


def test_blocks_of_bytes_grow_with_the_corpus(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"tokens": ["a"]}\n' * 2_000_000)  # 34 MiB
    sizes = [block.size for block in text_blocks(tmp_path / "a.jsonl", "sentences")]
    assert sum(sizes) == 36_000_000
    assert 16 < len(sizes) < 40
    assert all(abs(size - (1 << 20)) < 36 for size in sizes[:16])
    assert max(sizes) < 3 << 20
    fixed = [block.size for block in text_blocks(tmp_path / "a.jsonl", "sentences", most=1 << 20)]
    assert max(fixed) - (1 << 20) < 18

import bz2
import gzip
import io
import lzma
import os
import random
import re
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._text_lines import open_text, read_numbered_lines
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, UnreadableError

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
suffixes = pytest.mark.parametrize("suffix", PACK)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def message(path):
    with pytest.raises(DataError) as caught:
        list(read_numbered_lines(path))
    return str(caught.value)


@suffixes
def test_lines_are_numbered_and_lose_their_ends(tmp_path, suffix):
    path = write(tmp_path, "a.txt" + suffix, PACK[suffix]("één\r\n\r\nzwei\nlast".encode()))
    assert list(read_numbered_lines(path)) == [(1, "één"), (2, ""), (3, "zwei"), (4, "last")]
    with open_text(str(path)) as lines:
        assert list(lines) == ["één\n", "\n", "zwei\n", "last"]
        assert lines.line == 4


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("\ufeffa\nb \ufeffc\n", ["a", "b \ufeffc"], None),
        (
            "\ufeff\ufeffa\nabc\n\ufeffb\r\n\ufeff\nabc\ufeff\n",
            ["a", "abc", "b", "", "abc\ufeff"],
            "U\\+FEFF.*lines: 3$",
        ),
        ("a \ud83d\ude00\r\nb\n\ud83d\ude00\n", ["a 😀", "b", "😀"], "CESU-8.*lines: 2$"),
        ("a\rb\r\rc\r", ["a", "b", "", "c"], r"lines end in \\r only"),
        ("a\rb", ["a\rb"], None),
        ("a\r" + "b" * 10_000 + "\nc", ["a\r" + "b" * 10_000, "c"], None),
    ],
)
def test_marks_surrogates_and_returns_are_repaired_with_one_hint(tmp_path, recwarn, text, expected, hint):
    for suffix, pack in PACK.items():
        path = write(tmp_path, "a.txt" + suffix, pack(text.encode("utf-8", "surrogatepass")))
        lines = open_text(path)
        assert lines.sample(2) == expected[:2]
        assert [line.removesuffix("\n") for line in lines] == expected
        lines.close()
        hints = [str(recwarn.pop().message) for _ in list(recwarn)]
        assert len(hints) == (hint is not None)
        assert all(re.search(hint, message) for message in hints)


@given(st.lists(st.text(st.characters(exclude_characters="\n\0\ufeff", exclude_categories=["Cs"])), min_size=1))
def test_only_newlines_end_a_line(tmp_path_factory, texts):
    texts = [text.rstrip("\r") for text in texts]
    texts[0] = "x" + texts[0]
    path = write(tmp_path_factory.mktemp("lines"), "a", "\n".join([*texts, ""]).encode())
    assert [text for _, text in read_numbered_lines(path)] == texts


def test_a_line_can_be_longer_than_the_buffer(tmp_path):
    path = write(tmp_path, "long.txt.gz", gzip.compress(b"word " * 400_000 + b"\nend"))
    assert [len(text) for _, text in read_numbered_lines(path)] == [2_000_000, 3]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("A.TXT.GZ", gzip.compress(b"a", mtime=0), ["a"]),
        ("two.xz", lzma.compress(b"a\n") + lzma.compress(b"b\n"), ["a", "b"]),
        ("a", b"BZh9 is a magic number\n", ["BZh9 is a magic number"]),
    ],
)
def test_extensions_and_archives(tmp_path, name, content, lines):
    assert [line for _, line in read_numbered_lines(write(tmp_path, name, content))] == lines


def test_paths_of_no_file(tmp_path):
    path = tmp_path / "no.txt"
    assert message(path) == f"{path}: there is no such file. Check the path."
    assert message("a\0b") == "a\0b: cannot be opened (embedded null byte). Check the path and its permissions."
    assert message(tmp_path) == f"{tmp_path}: is a directory, not a file. Name a file inside it."
    (tmp_path / "store.json").write_text("{}")
    assert message(tmp_path).startswith(f"{tmp_path}: is a directory, not a file. It is a store, for Store,")


EMPTY = ": is empty. Give a file with at least one line."
BINARY = "holds a NUL byte, so it is binary. Give UTF-8 text, plain or compressed as .gz, .xz or .bz2."
CONVERT = ": is {0}, not UTF-8. Set encoding={0}, or convert it: iconv -f {0} -t UTF-8 OLD > NEW."
LATIN = (
    ", line 2: byte 0xe9 at column 4 is not UTF-8. It is probably WINDOWS-1252, with words such as 'café'."
    " If so, set encoding=WINDOWS-1252, or convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW."
)
DAMAGED = (
    " is not UTF-8. The file is UTF-8 with damaged places. Repair the line, or drop such bytes:"
    " iconv -c -f UTF-8 -t UTF-8 OLD > NEW."
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", EMPTY),
        ("\ufeff".encode(), EMPTY),
        (b"x\0y\n", f", line 1: {BINARY}"),
        (b"a\n" * 3 + b"x\0y\n", f", line 4: {BINARY}"),
        (b"a\n" * 30_000 + b"x\0y\n", f", line 30001: {BINARY}"),
        ("text\n".encode("UTF-16"), CONVERT.format("UTF-16")),
        ("\ufefftext\n".encode("UTF-16-be"), CONVERT.format("UTF-16")),
        ("\ufefftext\n".encode("UTF-16-le"), CONVERT.format("UTF-16")),
        ("text\n".encode("UTF-32"), CONVERT.format("UTF-32")),
        ("\ufefftext\n".encode("UTF-32-be"), CONVERT.format("UTF-32")),
        ("\ufefftext\n".encode("UTF-32-le"), CONVERT.format("UTF-32")),
        ("pos\t映画\n".encode("iso2022_jp"), CONVERT.format("ISO-2022-JP")),
        (b"fine\ncaf\xe9 au lait\n", LATIN),
        ("Пример\n\ud83d\n".encode("utf-8", "surrogatepass"), f", line 2: byte 0xed at column 1{DAMAGED}"),
        ("Пример\nété et caf".encode() + b"\xe9\n", f", line 2: byte 0xe9 at column 13{DAMAGED}"),
        ("Пример\n".encode() + "русский\n".encode() + b"\xd0 end\n", f", line 3: byte 0xd0 at column 1{DAMAGED}"),
        ("Пример\n".encode() + b"\xff\xfa\n" + "中文\n".encode(), f", line 2: byte 0xff at column 1{DAMAGED}"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_text(tmp_path, content, expected):
    for suffix, pack in PACK.items():
        path = write(tmp_path, "file" + suffix, pack(content))
        assert message(path) == f"{path}{expected}"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-32", "WINDOWS-1252", "utf-8-sig"])
@suffixes
def test_other_encodings(tmp_path, encoding, suffix):
    """Characters of several bytes lie on both sides of each boundary of blocks."""
    lines = [f"{'é' * (number % 50)} {number}\r\n" for number in range(9000)]
    path = write(tmp_path, "file" + suffix, PACK[suffix]("".join(lines).encode(encoding)))
    with open_text(path, encoding) as read:
        assert list(read) == [line.replace("\r", "") for line in lines]


@suffixes
def test_another_encoding_than_that_of_the_file(tmp_path, suffix):
    path = write(tmp_path, "file" + suffix, PACK[suffix]("un café\n".encode() * 9000))
    warns = pytest.warns(GraphAttnWarning, match="is probably UTF-8, but is read as cp1252")
    with warns as caught, open_text(path, "cp1252") as lines:
        assert {*lines} == {"un cafÃ©\n"}
    assert len(caught) == 1
    with pytest.raises(DataError, match="is not utf-16: "):
        open_text(path, "utf-16")


@pytest.mark.parametrize(("encoding", "content"), [("cp1252", b"un caf\xe9"), ("cp65001", b"un caf\xc3\xa9")])
def test_the_encoding_of_the_file(tmp_path, recwarn, encoding, content):
    with open_text(write(tmp_path, "file", content), encoding) as lines:
        assert [*lines] == ["un café"]
    assert not recwarn


def test_a_line_without_end_in_another_encoding_is_told_once(tmp_path):
    path = write(tmp_path, "file", "un café ".encode() * 90_000)
    with pytest.warns(GraphAttnWarning, match="probably UTF-8") as caught, open_text(path, "cp1252") as lines:
        assert len([*lines]) == len(caught) == 1


def test_an_archive_of_lines_with_returns_ends_too_early(tmp_path):
    content = "".join(f"{hash(str(number))}\r" for number in range(20_000)).encode()
    path = write(tmp_path, "a.gz", gzip.compress(content)[:-1000])
    with pytest.raises(UnreadableError, match="ends too early") as caught:
        open_text(path)
    assert caught.value.path == str(path)


def test_scripts_of_several_bytes(tmp_path):
    for encoding, text in (
        ("cp932", "映画はよい。"),
        ("gb18030", "电影很好"),
        ("euc-kr", "영화"),
        ("iso2022_jp", "映画"),
    ):
        path = write(tmp_path, "file.txt", f"{text}\n".encode(encoding) * 9000)
        with open_text(path, encoding) as read:
            assert list(read) == [f"{text}\n"] * 9000


@pytest.mark.parametrize("bad_line", [1, 3, 20_000])
def test_bytes_of_another_encoding(tmp_path, bad_line):
    path = write(tmp_path, "file.txt", "good \u20ac\n".encode("cp1252") * (bad_line - 1) + b"x\x81\nafter\n")
    read = []
    with pytest.raises(DataError) as caught, open_text(path, "cp1252") as lines:
        read.extend(lines)
    assert read == ["good \u20ac\n"] * (bad_line - 1)
    hint = "Set encoding to that of the file, or repair the line."
    assert str(caught.value) == f"{path}, line {bad_line}: byte 0x81 is not cp1252. {hint}"


@pytest.mark.parametrize("encoding", ["latin-5000", "base64", "", "a\0b"])
def test_unknown_encodings(tmp_path, encoding):
    with pytest.raises(ConfigError, match="which Python does not know; use a name such as cp1252 or utf-16") as caught:
        open_text(write(tmp_path, "file.txt", b"a\n"), encoding)
    assert caught.value.options == ("encoding",)


@suffixes
def test_an_empty_file(tmp_path, suffix):
    path = write(tmp_path, "file" + suffix, b"")
    assert message(path) == f"{path}{EMPTY}"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_truncated_archive(tmp_path, suffix):
    lines = [f"{number * 7919 % 100_003} words\n" for number in range(50_000)]
    packed = PACK[suffix]("".join(lines).encode())
    path = write(tmp_path, "cut" + suffix, packed[: len(packed) // 2])
    read = []
    with pytest.raises(DataError) as caught:
        read.extend(open_text(path))
    assert read == lines[: len(read)]
    if suffix != ".bz2":  # its one block cannot be read in part
        assert read
    place = f", line {len(read) + 1}" if read else ""
    assert str(caught.value) == f"{path}{place}: the archive ends too early. Copy or download the file again."


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_damaged_archive(tmp_path, suffix):
    packed = bytearray(PACK[suffix](random.Random(0).randbytes(100_000).hex().encode()))
    packed[50_000:50_100] = bytes(100)
    path = write(tmp_path, "broken" + suffix, packed)
    text = message(path)
    assert text.startswith(str(path))
    assert ": the archive is damaged (" in text
    assert text.endswith("). Copy or download the file again.")


@pytest.mark.parametrize("content", PACK)
@suffixes
def test_compression_follows_from_the_extension(tmp_path, suffix, content):
    path = write(tmp_path, "file" + suffix, PACK[content](b"text\n"))
    if suffix == content:
        assert list(read_numbered_lines(path)) == [(1, "text")]
    else:
        assert str(path) in message(path)


@suffixes
def test_standard_input_can_be_compressed_and_stays_open(set_stdin, monkeypatch, suffix):
    content = PACK[suffix](b"a\r\nb")
    set_stdin(content)
    assert list(read_numbered_lines("-")) == [(1, "a"), (2, "b")]
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))  # cannot be peeked into
    assert list(read_numbered_lines("-")) == [(1, "a"), (2, "b")]
    assert not sys.stdin.buffer.closed


def test_standard_input_is_named_in_errors(set_stdin, monkeypatch):
    set_stdin("")
    assert message("-") == "standard input: is empty. Give a file with at least one line."
    set_stdin(b"\xff\n")
    assert message("-").startswith("standard input, line 1: byte 0xff at column 1 is not UTF-8.")
    monkeypatch.setattr(sys, "stdin", None)
    assert message("-") == "standard input: is closed. Pipe a text into the command, or name a file."


def test_a_line_from_a_pipe_arrives_before_the_next_is_written(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    first_was_read = threading.Event()

    def produce():
        with open(path, "wb", buffering=0) as pipe:
            pipe.write(b"first\n")
            assert first_was_read.wait(30)
            pipe.write(b"second\n")

    producer = threading.Thread(target=produce)
    producer.start()
    lines = read_numbered_lines(path)
    assert next(lines) == (1, "first")
    first_was_read.set()
    assert list(lines) == [(2, "second")]
    producer.join()

"""Read text files, plain or compressed, line by line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from types import TracebackType
from typing import BinaryIO, cast

from graphattn.builders._encodings import Utf8Stream, guess_encoding, is_damaged_utf8, join_surrogates
from graphattn.builders._foreign import reject_binary, reject_lfs_pointer
from graphattn.builders._paths import FilePath, describe_directory, display_name, is_standard_input, is_stream
from graphattn.builders._records import ArrowRow, JsonLines, RecordGroup, is_json_array, open_json_array, open_table
from graphattn.exceptions import DataError, Hint, UnreadableError, warn_caller

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIRST_OF_MARK = _BYTE_ORDER_MARK[0]
_WIDE_BYTE_ORDER_MARKS = {  # that of UTF-32 first, since it begins like that of UTF-16
    "UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
    "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
}
_JAPANESE = re.compile(rb"\x1b\$[@B]")
"""Escape sequence that ISO-2022-JP writes before Japanese characters; all its bytes are ASCII."""
BLANKS = " \t\n\v\f\r"
"""The blanks of file formats. ``str.strip`` and ``str.split`` take others, too, which are parts of words and labels:
no-break and ideographic spaces, line separators.
"""
_FIRST_BYTES = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".xz": re.compile(rb"\xfd7zXZ\x00"),
    # A text may begin with "BZh", so look at the mark of the first block (or of an empty archive's end), too.
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    ".parquet": re.compile(rb"PAR1\x15"),
    ".arrow": re.compile(rb"ARROW1\0|\xff{4}....\x10\0\0\0", re.DOTALL),
}
_ARCHIVES: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda packed: gzip.GzipFile(fileobj=packed),
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
    **dict.fromkeys((".parquet", ".arrow", ".feather"), open_table),
}
_SAMPLE_BYTES = 1 << 16
_ARCHIVE_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)


def split_suffix(path: FilePath) -> tuple[str, str]:
    """The extension of the text and that of its compression, in lower case.

    Examples
    --------
    >>> split_suffix("Train.TSV.xz"), split_suffix("train.tsv"), split_suffix("eng.gz")
    (('.tsv', '.xz'), ('.tsv', ''), ('', '.gz'))
    >>> split_suffix("train.parquet")  # is read as JSON Lines
    ('.jsonl', '.parquet')
    """
    stem, last = os.path.splitext(os.path.basename(os.fspath(path)).lower())
    if last not in _ARCHIVES:
        return last, ""
    if _ARCHIVES[last] is open_table:
        return ".jsonl", last
    return os.path.splitext(stem)[1], last


class TextLines:
    """An open text file, read line by line. It is path-like, so readers take it in place of a path.

    Each line ends in one newline character, whether the file has ``\\n`` or ``\\r\\n``; only the last line of a
    file may have none. Byte order marks at the beginning of lines, which concatenated files have, are left out, and
    surrogate pairs of CESU-8 are joined; a hint at the end counts such lines. Use it as a context manager, or call
    :meth:`close`.

    ``path`` is the file's name in errors, ``line`` the 1-based number of the line read last, 0 before the first.
    """

    def __init__(self, source: FilePath, stream: BinaryIO, resources: ExitStack, *, line: int = 0):
        self.path = display_name(source)
        self.line = line
        self._source = source
        self._stream = stream
        records = getattr(stream, "raw", None)
        self._records = records if isinstance(records, JsonLines) else None
        self._readline = stream.readline if self._records is None else self._read_record
        self._raw = b""
        self._resources = resources
        self._sampled: deque[bytes] = deque()
        self._marked, self._joined = set[int](), set[int]()
        self._encoding_hint: str | None = None

    def __fspath__(self) -> str:
        return os.fspath(self._source)

    def __iter__(self) -> TextLines:
        return self

    def __next__(self) -> str:
        try:
            raw = self._raw = self._sampled.popleft() if self._sampled else self._readline()
        except _ARCHIVE_ERRORS as error:
            raise _read_error(error, self.path, self.line + 1) from error
        if not raw:
            self._hint_at_repairs()
            raise StopIteration
        self.line += 1
        # The rest is _decode, without a call per line.
        if b"\0" in raw or raw[0] == _FIRST_OF_MARK:
            return self._decode(raw, self.line)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return self._decode(raw, self.line)
        return text[:-2] + "\n" if text.endswith("\r\n") else text

    def _read_record(self) -> bytes:
        """The next line of a table of Arrow, with its record."""
        line = _RecordLine(self._stream.readline())
        line.position = None if self._records is None else self._records.position
        return line

    @property
    def arrow_row(self) -> ArrowRow | None:
        """The row of the line read last as Arrow has it, if it is of a file of Arrow or Parquet."""
        position = getattr(self._raw, "position", None)
        return None if position is None else position[0].arrow_row(position[1])

    def _decode(self, raw: bytes, line: int) -> str:
        if b"\0" in raw:
            problem = _binary_error(self.path, line)
            problem.content = _read_damaged(raw.replace(b"\0", b"\xff"))
            raise problem
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            joined = join_surrogates(raw)
            if joined is None:
                raise self._encoding_error(error, line) from error
            text = joined
            self._joined.add(line)
        if text[:1] == "\ufeff":
            marks = len(text)
            text = text.lstrip("\ufeff")
            if line > 1 or marks - len(text) > 1:
                self._marked.add(line)
        return text[:-2] + "\n" if text.endswith("\r\n") else text

    def _encoding_error(self, error: UnicodeDecodeError, line: int) -> DataError:
        if self._encoding_hint is None:
            self._encoding_hint = _hint_at_encoding(self._read_around(error.object))
        message = f"byte 0x{error.object[error.start]:02x} at column {error.start + 1} is not UTF-8"
        problem = DataError(message, path=self.path, line=line, hint=self._encoding_hint, options=("encoding",))
        problem.content = _read_damaged(error.object)
        return problem

    def _read_around(self, line: bytes) -> bytes:
        """The first lines of a file, a line that is not UTF-8, and those that were read ahead."""
        ahead = b"".join(self._sampled)
        if is_stream(self):
            return line + ahead
        with suppress(DataError, *_ARCHIVE_ERRORS), open_text(self._source) as lines:
            ahead += getattr(self._stream, "peek", bytes)()
            first, _, _ = lines.read(_SAMPLE_BYTES).rpartition(b"\n")
            return b"\n".join((first, line, ahead[:_SAMPLE_BYTES].rpartition(b"\n")[0]))
        return line

    def _hint_at_repairs(self) -> None:
        repairs = {
            "byte order marks (U+FEFF) at the beginning of lines, as in joined files, are left out": self._marked,
            "characters of CESU-8, two surrogates each, are read as in UTF-8": self._joined,
        }
        self._marked, self._joined = set(), set()
        for repair, lines in repairs.items():
            if lines:
                warn_caller(Hint(f"{self.path}: {repair}; lines: {len(lines):,}"))

    def split_at_returns(self) -> None:
        """Cut a file of one line at carriage returns, the line ends of old Macs and some exports of Excel."""
        try:
            raw = self._readline()
        except _ARCHIVE_ERRORS as error:
            raise _read_error(error, self.path, 1) from error
        if raw.endswith(b"\n"):
            self._sampled.append(raw)
        else:
            self._stream = io.BytesIO(raw.replace(b"\r", b"\n"))
            self._readline = self._stream.readline
            warn_caller(Hint(f"{self.path}: lines end in \\r only; each \\r is read as a line end"))

    @property
    def is_seekable(self) -> bool:
        """Whether the bytes that are read are those of a file, which can be opened at any of them."""
        return isinstance(getattr(self._stream, "raw", None), io.FileIO) and not is_stream(self)

    def sample(self, count: int) -> list[str]:
        """The next ``count`` lines without their line ends, except those that are not text; they are not consumed."""
        try:
            while len(self._sampled) < count and (raw := self._readline()):
                self._sampled.append(raw)
        except _ARCHIVE_ERRORS as error:
            raise _read_error(error, self.path, self.line + len(self._sampled) + 1) from error
        lines = []
        for number, raw in enumerate(islice(self._sampled, count), self.line + 1):
            with suppress(DataError):
                lines.append(self._decode(raw, number).removesuffix("\n"))
        return lines

    @property
    def sampled(self) -> int:
        """The number of lines that :meth:`sample` has read ahead."""
        return len(self._sampled)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, unchecked; fewer at the end of the file."""
        sampled = b"".join(self._sampled)
        self._sampled.clear()
        self._marked, self._joined = set(), set()  # those who decode the bytes count again
        if len(sampled) > size:
            self._sampled.append(sampled[size:])
            return sampled[:size]
        try:
            return sampled + self._stream.read(size - len(sampled))
        except _ARCHIVE_ERRORS as error:
            raise _read_error(error, self.path, None) from error

    def __enter__(self) -> TextLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._resources.close()
        self._hint_at_repairs()


class _RecordLine(bytes):
    """A line that was made of a record."""

    position: tuple[RecordGroup, int] | None


def lines_within(data: bytes, path: str, first: int) -> TextLines:
    """The lines of a part of a text file."""
    return TextLines(path, io.BytesIO(data), ExitStack(), line=first - 1)


def open_text(path: FilePath, encoding: str | None = None, *, split_returns: bool = True) -> TextLines:
    """Open a text file in UTF-8 or another encoding, plain or compressed, and read its first block.

    The extension names the compression (``.gz``, ``.xz``, ``.bz2``, or none); for standard input the first bytes do.
    Parquet (``.parquet``), Arrow (``.arrow``, ``.feather``) and a JSON array of objects become JSON Lines, so that line
    3 is the third row or object. ``split_returns`` cuts a text without ``\\n`` at two or more ``\\r``.
    """
    if isinstance(path, TextLines):
        return path
    name = display_name(path)
    resources = ExitStack()
    try:
        packed = _standard_input(resources) if is_standard_input(path) else _open_file(path, resources)
        head = _peek(packed, name)
        if not head:
            raise _empty_error(name)
        reject_lfs_pointer(head, name)
        compression = _detect_compression(head) if is_standard_input(path) else split_suffix(path)[1]
        stream = _decompress(packed, compression, resources) if compression else packed
        if encoding is not None and _ARCHIVES.get(compression) is not open_table:
            stream = io.BufferedReader(Utf8Stream(stream, encoding, name))
        head = _peek(stream, name)
        _check_text(head, name)
        if is_json_array(head):
            stream = io.BufferedReader(open_json_array(TextLines(path, stream, ExitStack()), name))
        lines = TextLines(path, stream, resources)
        if split_returns and head.count(b"\r") > 1 and b"\n" not in head:
            lines.split_at_returns()
    except BaseException:
        resources.close()
        raise
    return lines


def read_numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their 1-based numbers, without their line ends."""
    with open_text(path) as lines:
        for line in lines:
            yield lines.line, line.removesuffix("\n")


def _open_file(path: FilePath, resources: ExitStack) -> io.BufferedReader:
    name = display_name(path)
    try:
        return resources.enter_context(open(path, "rb"))
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=name, hint="Check the path.") from error
    except IsADirectoryError as error:
        content = describe_directory(path)
        hint = "Name a file inside it." if content is None else f"It is {content}."
        raise DataError("is a directory, not a file", path=name, hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"cannot be opened ({reason})", path=name, hint="Check the path and its permissions."
        ) from error


def _standard_input(resources: ExitStack) -> io.BufferedReader:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise DataError("is closed", path=display_name("-"), hint="Pipe a text into the command, or name a file.")
    if not hasattr(stream, "peek"):
        wrapper = stream = io.BufferedReader(stream)
        # Detach instead of closing: a wrapper closes the caller's stream when it is collected.
        resources.callback(lambda: None if wrapper.closed else wrapper.detach())
    return cast(io.BufferedReader, stream)


def _decompress(packed: io.BufferedReader, compression: str, resources: ExitStack) -> io.BufferedReader:
    archive = cast(io.RawIOBase, _ARCHIVES[compression](packed))
    # The archives' own readline runs in Python; a buffer around them is several times faster.
    return resources.enter_context(io.BufferedReader(archive, 1 << 16))


def _peek(stream: io.BufferedReader, name: str) -> bytes:
    try:
        return stream.peek(1 << 13)
    except _ARCHIVE_ERRORS as error:
        raise _read_error(error, name, None) from error


def _detect_compression(head: bytes) -> str:
    return next((suffix for suffix, first in _FIRST_BYTES.items() if first.match(head)), "")


def _check_text(head: bytes, name: str) -> None:
    if head in (b"", _BYTE_ORDER_MARK):
        raise _empty_error(name)
    reject_binary(head, name)
    wide = next((encoding for encoding, marks in _WIDE_BYTE_ORDER_MARKS.items() if head.startswith(marks)), None)
    encoding = wide or ("ISO-2022-JP" if _JAPANESE.search(head) else None)
    if encoding is not None:
        hint = f"Set {{encoding={encoding}}}, or convert it: iconv -f {encoding} -t UTF-8 OLD > NEW."
        raise DataError(f"is {encoding}, not UTF-8", path=name, hint=hint, options=("encoding",))
    if b"\0" in head:
        raise _binary_error(name, head[: head.index(b"\0")].count(b"\n") + 1)


def _empty_error(name: str) -> DataError:
    return DataError("is empty", path=name, hint="Give a file with at least one line.")


def _binary_error(name: str, line: int) -> DataError:
    return DataError(
        "holds a NUL byte, so it is binary",
        path=name,
        line=line,
        hint="Give UTF-8 text, plain or compressed as .gz, .xz or .bz2.",
    )


def _read_damaged(raw: bytes) -> str:
    """A line with U+FFFD in place of the bytes that are not text."""
    return raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


def _hint_at_encoding(sample: bytes) -> str:
    if is_damaged_utf8(sample):
        return (
            "The file is UTF-8 with damaged places. Repair the line, or drop such bytes: "
            "iconv -c -f UTF-8 -t UTF-8 OLD > NEW."
        )
    guess = guess_encoding(sample)
    if guess is None:
        return "The encoding is unknown. Find out which it is, and set {encoding} to its name."
    name, words = guess
    return (
        f"It is probably {name}, with words such as {words!r}. If so, set {{encoding={name}}}, or convert it: "
        f"iconv -f {name} -t UTF-8 OLD > NEW."
    )


def _read_error(error: BaseException, name: str, line: int | None) -> UnreadableError:
    if isinstance(error, EOFError):
        problem = "the archive ends too early"
    elif isinstance(error, OSError) and error.errno is not None:
        return UnreadableError(f"cannot be read ({error.strerror})", path=name, line=line, hint="Check the disk.")
    else:
        problem = f"the archive is damaged ({error})"
    return UnreadableError(problem, path=name, line=line, hint="Copy or download the file again.")

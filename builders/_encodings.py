"""Bytes that are not UTF-8: convert them, read CESU-8, and name damage or the likely encoding."""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections import Counter
from typing import Any, BinaryIO, NamedTuple

from typing_extensions import override

from graphattn.exceptions import ConfigError, GraphAttnWarning, UnreadableError, warn_caller

_NAMES = {  # of Python and of iconv; the first is chosen among equals
    "cp1252": "WINDOWS-1252",
    "cp1250": "WINDOWS-1250",
    "cp1254": "WINDOWS-1254",
    "cp1257": "WINDOWS-1257",
    "iso8859_2": "ISO-8859-2",
    "cp1251": "WINDOWS-1251",
    "koi8_r": "KOI8-R",
    "koi8_u": "KOI8-U",
    "cp866": "CP866",
    "iso8859_5": "ISO-8859-5",
    "cp1253": "WINDOWS-1253",
    "cp1255": "WINDOWS-1255",
    "cp1256": "WINDOWS-1256",
    "cp874": "CP874",
    "cp932": "CP932",
    "euc_jp": "EUC-JP",
    "gb18030": "GB18030",
    "big5": "BIG5",
    "cp949": "CP949",
}
_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_KANA = re.compile("[\u3041-\u30fe]")
_NON_ASCII = re.compile("[^\0-\x7f]")
_WORD = re.compile("[A-Za-z\x80-\U0010ffff]+")
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "BOPOMOFO"}
_LATIN = "LATIN"
_LATIN_LETTER = re.compile("[A-Za-z]")
_BESIDE_LATIN = {_LATIN, "CJK", "HANGUL"}
_TIE = 0.01


_BLOCK_BYTES = 1 << 16


class Utf8Stream(io.RawIOBase):
    """A stream in another encoding, converted to UTF-8; what precedes undecodable bytes can be read."""

    def __init__(self, stream: BinaryIO, encoding: str, path: str):
        try:
            info = codecs.lookup(encoding)
            if not getattr(info, "_is_text_encoding", True):  # of base64 and the like
                raise LookupError
        except (LookupError, ValueError):
            raise ConfigError(
                f"{{encoding}} is {encoding!r}, which Python does not know; use a name such as cp1252 or utf-16",
                options=("encoding",),
            ) from None
        self._stream, self._name, self._path = stream, encoding, path
        self._decoder = info.incrementaldecoder()
        self._rest, self._line = memoryview(b""), 1
        self._may_be_utf8 = not info.name.startswith(("utf", "unicode"))  # before the first byte beyond ASCII
        self._error: UnreadableError | None = None

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        ended = False
        while not self._rest and not ended:
            if self._error is not None:
                raise self._error
            block = self._stream.read(_BLOCK_BYTES)
            ended = not block
            self._rest = memoryview(self._decode(block, final=ended).encode("utf-8", "surrogatepass"))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def _decode(self, block: bytes, *, final: bool) -> str:
        """The text of a block; what is before an error, which is raised later."""
        before = self._decoder.getstate()
        if self._may_be_utf8 and not block.isascii():
            self._may_be_utf8 = False
            if _is_utf8(block):
                problem = f"{self._path} is probably UTF-8, but is read as {self._name}; leave out {{encoding}}"
                warn_caller(GraphAttnWarning(problem, options=("encoding",)))
        try:
            text: str = self._decoder.decode(block, final)
        except UnicodeDecodeError as error:
            self._decoder.setstate(before)
            pending = len(error.object) - len(block)
            text = self._decoder.decode(block[: max(error.start - pending, 0)])
            problem = f"byte 0x{error.object[error.start]:02x} is not {self._name}"
            hint = "Set {encoding} to that of the file, or repair the line."
            line = self._line + text.count("\n")
            self._error = UnreadableError(problem, path=self._path, line=line, hint=hint, options=("encoding",))
        except UnicodeError as error:  # such as UTF-16 without its mark
            problem, hint = f"is not {self._name}: {error}", "Set {encoding} to that of the file, such as utf-16-le."
            raise UnreadableError(problem, path=self._path, hint=hint, options=("encoding",)) from error
        self._line += text.count("\n")
        return text


def _is_utf8(block: bytes) -> bool:
    """Whether the beginning of a text is valid UTF-8; the last character of a full block may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(block, len(block) < _BLOCK_BYTES)
    except UnicodeDecodeError:
        return False
    return True


class _Reading(NamedTuple):
    name: str
    text: str
    script: str
    chaos: float
    coherence: float

    @property
    def score(self) -> float:
        return self.coherence - self.chaos


def join_surrogates(raw: bytes) -> str | None:
    """Decode CESU-8, which is UTF-8 but for surrogate pairs; None when other bytes are damaged, too.

    Examples
    --------
    >>> join_surrogates("a \\ud83d\\ude00".encode("utf-8", "surrogatepass"))
    'a 😀'
    """
    try:
        return raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None


def is_damaged_utf8(sample: bytes) -> bool:
    """Whether most bytes beyond ASCII are characters of UTF-8, so that the others are damage."""
    beyond = sum(byte > 0x7F for byte in sample)
    return 2 * sum(map(len, _CHARACTER.findall(sample))) >= beyond


def guess_encoding(sample: bytes) -> tuple[str, str] | None:
    """Guess the encoding of whole lines; None if no usual one turns them into letters of one script.

    Returns the name for ``iconv``, and the sample's first words that are not ASCII.
    """
    from charset_normalizer import from_bytes

    lines = b"".join(line for line in sample.splitlines(keepends=True) if not line.isascii())
    matches = from_bytes(lines, steps=20, chunk_size=2048, cp_isolation=[*_NAMES])
    readings = [
        _Reading(name, str(match), script, match.chaos, match.coherence)
        for match in sorted(matches, key=lambda match: match.chaos - match.coherence)
        for name in match.could_be_from_charset
        if name in _NAMES and (script := _find_script(str(match))) is not None
    ]
    if not readings:
        return None
    first = next((reading for reading in readings if _share_of_kana(reading.text) > 0.3), None)
    if first is None:
        first = readings[0]
        if any(first.score - reading.score < _TIE and reading.script != first.script for reading in readings):
            return None
    if first.script == _LATIN:
        equals = {reading.name: reading for reading in readings if reading.coherence >= first.coherence - _TIE}
        first = next(equals[name] for name in _NAMES if name in equals)
    words = dict.fromkeys(word for word in _WORD.findall(first.text) if not word.isascii())
    return _NAMES[first.name], " ".join(words)[:40]


def _find_script(text: str) -> str | None:
    """The script of nearly all letters beyond ASCII; None if there is none, or if other characters are frequent.

    In most scripts a word has no Latin letters: ``café`` is not ``cafй``.
    """
    beyond = Counter(_NON_ASCII.findall(text))
    letters: Counter[str] = Counter()
    usual = 0
    for character, count in beyond.items():
        major = unicodedata.category(character)[0]
        usual += count * (major in "LMPZ" or character in "€°£")
        if major in "LM":
            script = unicodedata.name(character, "?").split(" ")[0]
            letters["CJK" if script in _EAST_ASIAN else script] += count
    ((script, most),) = letters.most_common(1) or [(_LATIN, 0)]
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    mixed = script not in _BESIDE_LATIN and 2 * sum(map(bool, map(_LATIN_LETTER.search, words))) > len(words)
    return script if usual >= 0.9 * beyond.total() and most >= 0.9 * letters.total() and not mixed else None


def _share_of_kana(text: str) -> float:
    return len(_KANA.findall(text)) / max(1, len(_NON_ASCII.findall(text)))

"""Read lines of ``word/TAG`` pairs, one sentence per line."""

from __future__ import annotations

from collections.abc import Iterator

from graphattn.builders.files import FilePath, open_text
from graphattn.builders.readers.rows import split_at_blanks
from graphattn.builders.readers.skipping import Skip, map_with_errors
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError


def read_word_tag(path: FilePath, *, separator: str = "/", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read tagged sentences from lines such as ``a/DT dog/NN barks/VBZ``, one at a time.

    A word ends at its last separator that no backslash stands before; in the word, a backslash before a separator
    is dropped, as in the Penn Treebank's ``1\\/2/CD``. Blank lines are skipped.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    separator : what stands between a word and its tag
    skip : is handed the error of each line that is left out; None stops at the first

    Returns
    -------
    An iterator over the lines as :class:`~graphattn.builders.sentence.Sentence`.

    Raises
    ------
    ConfigError
        when the separator is empty, or holds a blank or a backslash
    DataError
        when a word lacks its tag or a tag its word; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.pos"
    >>> _ = path.write_text("1\\\\/2/CD hour/NN\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_word_tag(path)]
    [(('1/2', 'hour'), ('CD', 'NN'))]
    """
    if not separator or "\\" in separator or len(separator.split()) != 1 or separator != separator.strip():
        raise ConfigError(f"separator is {separator!r}. Set it to what stands between word and tag, '/' say.")
    return _read_lines(path, separator, skip)


def _read_lines(path: FilePath, separator: str, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:

        def pairs_of(line: str) -> list[tuple[str, str]]:
            return [
                _split_pair(piece, separator, lines.path, lines.line) for piece in split_at_blanks(line.rstrip("\n"))
            ]

        for pairs in map_with_errors(lines, pairs_of, skip):
            if pairs:
                words, tags = zip(*pairs, strict=True)
                yield Sentence(words, tags=tags, origin=(lines.path, lines.line))


def _split_pair(piece: str, separator: str, path: str, line: int) -> tuple[str, str]:
    end = piece.rfind(separator)
    while end > 0 and piece[end - 1] == "\\":
        end = piece.rfind(separator, 0, end)
    word, tag = piece[: max(end, 0)], piece[end + len(separator) :]
    if end < 0 or not word or not tag:
        lacking = "word" if end >= 0 and not word else "tag"
        raise DataError(
            f"{piece!r} has no {lacking}", path=path, line=line, hint=f"Write word{separator}TAG, or set separator."
        )
    return word.replace("\\" + separator, separator), tag

"""Read CoNLL-U: words with their heads, dependency relations and parts of speech."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from conllu.exceptions import ParseException
from conllu.parser import parse_id_value, parse_int_value

from graphattn.builders.files import BLANKS, FilePath, display_name, numbered_lines
from graphattn.builders.sentence import Sentence, check_heads
from graphattn.exceptions import ConfigError, DataError

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_UNSPECIFIED = "_"
_HINTS = {
    "id": "An id is 1, 2, ..., a range 1-2 or an empty node 1.1.",
    "head": "A head is the id of a word, or 0 for a root.",
}


class _Word(NamedTuple):
    line: int
    number: int
    form: str
    tag: str
    head: int | None
    deprel: str


def read_conllu(path: FilePath, *, tags: str | None = "upos") -> Iterator[Sentence]:
    """Read parsed sentences from CoNLL-U, one at a time.

    The words are the syntactic words: a multi-word token (``2-3  don't``) becomes its parts ``do`` and ``n't``, without
    the surface form; empty nodes (``8.1``) are skipped, since the basic tree does not use them. A sentence in which all
    heads are ``_`` has no heads; the same holds for relations and tags.

    The ``conllu`` package parses the values. We split lines into columns ourselves, because the package loses line
    numbers, accepts rows with missing columns, and parses every feature.

    Parameters
    ----------
    path : the treebank, plain or compressed, or ``"-"`` for standard input
    tags : ``"upos"``, ``"xpos"``, or None for no tags

    Returns
    -------
    An iterator over the sentences as :class:`~graphattn.builders.sentence.Sentence`.

    Raises
    ------
    ConfigError
        when ``tags`` is something else
    DataError
        when a line is not CoNLL-U, ids do not count up from 1, or the heads of a sentence are incomplete, out of
        range or a cycle; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.conllu"
    >>> rows = ["1 Dogs _ NOUN _ _ 2 nsubj _ _", "2 bark _ VERB _ _ 0 root _ _", ""]
    >>> _ = path.write_text("\\n".join(row.replace(" ", "\\t") for row in rows))
    >>> next(read_conllu(path)).heads
    (2, 0)
    """
    if tags not in ("upos", "xpos", None):
        raise ConfigError(f"{{tags}} is {tags!r}. Set it to 'upos', 'xpos' or None", options=("tags",))
    return conllu_sentences(numbered_lines(path), display_name(path), tags=tags)


def conllu_sentences(lines: Iterable[tuple[int, str]], path: str, *, tags: str | None = "upos") -> Iterator[Sentence]:
    """:func:`read_conllu` for lines with their numbers.

    Parameters
    ----------
    lines : 1-based numbers and lines without their line ends
    path : the file's name in errors
    tags : ``"upos"``, ``"xpos"``, or None for no tags
    """
    tag_column = _COLUMNS.index(tags) if tags else None
    words: list[_Word] = []
    for line, content in lines:
        if content.startswith("#"):
            continue
        if content.strip(BLANKS):
            word = _read_word(content, tag_column, path, line)
            if word is None:
                continue
            if word.number != len(words) + 1:
                raise DataError(
                    f"word {word.number} where word {len(words) + 1} was expected",
                    path=path,
                    line=line,
                    field="id",
                    hint="Words count up from 1; a blank line ends a sentence.",
                )
            words.append(word)
        elif words:
            yield _make_sentence(words, path, tagged=tag_column is not None)
            words = []
    if words:
        yield _make_sentence(words, path, tagged=tag_column is not None)


def _read_word(content: str, tag_column: int | None, path: str, line: int) -> _Word | None:
    """The word of a line; None for a multi-word token or an empty node."""
    fields = content.split("\t")
    if len(fields) != len(_COLUMNS):
        raise DataError(
            "1 column where CoNLL-U has 10" if len(fields) == 1 else f"{len(fields)} columns where CoNLL-U has 10",
            path=path,
            line=line,
            hint="Put one tab between columns and '_' for unknown values.",
        )
    number: int | tuple[int, str, int] = _parse(parse_id_value, fields[0], "id", path, line)
    if isinstance(number, tuple):
        return None
    for position in {1, 7, 1 if tag_column is None else tag_column}:
        if not fields[position]:
            raise DataError("the field is empty", path=path, line=line, field=_COLUMNS[position], hint="Write '_'.")
    head = None if fields[6] == _UNSPECIFIED else _parse(parse_int_value, fields[6], "head", path, line)
    tag = _UNSPECIFIED if tag_column is None else fields[tag_column]
    return _Word(line, number, fields[1], tag, head, fields[7])


def _parse(parse: Callable[[str], Any], field: str, name: str, path: str, line: int) -> Any:
    try:
        value = None if "_" in field else parse(field)  # Python reads 1_0 as 10
    except ParseException:
        value = None
    if value is None:
        raise DataError(f"{field!r} is not a valid {name}", path=path, line=line, field=name, hint=_HINTS[name])
    return value


def _make_sentence(words: list[_Word], path: str, *, tagged: bool) -> Sentence:
    parsed = _are_parsed(words, path)
    forms, heads = tuple(word.form for word in words), tuple(word.head or 0 for word in words)
    check_heads(heads, forms, path=path, lines=[word.line for word in words])
    return Sentence(
        forms,
        heads=heads if parsed else None,
        deprels=_none_if_unspecified([word.deprel for word in words]) if parsed else None,
        tags=_none_if_unspecified([word.tag for word in words]) if tagged else None,
        origin=(path, words[0].line),
    )


def _are_parsed(words: list[_Word], path: str) -> bool:
    """Whether the words have heads; an error if only some have."""
    headless = [word for word in words if word.head is None]
    if len(headless) == len(words):
        return False
    for word in headless:
        raise DataError(
            f"word {word.number} ({word.form!r}) has no head, though others in the sentence have",
            path=path,
            line=word.line,
            field="head",
            hint=_HINTS["head"],
        )
    return True


def _none_if_unspecified(values: list[str]) -> tuple[str, ...] | None:
    return tuple(values) if any(value != _UNSPECIFIED for value in values) else None

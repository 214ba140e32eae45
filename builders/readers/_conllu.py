"""Read trees: CoNLL-U, and CoNLL-U with other columns (CoNLL-U Plus, CoNLL-X, Malt-TAB and their like)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from conllu.exceptions import ParseException
from conllu.parser import parse_id_value, parse_int_value

from graphattn.builders._files import BLANKS, FilePath, TextLines, open_text
from graphattn.builders._sentence import Sentence, check_heads
from graphattn.builders.readers._rows import Skip, read_groups, split_at_blanks
from graphattn.exceptions import ConfigError, DataError

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNSPECIFIED = "_"
_OFTEN_UNSPECIFIED = ("feats", "deps", "misc")
"""Columns in which ``_`` says that a word has nothing there, not that nobody has annotated it."""
_HINTS = {
    "id": "An id is 1, 2, ..., a range 1-2 or an empty node 1.1.",
    "head": "A head is the id of a word, or 0 for a root.",
}
_Lines = list[tuple[int, str]]


GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.*)", re.IGNORECASE)
"""The comment that names the columns."""
_ROLES = {"index": "id", "token": "form", "tag": "upos"}
"""Names of columns that users may give -> those of CoNLL-U."""


class _WordRow(NamedTuple):
    line: int
    number: int
    form: str
    tag: str
    head: int | None
    deprel: str


@dataclass(frozen=True)
class TreeColumns:
    """The columns of a treebank."""

    names: tuple[str, ...]  # names of the columns
    tag: int | None  # index of the column of the tags; None for no tags
    key: str = ""  # tags are the values of this key in their column; empty for the whole column
    exact: bool = True  # whether lines have these columns and no others

    @classmethod
    def of(cls, names: Sequence[str], tags: str | None, *, exact: bool = True) -> Self:
        """The layout of a treebank with these columns; without a column ``upos``, its default means no tags."""
        names = tuple(names)
        if tags is None or (tags == "upos" and tags not in names and "head" in names):
            return cls(names, None, exact=exact)
        column, _, key = (tags, "", "") if tags.lower() in names else tags.partition(":")
        if column.lower() not in names or (column != tags and not key):
            raise ConfigError(
                f"{{tags}} is {tags!r}. Set it to a column, one of {', '.join(filter(UNSPECIFIED.__ne__, names))}, "
                "or to COLUMN:KEY, such as misc:NAME",
                options=("tags",),
            )
        return cls(names, names.index(column.lower()), key, exact)

    @cached_property
    def places(self) -> tuple[int | None, int, int | None, int | None]:
        """Indices of the id, form, head and relation."""
        number, form, head, deprel = (
            self.names.index(name) if name in self.names else None for name in ("id", "form", "head", "deprel")
        )
        if form is None:
            raise ConfigError("{columns} has no 'token'. Name the column of the words so", options=("columns",))
        return number, form, head, deprel

    @cached_property
    def filled(self) -> tuple[int, ...]:
        """Indices of the columns that are never empty."""
        _, form, _, deprel = self.places
        return tuple({index: None for index in (form, deprel, self.tag) if index is not None})

    @property
    def may_be_unspecified(self) -> bool:
        """Whether a sentence in which all tags are ``_`` has no tags."""
        return self.tag is not None and not self.key and self.names[self.tag] not in _OFTEN_UNSPECIFIED


def read_conllu(path: FilePath, *, tags: str | None = "upos", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read parsed sentences from CoNLL-U, one at a time.

    The words are the syntactic words: a multi-word token (``2-3  don't``) becomes its parts ``do`` and ``n't``, without
    the surface form; empty nodes (``8.1``) are skipped, since the basic tree does not use them. A sentence in which all
    heads are ``_`` has no heads; the same holds for relations and tags.

    The ``conllu`` package parses the values. We split lines into columns ourselves, because the package loses line
    numbers, accepts rows with missing columns, and parses every feature.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    tags : the column of the tags, such as ``"upos"``, ``"xpos"``, ``"feats"`` or ``"deprel"``; ``"feats:KEY"`` or
        ``"misc:KEY"`` for the values of a key, ``_`` for words without it in FEATS and ``O`` in MISC; None for no tags

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
    return _open_trees(path, TreeColumns.of(CONLLU_COLUMNS, tags), skip)


def read_conllup(
    path: FilePath,
    *,
    columns: Sequence[str | None] | None = None,
    tags: str | None = "upos",
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read sentences from CoNLL-U with other columns, one at a time: CoNLL-U Plus, CoNLL-X, Malt-TAB and their like.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    columns : what each column holds: ``"index"``, ``"token"``, ``"tag"``, ``"head"``, ``"deprel"``, a name of your own,
        or None to skip it; lines may have more columns at their ends. None reads the names in the line
        ``# global.columns = ...``
    tags : the column of the tags, or ``COLUMN:KEY``, as for :func:`read_conllu`

    Raises
    ------
    ConfigError
        when the columns lack the tokens or the tags
    DataError
        when there are no names of columns, or a line is not valid; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tab"
    >>> _ = path.write_text("Dogs\\tNNS\\t2\\tSBJ\\nbark\\tVBP\\t0\\tROOT\\n\\n")
    >>> sentence = next(read_conllup(path, columns=("token", "tag", "head", "deprel")))
    >>> sentence.heads, sentence.tags
    ((2, 0), ('NNS', 'VBP'))
    """
    if columns is None:
        return _read_with_global_columns(path, tags, skip)
    names = [_ROLES.get(name.lower(), name.lower()) if name else UNSPECIFIED for name in columns]
    return _open_trees(path, TreeColumns.of(names, tags, exact=False), skip)


def _open_trees(path: FilePath, columns: TreeColumns, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:
        yield from _read_trees(lines, columns, skip)


def _read_trees(lines: TextLines, columns: TreeColumns, skip: Skip | None) -> Iterator[Sentence]:
    has_ids, is_inside = columns.names[0] == "id", False

    def parse(content: str) -> str | None:
        nonlocal is_inside
        content = content.removesuffix("\n")
        if content.startswith("#") and (
            has_ids or (not is_inside and len(_split(content, columns)) < len(columns.names))
        ):
            return None
        is_inside = bool(content.strip(BLANKS))
        return content if is_inside else ""

    return read_groups(lines, parse, lambda rows: _read_sentence(rows, columns, lines.path), skip)


def _read_with_global_columns(path: FilePath, tags: str | None, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:
        for content in lines:
            named = GLOBAL_COLUMNS.match(content)
            if named is not None:
                yield from _read_trees(lines, TreeColumns.of(named[1].lower().split(), tags), skip)
                return
            if content.strip(BLANKS) and not content.startswith("#"):
                raise DataError(
                    "the columns have no names",
                    path=lines.path,
                    line=lines.line,
                    hint="Begin the file with # global.columns = ID FORM ..., or set {columns} to what each column "
                    "holds.",
                    options=("columns",),
                )


def _read_sentence(rows: _Lines, columns: TreeColumns, path: str) -> list[Sentence]:
    """The sentence; none without words."""
    words: list[_WordRow] = []
    for line, content in rows:
        word = _read_word(content, columns, len(words) + 1, path, line)
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
    return [_make_sentence(words, path, columns)] if words else []


def _split(content: str, columns: TreeColumns) -> list[str]:
    return content.split("\t") if columns.exact or "\t" in content else split_at_blanks(content)


def _read_word(content: str, columns: TreeColumns, number: int, path: str, line: int) -> _WordRow | None:
    """The word of a line; None for a multi-word token or an empty node."""
    fields, width = _split(content, columns), len(columns.names)
    if len(fields) < width or (columns.exact and len(fields) > width):
        count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        expected = "CoNLL-U has 10" if columns.names == CONLLU_COLUMNS else f"{width} are named"
        raise DataError(
            f"{count} where {expected}",
            path=path,
            line=line,
            hint="Put one tab between columns and '_' for unknown values, or set {columns} to what each column holds.",
            options=("columns",),
        )
    id_place, form_place, head_place, deprel_place = columns.places
    if id_place is not None:
        value: int | tuple[int, str, int] = _parse(parse_id_value, fields[id_place], "id", path, line)
        if isinstance(value, tuple):
            return None
        number = value
    for position in columns.filled:
        if not fields[position]:
            raise DataError(
                "the field is empty", path=path, line=line, field=columns.names[position], hint="Write '_'."
            )
    head = UNSPECIFIED if head_place is None else fields[head_place]
    return _WordRow(
        line,
        number,
        fields[form_place],
        UNSPECIFIED if columns.tag is None else _find_tag(fields[columns.tag], columns),
        None if head == UNSPECIFIED else _parse(parse_int_value, head, "head", path, line),
        UNSPECIFIED if deprel_place is None else fields[deprel_place],
    )


def _find_tag(field: str, columns: TreeColumns) -> str:
    if not columns.key:
        return field
    pairs = (item.partition("=") for item in field.split("|"))
    missing = "O" if columns.names[columns.tag or 0] == "misc" else UNSPECIFIED
    return next((value for key, _, value in pairs if key == columns.key and value), missing)


def _parse(parse: Callable[[str], Any], field: str, name: str, path: str, line: int) -> Any:
    try:
        value = None if "_" in field else parse(field)  # Python reads 1_0 as 10
    except ParseException:
        value = None
    if value is None:
        raise DataError(f"{field!r} is not a valid {name}", path=path, line=line, field=name, hint=_HINTS[name])
    return value


def _make_sentence(words: list[_WordRow], path: str, columns: TreeColumns) -> Sentence:
    parsed = _are_parsed(words, path)
    forms, heads = tuple(word.form for word in words), tuple(word.head or 0 for word in words)
    check_heads(heads, forms, path=path, lines=[word.line for word in words])
    all_tags = tuple(word.tag for word in words)
    tags = _none_if_unspecified(all_tags) if columns.tag is None or columns.may_be_unspecified else all_tags
    return Sentence(
        forms,
        heads=heads if parsed else None,
        deprels=_none_if_unspecified([word.deprel for word in words]) if parsed else None,
        tags=tags,
        origin=(path, words[0].line),
    )


def _are_parsed(words: list[_WordRow], path: str) -> bool:
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


def _none_if_unspecified(values: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(values) if any(value != UNSPECIFIED for value in values) else None

"""Read trees: CoNLL-U, and CoNLL-U with other columns (CoNLL-U Plus, CoNLL-X, Malt-TAB and their like)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

from conllu.exceptions import ParseException
from conllu.parser import parse_id_value, parse_int_value

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence, check_heads
from graphattn.builders._text_lines import BLANKS, TextLines, open_text
from graphattn.builders.readers._fields import parse_feature_columns
from graphattn.builders.readers._rows import Skip, read_groups, split_at_blanks
from graphattn.exceptions import ConfigError, DataError, verbatim

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNSPECIFIED = "_"
_OFTEN_UNSPECIFIED = ("feats", "deps", "misc")
"""Columns in which ``_`` says that a word has nothing there, not that nobody has annotated it."""
_HINTS = {
    "id": "An id is 1, 2, ..., a range 1-2 or an empty node 1.1.",
    "head": "A head is the id of a word, or 0 for a root.",
}


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
    features: tuple[str, ...]


@dataclass(frozen=True)
class _Column:
    index: int
    name: str
    key: str = ""  # the values are those of this key; empty for the whole column

    def read(self, fields: Sequence[str]) -> str:
        """The value of a word."""
        if not self.key:
            return fields[self.index]
        pairs = (item.partition("=") for item in fields[self.index].split("|"))
        missing = "O" if self.name == "misc" else UNSPECIFIED
        return next((value for key, _, value in pairs if key == self.key and value), missing)


@dataclass(frozen=True)
class TreeColumns:
    """The columns of a treebank."""

    names: tuple[str, ...]  # names of the columns
    tag: _Column | None  # None for no tags
    features: Mapping[str, _Column] = field(default_factory=dict)  # by their names
    exact: bool = True  # whether lines have these columns and no others

    @classmethod
    def of(
        cls, names: Sequence[str], tags: str | None, feature_columns: Sequence[str] = (), *, exact: bool = True
    ) -> Self:
        """The layout of a treebank with these columns; without a column ``upos``, its default means no tags."""
        names = tuple(names)
        no_tags = tags is None or (tags == "upos" and tags not in names and "head" in names)
        tag = None if no_tags else cls._find(names, tags or "", "tags")
        given = parse_feature_columns(feature_columns)
        features = {name: cls._find(names, column, "feature_columns") for name, column in given.items()}
        if tag in features.values():
            raise ConfigError(
                f"{{feature_columns}} has {tags!r}, which are the tags. Leave it out, or set {{tags}} to other ones",
                options=("feature_columns", "tags"),
            )
        return cls(names, tag, features, exact)

    @staticmethod
    def _find(names: tuple[str, ...], text: str, option: str) -> _Column:
        """The column, or the values of a key in it, that an option names."""
        column, _, key = (text, "", "") if text.lower() in names else text.partition(":")
        if column.lower() not in names or (column != text and not key):
            raise ConfigError(
                f"{{{option}}} names {verbatim(repr(text))}. Set it to a column, one of "
                f"{', '.join(filter(UNSPECIFIED.__ne__, names))}, or to COLUMN:KEY, such as misc:NAME",
                options=(option,),
            )
        return _Column(names.index(column.lower()), column.lower(), key)

    @cached_property
    def indices(self) -> tuple[int | None, int, int | None, int | None]:
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
        _, form, _, deprel = self.indices
        columns = [column.index for column in (self.tag, *self.features.values()) if column is not None]
        return tuple({index: None for index in (form, deprel, *columns) if index is not None})

    def drop_unspecified(self, tags: Sequence[str]) -> Sequence[str] | None:
        """The tags of a sentence; None if nobody has annotated it."""
        always = self.tag is not None and (self.tag.key or self.tag.name in _OFTEN_UNSPECIFIED)
        return tags if always else _none_if_unspecified(tags)


def read_conllu(
    path: FilePath, *, tags: str | None = "upos", feature_columns: Sequence[str] = (), skip: Skip | None = None
) -> Iterator[Sentence]:
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
    feature_columns : further columns, named like those of tags, which become the ``features`` of sentences:
        ``"lemma"``, ``"feats:Number"``, or ``"pos=upos"`` with another name

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.conllu"
    >>> rows = ["1 Dogs _ NOUN _ _ 2 nsubj _ _", "2 bark _ VERB _ _ 0 root _ _", ""]
    >>> _ = path.write_text("\\n".join(row.replace(" ", "\\t") for row in rows))
    >>> next(read_conllu(path)).heads
    (2, 0)
    """
    return _read_trees(path, TreeColumns.of(CONLLU_COLUMNS, tags, feature_columns), tags, feature_columns, skip)


def read_conllup(
    path: FilePath,
    *,
    columns: Sequence[str | None] | None = None,
    tags: str | None = "upos",
    feature_columns: Sequence[str] = (),
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read sentences from CoNLL-U with other columns, one at a time: CoNLL-U Plus, CoNLL-X, Malt-TAB and their like.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    columns : what each column holds: ``"index"``, ``"token"``, ``"tag"``, ``"head"``, ``"deprel"``, a name of your own,
        or None to skip it; lines may have more columns at their ends. None reads the names in the line
        ``# global.columns = ...``
    tags, feature_columns : columns, or ``COLUMN:KEY``, as for :func:`read_conllu`

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
        return _read_trees(path, None, tags, feature_columns, skip)
    names = [_ROLES.get(name.lower(), name.lower()) if name else UNSPECIFIED for name in columns]
    layout = TreeColumns.of(names, tags, feature_columns, exact=False)
    return _read_trees(path, layout, tags, feature_columns, skip)


def _read_trees(
    path: FilePath, columns: TreeColumns | None, tags: str | None, feature_columns: Sequence[str], skip: Skip | None
) -> Iterator[Sentence]:
    """Read a treebank; without columns, the file names them."""
    is_inside = False

    def parse(content: str) -> str | None:
        nonlocal is_inside
        content = content.removesuffix("\n")
        named = GLOBAL_COLUMNS.match(content)
        if named is not None and columns is None and tuple(named[1].lower().split()) != layout.names:
            raise DataError("the columns differ from those at the top", hint="Read joined files one by one.")
        if content.startswith("#") and (
            layout.names[0] == "id" or (not is_inside and len(_split(content, layout)) < len(layout.names))
        ):
            return None
        is_inside = bool(content.strip(BLANKS))
        return content if is_inside else ""

    with open_text(path) as lines:
        layout = columns or _read_global_columns(lines, tags, feature_columns)
        yield from read_groups(lines, parse, lambda rows: _read_sentence(rows, layout, lines.path), skip)


def _read_global_columns(lines: TextLines, tags: str | None, feature_columns: Sequence[str]) -> TreeColumns:
    """The columns that a comment names; those of CoNLL-U in a file of nothing but comments."""
    for content in lines:
        named = GLOBAL_COLUMNS.match(content)
        if named is not None:
            return TreeColumns.of(named[1].lower().split(), tags, feature_columns)
        if content.strip(BLANKS) and not content.startswith("#"):
            hint = "Begin the file with # global.columns = ID FORM ..., or set {columns} to what each column holds."
            problem = "the columns have no names"
            raise DataError(problem, path=lines.path, line=lines.line, hint=hint, options=("columns",))
    return TreeColumns.of(CONLLU_COLUMNS, None)


def _read_sentence(rows: list[tuple[int, str]], columns: TreeColumns, path: str) -> list[Sentence]:
    """The sentence; none without words."""
    words: list[_WordRow] = []
    for line, content in rows:
        try:
            word = _read_word(content, columns, line, len(words) + 1)
            if word is not None and word.number != len(words) + 1:
                problem = f"word {word.number} where word {len(words) + 1} was expected"
                raise DataError(problem, field="id", hint="Words count up from 1; a blank line ends a sentence.")
        except DataError as error:
            error.line = line
            raise
        if word is not None:
            words.append(word)
    return [_make_sentence(words, path, columns)] if words else []


def _split(content: str, columns: TreeColumns) -> list[str]:
    return content.split("\t") if columns.exact or "\t" in content else split_at_blanks(content)


def _read_word(content: str, columns: TreeColumns, line: int, number: int) -> _WordRow | None:
    """The word of a line, which has this number unless a column says otherwise; None for those that are not syntactic.

    These are multi-word tokens and empty nodes.
    """
    fields, width = _split(content, columns), len(columns.names)
    if len(fields) < width or (columns.exact and len(fields) > width):
        count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        expected = "CoNLL-U has 10" if columns.names == CONLLU_COLUMNS else f"{width} are named"
        hint = "Put one tab between columns and '_' for unknown values, or set {columns} to what each column holds."
        raise DataError(f"{count} where {expected}", hint=hint, options=("columns",))
    id_index, form_index, head_index, deprel_index = columns.indices
    if id_index is not None:
        value: int | tuple[int, str, int] = _parse(parse_id_value, fields[id_index], "id")
        if isinstance(value, tuple):
            return None
        number = value
    for position in columns.filled:
        if not fields[position]:
            raise DataError("the field is empty", field=columns.names[position], hint="Write '_'.")
    head = UNSPECIFIED if head_index is None else fields[head_index]
    return _WordRow(
        line,
        number,
        fields[form_index],
        UNSPECIFIED if columns.tag is None else columns.tag.read(fields),
        None if head == UNSPECIFIED else _parse(parse_int_value, head, "head"),
        UNSPECIFIED if deprel_index is None else fields[deprel_index],
        tuple(column.read(fields) for column in columns.features.values()),
    )


def _parse(parse: Callable[[str], Any], field: str, name: str) -> Any:
    try:
        value = None if "_" in field else parse(field)  # Python reads 1_0 as 10
    except ParseException:
        value = None
    if value is None:
        raise DataError(f"{field!r} is not a valid {name}", field=name, hint=_HINTS[name])
    return value


def _make_sentence(words: list[_WordRow], path: str, columns: TreeColumns) -> Sentence:
    headless = [word for word in words if word.head is None]
    is_parsed = len(headless) < len(words)
    if headless and is_parsed:
        problem = f"word {headless[0].number} ({headless[0].form!r}) has no head, though others in the sentence have"
        raise DataError(problem, line=headless[0].line, field="head", hint=_HINTS["head"])
    forms, heads = tuple(word.form for word in words), tuple(word.head or 0 for word in words)
    check_heads(heads, forms, lines=[word.line for word in words])
    return Sentence(
        forms,
        heads=heads if is_parsed else None,
        deprels=_none_if_unspecified([word.deprel for word in words]) if is_parsed else None,
        tags=columns.drop_unspecified([word.tag for word in words]),
        features=dict(zip(columns.features, zip(*(word.features for word in words), strict=True), strict=True)) or None,
        origin=(path, words[0].line),
    )


def _none_if_unspecified(values: Sequence[str]) -> Sequence[str] | None:
    return values if any(value != UNSPECIFIED for value in values) else None

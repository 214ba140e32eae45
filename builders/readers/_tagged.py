"""Read tagged sentences: CoNLL columns, with one token per line, and lines of ``word/TAG`` pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphattn.builders._paths import FilePath, display_name, is_stream
from graphattn.builders._sentence import Sentence
from graphattn.builders._text_lines import BLANKS, TextLines, open_text
from graphattn.builders.readers._column_layout import (
    DOCUMENT_MARK,
    DOCUMENT_START,
    NO_PREDICATE,
    NOT_A_WORD,
    ColumnLayout,
    are_brackets,
    find_layout,
    is_blank,
    names_columns,
    read_brackets,
    split_columns,
)
from graphattn.builders.readers._fields import parse_feature_columns
from graphattn.builders.readers._rows import (
    SentenceNumbers,
    Skip,
    inner_header_error,
    parse_lines,
    read_groups,
    split_at_blanks,
)
from graphattn.builders.readers._samples import SAMPLE_LINES
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, verbatim, warn_caller

_MANY_WORDS = 500
"""Longer sentences are probably several."""
_QUOTED_QUOTE = '""""'
"""As tables write the word ``"``."""


def read_conll(
    path: FilePath,
    *,
    token_column: int | None = None,
    tag_column: int | str | None = -1,
    sentence_column: int | None = None,
    predicate_column: int | None = None,
    feature_columns: Sequence[str] = (),
    separator: str | None = None,
    comment: str | None = None,
    header: bool | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read tagged sentences from CoNLL columns (2000 to 2012, WNUT and their like), one at a time.

    Lines whose token is ``-DOCSTART-`` and the marks ``#begin document`` and ``#end document`` are skipped, and where
    the first column counts the words also multi-word tokens (``2-3``) and empty nodes (``8.1``). Spans in brackets
    (``(A0*``, ``*)``) become IOB2. Other tags are not converted; see :mod:`graphattn.builders.tag_schemes`.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    token_column : the token's column, from 0; -1 is the last. None means the first one that does not count the words
    tag_column : the tag's column, by default the last; then an error asks for it if another one has tags of the same
        set, such as gold and predicted ones. None reads tokens alone. ``"11+"`` reads semantic roles: columns 11,
        12, ... have those of the 1st, 2nd, ... predicate, a sentence is repeated for each, and left out if it has none
    sentence_column : the column that numbers the sentences, which blank lines then do not end. None means the first one
        if it does
    predicate_column : the column that marks the predicate whose roles are tagged: 0, ``-``, ``_`` or ``O`` for other
        words; None for no marks
    feature_columns : further columns, which become the ``features`` of sentences: ``"1"``, ``"-2"``, or with a name
        ``"pos=1"``
    separator : the characters between two columns; None means tabs if the first token's line has one, else any
        number of blanks
    comment : the first characters of a line to skip. None skips lines before a sentence that begin with ``#``, if the
        first lines of the file show that they are no words
    header : whether the first line names the columns; None lets the first lines decide

    Warns
    -----
    Hint
        when the first lines show a header, comments, or a column that counts the words

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.conll"
    >>> _ = path.write_text("Ada NNP I-PER\\nwrote VBD O\\n\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_conll(path)]
    [(('Ada', 'wrote'), ('I-PER', 'O'))]
    """
    for option, value in (("separator", separator), ("comment", comment)):
        if value == "":
            raise ConfigError(f"{{{option}}} is empty. Set it to one or more characters", options=(option,))
    for option, column in (("token_column", token_column), ("sentence_column", sentence_column)):
        if not isinstance(column, (int, type(None))):
            problem = f"{{{option}}} is {verbatim(repr(column))}. Columns of CoNLL files have numbers, from 0"
            raise ConfigError(problem, options=(option,))
    tags, roles = (None, _parse_roles(tag_column)) if isinstance(tag_column, str) else (tag_column, None)
    if roles is not None and predicate_column is None:
        raise ConfigError(
            f"{{tag_column}} is {tag_column}, but {{predicate_column}} is not set. Set it to the column that marks the "
            "predicates",
            options=("tag_column", "predicate_column"),
        )
    by_role = {"token": token_column, "tag": tags, "predicate": predicate_column}
    columns = {role: column for role, column in by_role.items() if column is not None}
    features = {name: _parse_number(column) for name, column in parse_feature_columns(feature_columns).items()}

    def read() -> Iterator[Sentence]:
        with open_text(path) as lines:
            reader = _ColumnReader(lines, columns, features, roles, separator, comment, header, sentence_column)
            yield from read_groups(lines, reader.parse, reader.make_sentences, skip, begins=reader.begins)

    return read()


def _parse_roles(tag_column: str) -> int:
    """The first column of semantic roles."""
    first = re.fullmatch(r"(\d+)\+", tag_column)
    if first is None:
        raise ConfigError(
            f"{{tag_column}} is {tag_column!r}. Set it to a column, or to 11+ for columns of roles",
            options=("tag_column",),
        )
    return int(first[1])


def _parse_number(column: str) -> int:
    if not re.fullmatch(r"-?\d+", column):
        raise ConfigError(
            f"{{feature_columns}} has {verbatim(repr(column))}. Columns of CoNLL files have numbers, from 0; pos=1 "
            "names column 1",
            options=("feature_columns",),
        )
    return int(column)


def _hint(lines: TextLines, decision: str, *options: str) -> None:
    warn_caller(Hint(f"{verbatim(lines.path)}: {decision}", options=options))


def _sample(lines: TextLines) -> list[str]:
    """The first lines; of a stream, which may be slow, those of the first sentence."""
    if not is_stream(lines):
        return lines.sample(SAMPLE_LINES)
    for count in range(1, SAMPLE_LINES + 1):
        sampled = lines.sample(count)
        if len(sampled) < count or (is_blank(sampled[-1]) and not all(map(is_blank, sampled))):
            break
    return sampled


class _ColumnReader:
    """Makes sentences of lines; the first ones decide what the options leave open."""

    def __init__(
        self,
        lines: TextLines,
        columns: Mapping[str, int],
        features: Mapping[str, int],
        roles: int | None,
        separator: str | None,
        comment: str | None,
        header: bool | None,
        sentence_column: int | None,
    ):
        tag_column = columns.get("tag")
        shown = -1 if tag_column is None else tag_column  # tags that are not read may still show a header
        layout = find_layout(_sample(lines), separator=separator, comment=comment, header=header, tag_column=shown)
        tagged = tag_column is not None
        if sentence_column is None and columns.get("token") != 0 and layout.separates_sentences(tagged=tagged):
            sentence_column, columns = 0, {"token": 1, **columns}
            decision = "column 0 numbers the sentences, so {sentence_column} is 0"
            _hint(lines, f"{decision}, and {{token_column}} {columns['token']}", "sentence_column", "token_column")
        if "token" not in columns:
            columns = {"token": _find_token_column(layout, lines.path, tagged=tagged), **columns}
            if columns["token"]:
                _hint(lines, "column 0 counts the words, so {token_column} is 1", "token_column")
        if tag_column == -1:
            _require_one_tag_column(layout, columns["token"], lines.path)
        if layout.header is not None and header is None:
            names = verbatim(repr(", ".join(layout.header)))
            _hint(lines, f"read {names} as a header; {{header=False}} keeps it", "header")
        if layout.comments:
            _hint(lines, f"lines before sentences that begin with # are comments, such as {layout.comments[0]!r}")
        self._lines, self._layout, self._comment = lines, layout, comment
        self._columns, self._features = columns, features  # role, or name -> its column
        self._sentence_column, self._numbers = sentence_column, SentenceNumbers()
        self._roles = roles  # the first column of semantic roles, if there are any
        self._has_brackets = layout.has_brackets(tag_column, roles)
        self._header_follows = layout.header is not None
        self._may_have_header = header is not False
        self._is_inside = False  # whether the line before was a word
        self._warned = set[str]()  # kinds of warnings that were given
        self._width = 0  # the number of columns of the lines before

    def parse(self, content: str) -> list[str] | None:
        """The columns of a token; none between two sentences; None for a line that is no token."""
        content = content.removesuffix("\n")
        if self._comment is not None and content.startswith(self._comment):
            return None
        if content.startswith("#") and (DOCUMENT_MARK.match(content) or self._is_comment(content)):
            return None
        fields = [] if is_blank(content) else split_columns(content, self._layout.separator)
        if not fields or (DOCUMENT_START in content and self._begins_document(content, fields)):
            self._is_inside = False
            return [] if self._sentence_column is None else None
        if self._header_follows:
            self._header_follows = False
            return None
        self._check(fields)
        if self._may_have_header and self._is_header(fields):
            raise inner_header_error(optional=True)
        self._is_inside = True
        return None if self._layout.counts and NOT_A_WORD.fullmatch(fields[0]) else fields

    def _is_header(self, fields: list[str]) -> bool:
        """Whether a row is the header once more, or begins a sentence with usual names, where no other has that tag."""
        tag = self._columns.get("tag")
        if self._layout.header is not None or tag is None or self._is_inside:
            return fields == self._layout.header
        if not names_columns(fields[self._columns["token"]], fields[tag]):
            return False
        others = [row for row in self._layout.rows if row != fields and -len(row) <= tag < len(row)]
        return all(row[tag] != fields[tag] for row in others)

    def _begins_document(self, content: str, fields: list[str]) -> bool:
        """Whether the word is ``-DOCSTART-``, whose line may have blanks in a file with tabs."""
        return DOCUMENT_START in (split_at_blanks(content)[0], fields[0], fields[self._columns["token"] % len(fields)])

    def _is_comment(self, content: str) -> bool:
        return bool(self._layout.comments) and not self._is_inside and self._layout.is_comment(content)

    def _check(self, fields: list[str]) -> None:
        """Reject a line with other columns than the first of the file, or of the sentence in which they may differ."""
        width = len(fields)
        if not self._width or (not self._is_inside and (self._roles is not None or self._layout.documents)):
            self._check_columns(width)
            self._width = width
        if width != self._width:
            hint = "Complete the line, or set {comment} if it is one."
            problem = f"{_describe_width(width)}, but {self._width} on the lines before"
            raise DataError(problem, hint=hint, options=("comment",))
        for role, column in [*self._columns.items(), *self._features.items()]:
            if not fields[column]:
                raise DataError(f"the {role} is empty", hint="Fill it in.")

    def _check_columns(self, width: int) -> None:
        """Reject columns that a line of this width does not have, and tags or words as features."""
        options = [(role, column, f"{role}_column") for role, column in self._columns.items()]
        if self._sentence_column is not None:
            options.append(("number of the sentence", self._sentence_column, "sentence_column"))
        options += [(f"feature {name!r}", column, "feature_columns") for name, column in self._features.items()]
        for role, column, option in options:
            if not -width <= column < width:
                present = f"the line has {_describe_width(width)}, counted from 0"
                problem = f"there is no column {column} for the {role}: {present}"
                hint = f"Set {{{option}}} to one of them, -1 for the last."
                raise DataError(problem, hint=hint, options=(option,))
        if width == 1 and "tag" in self._columns:
            hint = "Set {separator} to the characters between word and tag."
            raise DataError("the line has 1 column, so there is no tag", hint=hint, options=("separator",))
        tags = [column % width for role, column in self._columns.items() if role == "tag"]
        tags += range(width if self._roles is None else self._roles, width)
        for column in self._features.values():
            if column % width in tags:
                raise ConfigError(
                    f"{{feature_columns}} has column {column}, that of the tags. Leave it out, or set {{tag_column}} "
                    "to another one",
                    options=("feature_columns", "tag_column"),
                )
            if column % width == self._columns["token"] % width:  # -2 is another column in a file without tags
                raise ConfigError(
                    f"{{feature_columns}} has column {column}, that of the words. Set it to another one, counted from "
                    "0",
                    options=("feature_columns",),
                )

    def begins(self, fields: list[str]) -> bool:
        """Whether a row has the number of a new sentence."""
        return self._sentence_column is not None and self._numbers.begins(fields[self._sentence_column])

    def make_sentences(self, numbered: list[tuple[int, list[str]]]) -> list[Sentence]:
        """The sentence of numbered rows, or with roles one for each predicate."""
        lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
        if self._sentence_column is not None:
            self._numbers.check(rows[0][self._sentence_column], lines[0])
        if len(rows) > _MANY_WORDS:
            problem = f"the sentence that begins here has {len(rows):,} words; a blank line must end each sentence"
            self._warn_once("length", lines[0], problem)
        by_role = {role: tuple(row[column] for row in rows) for role, column in self._columns.items()}
        if _QUOTED_QUOTE in by_role["token"]:
            problem = f"the word {_QUOTED_QUOTE} is read as it is; if it is a quote of a table, write one sign"
            self._warn_once("quote", lines[by_role["token"].index(_QUOTED_QUOTE)], problem)
        marks = [int(mark not in NO_PREDICATE) for mark in by_role.get("predicate", ())]
        origin = self._lines.path, lines[0]
        features = {name: tuple(row[column] for row in rows) for name, column in self._features.items()} or None
        if self._roles is None:
            tags = self._read_tags(by_role.get("tag"), lines)
            return [Sentence(by_role["token"], tags=tags, predicates=marks or None, features=features, origin=origin)]
        predicates = [word for word, mark in enumerate(marks) if mark]
        return [
            Sentence(
                by_role["token"],
                tags=self._read_tags(None if column is None else [row[column] for row in rows], lines),
                predicates=[int(word == predicate) for word in range(len(rows))],
                features=features,
                origin=origin,
            )
            for predicate, column in zip(predicates, self._role_columns(rows, len(predicates), lines[0]), strict=True)
        ]

    def _warn_once(self, kind: str, line: int, problem: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn_caller(GraphAttnWarning(f"{self._lines.path}, line {line}: {problem}"))

    def _read_tags(self, tags: Sequence[str] | None, lines: list[int]) -> Sequence[str] | None:
        return read_brackets(tags, path=self._lines.path, lines=lines) if tags and self._has_brackets else tags

    def _role_columns(self, rows: list[list[str]], count: int, line: int) -> Sequence[int | None]:
        """The column of each predicate's roles; None in a file without roles. CoNLL-2012 has one more at the end."""
        first = self._roles or 0
        columns = len(rows[0]) - first
        if columns <= 0 or not count:
            return [None] * count
        if self._has_brackets and not are_brackets([row[-1] for row in rows]):
            columns -= 1
        if columns != count:
            raise DataError(
                f"column {self._columns['predicate']} marks {count} predicates in the sentence that begins here, which "
                f"has {_describe_width(columns)} of roles, from {first} on",
                line=line,
                hint="Set {predicate_column} to the column of the predicates with roles, and {tag_column} to the first "
                "column of roles and a plus sign.",
                options=("predicate_column", "tag_column"),
            )
        return range(first, first + count)


def _describe_width(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _find_token_column(layout: ColumnLayout, path: str, *, tagged: bool) -> int:
    """The column of the token: the first that does not count the words."""
    rows = layout.rows
    if layout.counts and len(rows[0]) > 1 + tagged:
        return 1
    problem, hint = None, "Set {token_column} to the column of the words, counted from 0."
    if layout.repeats_first_column():
        problem = f"column 0 is {rows[0][0]!r} on each line, so it is not the word"
    elif layout.numbers_sentences():
        problem = "column 0 has the same numbers in several sentences, so it is not the word"
    elif tagged and layout.has_tags_first():
        problem = "column 0 has tags, and the last column has others"
        hint = "Set {token_column} to the column of the words, and {tag_column} to 0 if these are the tags."
    if problem is not None:
        raise DataError(problem, path=path, hint=hint, options=("token_column", "tag_column"))
    return 0


def _require_one_tag_column(layout: ColumnLayout, token_column: int, path: str) -> None:
    """Ask which column has the tags, if the last one is not the only one, or has numbers."""
    same = layout.find_same_tags(token_column)
    names = [f"{column} ({verbatim(layout.header[column])})" if layout.header else str(column) for column in same]
    if same:
        problem = f"columns {', '.join(names[:-1])} and {names[-1]} have tags of the same set, like gold and predicted"
        hint = f"Set {{tag_column}} to the one to read, {', '.join(map(str, same[:-1]))} or {same[-1]}."
        raise DataError(problem, path=path, hint=hint, options=("tag_column",))
    if layout.has_fractions_last():
        problem, hint = "the last column has numbers, not tags", "Set {tag_column} to the column of the tags, from 0."
        raise DataError(problem, path=path, hint=hint, options=("tag_column",))


def counts_words(lines: TextLines, **options: Any) -> bool:
    """Whether the first column of a file counts the words of its sentences; ``options`` are those of read_conll."""
    known = {name: options[name] for name in ("separator", "comment", "header") if name in options}
    return find_layout(_sample(lines), **known).counts


def read_word_tag(path: FilePath, *, separator: str = "/", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read tagged sentences from lines such as ``a/DT dog/NN barks/VBZ``, one at a time.

    A word ends at its last separator without a backslash before it; in the word, a backslash before a separator
    is dropped, as in the Penn Treebank's ``1\\/2/CD``. Blank lines are skipped.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    separator : the characters between a word and its tag

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.pos"
    >>> _ = path.write_text("1\\\\/2/CD hour/NN\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_word_tag(path)]
    [(('1/2', 'hour'), ('CD', 'NN'))]
    """
    if not separator or {*BLANKS, "\\"} & {*separator}:
        raise ConfigError(
            f"{{separator}} is {separator!r}. Set it to the characters between word and tag, '/' for example",
            options=("separator",),
        )
    name = display_name(path)

    def parse(line: int, content: str) -> Sentence | None:
        pairs = [_split_pair(piece, separator) for piece in split_at_blanks(content)]
        if not pairs:
            return None
        words, tags = zip(*pairs, strict=True)
        return Sentence(words, tags=tags, origin=(name, line))

    sentences = parse_lines(path, parse, skip, reject_blank=False, blanks="\n")
    return (sentence for sentence in sentences if sentence is not None)


def _split_pair(piece: str, separator: str) -> tuple[str, str]:
    end = piece.rfind(separator)
    while end > 0 and piece[end - 1] == "\\":
        end = piece.rfind(separator, 0, end)
    word, tag = piece[: max(end, 0)], piece[end + len(separator) :]
    if end < 0 or not word or not tag:
        missing = "word" if end >= 0 and not word else "tag"
        raise DataError(
            f"{verbatim(repr(piece))} has no {missing}",
            hint=f"Write word{verbatim(separator)}TAG, or set {{separator}}.",
            options=("separator",),
        )
    return word.replace("\\" + separator, separator), tag

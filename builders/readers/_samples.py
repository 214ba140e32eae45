"""The first lines of a corpus, and the formats that they may have."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from graphattn.builders._spelling import compose
from graphattn.builders._text_lines import BLANKS, TextLines, split_suffix
from graphattn.builders.readers._column_layout import (
    ENTITY_TAG,
    NO_PREDICATE,
    ColumnLayout,
    are_types_same,
    find_layout,
    find_word_columns,
    list_types,
)
from graphattn.builders.readers._conllu import CONLLU_COLUMNS, GLOBAL_COLUMNS
from graphattn.builders.readers._dialects import MAX_MISTAKES, STANDARD, Dialect, choose_dialect
from graphattn.builders.readers._fields import match_name
from graphattn.builders.readers._rows import split_at_blanks, split_plain

SAMPLE_LINES = 200
MORE = "..."
"""At the end of the columns of a labelled file: there may be more fields, which are skipped."""

_COMMON_HEADERS = frozenset(
    "category class gold_label hypothesis label labels premise question review second sentence sentence1 sentence2 "
    "sentiment target text text1 text2".split()
)
LIKELY_HEADERS = _COMMON_HEADERS | frozenset(
    "answer body comment content document emotion gender headline id intent is_spam message name polarity rating score "
    "source src stars summary tgt title topic translation tweet utterance v1 v2".split()
)
LABEL_HEADERS = frozenset({"label", "labels", "class", "category", "gold_label"})
_TARGET_HEADERS = LABEL_HEADERS | frozenset(
    "emotion gender intent is_spam polarity rating score sentiment stars summary target tgt topic translation".split()
)
_HEADER_NAME = re.compile(r"#? ?\w+([ .#/&_-]+#?\w+){0,3}( ?\([^()]*\))?:?")
"""``gold_label``, ``#1 ID`` or ``Score (1-5)``"""
_WORD = re.compile(r"\w+")
_CAPITAL_ENTITY_TAG = re.compile(r"O|[BIESLUM]-[A-Z_]{2,}")
"""``B-PER``, but neither ``B-12`` nor ``U-Bahn``."""
_WORD_CLASS = re.compile(r"[A-Z][A-Z0-9$.:+-]*|[^\w\s]+")
"""``NN``, ``PRP$`` or ``.``"""
_JSON_OBJECT = re.compile(r'\s*\{\s*"\w+"\s*:')
_SPANS = re.compile(
    r'"[^"\\]+"\s*:\s*\[\s*(\[\s*\d+\s*,\s*\d+\s*,\s*"|\{(?=[^{}]*"(start(_offset)?|span)"\s*:\s*\[?\s*\d)'
    r'[^{}]*"(label|type|labels|entity)"\s*:)'
    r'|"value"\s*:\s*\{[^{}]*"start"\s*:\s*\d|"(spans|entities|ents)"\s*:\s*\[\s*\]'
)
"""A list of triples or of objects with a start and a type; Label Studio's values; or an empty list of spans."""
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_UNSPACED_WORD, _LONG_UNSPACED_WORD = 4, 12
"""Characters of usual words in these scripts, and of words that are hardly ever longer."""
EXCEL_DELIMITER = re.compile(r"sep=(.)\n?")
"""The first line of a ``.csv`` file that says what separates its fields."""
_CONLLU_ID = re.compile(r"0\.1|1(-\d+)?")


@dataclass(frozen=True)
class Sample:
    """The first lines of a corpus, without blank ones at the end."""

    lines: tuple[str, ...]  # lines without their line ends
    suffix: str  # the extension under that of the compression
    text_column: str  # name of the text's column, if there is a header
    tagged: bool  # whether the task needs tagged words
    optional: bool = False  # whether the file may be texts alone, to predict
    word_columns: tuple[str, ...] = ()  # names of columns of a table of words that are given

    @classmethod
    def read(cls, lines: TextLines, count: int, *, text_column: str, **facts: Any) -> Sample:
        """Read ahead in a file; an empty file raises its error."""
        sampled = lines.sample(count)
        if not sampled:
            next(lines)  # raises the error of the first line
        while sampled and not sampled[-1].strip(BLANKS):
            sampled.pop()
        return cls(tuple(sampled), split_suffix(lines)[0], compose(text_column), **facts)

    @cached_property
    def filled(self) -> list[str]:
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip(BLANKS)]

    @cached_property
    def tab_rows(self) -> list[list[str]]:
        """The filled lines, split at tabs."""
        return [line.split("\t") for line in self.filled]

    @cached_property
    def names(self) -> list[str]:
        """The fields of the first line between tabs, which may be a header."""
        return list(map(clean_name, compose(self.lines[0]).split("\t"))) if self.lines else []

    @cached_property
    def modal_rows(self) -> list[list[str]]:
        """The rows with the most frequent number of fields; those of a ``.csv`` file are CSV."""
        if self.suffix == ".csv":
            lines = [line + "\n" for line in self.lines]
            delimiter = find_csv_delimiter(lines)
            return _rows_of_modal_width(
                split_rows(lines, delimiter, dialect=choose_dialect(lines, delimiter, _is_wide))
            )
        return _rows_of_modal_width(self.tab_rows)

    @cached_property
    def examples(self) -> list[list[str]]:
        """The rows with the most frequent number of fields, without a header."""
        rows = self.modal_rows
        return [row for row in rows if row != rows[0]] if is_header(rows) else rows

    @cached_property
    def columns(self) -> ColumnLayout:
        """The columns of the words, if the file has them."""
        return find_layout(self.lines)

    @cached_property
    def pieces(self) -> list[str]:
        """The pieces of all lines between blanks."""
        return [piece for line in self.lines for piece in split_at_blanks(line)]

    def line_with_blank_field(self) -> int | None:
        """1-based number of the first line that has a blank field between tabs or at an end."""
        filled = ((number, line.split("\t")) for number, line in enumerate(self.lines, 1) if line.strip())
        return next((number for number, row in filled if not all(map(str.strip, row))), None)

    def has_blank_lines(self) -> bool:
        """Whether blank lines separate sentences."""
        return len(self.filled) < len(self.lines)


def _rows_of_modal_width(rows: list[list[str]]) -> list[list[str]]:
    ((width, _),) = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    return [row for row in rows if len(row) == width]


def split_rows(
    lines: Sequence[str], delimiter: str, *, quoted: bool = True, most: int = 0, dialect: Dialect = STANDARD
) -> list[list[str]]:
    """The rows of a sample that are not blank; none if quotes are not closed. See :func:`split_plain` for ``most``."""
    if not quoted:
        return [split_plain(line.removesuffix("\n"), delimiter, most) for line in lines if line.strip()]
    try:
        return [row for row in dialect.reader(lines, delimiter) if row]
    except csv.Error:
        return []


def _is_wide(width: int) -> bool:
    return width > 1


def find_csv_delimiter(lines: Sequence[str], fits: Callable[[int], bool] = _is_wide) -> str:
    """The separator of the fields of a ``.csv`` file: a comma, unless another sign alone gives rows of a fitting width.

    A fitting comma that has a blank after it gives way to a sign that stands before it and has none.

    Examples
    --------
    >>> find_csv_delimiter(["1;very good, indeed\\n", "0;bad\\n"])
    ';'
    """
    excel = EXCEL_DELIMITER.fullmatch(lines[0]) if lines else None
    if excel:
        return excel[1]
    fitting: dict[str, int] = {}  # delimiter -> rows with a blank after it, where it is probably a punctuation mark
    for delimiter in ",\t;|":
        quoted = delimiter != "\t"
        dialect = choose_dialect(lines, delimiter, fits) if quoted else STANDARD
        rows = split_rows(lines, delimiter, quoted=quoted, dialect=dialect)
        if _are_mistakes_few(sum(fits(len(row)) for row in rows), len(rows)):
            first = [line.partition(",")[0] for line in lines if line.strip()]
            is_first = _are_mistakes_few(sum(delimiter in start for start in first), len(first))
            if not fitting or ("," in fitting and is_first):
                fitting[delimiter] = sum(any(field.startswith(" ") for field in row[1:]) for row in rows)
    return min(fitting, key=lambda delimiter: fitting[delimiter], default=",")


def is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some rows of equal width names their columns.

    A header consists of names that occur nowhere else in their columns. It has a common one such as ``label``, or the
    columns show it: if the first row were an example like the others, the probability of such a name in a column would
    be the share of cells there that are names, too, and unique. The product over all columns must be small. Files
    that were joined may repeat a header with a common name.

    Examples
    --------
    >>> is_header([["polarity", "tweet"], ["pos", "so good"], ["neg", "oh no"], ["pos", "I like it"]])
    True
    >>> is_header([["mixed", "so"], ["pos", "good"], ["neg", "no"], ["pos", "fine"], ["neg", "bad"]])
    False
    """
    names = list(map(clean_name, rows[0])) if rows else []
    words = list(map(_count_name_words, names))
    has_common = any(name.lower() in _COMMON_HEADERS for name in names)
    others = [row for row in rows[1:] if not has_common or row != rows[0]]
    columns = [[cell.strip() for cell in column] for column in zip(*others, strict=True)]
    if len(names) < 2 or not columns or not any(names):
        return False
    if [*filter(None, names)] == [str(number) for number in range(sum(map(bool, names)))]:
        # pandas numbers columns that have no names; texts are no numbers.
        return any(not any(map(_NUMBER.fullmatch, column)) for column in columns)
    if not all(words[index] and name not in columns[index] for index, name in enumerate(names) if name):
        return False
    if has_common:
        return True
    evidence = 1.0
    for name, most, column in zip(names, words, columns, strict=True):
        if name:
            alike = sum(count == 1 and 0 < _count_name_words(cell) <= most for cell, count in Counter(column).items())
            evidence *= (len(others) + 1) / (alike + 1) * (10 if name.lower() in LIKELY_HEADERS else 1)
    return evidence >= min(max(20, 5 * len(others)), 50)


def is_inner_header(text: str) -> bool:
    """Whether a text with one of ``LABEL_HEADERS`` as its label names a column, too, as in joined files."""
    return clean_name(text).lower() in _COMMON_HEADERS - LABEL_HEADERS


def is_header_of_pair(source: str, target: str) -> bool:
    """Whether the first lines of two files are usual names of columns."""
    names = {clean_name(source).lower(), clean_name(target).lower()}
    return len(names) == 2 and LIKELY_HEADERS.issuperset(names) and not _TARGET_HEADERS.isdisjoint(names)


def clean_name(field: str) -> str:
    """The name of a column, without blanks and quotes around it."""
    return field.strip().strip('"')


def is_name(field: str) -> bool:
    """Whether a field may be the name of a column."""
    return _count_name_words(clean_name(field)) > 0


def _count_name_words(field: str) -> int:
    """The number of words if the field may be the name of a column, such as ``gold_label`` or ``#1 ID``, else 0."""
    if len(field) > 80:
        return 0
    name = field if field.isascii() else "".join(sign for sign in field if unicodedata.category(sign)[0] != "M")
    is_name = len(name) <= 40 and _HEADER_NAME.fullmatch(name) is not None and any(map(str.isalpha, name))
    return len(_WORD.findall(name)) if is_name else 0


class FormatTest(NamedTuple):
    """The tests of a format."""

    format: str
    fits: Callable[[Sample], bool]  # whether a corpus with labels has this format
    # whether a file that may also be plain text has it; plain text fails this test
    surely: Callable[[Sample], bool] = lambda _: False
    likely: Callable[[Sample], bool] = lambda _: False  # the same, but plain text may pass


def find_parallel_separator(lines: Sequence[str]) -> str | None:
    """The separator of source and target on each line, except for few mistakes; None when there is none."""
    filled = [line for line in lines if line.strip()]
    counts = {sign: sum(line.count(sign) == 1 for line in filled) for sign in (" ||| ", "|||", "\t")}
    return next((sign for sign, count in counts.items() if _are_mistakes_few(count, len(filled))), None)


def find_label_columns(sample: Sample, *, pairs: bool | None) -> tuple[str, ...] | None:
    """The content of each field of a table; None when the sample does not show it.

    The label is the first or last field, if it is one word that recurs, and the other one is not, or has clearly more
    distinct values. A second text is no label of the same set, as in a file of gold and predicted labels.
    """
    rows = sample.examples
    width = len(rows[0]) if rows else 0
    if width not in {None: (2, 3), True: (3,), False: (2,)}[pairs]:
        return None
    texts = ("text", "second") if width == 3 else ("text",)
    ends = [[row[index].strip() for row in rows] for index in (0, -1)]
    distinct = [len({*column}) for column in ends]
    numeric = [all(map(_NUMBER.fullmatch, column)) for column in ends]  # no texts, then
    likely = [_may_be_labels(column) and not numeric[1 - end] for end, column in enumerate(ends)]
    possible = [end for end in (0, 1) if likely[end] and distinct[end] <= distinct[1 - end]]
    if len(possible) != 1 or (all(likely) and 3 * min(distinct) > 2 * max(distinct)):
        return None
    columns = (*texts, "label") if possible[0] else ("label", *texts)
    of_middle, of_label = (list_types([row[index].strip() for row in rows]) for index in (1, columns.index("label")))
    if width == 3 and are_types_same(of_middle, of_label):
        return None
    header = sample.modal_rows[0] if len(sample.modal_rows) > len(rows) else []
    named = [field for field, name in enumerate(header) if clean_name(name).lower() in LABEL_HEADERS]
    return columns if named in ([], [columns.index("label")]) else None


def find_label_separator(sample: Sample) -> tuple[str, tuple[str, ...]] | None:
    """The sign between a text and its label on each line, and their order; None if no usual one separates them."""
    for sign in (" ||| ", "|||", ";", "@", "|", "#"):
        if _are_mistakes_few(sum(line.count(sign) == 1 for line in sample.filled), len(sample.filled)):
            lines = tuple(line.replace(sign, "\t") for line in sample.lines)
            columns = find_label_columns(replace(sample, lines=lines, suffix=""), pairs=False)
            if columns is not None:
                return sign, columns
    return None


def has_word_labels(sample: Sample, columns: Sequence[str]) -> bool:
    """Whether the field of the label has no more than one word on each line."""
    label = columns.index("label")
    return all(len(split_at_blanks(row[label])) <= 1 for row in sample.examples if len(row) == len(columns))


def has_recurring_labels(sample: Sample, columns: Sequence[str]) -> bool:
    """Whether examples share labels."""
    labels = [row[columns.index("label")] for row in sample.examples]
    return len(set(labels)) < len(labels)


def _may_be_labels(fields: Sequence[str]) -> bool:
    """Whether each is one word; ten or more without repetition are more likely the numbers of the examples.

    A few may be blank by mistake; the reader reports the first of them.
    """
    filled = [field for field in fields if field.strip()]
    repeats = len(set(filled)) < len(filled) or len(filled) < 10
    is_word = all(len(split_at_blanks(field)) == 1 for field in filled)
    return repeats and is_word and _are_mistakes_few(len(filled), len(fields))


def _has_field(first: str, name: str) -> bool:
    return f'"{name}"'.casefold() in first.casefold()


def is_sentences(sample: Sample) -> bool:
    """Whether the file is JSON Lines with tokens, or lists of words without texts."""
    if not _is_json_lines(sample):
        return False
    first = sample.filled[0]
    words = re.search(r'[{,]\s*"words"\s*:\s*\[', first) is not None and not _has_field(first, sample.text_column)
    return words or re.search(r'[{,]\s*"tokens"\s*:(?!\s*\[\s*\{)', first) is not None


def is_spans(sample: Sample) -> bool:
    """Whether the file is JSON of texts with spans; besides labels only for words to tag."""
    has_spans = _is_json_lines(sample) and _SPANS.search("\n".join(sample.filled)) is not None
    return has_spans and (sample.tagged or not _has_plain_label(sample.filled[0]))


def _has_plain_label(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        label = record.get("label") if isinstance(record, dict) else None
        return label is not None and not (isinstance(label, list) and all(isinstance(x, (list, dict)) for x in label))
    return False


def is_webanno(sample: Sample) -> bool:
    """Whether the first line says so."""
    return bool(sample.lines) and sample.lines[0].startswith("#FORMAT=WebAnno TSV 3")


def is_conllu(sample: Sample) -> bool:
    """Whether the first line that is no comment has ten columns and the id 1."""
    rows = (row for row in sample.tab_rows if not row[0].startswith("#"))
    row = next(rows, [""])
    return len(row) == 10 and _CONLLU_ID.fullmatch(row[0]) is not None


def is_conllup(sample: Sample) -> bool:
    """Whether comments at the beginning name columns other than those of CoNLL-U."""
    for line in sample.filled:
        named = GLOBAL_COLUMNS.match(line)
        if named is not None or not line.startswith("#"):
            return named is not None and tuple(named[1].lower().split()) != CONLLU_COLUMNS
    return False


def is_labelled(sample: Sample) -> bool:
    """Whether lines have equally many fields between tabs, two or more, except for few mistakes."""
    rows = sample.modal_rows
    return bool(rows) and len(rows[0]) > 1 and _are_mistakes_few(len(rows), len(sample.lines))


def has_tsv_header(sample: Sample) -> bool:
    """Whether the first line names columns: that of the text, or others with common names."""
    if len(sample.names) < 2:
        return sample.suffix == ".tsv" and match_name(sample.text_column, sample.names) is not None
    if match_name(sample.text_column, sample.names):
        return True
    # A header with other names than the requested ones must not be read as an example.
    is_modal = len(sample.modal_rows[0]) == len(sample.names)
    return is_modal and not sample.has_blank_lines() and is_header(sample.modal_rows)


def find_name_delimiter(line: str) -> str | None:
    """The sign between names of columns; None if the line has something else than names."""
    return next((sign for sign in "\t,;|" if sign in line and all(map(is_name, line.split(sign)))), None)


def _has_csv_header(sample: Sample) -> bool:
    names = [name.strip('"') for name in compose(sample.lines[0]).split(",")] if sample.lines else []
    if sample.suffix == ".csv":  # in other files a sentence may have this word after a comma and a blank
        names = [clean_name(name).strip("'") for name in names]
    return len(names) > 1 and match_name(sample.text_column, names) is not None


def _is_json_lines(sample: Sample) -> bool:
    return bool(sample.filled) and sample.filled[0].startswith("{")


def _has_json_text(sample: Sample) -> bool:
    return _is_json_lines(sample) and _has_field(compose(sample.filled[0]), sample.text_column)


def _has_json_object(sample: Sample) -> bool:
    return bool(sample.filled) and _JSON_OBJECT.match(sample.filled[0]) is not None


def _is_fasttext(sample: Sample) -> bool:
    labelled = sum(line.lstrip(BLANKS).startswith("__label__") for line in sample.filled)
    return _are_mistakes_few(labelled, len(sample.filled))


def _is_word_tag(sample: Sample) -> bool:
    return bool(sample.pieces) and all(re.fullmatch(r".+/[^/\\]+", piece) for piece in sample.pieces)


def _is_surely_word_tag(sample: Sample) -> bool:
    """Whether the parts after the slashes are tags, and not words of texts such as ``and/or``."""
    tags = [piece.rpartition("/")[2] for piece in sample.pieces]
    recurring = len(tags) >= 10 and len({*tags}) < len(tags) and not any(map(str.isdecimal, tags))
    return len(tags) > 2 and _is_word_tag(sample) and (recurring or all(map(_WORD_CLASS.fullmatch, tags)))


def _is_conll(sample: Sample) -> bool:
    if not (sample.tagged or sample.has_blank_lines()):
        return False
    layout, rows = sample.columns, sample.columns.rows
    if not rows or min(map(len, rows)) < 2 or _is_json_value(sample.filled[0]) or _has_pairs_in_cells(rows):
        return False
    if len({len(row) for row in rows}) > 1:  # one column for each predicate
        uniform = all(len({len(row) for row in sentence}) == 1 for sentence in layout.sentences)
        many = min(map(len, rows)) >= 4 and len(rows) >= 2 * len(layout.sentences)
        return uniform and (many or layout.documents)
    with_blanks = sum(" " in row[layout.counts and len(row) > 2] for row in rows)
    tags = [row[-1] for row in rows]
    shows_tags = sample.has_blank_lines() or layout.header is not None or _are_entity_tags(tags)
    few = not with_blanks or (2 * with_blanks < len(rows) and shows_tags)
    return few and not any(" " in tag for tag in tags)


def _is_json_value(line: str) -> bool:
    """Whether a line is an object or a list, which blanks would cut into columns."""
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), (dict, list))
    return False


def _has_pairs_in_cells(rows: Sequence[Sequence[str]]) -> bool:
    """Whether all cells have the form ``word_TAG``, with one sign between; columns have words or tags."""
    return any(all(sign in cell for row in rows for cell in row) for sign in ("_", "|", "###"))


def _is_surely_conll(sample: Sample) -> bool:
    """Whether lines of equally many words are words with their tags, and not texts of the same length."""
    layout, rows = sample.columns, sample.columns.rows
    if not _is_conll(sample) or not _has_long_sentences(layout):
        return False
    tags = [row[-1] for row in rows]
    if _are_entity_tags(tags) or {*tags} == {"_"}:
        return True
    if len({*tags}) == len(tags):
        return False
    numbered = all(row[0].isdecimal() for row in rows)
    return sample.has_blank_lines() or (layout.separator == "\t" and not numbered)


def _has_long_sentences(layout: ColumnLayout) -> bool:
    """Whether some lines have no blank line between them; sentences in columns rarely all have one word."""
    return any(len(sentence) > 1 for sentence in layout.sentences)


def is_word_table(sample: Sample) -> bool:
    """Whether a header, or the fields of a first record, name columns of words and of the numbers of their sentences.

    A ``.csv`` file of tagged words needs no numbers.
    """
    bare = sample.tagged and not sample.optional
    for names in _list_possible_names(sample):
        if sample.word_columns:
            fits = all(match_name(name, names) is not None for name in sample.word_columns)
        else:
            token, number = find_word_columns(names, bare=bare)
            is_csv = bare and sample.suffix == ".csv" and token != "text"
            fits = token is not None and (number is not None or is_csv)
        if fits:
            return True
    return False


def _list_possible_names(sample: Sample) -> Iterator[list[str]]:
    if _is_json_lines(sample):
        with suppress(ValueError, RecursionError):
            record = json.loads(sample.filled[0])
            if isinstance(record, dict) and not any(isinstance(value, (list, dict)) for value in record.values()):
                yield list(map(compose, record))
        return
    first = next((line for line in sample.lines[:2] if not EXCEL_DELIMITER.fullmatch(line)), "")
    yield from (list(map(clean_name, compose(first).split(sign))) for sign in "\t,;|" if sign in first)


def are_words_alone(sample: Sample) -> bool | None:
    """Whether each line is a word, and blank lines end sentences; None if each line may as well be a text.

    In scripts without blanks between words, a short line may be a word, and a longer one is a text.
    """
    rows = sample.columns.rows
    if len(rows) < 2 or any(len(row) != 1 for row in rows):
        return False
    longest = max((len(word) for (word,) in rows if _UNSPACED.search(word)), default=0)
    if longest > _LONG_UNSPACED_WORD:
        return False
    is_clear = longest <= _UNSPACED_WORD and sample.has_blank_lines() and _has_long_sentences(sample.columns)
    return True if is_clear else None


def has_text_column(sample: Sample, format: str, options: Mapping[str, Any]) -> bool:
    """Whether the first line of a table names the column of the text; other formats have no names."""
    first = compose(sample.lines[0]) if sample.lines else ""
    if format == "jsonl":
        return _has_field(first, sample.text_column.rpartition(".")[2])
    if format == "word-table":
        return is_word_table(sample)
    if format not in ("csv", "tsv"):
        return True
    names = first.split(options.get("delimiter") or {"csv": ",", "tsv": "\t"}[format])
    return match_name(sample.text_column, [clean_name(name).strip("'") for name in names]) is not None


def is_like_training(sample: Sample, format: str, options: Mapping[str, Any], labels: Collection[str]) -> bool:
    """Whether a file to predict is surely in the format of the training corpus, and not plain text."""
    if format == "word/tag":
        separator = options.get("separator", "/")
        tags = [piece.rpartition(separator)[2] for piece in sample.pieces if separator in piece]
        return len(sample.pieces) == len(tags) > 1 and 2 * sum(tag in labels for tag in tags) > len(tags)
    if format == "conllup" and "columns" in options:
        return has_tree_columns(sample, options["columns"])
    if format == "labelled":
        return _has_known_labels(sample, options, labels)
    if format == "conll":
        return _has_known_tags(sample, options, labels)
    if format == "tsv":  # its header names the column of the texts
        return "\t" in sample.lines[0]
    return format in match_formats(sample, "surely")


def _has_known_tags(sample: Sample, options: Mapping[str, Any], labels: Collection[str]) -> bool:
    """Whether the column of the tags has those that the model knows, or that of the predicates has marks."""
    tag_column = options.get("tag_column", -1)
    layout = find_layout(sample.lines, separator=options.get("separator"), comment=options.get("comment"))
    rows = layout.rows
    if isinstance(tag_column, str):
        predicates = options["predicate_column"]
        marks = [row[predicates] for row in rows if -len(row) <= predicates < len(row)]
        return _has_long_sentences(layout) and 2 * sum(mark in NO_PREDICATE for mark in marks) > len(rows)
    if any(not -len(row) <= tag_column < len(row) or len(row) < 2 for row in rows):
        return False
    known = [row[tag_column] for row in rows if row[tag_column] in labels]
    if not _has_long_sentences(layout):  # as in a file of one word, unless each line is a text
        return len(known) == len(rows) and _are_entity_tags(known)
    are_words_tagged = 2 * len(known) > len(rows) and (sample.has_blank_lines() or {*known} != {"O"})
    return are_words_tagged or _is_surely_conll(sample)


def _has_known_labels(sample: Sample, options: Mapping[str, Any], labels: Collection[str]) -> bool:
    """Whether most lines have the fields of the training corpus, with a label that the model knows, or a number."""
    roles, separator = list(options["columns"]), options.get("separator") or "\t"
    more = roles[-1:] == [MORE]
    width = len(roles) - more
    rows = split_rows(sample.filled, separator, quoted=False, most=count_splits(roles[:width], separator))
    fitting = [row for row in rows if len(row) == width or (more and len(row) > width)]
    if "label" not in roles or width < 2:
        return False
    cells = [clean_name(row[roles.index("label")]) for row in fitting]
    known = [cell for cell in cells if (cell in labels if labels else _NUMBER.fullmatch(cell))]
    return 2 * len(known) > len(rows)


def count_splits(roles: Sequence[str | None], separator: str) -> int:
    """Number of separators to split at, from the end if negative; 0 for all.

    Words are separated by blanks, too: only those between the text and the other fields count.
    """
    if separator != " ":
        return 0
    return len(roles) - 1 if roles[-1] == "text" else 1 - len(roles)


def has_tree_columns(sample: Sample, columns: Sequence[str | None]) -> bool:
    """Whether the columns of indices and heads have numbers, and there are such columns."""
    rows = sample.columns.rows
    indices = [index for index, name in enumerate(columns) if str(name).lower() in ("index", "id", "head")]
    return (
        bool(rows and indices)
        and min(map(len, rows)) >= len(columns)
        and all(row[index] == "_" or row[index][:1].isdecimal() for row in rows for index in indices)
    )


def _are_entity_tags(tags: Sequence[str]) -> bool:
    typed = any("-" in tag for tag in tags)
    if typed and all(map(_CAPITAL_ENTITY_TAG.fullmatch, tags)):
        return True
    recurring = len({*tags}) < len(tags)
    return recurring and (typed or len(tags) > 2) and all(map(ENTITY_TAG.fullmatch, tags))


def _are_mistakes_few(fitting: int, lines: int) -> bool:
    """Whether the lines that do not fit are few enough to be mistakes."""
    mistakes = lines - fitting
    return mistakes <= MAX_MISTAKES and fitting >= 2 * mistakes and fitting > 0


FORMAT_TESTS = (
    FormatTest("webanno", is_webanno, surely=is_webanno),
    FormatTest("fasttext", _is_fasttext, surely=_is_fasttext),
    FormatTest("word-table", is_word_table, surely=lambda sample: sample.tagged and is_word_table(sample)),
    FormatTest("sentences", is_sentences, surely=is_sentences),
    FormatTest("spans", is_spans),
    FormatTest("jsonl", _is_json_lines, surely=_has_json_text, likely=_has_json_object),
    FormatTest("conllup", is_conllup, surely=is_conllup),
    FormatTest("conllu", is_conllu, surely=is_conllu),
    FormatTest("tsv", has_tsv_header, likely=lambda sample: has_tsv_header(sample) and "\t" in sample.lines[0]),
    FormatTest("csv", _has_csv_header, likely=_has_csv_header),
    FormatTest("word/tag", _is_word_tag, likely=lambda sample: sample.tagged and _is_surely_word_tag(sample)),
    FormatTest(
        "conll",
        _is_conll,
        surely=lambda sample: sample.tagged and sample.columns.documents,
        likely=lambda sample: sample.tagged and _is_surely_conll(sample),
    ),
    FormatTest("labelled", is_labelled),
)
"""The tests of all formats that the first lines show; the first test that a sample passes decides."""


def match_formats(sample: Sample, test: Literal["fits", "surely", "likely"]) -> Iterator[str]:
    """The formats whose test a sample passes, in their order."""
    return (each.format for each in FORMAT_TESTS if getattr(each, test)(sample))

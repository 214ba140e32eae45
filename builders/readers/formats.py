"""Tell the format of a corpus by its extension and its first lines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from graphattn.builders.files import FilePath, display_name, is_standard_input, open_text, split_suffix
from graphattn.builders.readers.rows import split_at_blanks
from graphattn.builders.readers.skipping import iterate_with_errors
from graphattn.exceptions import ConfigError, DataError

SAMPLE_LINES = 200
SLIPS = 2
"""So many lines of a sample, blank ones too, may not fit by mistake; the reader of the format names the first."""

_EXTENSIONS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".conllu": "conllu", ".conll": "conll"}
_USUAL_HEADERS = frozenset(
    "category class gold_label hypothesis label labels premise question review second sentence sentence1 sentence2 "
    "sentiment target text text1 text2".split()
)
_HEADER_NAME = re.compile(r"[^\W\d][\w .#-]*")
_ENTITY_TAG = re.compile(r"O|[BIESLUM]-\S+")
_CAPITAL_ENTITY_TAG = re.compile(r"O|[BIESLUM]-[A-Z_]{2,}")
"""``B-PER``, but neither ``B-12`` nor ``U-Bahn``."""
_WORD_CLASS = re.compile(r"[A-Z][A-Z0-9$.:+-]*|[^\w\s]+")
"""``NN``, ``PRP$`` or ``.``"""
_JSON_ARRAY = re.compile(r"\[\s*(\{|$)")
_CONLLU_ID = re.compile(r"0\.1|1(-\d+)?")


@dataclass(frozen=True)
class _Sample:
    """The first lines of a corpus, without the blank ones at its end.

    Parameters
    ----------
    lines : at most ``SAMPLE_LINES`` lines, without their line ends
    suffix : the extension under that of the compression
    text_column : name that the column of the text has if there is a header
    for_tagging : whether the corpus is known to hold tagged sentences
    """

    lines: tuple[str, ...]
    suffix: str
    text_column: str
    for_tagging: bool

    @property
    def filled(self) -> list[str]:
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip()]

    def adjoining(self) -> bool:
        """Whether some two lines have no blank one between them; sentences in columns are rarely all of one word."""
        return any(line.strip() and after.strip() for line, after in pairwise(self.lines))

    def separated(self) -> bool:
        """Whether blank lines stand between lines."""
        return len(self.filled) < len(self.lines)

    def tab_rows(self) -> list[list[str]]:
        """The filled lines cut at tabs."""
        return [line.split("\t") for line in self.filled]

    def usual_rows(self) -> list[list[str]]:
        """Those of the rows that have as many fields as most have."""
        rows = self.tab_rows()
        ((width, _),) = Counter(map(len, rows)).most_common(1) or [(0, 0)]
        return [row for row in rows if len(row) == width]


_TEXTS_ALONE = "; for texts alone, one on each line, set format to 'labelled' and set columns to 'text'"


def detect_format(
    path: FilePath,
    *,
    among: Collection[str],
    text_column: str = "text",
    for_tagging: bool = False,
    texts_alone: bool = False,
) -> str:
    """Name the format of a corpus.

    The extension under ``.gz``, ``.xz`` or ``.bz2`` decides for ``.csv``, ``.jsonl``, ``.ndjson``, ``.conllu`` and
    ``.conll`` (unless a ``.conll`` file holds CoNLL-U, or a JSON file ``sentences``). Every other file, ``.tsv``
    included, is told by its first 200 lines; the first rule that fits decides:

    =========  ======================================================================================
    format     the first lines
    =========  ======================================================================================
    fasttext   each begins with ``__label__``, but for one or two by mistake
    sentences  the first begins with ``{`` and has ``"tokens":``
    jsonl      the first begins with ``{``
    conllu     the first that is no comment has ten columns and the id 1
    tsv, csv   the first is a header: it names the text column (tsv: or has a usual name such as ``label``)
    word/tag   each word of each line has the form ``word/TAG``
    conll      equally many columns on each line, none with blanks, and blank lines between
    labelled   equally many fields between tabs on each line, two or more, but for one or two by mistake
    =========  ======================================================================================

    Lines that do not fit are errors, which the reader of the format tells with their numbers.

    Parameters
    ----------
    path : a file; not standard input, nor a pipe, which can be read only once
    among : the formats that come into question
    text_column : name that the column of the text has if there is a header
    for_tagging : whether the corpus must hold tagged sentences; then CoNLL columns need no blank line in the sample
    texts_alone : whether texts without labels will do, which no format tells; the error then says how to read them

    Raises
    ------
    ConfigError
        when the file cannot be read twice
    DataError
        when no format fits; the message lists them
    """
    if len(among) == 1:
        return next(iter(among))
    if is_stream(path):
        raise _unseen(path, "format", f"one of {_listed(among)}")
    sample = _read_sample(path, text_column, for_tagging=for_tagging)
    found = _by_extension(sample)
    if found is None:
        found = next((name for name, fits in _RULES.items() if name in among and fits(sample)), None)
    if found is None and sample.filled and _JSON_ARRAY.match(" ".join(sample.filled[:2])):
        raise DataError(
            "is a JSON array, where each line must hold an object",
            path=path,
            hint="Write one on each line: jq -c '.[]' OLD > NEW.jsonl.",
        )
    if found is None or found not in among:
        raise DataError(
            f"is named as {found!r} is, which does not fit" if found else "has no format that the first lines tell",
            path=path,
            hint=f"Set format to one of {_listed(among)}{_TEXTS_ALONE if texts_alone else ''}.",
        )
    return found


def is_stream(path: FilePath) -> bool:
    """Whether this can be read only once: standard input, a pipe, a terminal."""
    if is_standard_input(path):
        return True
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def guess_columns(path: FilePath, *, pair: bool | None) -> tuple[str, ...]:
    """Which field of a table without a header is the label: the first or last, if it is one word that recurs.

    Parameters
    ----------
    path : a file of two or three fields between tabs on each line
    pair : whether it holds pairs of texts; None when that is not known, and three fields are then a pair

    Returns
    -------
    What each field holds, as ``columns`` of :func:`~graphattn.builders.readers.read_labelled_lines`. Two fields of
    one word each are a label and a text.

    Raises
    ------
    ConfigError
        when the file cannot be read twice
    DataError
        when there are other numbers of fields, or no field or more than one can be the label
    """
    roles = "what each holds: 'label', 'text', 'second', or None to skip one"
    if is_stream(path):
        raise _unseen(path, "columns", roles)
    rows = _read_sample(path).usual_rows()
    width = len(rows[0]) if rows else 0
    texts = ("text", "second") if width == 3 else ("text",)
    expected = {True: (3,), False: (2,), None: (2, 3)}[pair]
    if width in expected:
        first, last = (_may_be_labels([row[at] for row in rows]) for at in (0, -1))
        if first and (width == 2 or not last):
            return ("label", *texts)
        if last and not first:
            return (*texts, "label")
    if pair and width == 2:
        raise DataError(
            "has 2 fields on each line, which is too few for a label and two texts",
            path=path,
            hint=f"Give a corpus of pairs, or set columns to {roles}.",
        )
    raise DataError(
        f"its {width} field{'s' * (width != 1)} per line do not show which is the text and which the label",
        path=path,
        hint=f"Set columns to {roles}.",
    )


def detect_labels(path: FilePath, *, pair: bool, text_column: str = "text") -> str | None:
    """Name the format of a file of texts that has labels beside them: ``labelled``, ``fasttext``, or None for others.

    For files that may as well hold bare texts: labels must recur, unless the extension is ``.tsv``. A header is none of
    these formats.

    Parameters
    ----------
    path : a file; a stream is None, for it can be read only once
    pair : whether it holds pairs of texts
    text_column : name that the column of the text has if there is a header
    """
    sample = _sample_if_any(path, text_column)
    if sample is None:
        return None
    if _is_fasttext(sample):
        return "fasttext"
    if _has_tsv_header(sample) or not _is_labelled(sample):
        return None
    try:
        place = guess_columns(path, pair=pair).index("label")
    except DataError:
        return None
    labels = [row[place] for row in sample.usual_rows()]
    return "labelled" if sample.suffix == ".tsv" or len(set(labels)) < len(labels) else None


def detect_markup(path: FilePath, *, text_column: str = "text", for_tagging: bool = False) -> str | None:
    """Name the format of a file that may as well hold bare texts, if its first lines leave no doubt; None for others.

    Parameters
    ----------
    path : a file; a stream is None, for it can be read only once
    text_column : name of the column of the text: the first line of a table, or the first JSON object, must have it
    for_tagging : whether words are wanted, so that columns may hold them; then the last column must recur

    Returns
    -------
    ``sentences``, ``jsonl``, ``tsv``, ``csv``, ``conllu``, ``conll`` or ``word/tag``, or None.
    """
    sample = _sample_if_any(path, text_column, for_tagging=for_tagging)
    return None if sample is None else _markup_of(sample)


def detect_lines(lines: Sequence[str], *, text_column: str = "text", task: str | None = None) -> str | None:
    """What the first lines of a stream look like, which are read as plain texts; None where they do.

    Parameters
    ----------
    lines : without their ends; they may be few
    text_column : as for :func:`detect_markup`
    task : ``classify``, ``tag``, ``pair`` or another
    """
    sample = _Sample(tuple(lines), "", text_column, task == "tag")
    if not sample.filled:
        return None
    if _is_fasttext(sample):
        return "fasttext"
    if _is_conllu(sample):
        return "conllu"
    rows = sample.tab_rows()
    if _has_tsv_header(sample) and text_column in rows[0]:
        return "tsv"
    if task == "classify" and len(rows) > 1 and all(len(row) == 2 for row in rows):
        ends = ([row[at] for row in rows] for at in (0, 1))
        if any(all(len(field.split()) == 1 for field in fields) for fields in ends):
            return "labelled"
    return _markup_of(sample)


def _markup_of(sample: _Sample) -> str | None:
    text_column = sample.text_column
    if _is_sentences(sample):
        return "sentences"
    if _is_json_lines(sample):
        return "jsonl" if f'"{text_column}"' in sample.filled[0] else None
    if _has_csv_header(sample):
        return "csv"
    if _has_tsv_header(sample) and text_column in sample.lines[0].split("\t"):
        return "tsv"
    if not sample.for_tagging:
        return None
    rules = {"conllu": _is_conllu, "word/tag": _is_surely_word_tag, "conll": _is_surely_conll}
    return next((name for name, fits in rules.items() if fits(sample)), None)


def _sample_if_any(path: FilePath, text_column: str, *, for_tagging: bool = False) -> _Sample | None:
    """The first lines of a file; None for a stream, and for what cannot be read."""
    if is_stream(path):
        return None
    try:
        return _read_sample(path, text_column, for_tagging=for_tagging)
    except DataError:
        return None


def _unseen(path: FilePath, option: str, values: str) -> ConfigError:
    return ConfigError(
        f"{display_name(path)} can be read only once, so its {option} cannot be told by looking."
        f" Set {option} to {values}."
    )


def _read_sample(path: FilePath, text_column: str = "text", *, for_tagging: bool = False) -> _Sample:
    """The first lines; those that cannot be read are told by whoever reads the corpus, unless it has no others."""
    with open_text(path) as source:
        sample = list(islice(iterate_with_errors(source), SAMPLE_LINES))
    lines = [line.removesuffix("\n") for line in sample if isinstance(line, str)]
    if not lines:
        raise next(error for error in sample if isinstance(error, DataError))
    while lines and not lines[-1].strip():
        lines.pop()
    return _Sample(tuple(lines), split_suffix(path)[0], text_column, for_tagging)


def _by_extension(sample: _Sample) -> str | None:
    named = _EXTENSIONS.get(sample.suffix)
    if named == "jsonl" and _is_sentences(sample):
        return "sentences"
    return "conllu" if named == "conll" and _is_conllu(sample) else named


def _is_fasttext(sample: _Sample) -> bool:
    return _but_for_slips(sum(line.lstrip().startswith("__label__") for line in sample.filled), len(sample.filled))


def _is_sentences(sample: _Sample) -> bool:
    return _is_json_lines(sample) and re.search(r'[{,]\s*"tokens"\s*:', sample.filled[0]) is not None


def _is_json_lines(sample: _Sample) -> bool:
    return bool(sample.filled) and sample.filled[0].startswith("{")


def _is_conllu(sample: _Sample) -> bool:
    rows = (row for row in sample.tab_rows() if not row[0].startswith("#"))
    row = next(rows, [""])
    return len(row) == 10 and _CONLLU_ID.fullmatch(row[0]) is not None


def _has_tsv_header(sample: _Sample) -> bool:
    names = [name.strip().strip('"') for name in sample.lines[0].split("\t")] if sample.lines else []
    if len(names) < 2:
        return sample.suffix == ".tsv" and names == [sample.text_column]
    # A header with other names than those asked for must not pass for an example.
    usual = any(name.lower() in _USUAL_HEADERS for name in names) and all(map(_HEADER_NAME.fullmatch, names))
    return sample.text_column in names or usual


def _has_csv_header(sample: _Sample) -> bool:
    names = [name.strip('"') for name in sample.lines[0].split(",")] if sample.lines else []
    if sample.suffix == ".csv":  # elsewhere a sentence may name the column after a comma and a blank
        names = [name.strip().strip('"') for name in names]
    return len(names) > 1 and sample.text_column in names


def _is_word_tag(sample: _Sample) -> bool:
    pieces = [piece for line in sample.lines for piece in split_at_blanks(line)]
    return bool(pieces) and all(re.fullmatch(r".+/[^/\\]+", piece) for piece in pieces)


def _is_conll(sample: _Sample) -> bool:
    rows = sample.tab_rows()
    if all(len(row) == 1 for row in rows):
        rows = [split_at_blanks(line) for line in sample.filled]
    rows = [row for row in rows if row[0] != "-DOCSTART-"]
    widths = {len(row) for row in rows}
    return (
        (sample.for_tagging or sample.separated())
        and len(widths) == 1
        and min(widths) > 1
        and all(" " not in field for row in rows for field in (row[0], row[-1]))
    )


def _is_surely_word_tag(sample: _Sample) -> bool:
    """Whether what stands behind the slashes are tags, and no words of texts such as ``and/or``."""
    tags = [piece.rpartition("/")[2] for line in sample.lines for piece in split_at_blanks(line)]
    recurring = len(tags) >= 10 and len({*tags}) < len(tags) and not any(map(str.isdecimal, tags))
    return len(tags) > 2 and _is_word_tag(sample) and (recurring or all(map(_WORD_CLASS.fullmatch, tags)))


def _is_surely_conll(sample: _Sample) -> bool:
    """Whether lines of equally many words are words with their tags, and no texts that happen to be so short."""
    if not _is_conll(sample) or not sample.adjoining():
        return False
    firsts, tags = ([line.split()[at] for line in sample.filled] for at in (0, -1))
    typed = any("-" in tag for tag in tags)
    if typed and all(map(_CAPITAL_ENTITY_TAG.fullmatch, tags)):
        return True
    if len({*tags}) == len(tags):
        return False
    if all(map(_ENTITY_TAG.fullmatch, tags)) and (typed or len(tags) > 2):
        return True
    numbered = all(first.isdecimal() for first in firsts)
    return sample.separated() or ("\t" in sample.filled[0] and not numbered)


def _is_labelled(sample: _Sample) -> bool:
    rows = sample.usual_rows()
    return bool(rows) and len(rows[0]) > 1 and _but_for_slips(len(rows), len(sample.lines))


def _but_for_slips(fitting: int, lines: int) -> bool:
    """Whether so few of the lines do not fit that they are mistakes."""
    slips = lines - fitting
    return slips <= SLIPS and fitting >= 2 * slips and fitting > 0


def _may_be_labels(fields: list[str]) -> bool:
    """Whether each is one word; ten or more that never repeat are rather the numbers of the examples."""
    repeats = len(set(fields)) < len(fields) or len(fields) < 10
    return repeats and all(len(field.split()) == 1 for field in fields)


def _listed(formats: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(formats))


_RULES: dict[str, Callable[[_Sample], bool]] = {
    "fasttext": _is_fasttext,
    "sentences": _is_sentences,
    "jsonl": _is_json_lines,
    "conllu": _is_conllu,
    "tsv": _has_tsv_header,
    "csv": _has_csv_header,
    "word/tag": _is_word_tag,
    "conll": _is_conll,
    "labelled": _is_labelled,
}

"""The registry of corpus formats, and the detection of a file's format from its extension and its first lines."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal

from graphattn.builders.files import FilePath, TextLines, is_stream, open_text, split_suffix
from graphattn.builders.readers.rows import split_at_blanks
from graphattn.builders.sentence import Example, Sentence
from graphattn.exceptions import ConfigError, DataError

SAMPLE_LINES = 200
MAX_MISTAKES = 2
"""Lines of a sample that may not fit its format; the reader reports the first of them."""
PLAIN = ("text", "words")
"""What a file without labels may also hold: a text on each line, or its words between blanks."""

Labels = Literal["required", "optional"]

_COMMON_HEADERS = frozenset(
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
_JSON_OBJECT = re.compile(r'\s*\{\s*"\w+"\s*:')
_CONLLU_ID = re.compile(r"0\.1|1(-\d+)?")
_ROLES = "what each field holds: 'label', 'text', 'second', or None to skip one"


@dataclass(frozen=True)
class CorpusFormat:
    """A way to read a corpus.

    Parameters
    ----------
    read : the reader; its first argument is the path, its keywords are the format's options
    tasks : the tasks that can train on its corpora
    extensions : of files that have this format
    """

    read: Callable[..., Iterator[Example | Sentence]]
    tasks: frozenset[str]
    extensions: tuple[str, ...] = ()

    @property
    def options(self) -> frozenset[str]:
        """Names of the reader's options."""
        return frozenset(inspect.signature(self.read).parameters) - {"path", "format", "skip"}


FORMATS: dict[str, CorpusFormat] = {}
"""The known formats by name; :func:`register_reader` adds one."""


def register_reader(
    name: str,
    reader: Callable[..., Iterator[Example | Sentence]],
    *,
    tasks: Collection[str] = ("classify", "pair", "tag"),
    extensions: Collection[str] = (),
) -> None:
    """Add a corpus format, for :func:`read_corpus` and for ``--format`` on the command line (with ``--import``).

    Parameters
    ----------
    name : of the format; a reader that was registered under it is replaced
    reader : ``reader(path, **options)`` yields examples or sentences; an option ``skip`` receives the errors of items
        to leave out. :func:`~graphattn.builders.files.open_text` opens any ``path`` that a reader gets
    tasks : the tasks that can train on such corpora: ``"classify"``, ``"pair"``, ``"tag"`` or your own
    extensions : of files to read without a named format, such as ``".mine"``

    Examples
    --------
    >>> from graphattn.builders import Example
    >>> from graphattn.builders.files import numbered_lines
    >>> def read_stars(path):
    ...     for number, line in numbered_lines(path):
    ...         yield Example(line.rstrip("*"), label=str(line.count("*")))
    >>> register_reader("stars", read_stars, tasks=["classify"], extensions=[".stars"])
    """
    FORMATS[name] = CorpusFormat(reader, frozenset(tasks), tuple(extensions))


@dataclass(frozen=True)
class DetectedFormat:
    """The result of :func:`detect`.

    Parameters
    ----------
    name : a key of ``FORMATS``; for texts without labels also ``"text"`` or ``"words"``
    source : what to read: the path, or the file opened at its first line
    columns : what each field of a ``labelled`` file holds; None when it is given or the format has names for them
    """

    name: str
    source: FilePath
    columns: tuple[str, ...] | None = None


def detect(
    source: FilePath,
    task: str | None = None,
    labels: Labels = "required",
    *,
    format: str = "auto",
    sample_lines: int = SAMPLE_LINES,
    **options: Any,
) -> DetectedFormat:
    """Detect the format of a corpus from its extension and its first lines, which are not consumed.

    The extension under ``.gz``, ``.xz`` or ``.bz2`` decides for ``.csv``, ``.jsonl``, ``.ndjson``, ``.conllu``,
    ``.conll`` and those of registered readers (unless a ``.conll`` file contains CoNLL-U, or a JSON file
    ``sentences``). For every other file, ``.tsv`` included, the first rule that fits decides:

    =========  ======================================================================================
    format     the first lines
    =========  ======================================================================================
    fasttext   each begins with ``__label__``, except for one or two mistakes
    sentences  the first begins with ``{`` and has ``"tokens":``
    jsonl      the first begins with ``{``
    conllu     the first that is no comment has ten columns and the id 1
    tsv, csv   the first is a header: it names the text column (tsv: or has a common name such as ``label``)
    word/tag   each word of each line has the form ``word/TAG``
    conll      equally many columns on each line, none with blanks, and blank lines between
    labelled   equally many fields between tabs on each line, two or more, except for one or two mistakes
    =========  ======================================================================================

    When labels are optional, a file may also contain texts alone. A file that could be either is an error, so that
    labels never become words.

    Parameters
    ----------
    source : a file, ``"-"`` for standard input, or an open file
    task : ``"classify"``, ``"pair"``, ``"tag"`` or ``"translate"``; with required labels only formats of that task are
        considered
    labels : ``"required"`` to train and evaluate, ``"optional"`` to predict
    format : the format, when it is known
    sample_lines : how many lines to look at
    options : options of the reader; only formats with all of them are considered

    Raises
    ------
    ConfigError
        when the format, the task or an option is unknown, or they contradict each other
    DataError
        when the file cannot be read, or its format cannot be detected
    """
    candidates = _candidates(task, labels, options)
    name = _named_format(format, candidates, task, labels, options)
    if name != "auto" and not _needs_columns(name, source, task, labels, options):
        return DetectedFormat(name, source)
    lines = open_text(source)
    try:
        sample = _read_sample(lines, sample_lines, task, options.get("text", "text"))
        if name == "auto":
            if labels == "optional" and not options:
                return _detect_text(sample, lines)
            name = _detect_candidate(sample, candidates, labels, options, lines.path)
        columns = _detect_columns(sample, task, lines.path) if name == "labelled" and "columns" not in options else None
        return DetectedFormat(name, lines, columns)
    except BaseException:
        lines.close()
        raise


def _candidates(task: str | None, labels: Labels, options: Mapping[str, Any]) -> list[str]:
    """Formats with all options and, if labels are required, for the task."""
    known = {option for entry in FORMATS.values() for option in entry.options}
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        short = unknown.removesuffix("_column")
        close = [short] if short in known else get_close_matches(unknown, known, n=1)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"no format has an option {unknown!r}. {guess}There are: {_join(known)}")
    if task == "classify" and "second" in (options.get("columns") or ()):
        raise ConfigError(
            "{columns} has 'second', but a classifier takes one text. Write None for that field", options=("columns",)
        )
    return [
        name
        for name, entry in FORMATS.items()
        if entry.options.issuperset(options) and (labels == "optional" or name in _formats_for(task))
    ]


def _formats_for(task: str | None) -> set[str]:
    tasks = {task for entry in FORMATS.values() for task in entry.tasks}
    if task is not None and task not in tasks:
        raise ConfigError(f"there is no task {task!r}. Set task to one of {_join(tasks)}, or None")
    return {name for name, entry in FORMATS.items() if task is None or task in entry.tasks}


def _named_format(
    format: str, candidates: list[str], task: str | None, labels: Labels, options: Mapping[str, Any]
) -> str:
    """The format, if it is given or the only one that has all options; else ``"auto"``."""
    plain = PLAIN if labels == "optional" else ()
    if format == "auto":
        if not candidates:
            serving = "" if task is None or labels == "optional" else f" for task {task!r}"
            names = ", ".join(f"{{{option}}}" for option in sorted(options))
            raise ConfigError(
                f"no format{serving} has all of the options {names}. Set {{format}} and only its options",
                options=("format", *options),
            )
        return candidates[0] if len(candidates) == 1 and (options or not plain) else format
    if format not in FORMATS and format not in plain:
        raise ConfigError(
            f"there is no format {format!r}. Set {{format}} to one of {_join([*FORMATS, *plain])}, or 'auto'",
            options=("format",),
        )
    if format not in candidates and (options or format not in plain):
        raise _misfit_error(format, task, labels, options)
    return format


def _misfit_error(format: str, task: str | None, labels: Labels, options: Mapping[str, Any]) -> ConfigError:
    if labels == "required" and format not in _formats_for(task):
        return ConfigError(
            f"format {format!r} does not serve task {task!r}. Set {{format}} to one of {_join(_formats_for(task))}",
            options=("format",),
        )
    useless = sorted(options.keys() - (FORMATS[format].options if format in FORMATS else set()))
    names = " and ".join(f"{{{option}}}" for option in useless)
    return ConfigError(
        f"format {format!r} has no option {names}; leave that out, or choose another {{format}}",
        options=("format", *useless),
    )


def _needs_columns(name: str, source: FilePath, task: str | None, labels: Labels, options: Mapping[str, Any]) -> bool:
    """Whether the columns of a labelled file must be detected; a stream has the usual ones, label and text."""
    unknown = name == "labelled" and "columns" not in options
    return unknown and (labels == "optional" or task == "pair" or not is_stream(source))


@dataclass(frozen=True)
class _Sample:
    """The first lines of a corpus, without blank ones at the end.

    Parameters
    ----------
    lines : without their line ends
    suffix : the extension under that of the compression
    text_column : name of the text's column, if there is a header
    task : see :func:`detect`
    """

    lines: tuple[str, ...]
    suffix: str
    text_column: str
    task: str | None

    @property
    def filled(self) -> list[str]:
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip()]

    def has_neighbours(self) -> bool:
        """Whether some lines have no blank line between them; sentences in columns are rarely all of one word."""
        return any(line.strip() and after.strip() for line, after in pairwise(self.lines))

    def has_blank_lines(self) -> bool:
        return len(self.filled) < len(self.lines)

    def tab_rows(self) -> list[list[str]]:
        """The filled lines, split at tabs."""
        return [line.split("\t") for line in self.filled]

    def modal_rows(self) -> list[list[str]]:
        """The rows with the most frequent number of fields."""
        rows = self.tab_rows()
        ((width, _),) = Counter(map(len, rows)).most_common(1) or [(0, 0)]
        return [row for row in rows if len(row) == width]


def _read_sample(lines: TextLines, count: int, task: str | None, text_column: str) -> _Sample:
    sampled = lines.sample(count)
    if not sampled:
        next(lines)  # raises the error of the first line
    while sampled and not sampled[-1].strip():
        sampled.pop()
    return _Sample(tuple(sampled), split_suffix(lines)[0], text_column, task)


def _detect_candidate(
    sample: _Sample, candidates: list[str], labels: Labels, options: Mapping[str, Any], path: str
) -> str:
    """The first of the candidates that fits."""
    named = _format_of_extension(sample)
    if named is not None and named not in candidates and labels == "required" and named in _formats_for(sample.task):
        raise _misfit_error(named, sample.task, labels, options)
    if named is not None and (named in candidates or labels == "required"):
        fitting = [named]
    else:
        fitting = [name for name, fits in _RULES.items() if fits(sample)]
    name = next((name for name in fitting if name in candidates), None)
    if name is not None:
        return name
    if labels == "optional" and sample.suffix == ".tsv" and "tsv" in candidates:
        return "tsv"
    if labels == "required":
        serving = _formats_for(sample.task)
        if options and (other := next((name for name in fitting if name in serving), None)):
            raise _misfit_error(other, sample.task, labels, options)
    if sample.filled and _JSON_ARRAY.match(" ".join(sample.filled[:2])):
        hint = "Write one object on each line: jq -c '.[]' OLD > NEW.jsonl."
        raise DataError("is a JSON array, not JSON Lines", path=path, hint=hint)
    texts_alone = labels == "required" and sample.task is None and "labelled" in candidates
    raise DataError(
        f"has the extension of {named!r}, which does not fit" if named else "has no format that the first lines show",
        path=path,
        hint=f"Set {{format}} to one of {_join(candidates)}"
        + ("; for texts alone, one on each line, to 'labelled' with {columns} 'text'." if texts_alone else "."),
        options=("format", "columns"),
    )


def _detect_text(sample: _Sample, source: TextLines) -> DetectedFormat:
    """The format of a corpus to predict, which may contain texts alone."""
    named = _format_of_extension(sample)
    if named is not None:
        return DetectedFormat(named, source)
    is_tsv = sample.suffix == ".tsv"
    columns = translation_columns(sample.lines[0]) if sample.task == "translate" and is_tsv and sample.lines else None
    if columns is not None:
        return DetectedFormat("labelled", source, columns)
    if name := next((name for name, fits in _SURE_RULES.items() if fits(sample)), None):
        return DetectedFormat(name, source)
    name = next((name for name, fits in _LIKELY_RULES.items() if fits(sample)), None)
    if name is None and not _has_tsv_header(sample) and sample.task in ("classify", "pair") and _is_labelled(sample):
        try:
            columns = _detect_columns(sample, sample.task, source.path)
        except DataError:  # the fields do not look like a label and texts
            pass
        else:
            recurring = len({row[columns.index("label")] for row in sample.modal_rows()}) < len(sample.modal_rows())
            if recurring or is_tsv:
                return DetectedFormat("labelled", source, columns)
            name = "labelled" if len(sample.filled) > 1 else None
    if is_tsv:
        return DetectedFormat(name or "tsv", source, columns)
    if name is not None:
        raise DataError(
            f"could be {name!r} or plain text",
            path=source.path,
            hint=f"Set {{format}} to {name}, or to text if each line is a text.",
            options=("format",),
        )
    return DetectedFormat("text", source)


def translation_columns(first_line: str) -> tuple[str, ...] | None:
    """The columns of a TSV of sources and targets without a header; None when it has one."""
    names = [name.strip() for name in first_line.split("\t")]
    return None if len(names) != 2 or {*names} == {"text", "second"} else ("text", "second")


def _detect_columns(sample: _Sample, task: str | None, path: str) -> tuple[str, ...]:
    """Which field of a table without a header is the label: the first or last, if it is one word that recurs.

    Three fields are a pair if the task is not known; two fields of one word each are a label and a text.
    """
    rows = sample.modal_rows()
    width = len(rows[0]) if rows else 0
    texts = ("text", "second") if width == 3 else ("text",)
    if width in {None: (2, 3), "pair": (3,)}.get(task, (2,)):
        first, last = (_may_be_labels([row[index] for row in rows]) for index in (0, -1))
        if first and (width == 2 or not last):
            return ("label", *texts)
        if last and not first:
            return (*texts, "label")
    if task == "pair" and width == 2:
        raise DataError(
            "has 2 fields on each line; a label and two texts are expected",
            path=path,
            hint=f"Give a corpus of pairs, or set {{columns}} to {_ROLES}.",
            options=("columns",),
        )
    raise DataError(
        f"its {width} field{'s' * (width != 1)} per line do not show which is the text and which the label",
        path=path,
        hint=f"Set {{columns}} to {_ROLES}.",
        options=("columns",),
    )


def _format_of_extension(sample: _Sample) -> str | None:
    """The format that the extension decides; None for ``.tsv``, which needs a look at the lines."""
    named = next((name for name, entry in FORMATS.items() if sample.suffix in entry.extensions), None)
    if named == "jsonl" and _is_sentences(sample):
        return "sentences"
    if named == "conll" and _is_conllu(sample):
        return "conllu"
    return named


def _is_fasttext(sample: _Sample) -> bool:
    labelled = sum(line.lstrip().startswith("__label__") for line in sample.filled)
    return _allowing_mistakes(labelled, len(sample.filled))


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
    # A header with other names than the requested ones must not be read as an example.
    common = any(name.lower() in _COMMON_HEADERS for name in names) and all(map(_HEADER_NAME.fullmatch, names))
    return sample.text_column in names or common


def _has_csv_header(sample: _Sample) -> bool:
    names = [name.strip('"') for name in sample.lines[0].split(",")] if sample.lines else []
    if sample.suffix == ".csv":  # in other files a sentence may have this word after a comma and a blank
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
        (sample.task == "tag" or sample.has_blank_lines())
        and len(widths) == 1
        and min(widths) > 1
        and all(" " not in field for row in rows for field in (row[0], row[-1]))
    )


def _is_surely_word_tag(sample: _Sample) -> bool:
    """Whether the parts after the slashes are tags, and not words of texts such as ``and/or``."""
    tags = [piece.rpartition("/")[2] for line in sample.lines for piece in split_at_blanks(line)]
    recurring = len(tags) >= 10 and len({*tags}) < len(tags) and not any(map(str.isdecimal, tags))
    return len(tags) > 2 and _is_word_tag(sample) and (recurring or all(map(_WORD_CLASS.fullmatch, tags)))


def _is_surely_conll(sample: _Sample) -> bool:
    """Whether lines of equally many words are words with their tags, and not texts of the same length."""
    if not _is_conll(sample) or not sample.has_neighbours():
        return False
    firsts, tags = ([line.split()[index] for line in sample.filled] for index in (0, -1))
    typed = any("-" in tag for tag in tags)
    if typed and all(map(_CAPITAL_ENTITY_TAG.fullmatch, tags)):
        return True
    if len({*tags}) == len(tags):
        return False
    if all(map(_ENTITY_TAG.fullmatch, tags)) and (typed or len(tags) > 2):
        return True
    numbered = all(first.isdecimal() for first in firsts)
    return sample.has_blank_lines() or ("\t" in sample.filled[0] and not numbered)


def _is_labelled(sample: _Sample) -> bool:
    rows = sample.modal_rows()
    return bool(rows) and len(rows[0]) > 1 and _allowing_mistakes(len(rows), len(sample.lines))


def _allowing_mistakes(fitting: int, lines: int) -> bool:
    """Whether the lines that do not fit are few enough to be mistakes."""
    mistakes = lines - fitting
    return mistakes <= MAX_MISTAKES and fitting >= 2 * mistakes and fitting > 0


def _may_be_labels(fields: Sequence[str]) -> bool:
    """Whether each is one word; ten or more without repetition are more likely the numbers of the examples."""
    repeats = len(set(fields)) < len(fields) or len(fields) < 10
    return repeats and all(len(field.split()) == 1 for field in fields)


def _join(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"


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
"""Format -> whether a sample has it, if it must have one."""
_SURE_RULES: dict[str, Callable[[_Sample], bool]] = {
    "fasttext": _is_fasttext,
    "sentences": _is_sentences,
    "jsonl": lambda sample: _is_json_lines(sample) and f'"{sample.text_column}"' in sample.filled[0],
    "conllu": _is_conllu,
}
"""Format -> whether a sample has it and cannot be plain text."""
_LIKELY_RULES: dict[str, Callable[[_Sample], bool]] = {
    "jsonl": lambda sample: bool(sample.filled) and _JSON_OBJECT.match(sample.filled[0]) is not None,
    "csv": _has_csv_header,
    "tsv": lambda sample: _has_tsv_header(sample) and "\t" in sample.lines[0],
    "word/tag": lambda sample: sample.task == "tag" and _is_surely_word_tag(sample),
    "conll": lambda sample: sample.task == "tag" and _is_surely_conll(sample),
}
"""Format -> whether a sample has it or, less likely, is plain text."""

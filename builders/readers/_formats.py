"""The registry of corpus formats, and the detection of a file's format from its extension and its first lines."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Literal

from graphattn.builders._foreign import reject_markup
from graphattn.builders._paths import FilePath, display_name
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._spelling import compose
from graphattn.builders._text_lines import TextLines, open_text, split_suffix
from graphattn.builders.readers import _samples as samples
from graphattn.builders.readers._cells import parse_cell_columns
from graphattn.builders.readers._fields import match_name, parse_feature_columns
from graphattn.builders.readers._samples import SAMPLE_LINES, Sample
from graphattn.exceptions import ConfigError, DataError, Hint, verbatim, warn_caller

PLAIN = ("text", "words")
"""Further formats of files without labels: a text on each line, or its words between blanks."""

FOLDER = "folder"
"""The format of a folder, which no file has."""

Labels = Literal["required", "optional"]


@dataclass(frozen=True)
class CorpusKind:
    """Fields that the examples of a task have besides a text.

    Parameters
    ----------
    label : whether a text, or a pair of texts, has a label
    second : whether examples are pairs; None when they may be
    tags : whether each word has a tag
    target : whether a text has a target text
    """

    label: bool = False
    second: bool | None = False
    tags: bool = False
    target: bool = False


_ANY_KIND = CorpusKind(label=True, second=None)
_KINDS = {
    "classify": CorpusKind(label=True),
    "pair": CorpusKind(label=True, second=True),
    "tag": CorpusKind(tags=True),
    "translate": CorpusKind(target=True),
}


def corpus_kind(task: str | None) -> CorpusKind:
    """Fields that the examples of a task have; for your own task and None any label."""
    return _ANY_KIND if task is None else _KINDS.get(task, _ANY_KIND)


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
        return frozenset(inspect.signature(self.read).parameters) - {"path", "format", "encoding", "keep_row", "skip"}

    @property
    def keeps_rows(self) -> bool:
        """Whether the reader passes on the fields of rows."""
        return "keep_row" in inspect.signature(self.read).parameters


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
        to leave out. :func:`~graphattn.builders._text_lines.open_text` opens any ``path`` that a reader gets
    tasks : the tasks that can train on such corpora: ``"classify"``, ``"pair"``, ``"tag"`` or your own
    extensions : of files to read without a named format, such as ``".mine"``

    Examples
    --------
    >>> from graphattn.builders import Example
    >>> from graphattn.builders.readers import read_numbered_lines
    >>> def read_stars(path):
    ...     for number, line in read_numbered_lines(path):
    ...         yield Example(line.rstrip("*"), label=str(line.count("*")))
    >>> register_reader("stars", read_stars, tasks=["classify"], extensions=[".stars"])
    >>> del FORMATS["stars"]  # other examples do not have it
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
    separator : of these fields; None for the usual one
    """

    name: str
    source: FilePath
    columns: tuple[str, ...] | None = None
    separator: str | None = None


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
    ``.conllup``, ``.cupt``, ``.conll`` and those of registered readers (unless a ``.conll`` or ``.conllu`` file
    contains another of these formats, or a JSON file ``sentences``). A folder has the format ``folder``. For every
    other file, ``.tsv`` included, the first rule that fits decides:

    =========  ======================================================================================
    format     the first lines
    =========  ======================================================================================
    webanno    the first begins with ``#FORMAT=WebAnno TSV 3``
    word-table the first names columns of words and of the numbers of their sentences
    fasttext   each begins with ``__label__``, except for one or two mistakes
    sentences  the first begins with ``{`` and has ``"tokens":``, not of objects, or a list of ``"words":`` and no text
    spans      the first begins with ``{``, and one has a list of spans; to tag words, or without a label
    jsonl      the first begins with ``{``
    conllup    comments before the others name columns that CoNLL-U does not have
    conllu     the first that is no comment has ten columns and the id 1
    tsv, csv   the first is a header that names the text column
    word/tag   each word of each line has the form ``word/TAG``
    conll      equally many columns on each line, no tag and few words with blanks, and blank lines between
    labelled   equally many fields between tabs on each line, two or more, except for one or two mistakes; the first
               may be a header with other names, see :func:`~graphattn.builders.readers._samples.is_header`
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
    request = _DetectionRequest(task, labels == "optional", options)
    if format == FOLDER or (format == "auto" and os.path.isdir(source)):
        request.check_folder(source)
        return DetectedFormat(FOLDER, source)
    name = request.resolve_name(format)
    if name is not None and (name != "labelled" or "columns" in options):
        return DetectedFormat(name, source)
    lines = open_text(source)
    try:
        sample = _read_sample(lines, sample_lines, task, options, optional=request.optional)
        if name is not None:
            detected = DetectedFormat(name, lines)
        else:
            if _format_of_extension(sample) in (None, "csv", "jsonl"):
                reject_markup(sample.lines, lines.path)
            if request.optional and not options:
                return _detect_text(sample, request.kind, lines)
            detected = _detect_corpus(sample, request, lines)
        return detected if detected.name != "labelled" else _detect_columns(detected, sample, request)
    except BaseException:
        lines.close()
        raise


def _detect_columns(detected: DetectedFormat, sample: Sample, request: _DetectionRequest) -> DetectedFormat:
    """Detect the columns of a labelled file, unless they are given or known."""
    if detected.columns is not None or "columns" in request.options:
        return detected
    in_one = "text_separator" in request.options  # both texts of a pair
    columns = samples.find_label_columns(sample, pairs=request.kind.second and not in_one)
    if columns is None:
        raise _columns_error(sample, request.kind, display_name(detected.source))
    return replace(detected, columns=columns)


def reject_table(path: FilePath, hint: str) -> None:
    """Reject a file whose extension is that of a table where a text is expected."""
    tables = {".tsv", ".json", *(extension for entry in FORMATS.values() for extension in entry.extensions)}
    if split_suffix(path)[0] in tables:
        raise DataError("is a table, not a text", path=path, hint=hint)


def require_feature_columns(feature_columns: Sequence[str], format: str, source: FilePath | None) -> None:
    """Reject a format without columns of words, or beside texts; ``source`` is None for a text itself."""
    if format in FORMATS and "feature_columns" in FORMATS[format].options:
        return
    cells = parse_cell_columns(feature_columns)
    if all(column.kind for column in cells):
        what = "a text alone" if source is None else f"read as {format!r}, which"
        raise DataError(
            f"{what} has no columns {verbatim(', '.join(column.name for column in cells))}, features beside the text",
            path=None if source is None else display_name(source),
            hint="Give a CSV, TSV, JSON Lines or Parquet with these names of columns; {format} reads a file as one.",
            options=("format",),
        )
    columns = parse_feature_columns(feature_columns)
    needed = ", ".join(name if name == column else f"{name} (column {column})" for name, column in columns.items())
    read = "a text" if source is None else f"read as {format!r}, which"
    raise DataError(
        f"{read} has no columns for the features of words {verbatim(needed)}",
        path=None if source is None else display_name(source),
        hint="Give a file in CoNLL columns, CoNLL-U, or JSON Lines with tokens; {feature_columns} says which of its "
        "columns have them.",
        options=("feature_columns",),
    )


_FACTS = ("format", "suffix", "counts")
"""Facts about its training corpus that a model keeps besides options of the reader."""


def resolve_like_training(
    lines: TextLines,
    training: Mapping[str, Any],
    task: str,
    format: str,
    options: Mapping[str, Any],
    *,
    labels: Collection[str] | None = None,
    sample_lines: int = SAMPLE_LINES,
) -> tuple[str, dict[str, Any]]:
    """The format and options to read a corpus as the training corpus was, where the user leaves them open.

    Returns the format, ``"auto"`` if it must be detected, and the options.
    """
    name = training.get("format")
    if name not in FORMATS or format not in ("auto", name) or not FORMATS[name].options.issuperset(options):
        return format, dict(options)
    like_training = {key: value for key, value in training.items() if key not in _FACTS} | {**options}
    sample = _read_sample(lines, sample_lines, task, like_training, optional=labels is not None)
    if training.get("counts") and sample.columns.may_count:
        like_training.setdefault("token_column", 1)
    if format == name:
        return name, like_training
    fits = _fits_training(sample, training, like_training, task, labels, lines.path, has_options=bool(options))
    return (name, like_training) if fits else (format, dict(options))


def _fits_training(
    sample: Sample,
    training: Mapping[str, Any],
    like_training: Mapping[str, Any],
    task: str,
    labels: Collection[str] | None,
    path: str,
    *,
    has_options: bool,
) -> bool:
    """Whether a file has the format of the training corpus; ``labels`` are those that the model knows, to predict."""
    name, same_suffix = training["format"], sample.suffix == training.get("suffix")
    if not samples.has_text_column(sample, name, like_training):
        return False
    by_extension = _format_of_extension(sample)
    if by_extension is not None:
        return bool(by_extension == name or same_suffix)
    if has_options:
        return True
    if labels is None:
        columns = tuple(training.get("columns") or ())
        if "label" in columns and training.get("suffix") is None:  # columns that the training corpus shows
            shown = samples.find_label_columns(sample, pairs="second" in columns)
            if shown not in (None, columns) and not samples.has_word_labels(sample, columns):
                return False
        candidates = _DetectionRequest(task, False, {}).candidates()
        fitting = [other for other in samples.match_formats(sample, "fits") if other in candidates]
        if fitting[:1] == [name] or (same_suffix and (name in fitting or not fitting)):
            return True
        return "columns" in training and samples.has_tree_columns(sample, training["columns"])
    fits = samples.is_like_training(sample, name, like_training, labels)
    may_be_text = (name in ("conll", "word/tag") or "columns" in training) and sample.suffix != ".tsv"
    if fits and may_be_text:
        hint = f"read as {name}, like the training corpus; {{format=text}} reads lines as texts"
        warn_caller(Hint(f"{verbatim(path)}: {hint}", options=("format",)))
    return fits


def _read_sample(
    lines: TextLines, count: int, task: str | None, options: Mapping[str, Any], *, optional: bool
) -> Sample:
    text = options.get("text", "text")  # a column, or several
    text_column = text if isinstance(text, str) else text[0]
    chosen = [options.get(f"{role}_column") for role in ("sentence", "token")]
    listed = chain.from_iterable(
        [names] if isinstance(names, str) else names for names in chosen if not isinstance(names, (int, type(None)))
    )
    return Sample.read(
        lines,
        count,
        text_column=text_column,
        tagged=corpus_kind(task).tags,
        optional=optional,
        word_columns=tuple(compose(name) for name in listed if isinstance(name, str)),
    )


@dataclass(frozen=True)
class _DetectionRequest:
    """The arguments of :func:`detect`."""

    task: str | None
    optional: bool  # whether labels are optional
    options: Mapping[str, Any]

    @property
    def kind(self) -> CorpusKind:
        return corpus_kind(self.task)

    def formats_of_task(self) -> set[str]:
        if self.task is None:
            return {*FORMATS} - {FOLDER}
        tasks = set().union(*(entry.tasks for entry in FORMATS.values()))
        if self.task not in tasks:
            raise ConfigError(f"there is no task {self.task!r}. Set task to one of {_join(tasks)}, or None")
        return {name for name, entry in FORMATS.items() if self.task in entry.tasks} - {FOLDER}

    def candidates(self) -> list[str]:
        """Formats with all options and, if labels are required, for the task."""
        allowed = {*FORMATS} - {FOLDER} if self.optional else self.formats_of_task()
        roles = self.options.get("columns")
        if roles is not None:  # those of words, or of texts
            of_words = self.kind.tags or not {"token", "form"}.isdisjoint(str(role).lower() for role in roles)
            allowed -= {"labelled" if of_words else "conllup"}
        return [name for name, entry in FORMATS.items() if name in allowed and entry.options.issuperset(self.options)]

    def resolve_name(self, format: str) -> str | None:
        """The format, if it is given or the only one that has all options; None when it must be detected."""
        self._check_options()
        candidates, plain = self.candidates(), PLAIN if self.optional else ()
        if format == "auto":
            if not candidates:
                raise self._no_candidate_error()
            return candidates[0] if len(candidates) == 1 and (self.options or not plain) else None
        if format not in FORMATS and format not in plain:
            raise ConfigError(
                f"there is no format {format!r}. Set {{format}} to one of {_join([*FORMATS, *plain])}, or 'auto'",
                options=("format",),
            )
        if format not in candidates and (self.options or format not in plain):
            raise self.misfit_error(format)
        return format

    def check_folder(self, source: FilePath) -> None:
        """Reject a folder for a task that it does not serve, and options of files."""
        self._check_options()
        if self.kind.second is True or not (self.optional or self.kind.label):
            hint = "Name a file with the corpus."
            raise DataError(f"is a folder of texts, which does not serve task {self.task!r}", path=source, hint=hint)
        if self.options.keys() - FORMATS[FOLDER].options:
            raise self.misfit_error(FOLDER)

    def _check_options(self) -> None:
        known = {option for entry in FORMATS.values() for option in entry.options}
        unknown = next((option for option in self.options if option not in known), None)
        if unknown is not None:
            short = unknown.removesuffix("_column")
            close = [short] if short in known else get_close_matches(unknown, known, n=1)
            guess = f"Did you mean {close[0]!r}? " if close else ""
            raise ConfigError(f"no format has an option {unknown!r}. {guess}There are: {_join(known)}")
        if self.kind.label and self.kind.second is False and "second" in (self.options.get("columns") or ()):
            raise ConfigError(
                "{columns} has 'second', but a classifier takes one text. Write None for that field",
                options=("columns",),
            )

    def _no_candidate_error(self) -> ConfigError:
        serving = "" if self.task is None or self.optional else f" for task {self.task!r}"
        names = ", ".join(f"{{{option}}}" for option in sorted(self.options))
        return ConfigError(
            f"no format{serving} has all of the options {names}. Set {{format}} and only its options",
            options=("format", *self.options),
        )

    def misfit_error(self, format: str) -> ConfigError:
        """The error of a format that does not serve the task, or lacks an option."""
        if not self.optional and format not in {*self.formats_of_task(), FOLDER}:
            return ConfigError(
                f"format {format!r} does not serve task {self.task!r}. "
                f"Set {{format}} to one of {_join(self.formats_of_task())}",
                options=("format",),
            )
        useless = sorted(self.options.keys() - (FORMATS[format].options if format in FORMATS else set()))
        names = " and ".join(f"{{{option}}}" for option in useless)
        return ConfigError(
            f"format {format!r} has no option {names}; leave that out, or choose another {{format}}",
            options=("format", *useless),
        )


def _detect_corpus(sample: Sample, request: _DetectionRequest, source: TextLines) -> DetectedFormat:
    """The first candidate that fits the sample."""
    candidates, extension_format = request.candidates(), _format_of_extension(sample)
    if extension_format == "jsonl" and "spans" in candidates and not request.optional and samples.is_spans(sample):
        extension_format = "spans"  # to predict, the text is enough
    if extension_format in ("csv", "jsonl") and "sentence_column" in request.options and "word-table" in candidates:
        extension_format = "word-table"
    if extension_format is None or (request.optional and extension_format not in candidates):
        fitting = list(samples.match_formats(sample, "fits"))
    else:
        fitting = [extension_format]
    name = next((name for name in fitting if name in candidates), None)
    if name is None and {*candidates} == {"conll", "word-table"} and extension_format != "csv":
        name = "conll"  # the options are of columns of words, and no header names those of a table
    if name is None and request.optional and sample.suffix == ".tsv" and "tsv" in candidates:
        name = "tsv"
    if name is None:
        raise _detection_error(sample, request, fitting, source.path)
    columns = None
    if name == "tsv" and "labelled" in candidates and not {"text", "second", "label"} & request.options.keys():
        columns = _label_columns(sample, request.kind)
    return DetectedFormat(name if columns is None else "labelled", source, columns)


class UnknownFormatError(DataError):
    """The first lines of a file show no format of a corpus."""


def _detection_error(
    sample: Sample, request: _DetectionRequest, fitting: list[str], path: str
) -> ConfigError | DataError:
    if not request.optional:
        misfit = next((name for name in fitting if name in request.formats_of_task()), None)
        if misfit is not None:
            return request.misfit_error(misfit)
    candidates, named = request.candidates(), _format_of_extension(sample)
    first = sample.lines[0] if sample.lines and not named and not request.kind.tags else ""
    delimiter = samples.find_name_delimiter(first)
    names = [samples.clean_name(field) for field in first.split(delimiter)] if delimiter else []
    if request.kind.tags and not request.optional and not named and samples.are_words_alone(sample) is not False:
        return DataError("has one word on each line, and no tags", path=path, hint="Write its tag behind each word.")
    texts_alone = not request.optional and request.task is None and "labelled" in candidates
    in_columns = request.kind.label and not request.kind.second and not (named or request.options)
    separator, columns = (samples.find_label_separator(sample) if in_columns else None) or (None, ())
    advice = f"; if the columns are {verbatim(_join(names))}, set {{text}} to that of the text" if names else ""
    if separator is not None:
        advice = f"; if {separator!r} separates {' and '.join(columns)}, give {{columns={','.join(columns)}}}"
        advice += f" and {{separator={separator!r}}}"
    error = DataError if named else UnknownFormatError
    return error(
        f"has the extension of {named!r}, which does not fit" if named else "has no format that the first lines show",
        path=path,
        hint=f"Set {{format}} to one of {_join(candidates)}"
        + advice
        + ("; for texts alone, one on each line, to 'labelled' with {columns} 'text'." if texts_alone else "."),
        options=("format", "columns", "separator", "text"),
    )


def _detect_text(sample: Sample, kind: CorpusKind, source: TextLines) -> DetectedFormat:
    """The format of a corpus to predict, which may contain texts alone."""
    name = _format_of_extension(sample)
    if kind.target and name is None and not samples.has_tsv_header(sample):
        separator = samples.find_parallel_separator(sample.lines)
        if separator is not None:
            return DetectedFormat("labelled", source, ("text", "second"), separator)
    if name is None and sample.suffix == ".tsv":
        return _detect_tsv(sample, kind, source)
    name = name or next(samples.match_formats(sample, "surely"), None)
    if name is not None:
        return DetectedFormat(name, source)
    name = next(samples.match_formats(sample, "likely"), None)
    columns = _label_columns(sample, kind)
    if name in (None, "tsv") and columns is not None:
        if samples.has_recurring_labels(sample, columns):
            return DetectedFormat("labelled", source, columns)
        name = "labelled" if len(sample.filled) > 1 else None
    if name is None:
        words = _detect_words(sample, source.path) if kind.tags else None
        return DetectedFormat(words or "text", source)
    raise DataError(
        f"could be {name!r} or plain text",
        path=source.path,
        hint=f"Set {{format}} to {name}, or to text if each line is a text.",
        options=("format",),
    )


def _detect_words(sample: Sample, path: str) -> str | None:
    """The format of a file of words without tags, one on each line; a hint says how each line is read."""
    are_words = samples.are_words_alone(sample)
    if are_words is False:
        return None
    decision = (
        "read as words, one on each line, with a blank line after each sentence; {format=text} reads lines as texts"
        if are_words
        else "each line is read as a text; if it is one word of a sentence that a blank line ends, set {format=conll}"
    )
    warn_caller(Hint(f"{verbatim(path)}: {decision}", options=("format",)))
    return "conll" if are_words else None


def _detect_tsv(sample: Sample, kind: CorpusKind, source: TextLines) -> DetectedFormat:
    """The format of a TSV to predict, which is never plain text."""
    if kind.target and sample.lines:
        names = [name.strip() for name in sample.lines[0].split("\t")]
        if len(names) == 2 and {*names} != {"text", "second"}:
            return DetectedFormat("labelled", source, ("text", "second"))
    matches = chain.from_iterable(samples.match_formats(sample, test) for test in ("surely", "likely"))
    name = next(matches, None)
    if (
        name is None
        and sample.lines
        and not any("\t" in line for line in sample.filled)
        and not samples.has_tsv_header(sample)
    ):
        if kind.tags and samples.are_words_alone(sample):
            return DetectedFormat(_detect_words(sample, source.path) or "text", source)
        hint = "Set {format} to text if each line is a text, or {text} to the header if there is one."
        raise DataError("has no tabs and no header", path=source.path, hint=hint, options=("format", "text"))
    columns = _label_columns(sample, kind) if name in (None, "tsv") else None
    return DetectedFormat(name or "tsv" if columns is None else "labelled", source, columns)


def _label_columns(sample: Sample, kind: CorpusKind) -> tuple[str, ...] | None:
    """The columns of a table whose header does not name the text, if the sample shows that its examples have labels."""
    if not kind.label or not samples.is_labelled(sample) or match_name(sample.text_column, sample.names):
        return None
    return samples.find_label_columns(sample, pairs=kind.second)


def _format_of_extension(sample: Sample) -> str | None:
    """The format that the extension decides; None for ``.tsv``, which needs a look at the lines."""
    name = next((name for name, entry in FORMATS.items() if sample.suffix in entry.extensions), None)
    if name in ("csv", "jsonl") and sample.tagged and samples.is_word_table(sample):
        return "word-table"
    if name == "jsonl" and samples.is_sentences(sample):
        return "sentences"
    if name in ("conll", "conllu") and samples.is_conllup(sample):
        return "conllup"
    if name == "conll" and samples.is_conllu(sample):
        return "conllu"
    return name


def _columns_error(sample: Sample, kind: CorpusKind, path: str) -> DataError:
    width = len(sample.modal_rows[0]) if sample.modal_rows else 0
    blank = sample.line_with_blank_field()
    if kind.second and width == 2:
        problem = "has 2 fields on each line; a label and two texts are expected"
        hint = "Give a corpus of pairs, or set"
    else:
        problem = f"its {width} field{'s' * (width != 1)} per line do not show which is the text and which the label"
        hint = "Set" if blank is None else "The first empty field is on this line; fill it in, or set"
    hint += " {columns} to what each field holds: 'label', 'text', 'second', or None to skip one."
    return DataError(problem, path=path, line=blank, hint=hint, options=("columns",))


def _join(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"

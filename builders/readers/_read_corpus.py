"""Read a corpus in any of the formats, named or detected; and sources with their targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from graphattn.builders._foreign import reject_parallel_markup
from graphattn.builders._paths import FilePath, display_name
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._text_lines import TextLines, open_text, split_suffix
from graphattn.builders.readers._conllu import read_conllu, read_conllup
from graphattn.builders.readers._fasttext import read_fasttext
from graphattn.builders.readers._folder import read_folder
from graphattn.builders.readers._formats import (
    FOLDER,
    FORMATS,
    CorpusFormat,
    corpus_kind,
    detect,
    reject_table,
    require_feature_columns,
)
from graphattn.builders.readers._rows import KeepRow, Skip, iterate_with_errors, raise_or_skip
from graphattn.builders.readers._samples import SAMPLE_LINES, is_header_of_pair
from graphattn.builders.readers._sentences import read_sentences
from graphattn.builders.readers._spans import read_spans
from graphattn.builders.readers._table import read_labelled_lines, read_table
from graphattn.builders.readers._tagged import counts_words, read_conll, read_word_tag
from graphattn.builders.readers._unlabelled import drop_labels
from graphattn.builders.readers._webanno import read_webanno
from graphattn.builders.readers._word_table import name_columns, read_word_table
from graphattn.exceptions import DataError

_TEXTS = frozenset({"classify", "pair"})
_TAGGED = frozenset({"tag"})

FORMATS.update(
    {
        "csv": CorpusFormat(partial(read_table, format="csv"), _TEXTS, (".csv",)),
        "tsv": CorpusFormat(partial(read_table, format="tsv"), _TEXTS),
        "jsonl": CorpusFormat(partial(read_table, format="jsonl"), _TEXTS, (".jsonl", ".ndjson")),
        "labelled": CorpusFormat(read_labelled_lines, _TEXTS),
        "fasttext": CorpusFormat(read_fasttext, frozenset({"classify"})),
        "conll": CorpusFormat(read_conll, _TAGGED, (".conll",)),
        "word/tag": CorpusFormat(read_word_tag, _TAGGED),
        "word-table": CorpusFormat(read_word_table, _TAGGED),
        "conllu": CorpusFormat(read_conllu, _TAGGED, (".conllu",)),
        "conllup": CorpusFormat(read_conllup, _TAGGED, (".conllup", ".cupt")),
        "sentences": CorpusFormat(read_sentences, frozenset({"classify", "tag"})),
        "spans": CorpusFormat(read_spans, _TAGGED),
        "webanno": CorpusFormat(read_webanno, _TAGGED),
        FOLDER: CorpusFormat(read_folder, frozenset({"classify"})),
    }
)


def read_corpus(
    path: FilePath,
    *,
    format: str = "auto",
    task: str | None = None,
    encoding: str | None = None,
    skip: Skip | None = None,
    keep_row: KeepRow | None = None,
    drop_label: Collection[str] = (),
    **options: Any,
) -> Iterator[Example | Sentence]:
    """Read the examples or sentences of a corpus, one at a time.

    Parameters
    ----------
    path : the corpus, plain or compressed, ``"-"`` for standard input, or a folder of texts
    format : a key of ``FORMATS``, or ``"auto"`` to detect it as :func:`~graphattn.builders.readers.detect` describes
    task : ``"classify"``, ``"pair"`` or ``"tag"``; only formats that serve it are considered
    encoding : of the text, any name that Python knows, such as ``"cp1252"``; None for UTF-8
    skip : receives the error of each line or sentence that is left out; None raises the first
    keep_row : receives all fields of the row of each example before the example is yielded (csv, tsv, jsonl, labelled,
        folder, sentences, spans)
    drop_label : labels that stand for none, such as ``-``: their examples are left out, and words with such a tag
    options : options of the format's reader, such as ``text`` and ``label`` (csv, tsv, jsonl), ``columns`` (labelled,
        conllup) or ``tag_column`` (conll); only formats that have all of them are considered. For pairs ``second``
        defaults to ``"second"``; the ``columns`` of a labelled file are detected unless given.

    Returns
    -------
    An iterator over :class:`~graphattn.builders._sentence.Example` (csv, tsv, jsonl, labelled, fasttext, folder) or
    :class:`~graphattn.builders._sentence.Sentence` (all others).

    Raises
    ------
    ConfigError
        when the format, the task or an option is unknown, or they contradict each other
    DataError
        when the file cannot be read, its format cannot be detected, or it contains no example

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("1\\ta fine film\\n0\\tdull\\n")
    >>> [example.label for example in read_corpus(path)]
    ['1', '0']
    """
    source, name, options = resolve_reader(path, format=format, task=task, encoding=encoding, **options)
    reader = FORMATS[name]
    receivers = {"skip": skip, "keep_row": keep_row if reader.keeps_rows else None}
    items = reader.read(source, **options, **{key: value for key, value in receivers.items() if value is not None})
    if drop_label:
        items = drop_labels(items, drop_label, display_name(path), skip)
    return items if skip is not None else _at_least_one(items, display_name(path))


def resolve_reader(
    path: FilePath,
    *,
    format: str = "auto",
    task: str | None = None,
    encoding: str | None = None,
    multilabel: bool = False,
    split: str | None = None,
    feature_columns: Sequence[str] = (),
    **options: Any,
) -> tuple[FilePath, str, dict[str, Any]]:
    """What :func:`read_corpus` reads, given the same arguments: the source, the format and the reader's options.

    ``multilabel`` and ``split`` are options of some formats; they do not exclude the others. ``feature_columns`` are an
    error of a format without them.
    """
    opens_later = encoding is None or os.path.isdir(path)
    detected = detect(path if opens_later else open_text(path, encoding), task, format=format, **options)
    entry = FORMATS[detected.name]
    if encoding is not None and detected.name == FOLDER:
        options["encoding"] = encoding
    if detected.columns is not None:
        options["columns"] = detected.columns
    if corpus_kind(task).second and "second" in entry.options:
        options.setdefault("second", "second")
    if multilabel and "multilabel" in entry.options:
        options["multilabel"] = True
    if split is not None and "split" in entry.options:
        options["split"] = split
    if feature_columns:
        try:
            require_feature_columns(feature_columns, detected.name, detected.source)
        except DataError:
            if isinstance(detected.source, TextLines):
                detected.source.close()
            raise
        options["feature_columns"] = tuple(feature_columns)
    return detected.source, detected.name, options


def describe_corpus(lines: TextLines, *, format: str, task: str, **options: Any) -> dict[str, Any]:
    """The arguments that read a corpus again, for ``resolve_like_training``."""
    _, name, resolved = resolve_reader(lines, format=format, task=task, **options)
    counts = name == "conll" and "token_column" not in resolved and counts_words(lines, **resolved)
    if name == "word-table":
        resolved |= name_columns(lines, **resolved)
    resolved.pop("header", None)  # each file has its own
    named = format != "auto" or bool(options)
    return {"format": name, "suffix": split_suffix(lines)[0] if named else None, "counts": counts, **resolved}


def _at_least_one(items: Iterator[Example | Sentence], path: str) -> Iterator[Example | Sentence]:
    first = next(iter(items), None)
    if first is None:
        raise DataError("has no example", path=path, hint="Give a file with at least one.")
    yield first
    yield from items


_PARSED: dict[str, Callable[[FilePath], Iterator[Sentence]]] = {
    ".conllu": lambda path: read_conllu(path, tags=None),
    ".jsonl": read_sentences,
}


def read_parallel(
    source: FilePath, target: FilePath, *, skip: Skip | None = None
) -> Iterator[tuple[str | Sentence, str]]:
    """Read pairs of a source and a target, one at a time.

    Parameters
    ----------
    source : a text on each line; or parsed sentences, CoNLL-U (``.conllu``) or JSON Lines (``.jsonl``), in the order
        of the targets
    target : a text on each line
    skip : receives the error of each pair that is left out, since a line is empty or unreadable; None raises the first

    Returns
    -------
    An iterator over pairs; sources of parsed files are sentences with heads. Files may be compressed.

    Raises
    ------
    DataError
        when lines are empty, or one file has more lines than the other; it names the file and the first line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "en").write_text("A dog.\\nA cat.\\n")
    >>> _ = (folder / "de").write_text("Ein Hund.\\nEine Katze.\\n")
    >>> list(read_parallel(folder / "en", folder / "de"))
    [('A dog.', 'Ein Hund.'), ('A cat.', 'Eine Katze.')]
    """
    read_parsed = _PARSED.get(split_suffix(source)[0])
    sources: Iterator[str | Sentence | DataError]
    sources = _read_filled_lines(source) if read_parsed is None else read_parsed(source)
    pairs = zip_longest(sources, _read_filled_lines(target))
    for number, (text, translation) in enumerate(pairs, 1):
        if isinstance(text, DataError) or isinstance(translation, DataError):
            error, *_ = (side for side in (text, translation) if isinstance(side, DataError))
            if skip is None and (others := sum(any(isinstance(side, DataError) for side in pair) for pair in pairs)):
                error.message += f", and {others:,} more pair{'s have' if others > 1 else ' has'} such a line"
            raise_or_skip(error, skip)
            continue
        if text is None:
            raise _missing_line_error("source", number, target, source, line=number)
        if translation is None:
            raise _missing_line_error("target", number, source, target, line=number if isinstance(text, str) else None)
        if number == 1 and isinstance(text, str) and is_header_of_pair(text, translation):
            problem, hint = "this is a header, not a text", "Delete it in both files."
            error = DataError(problem, path=display_name(source), line=number, hint=hint)
            raise_or_skip(error, skip)
            continue
        yield text, translation


def _missing_line_error(
    missing: str, number: int, longer: FilePath, shorter: FilePath, *, line: int | None
) -> DataError:
    return DataError(
        f"text {number} has no {missing}, since {display_name(shorter)} ends before it",
        path=display_name(longer),
        line=line,
        hint="Give as many sources as targets.",
    )


def _read_filled_lines(path: FilePath) -> Iterator[str | DataError]:
    """The lines, and the error in place of each that is empty or unreadable."""
    reject_table(path, "Give a text on each line, or one table of sources and targets.")
    with open_text(path) as lines:
        reject_parallel_markup(lines.sample(SAMPLE_LINES), lines.path)
        for line in iterate_with_errors(lines):
            if isinstance(line, DataError) or line.strip():
                yield line if isinstance(line, DataError) else line.removesuffix("\n")
            else:
                hint = "Delete it in both files, or complete it."
                yield DataError("the line is empty", path=lines.path, line=lines.line, hint=hint)

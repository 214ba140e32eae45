"""Read sources and their targets: two files whose lines belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

from graphattn.builders.files import FilePath, display_name, numbered_lines, split_suffix
from graphattn.builders.readers.conllu import read_conllu
from graphattn.builders.readers.sentences import read_sentences
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import DataError

_PARSED: dict[str, Callable[[FilePath], Iterator[Sentence]]] = {
    ".conllu": lambda path: read_conllu(path, tags=None),
    ".jsonl": read_sentences,
}


def read_parallel(source: FilePath, target: FilePath) -> Iterator[tuple[str | Sentence, str]]:
    """Read pairs of a source and a target, one at a time.

    Parameters
    ----------
    source : a text on each line; or parsed sentences, CoNLL-U (``.conllu``) or JSON Lines (``.jsonl``), in the order
        of the targets
    target : a text on each line

    Returns
    -------
    An iterator over pairs; sources of parsed files are sentences with heads. Files may be compressed.

    Raises
    ------
    DataError
        when a line is empty, or one file has more lines than the other; it names the file and the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "en").write_text("A dog.\\nA cat.\\n")
    >>> _ = (folder / "de").write_text("Ein Hund.\\nEine Katze.\\n")
    >>> list(read_parallel(folder / "en", folder / "de"))
    [('A dog.', 'Ein Hund.'), ('A cat.', 'Eine Katze.')]
    """
    for number, (one, other) in enumerate(zip_longest(_sources(source), _lines(target)), 1):
        if one is None:
            raise _alone("source", number, target, source, line=number)
        if other is None:
            raise _alone("target", number, source, target, line=number if isinstance(one, str) else None)
        yield one, other


def _alone(lacks: str, number: int, longer: FilePath, shorter: FilePath, *, line: int | None) -> DataError:
    return DataError(
        f"text {number} has no {lacks}, since {display_name(shorter)} ends before it",
        path=display_name(longer),
        line=line,
        hint="Sources and targets must be as many.",
    )


def _sources(path: FilePath) -> Iterator[str | Sentence]:
    reader = _PARSED.get(split_suffix(path)[0])
    return _lines(path) if reader is None else iter(reader(path))


def _lines(path: FilePath) -> Iterator[str]:
    for number, line in numbered_lines(path):
        if not line.strip():
            raise DataError(
                "the line is empty",
                path=display_name(path),
                line=number,
                hint="Delete it in both files, or complete it.",
            )
        yield line

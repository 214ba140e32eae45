"""Chunks of texts, and a function on a chunk that bisects it to find the texts with errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import DataError, GraphError
from graphattn.experiments._cli.flags import as_flag

if TYPE_CHECKING:
    from graphattn.experiments._cli.text_stream import NumberedText

CHUNK = 512
"""Default number of texts that are processed together."""


@dataclass(frozen=True)
class Chunk:
    """Texts that are processed together; ``first`` is the number of the first one, from 1."""

    first: int
    texts: tuple[NumberedText, ...]


def iter_chunks(texts: Iterable[NumberedText], size: int) -> Iterator[Chunk]:
    """Group texts into chunks, reading no more than one ahead of what is taken."""
    remaining, first = iter(texts), 1
    while texts_of_chunk := tuple(islice(remaining, size)):
        yield Chunk(first, texts_of_chunk)
        first += len(texts_of_chunk)


@dataclass(frozen=True)
class TextError:
    """A text that cannot be processed, with its line."""

    line: int
    message: str


def apply_to_texts(function: Callable[[list[Any], int], Sequence[Any]], chunk: Chunk) -> list[Any]:
    """Apply a function to the texts of a chunk; one that fails has a :class:`TextError` in place of its result.

    ``function`` takes inputs and the number of the first one, and returns a result for each.
    """
    results: list[Any] = []
    for is_bad, group in groupby(chunk.texts, key=lambda text: text.error is not None):
        texts = list(group)
        if is_bad:
            results += [_describe_error(text.line, text.error) for text in texts]
        else:
            results += _apply(function, texts, chunk.first + len(results))
    return results


def _apply(function: Callable[[list[Any], int], Sequence[Any]], texts: list[NumberedText], first: int) -> list[Any]:
    """Apply a function to all texts, or after an error to each half."""
    try:
        return list(function([text.content for text in texts], first))
    except (DataError, GraphError) as error:
        if len(texts) == 1:
            return [_describe_error(texts[0].line, error)]
    middle = len(texts) // 2
    return [*_apply(function, texts[:middle], first), *_apply(function, texts[middle:], first + middle)]


def _describe_error(line: int, error: DataError | GraphError | None) -> TextError:
    assert error is not None
    return TextError(line, " ".join(error.render(as_flag).split()))

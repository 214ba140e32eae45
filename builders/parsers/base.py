"""What a parser is: words in, heads and relations out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from graphattn.builders.sentence import Sentence


@dataclass(frozen=True, slots=True)
class Parse:
    """The dependency tree of a sentence.

    Parameters
    ----------
    heads : for each word the 1-based word it depends on, 0 for a root
    deprels : for each word the name of its relation
    """

    heads: tuple[int, ...]
    deprels: tuple[str, ...]


class Parser(Protocol):
    """Parses sentences that are cut into words. It can be sent to other processes."""

    @property
    def name(self) -> str:
        """What tells its parses from those of another parser or model."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence; its words stay the words."""

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Raw texts cut into sentences and words by the parser itself, and parsed."""


def parse_texts(
    parser: Parser, texts: Sequence[Sequence[str]], sentence_ids: Sequence[Sequence[int] | None]
) -> list[Parse]:
    """Parse texts sentence by sentence; each gives one forest over all of its words.

    Parameters
    ----------
    parser : parses the sentences
    texts : the words of each text
    sentence_ids : the 0-based sentence of each word of a text; None for a text that is one sentence
    """
    bounds = [_bounds(len(words), ids) for words, ids in zip(texts, sentence_ids, strict=True)]
    pieces = [words[begin:end] for words, own in zip(texts, bounds, strict=True) for begin, end in own]
    parses = iter(parser.parse(pieces))
    return [joined([(begin, next(parses)) for begin, _ in own]) for own in bounds]


def _bounds(count: int, ids: Sequence[int] | None) -> list[tuple[int, int]]:
    """First word of each sentence and the one after its last."""
    if not count:
        return []
    starts = [0] if ids is None else [0, *(i for i in range(1, count) if ids[i] != ids[i - 1])]
    return list(zip(starts, [*starts[1:], count], strict=True))


def joined(parts: Sequence[tuple[int, Parse]]) -> Parse:
    """Parses of parts of a text as one.

    Parameters
    ----------
    parts : first word of each part, 0-based, and its parse
    """
    return Parse(
        tuple(head + begin if head else 0 for begin, parse in parts for head in parse.heads),
        tuple(name for _, parse in parts for name in parse.deprels),
    )

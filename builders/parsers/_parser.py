"""The interface of parsers: words to dependency trees; and the trees that spaCy made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from graphattn.builders._blanks import unmark
from graphattn.builders._sentence import Sentence


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
    """Parses tokenized sentences. It can be pickled."""

    @property
    def name(self) -> str:
        """Identifies the parser and its model in caches."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence, without changing its words."""

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Tokenize raw texts into sentences and words, and parse them."""


def parse_texts(
    parser: Parser, texts: Sequence[Sequence[str]], sentence_ids: Sequence[Sequence[int] | None]
) -> list[Parse]:
    """Parse texts sentence by sentence; each text becomes one forest over all of its words."""
    bounds = [_sentence_bounds(len(words), ids) for words, ids in zip(texts, sentence_ids, strict=True)]
    words_of_texts = [[word if word.isalnum() else unmark(word).strip() or word for word in words] for words in texts]
    sentences = [words[begin:end] for words, spans in zip(words_of_texts, bounds, strict=True) for begin, end in spans]
    parses = iter(parser.parse(sentences))
    return [concatenate([(begin, next(parses)) for begin, _ in spans]) for spans in bounds]


def _sentence_bounds(count: int, ids: Sequence[int] | None) -> list[tuple[int, int]]:
    """First word of each sentence and the one after its last."""
    if not count:
        return []
    starts = [0] if ids is None else [0, *(i for i in range(1, count) if ids[i] != ids[i - 1])]
    return list(zip(starts, [*starts[1:], count], strict=True))


def concatenate(parts: Sequence[tuple[int, Parse]]) -> Parse:
    """Concatenate the parses of a text's parts, each with its first word (0-based)."""
    return Parse(
        tuple(head + begin if head else 0 for begin, parse in parts for head in parse.heads),
        tuple(name for _, parse in parts for name in parse.deprels),
    )


def from_spacy(document: Any) -> Sentence:
    """The words of a spaCy document or span with their heads, relations and tags.

    White-space tokens are left out; a word that depends on one depends on its head instead. A head outside of a span
    makes a root. Names of relations become lower case (spaCy has ``ROOT``); their scheme is the model's, which
    is not that of Universal Dependencies in English (``prep``, ``pobj``, ``dobj``) and German (``sb``, ``oa``, ``nk``).

    Parameters
    ----------
    document : ``spacy.tokens.Doc`` or ``spacy.tokens.Span``; without a parse there are no heads
    """
    tokens = [token for token in document if not token.is_space]
    numbers = {token.i: number for number, token in enumerate(tokens, start=1)}
    source = getattr(document, "doc", document)
    words = tuple(token.text for token in tokens)
    tags = tuple(token.pos_ for token in tokens) if source.has_annotation("POS") else None
    ids = _sentence_ids(tokens) if source.has_annotation("SENT_START") else None
    if not source.has_annotation("DEP"):
        return Sentence(words, tags=tags, sentence_ids=ids)
    heads = tuple(_head_number(token, numbers) for token in tokens)
    return Sentence(
        words, heads=heads, deprels=tuple(token.dep_.lower() for token in tokens), tags=tags, sentence_ids=ids
    )


def _head_number(token: Any, numbers: dict[int, int]) -> int:
    head = token.head
    while head.is_space and head.head.i != head.i:
        head = head.head
    return 0 if head.i == token.i else numbers.get(head.i, 0)


def _sentence_ids(tokens: list[Any]) -> tuple[int, ...]:
    ids, sentence, start = [], -1, None
    for token in tokens:
        if token.sent.start != start:
            sentence, start = sentence + 1, token.sent.start
        ids.append(sentence)
    return tuple(ids)

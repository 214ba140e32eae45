"""A parsed spaCy ``Doc`` or ``Span`` as a sentence; spaCy itself is not needed."""

from __future__ import annotations

from typing import Any

from graphattn.builders.sentence import Sentence


def from_spacy(document: Any) -> Sentence:
    """The words of a document or span with their heads, relations and tags.

    Tokens of white space alone are left out, and what depends on one depends on its head. A head outside of a span
    makes a root. Names of relations become lower case, as Universal Dependencies write them (spaCy has ``ROOT``).

    Parameters
    ----------
    document : ``spacy.tokens.Doc`` or ``spacy.tokens.Span``; without a parse there are no heads
    """
    tokens = [token for token in document if not token.is_space]
    number = {token.i: place for place, token in enumerate(tokens, start=1)}
    source = getattr(document, "doc", document)
    words = tuple(token.text for token in tokens)
    tags = tuple(token.pos_ for token in tokens) if source.has_annotation("POS") else None
    ids = _sentences(tokens) if source.has_annotation("SENT_START") else None
    if not source.has_annotation("DEP"):
        return Sentence(words, tags=tags, sentence_ids=ids)
    heads = tuple(_head(token, number) for token in tokens)
    return Sentence(
        words, heads=heads, deprels=tuple(token.dep_.lower() for token in tokens), tags=tags, sentence_ids=ids
    )


def _head(token: Any, number: dict[int, int]) -> int:
    head = token.head
    while head.is_space and head.head.i != head.i:
        head = head.head
    return 0 if head.i == token.i else number.get(head.i, 0)


def _sentences(tokens: list[Any]) -> tuple[int, ...]:
    ids, sentence, start = [], -1, None
    for token in tokens:
        if token.sent.start != start:
            sentence, start = sentence + 1, token.sent.start
        ids.append(sentence)
    return tuple(ids)

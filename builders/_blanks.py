"""Words with the white space before them, for tokenizers whose pieces depend on it, such as byte-level ones.

In GPT-2's tokenizer, ``dog`` in the middle of a text is the piece ``Ġdog``, which begins with the blank. A word that is
cut out of a text keeps what its pieces depend on: after one blank it stays as it is, other white space stays before it,
and where there is none, :data:`JOINER` is before it. So each word has the pieces of the text, wherever it is read, and
the words of a list, which have no marks, have a blank before them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

JOINER = "\u2060"
"""Before a word that no blank precedes; Unicode's sign without width for this."""
_MARK = pre_tokenizers.Split("\ufdd0words with blanks\ufdd0", "isolated")
"""Changes nothing; in ``tokenizer.json``, it says that words are read in this way."""
_PLAIN = ("Is it so (or not)? I don't know, x.", "a")
_PROBES = (*_PLAIN, " so", "\nso it  is,\n\n 12345 not\tso.", "so ")
"""Texts on which pieces of words are compared with those of the whole text."""


@dataclass(frozen=True)
class WordContext:
    """How the words of a text are encoded so that together they have the pieces of the text.

    ``encoder`` encodes a word with the white space before it. ``prefix`` says where the tokenizer puts a blank before a
    text: never (""), unless it begins with a blank ("blank") or any white space ("white"), or in each ("all").
    """

    encoder: Tokenizer
    prefix: str

    def mark(self, text: str, words: Sequence[tuple[str, int]]) -> list[str]:
        """The words of a text, given with their offsets, each with what its pieces depend on."""
        marked: list[str] = []
        end = 0
        for word, begin in words:
            blank = text[end:begin]
            while blank and unicodedata.combining(blank[0]) and marked:  # a normalizer merged it with the letter
                marked[-1], blank = marked[-1] + blank[0], blank[1:]
            if not marked and self._begins_with_blank(blank):
                blank = f" {blank}"
            marked.append(_mark(blank, word))
            end = begin + len(word)
        if marked:
            marked[-1] += text[end:]
        return marked

    def _begins_with_blank(self, start: str) -> bool:
        has_blank = start.startswith(" ") if self.prefix == "blank" else start[:1].isspace()
        return self.prefix == "all" or (self.prefix != "" and not has_blank)

    def encode(self, words: Sequence[str]) -> list[Any]:
        """The encodings of marked words."""
        return self.encoder.encode_batch([[unmark(word)] for word in words], is_pretokenized=True, **_PIECES)


_Split = Callable[[Sequence[str]], Iterable[list[tuple[str, int]]]]
_PIECES: dict[str, Any] = {"add_special_tokens": False}


def _mark(blank: str, word: str) -> str:
    if blank == " " and not word[:1].isspace() and not word.startswith(JOINER):
        return word
    return blank + word if blank[:1].isspace() else JOINER + blank + word


def unmark(word: str) -> str:
    """A marked word as it is in a text, with the white space before it.

    Examples
    --------
    >>> [unmark(word) for word in ("dog", "\\n dog", f"{JOINER}dog")]
    [' dog', '\\n dog', 'dog']
    """
    return word.removeprefix(JOINER) if word.startswith(JOINER) else word if word[:1].isspace() else f" {word}"


def split_at_blanks() -> pre_tokenizers.PreTokenizer:
    """Split at white space, also where a normalizer has replaced it."""
    return pre_tokenizers.Split(Regex(r"[\s\x{2581}]+"), "removed")


def is_marked(tokenizer: Tokenizer) -> bool:
    """Whether a ``tokenizer.json`` says that its words are read with the white space before them."""
    steps = list(iterate_steps(tokenizer.pre_tokenizer))
    return bool(steps) and steps[-1].__getstate__() == _MARK.__getstate__()


def set_mark(tokenizer: Tokenizer) -> None:
    """Let ``tokenizer.json`` say that words are read with the white space before them."""
    if not is_marked(tokenizer):
        first = tokenizer.pre_tokenizer
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*([] if first is None else [first]), _MARK])


def find_context(tokenizer: Tokenizer, splits: Sequence[_Split]) -> tuple[int, WordContext | None]:
    """The first way to split texts whose words have the pieces of the texts, and their context; 0 if there is none.

    ``splits`` are functions that split texts into words with offsets. No context means that words need none.
    """
    expected = [encoding.ids for encoding in tokenizer.encode_batch(list(_PROBES), **_PIECES)]
    words = [list(split(_PROBES)) for split in splits]
    usable = [number for number, texts in enumerate(words) if not any(" " in word for word, _ in texts[0])]
    for number in usable:
        alone = [
            tokenizer.encode_batch([[word] for word, _ in text], is_pretokenized=True, **_PIECES)
            for text in words[number]
        ]
        if list(map(_join, alone)) == expected:
            return number, None
    contexts = [
        WordContext(encoder, prefix)
        for encoder, prefix in product((_without_prefix(tokenizer), tokenizer), ("", "blank", "white", "all"))
    ]
    for count, number, context in product((len(_PROBES), len(_PLAIN)), usable, contexts):
        pairs = list(zip(_PROBES, words[number], strict=True))[:count]
        if [_join(context.encode(context.mark(*pair))) for pair in pairs] == expected[:count]:
            return number, context
    return 0, None


def _join(encodings: Sequence[Any]) -> list[int]:
    return list(chain.from_iterable(encoding.ids for encoding in encodings))


def _without_prefix(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer that puts nothing before a text."""
    copy = Tokenizer(tokenizer.model)  # parsing a large one takes long
    copy.pre_tokenizer = deepcopy(tokenizer.pre_tokenizer)
    copy.add_tokens([token for _, token in sorted(tokenizer.get_added_tokens_decoder().items())])
    steps = list(iterate_steps(copy.pre_tokenizer))
    for step in steps:
        if isinstance(step, pre_tokenizers.ByteLevel):
            step.add_prefix_space = False
        if isinstance(step, pre_tokenizers.Metaspace) and step is steps[0]:
            step.prepend_scheme = "never"
    kept = [step for step in iterate_steps(tokenizer.normalizer) if not isinstance(step, normalizers.Prepend)]
    if kept:
        copy.normalizer = normalizers.Sequence(kept)
    return copy


def iterate_steps(part: Any) -> Iterator[Any]:
    """The steps of a normalizer or pre-tokenizer, also those inside of sequences."""
    if isinstance(part, normalizers.Sequence | pre_tokenizers.Sequence):
        for step in part:  # type: ignore[union-attr]
            yield from iterate_steps(step)
    elif part is not None:
        yield part

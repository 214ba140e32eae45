"""Special tokens around the texts of a pretrained model, and pairs of texts as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from graphattn._ragged import Ints, Ragged, concatenate_ranges
from graphattn.builders._layout import Layout

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Template:
    """Special tokens of one text or of two, and the segments of all tokens."""

    ids: tuple[tuple[int, ...], ...]  # special tokens before, between and after the texts
    segments: tuple[tuple[int, ...], ...]  # segments of these special tokens
    texts: tuple[int, ...]  # segment of each text

    @classmethod
    def of(cls, encoding: Encoding, texts: int) -> Self:
        """The template of an encoding of one non-empty text or two."""
        places = encoding.sequence_ids
        starts = [places.index(text) for text in range(texts)]
        ends = [len(places) - places[::-1].index(text) for text in range(texts)]
        groups = [slice(*bounds) for bounds in zip([0, *ends], [*starts, None], strict=True)]
        return cls(
            tuple(tuple(encoding.ids[group]) for group in groups),
            tuple(tuple(encoding.type_ids[group]) for group in groups),
            tuple(encoding.type_ids[start] for start in starts),
        )


@dataclass(frozen=True)
class SpecialTokens:
    """Special tokens around a text and around the two texts of a pair; each is a word.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> layout = TextGraphBuilder([], cls=False).layout([["a", "dog"], ["no"]])
    >>> layout = layout.with_feature("id", np.array([7, 8, 9]))
    >>> single = Template(((101,), (102,)), ((0,), (0,)), (0,))
    >>> pair = Template(((101,), (102,), (102,)), ((0,), (0,), (1,)), (0, 1))
    >>> special = SpecialTokens(single, pair)
    >>> special.add([layout]).features["id"].tolist()
    [101, 7, 8, 102, 101, 9, 102]
    >>> special.add([layout, layout]).features["segment"].tolist()
    [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1]
    """

    single: Template  # template of one text
    pair: Template  # template of two texts

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """The special tokens that a tokenizer adds to one text and to two."""
        added = tokenizer.get_added_tokens_decoder().values()
        text = next((token.content for token in added), "a")  # no tokenizer splits or drops an added token
        return cls(Template.of(tokenizer.encode(text), 1), Template.of(tokenizer.encode(text, text), 2))

    def template(self, texts: int) -> Template:
        """The template of one text or two."""
        return self.pair if texts == 2 else self.single

    def count(self, texts: int) -> int:
        """Special tokens of one text or two."""
        return sum(map(len, self.template(texts).ids))

    def add(self, layouts: Sequence[Layout]) -> Layout:
        """One sequence for each text, or for each pair of texts.

        Token nodes get the features ``segment`` and ``special``.
        """
        template = self.template(len(layouts))
        ids, segments = ([np.array(part, np.int32) for part in parts] for parts in (template.ids, template.segments))
        sizes = [len(part) for part in ids]
        tokens = _Slots(sizes, [layout.lengths for layout in layouts])
        words = _Slots(sizes, [layout.word_counts for layout in layouts])
        features = {
            name: tokens.fill([layout.features[name] for layout in layouts], ids if name == "id" else 0)
            for name in layouts[0].features
        }
        of_texts = [
            np.full(layout.num_tokens, segment, np.int32)
            for layout, segment in zip(layouts, template.texts, strict=True)
        ]
        features["segment"] = tokens.fill(of_texts, segments)
        features["special"] = tokens.fill([np.zeros(layout.num_tokens, bool) for layout in layouts], True)
        word_ids = [
            layout.word_ids + np.repeat(first, layout.lengths)
            for layout, first in zip(layouts, words.first, strict=True)
        ]
        return Layout(
            tokens.lengths,
            words.lengths,
            tokens.fill(word_ids, words.special_items()),
            _heads(layouts, words),
            _deprels(layouts, words),
            features,
            _sentence_ids(layouts, words, sizes),
            _links(layouts, words),
            layouts[0].vectors,
        )


class _Slots:
    """Start of each segment of a sequence: special items, text, special items, second text, special items.

    ``sizes`` are the numbers of special items before, between and after the texts; ``counts`` has (B,) items of each
    text, one array for the first texts and one for the second.
    """

    def __init__(self, sizes: Sequence[int], counts: Sequence[Ints]):
        self.sizes, self.counts = sizes, counts
        self.lengths: Ints = np.sum(counts, axis=0) + sum(sizes)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.first: list[Ints] = []
        """(B,) first item of each text within its sequence."""
        self.special: list[Ints] = []
        """(B,) first special item of each group within its sequence."""
        at = np.zeros_like(self.lengths)
        for size, count in zip(sizes, [*counts, None], strict=True):
            self.special.append(at)
            at = at + size
            if count is not None:
                self.first.append(at)
                at = at + count

    def special_items(self) -> list[Ints]:
        """(B, size) the special items of each group, counted within their sequence."""
        return [first[:, None] + np.arange(size) for first, size in zip(self.special, self.sizes, strict=True)]

    def fill(self, parts: Sequence[Column], special: Sequence[Column] | int) -> Column:
        """A column of items: those of the texts, and special ones, one value or for each group (size,) or (B, size)."""
        out = np.zeros((int(self.lengths.sum()), *parts[0].shape[1:]), parts[0].dtype)
        for first, count, part in zip(self.first, self.counts, parts, strict=True):
            out[concatenate_ranges(self.starts + first, count)] = part
        for number, items in enumerate(self.special_items()):
            out[self.starts[:, None] + items] = special if isinstance(special, int) else special[number]
        return out


def _heads(layouts: Sequence[Layout], words: _Slots) -> Ints | None:
    """Special words are roots."""
    parts = []
    for layout, first in zip(layouts, words.first, strict=True):
        if layout.heads is None:
            return None
        shift = np.repeat(first, layout.word_counts)
        parts.append(np.where(layout.heads < 0, layout.heads, layout.heads + shift))
    return words.fill(parts, -1)


def _deprels(layouts: Sequence[Layout], words: _Slots) -> Ints | None:
    parts = [layout.deprels for layout in layouts if layout.deprels is not None]
    return words.fill(parts, 0) if parts else None


def _sentence_ids(layouts: Sequence[Layout], words: _Slots, sizes: Sequence[int]) -> Ints | None:
    """Special words belong to the sentence before them, the first ones to the first sentence."""
    parts: list[Ints] = []
    ends: list[Ints] = [np.zeros(len(layouts[0]), np.int64)]
    for layout in layouts:
        if layout.sentence_ids is None:
            return None
        shift = ends[-1] + (len(parts) > 0)
        parts.append(layout.sentence_ids + np.repeat(shift, layout.word_counts))
        ends.append(shift + np.maximum(layout.sentence_counts - 1, 0))
    return words.fill(parts, [np.repeat(end[:, None], size, axis=1) for end, size in zip(ends, sizes, strict=True)])


def _links(layouts: Sequence[Layout], words: _Slots) -> Ragged | None:
    parts = [layout.links for layout in layouts if layout.links is not None]
    if not parts:
        return None
    texts = np.concatenate([links.row_of_value for links in parts])
    values = [links.values + first[links.row_of_value, None] for first, links in zip(words.first, parts, strict=True)]
    order = np.argsort(texts, kind="stable")
    return Ragged.from_counts(np.concatenate(values)[order], np.sum([links.counts for links in parts], axis=0))

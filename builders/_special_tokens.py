"""Special tokens around the texts of a pretrained model, and pairs of texts as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from tokenizers import Encoding, Tokenizer

from graphattn.builders._layout import Layout, surround


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
        marked = [
            layout.with_feature("segment", np.full(layout.num_tokens, segment, np.int32)).with_feature(
                "special", np.zeros(layout.num_tokens, bool)
            )
            for layout, segment in zip(layouts, template.texts, strict=True)
        ]
        features: dict[str, Sequence[Any] | int] = {**dict.fromkeys(layouts[0].features, 0), "id": template.ids}
        features |= {"segment": template.segments, "special": True}
        return surround(marked, [len(ids) for ids in template.ids], features)

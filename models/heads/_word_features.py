"""The linear branch of a tagger: spelling and features of a word and its neighbours next to the graph encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from graphattn._edges import features_of, lengths_of
from graphattn._schema import TOKEN
from graphattn.builders._graph_builder import CLS_ID
from graphattn.models._corpus import Batch, Corpus
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.heads._tagging import first_tokens

OFFSETS = {0: None, -1: 3, 1: 3, -2: 1, 2: 1}
"""Position relative to the word -> how many of the first features of the token there count; None for all."""
COLUMN_OFFSETS = (*((offset,) for offset in range(-2, 3)), (-1, 0), (0, 1))
"""Positions relative to the word whose values in a column of the corpus are features, one by one and in pairs."""
_REACH = max(OFFSETS)
_VALUE_BITS = 24
"""Bits of a value in the key of a feature."""
NO_FEATURE = -1
"""The key of an unknown value, which no model knows."""
_STRIDE = 0x9E3779B97F4A7C15


class WordFeatureBranch(LinearBranch):
    """A linear model on the features of each word, of its two neighbours on both sides, and of their positions.

    These are features of the spelling and, in a corpus with further columns, their values.

    With a presence of tokens, the features of a word move from those of an empty word to its own, and those that it
    adds to its neighbours from none to all.

    ``keys`` are (F,) hashes of the known features, ascending.
    """

    keys: Tensor

    def __init__(self, keys: Tensor, classes: int):
        super().__init__(len(keys), classes)
        self.register_buffer("keys", keys)

    @override
    @classmethod
    def like(cls, state: Mapping[str, Tensor]) -> Self:
        return cls(state["linear_branch.keys"], state["linear_branch.weights"].shape[1])

    @override
    def forward(self, batch: Batch, presence: Tensor | None = None) -> Tensor:
        assert batch.token_types is not None and batch.token_types.features is not None
        device = self.keys.device
        by_type = self.score_types(batch.token_types.features.to(device))
        lengths = lengths_of(batch.graph, TOKEN).to(device)
        presence = None if presence is None else presence.to(device)
        scores = add_neighbours(by_type, batch.token_types.index.to(device), lengths, presence)
        first = first_tokens(batch.graph).to(device)
        words: Tensor = scores[first] + self.bias
        columns = features_of(batch.graph, TOKEN).get("columns")
        if columns is None:
            return words
        text = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
        return words + self._look_up(key_columns(columns.to(device)[first], text[first]))

    def score_types(self, hashes: Tensor) -> Tensor:
        """(U, T) features of token types -> (offsets, U, classes) scores that each type adds at each offset."""
        return torch.stack([self._look_up(keys) for keys in _hash_by_offset(hashes)])

    def _look_up(self, keys: Tensor) -> Tensor:
        """(R, T) keys of features -> (R, classes) sums of their weights; unknown ones have none."""
        indices = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        known = (self.keys[indices] == keys).unsqueeze(2)
        return (self.weights[indices] * known).sum(1)


def list_word_keys(corpus: Corpus) -> Iterator[list[list[str]]]:
    """The keys of the features of each word of each text, in decimal, as :class:`WordFeatureBranch` looks them up."""
    assert corpus.token_types is not None and corpus.token_types.features is not None
    (layout,) = corpus.layouts
    by_offset = [
        keys.numpy().astype(str).tolist() for keys in _hash_by_offset(torch.from_numpy(corpus.token_types.features))
    ]
    columns = layout.features.get("columns")
    starts = np.cumsum(layout.lengths) - layout.lengths
    for start, length in zip(starts.tolist(), layout.lengths.tolist(), strict=True):
        padded = [0] * _REACH + layout.features["token_type"][start : start + length].tolist() + [0] * _REACH
        begins = np.diff(layout.word_ids[start : start + length], prepend=-1) != 0
        words = np.flatnonzero(begins & (layout.features["id"][start : start + length] != CLS_ID))
        of_columns: list[list[str]] = [[]] * len(words)
        if columns is not None:
            values = torch.from_numpy(columns[start : start + length][words])
            rows = key_columns(values, torch.zeros(len(words))).tolist()
            of_columns = [[str(key) for key in row if key != NO_FEATURE] for row in rows]
        yield [
            [
                key
                for keys, offset in zip(by_offset, OFFSETS, strict=True)
                for key in keys[padded[_REACH + word + offset]]
            ]
            + more
            for word, more in zip(words.tolist(), of_columns, strict=True)
        ]


def key_columns(values: Tensor, text: Tensor) -> Tensor:
    """(W, C) values of words, (W,) number of each word's text -> (W, F) keys of the features in their neighbourhood.

    The values outside the text are -1, and 0 is an unknown value, which has no feature: its key is :data:`NO_FEATURE`.
    """
    padded = torch.nn.functional.pad(values.long(), (0, 0, _REACH, _REACH))
    texts = torch.nn.functional.pad(text, (_REACH, _REACH), value=-1)

    def shift(offset: int) -> Tensor:
        window = slice(_REACH + offset, _REACH + offset + len(values))
        return torch.where((texts[window] == text).unsqueeze(1), padded[window], -1)

    keys = []
    for number, offsets in enumerate(COLUMN_OFFSETS):
        of_columns = torch.arange(values.shape[1], device=values.device) + number * values.shape[1]
        is_known = torch.ones_like(values, dtype=torch.bool)
        for offset in offsets:
            shifted = shift(offset)
            of_columns, is_known = (of_columns << _VALUE_BITS) + 1 + shifted, is_known & (shifted != 0)
        keys.append(torch.where(is_known, of_columns, NO_FEATURE))
    return torch.cat(keys, dim=1)


def add_neighbours(by_type: Tensor, index: Tensor, lengths: Tensor, presence: Tensor | None = None) -> Tensor:
    """Sum the scores that each token gets from its neighbourhood.

    ``by_type`` is (offsets, U, classes), where type 0 is the boundary of a text; ``index`` the (N,) types of the
    tokens, 0 for ``[CLS]``; ``lengths`` (B,); the result (N, classes). With a ``presence`` (N,), a word of share 0 has
    the features of an empty word, which the words around it do not see.
    """
    text = torch.arange(len(lengths), device=index.device).repeat_interleave(lengths)
    types = torch.nn.functional.pad(index, (_REACH, _REACH))
    texts = torch.nn.functional.pad(text, (_REACH, _REACH), value=-1)
    total = by_type.new_zeros(len(index), by_type.shape[2])
    for scores, offset in zip(by_type, OFFSETS, strict=True):
        window = slice(_REACH + offset, _REACH + offset + len(index))
        inside = texts[window] == text
        added = scores[types[window] * inside]
        if presence is not None:
            shares = torch.nn.functional.pad(presence, (_REACH, _REACH), value=1.0)[window].where(inside, 1.0)
            missing = scores[0] * (offset == 0)
            added = missing + shares.unsqueeze(1) * (added - missing)
        total = total + added
    return total


def _hash_by_offset(hashes: Tensor) -> list[Tensor]:
    """(U, T) hashes -> for each offset the (U, t) hashes of the features that count there."""
    strides = [(offset * _STRIDE + (1 << 63)) % (1 << 64) - (1 << 63) for offset in OFFSETS]  # as int64
    return [hashes[:, :count] + stride for stride, count in zip(strides, OFFSETS.values(), strict=True)]

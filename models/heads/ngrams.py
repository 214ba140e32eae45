"""The linear branch of a classifier: word n-grams next to the graph encoder ("wide and deep", Cheng et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn.builders.vocabulary import SPECIAL_TOKENS
from graphattn.edges import features_of, lengths_of
from graphattn.models.heads.wide import WideBranch
from graphattn.precision import at_least_float32
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.layout import Layout
    from graphattn.models.corpus import Batch

_SHIFT = 32


class NgramBranch(WideBranch):
    """A linear model on the tf-idf weights of a text's tokens and pairs of neighbouring tokens.

    A text is a vector x of (1 + log tf) idf, scaled to length 1. A pair of texts has four blocks of features:
    [x1, x2, |x1 - x2|, x1 x2]. The sum of each block is one more feature, which of x1 x2 is the cosine.

    Parameters
    ----------
    keys : (F,) known n-grams, ascending: ids of two tokens as one number, of a single token its id
    idf : (F,) their inverse document frequencies
    blocks : 1 for texts, 4 for pairs
    classes : number of classes
    """

    keys: Tensor
    idf: Tensor

    def __init__(self, keys: Tensor, idf: Tensor, blocks: int, classes: int):
        super().__init__(blocks * (len(keys) + 1), classes)
        self.blocks = blocks
        self.register_buffer("keys", keys)
        self.register_buffer("idf", idf)

    @classmethod
    def of(cls, layouts: Sequence[Layout], classes: int) -> NgramBranch:
        """A branch for the n-grams of encoded texts, or of pairs; its weights are zero."""
        rows, keys = _list_ngrams(*_columns(layouts))
        keys, index = keys.unique(return_inverse=True)
        frequencies = torch.bincount((rows * len(keys) + index).unique() % max(1, len(keys)), minlength=len(keys))
        texts = sum(map(len, layouts))
        idf = ((1 + texts) / (1 + frequencies)).log() + 1
        return cls(keys, idf.float(), 1 if len(layouts) == 1 else 4, classes)

    @override
    @classmethod
    def like(cls, state: Mapping[str, Tensor]) -> Self:
        features, classes = state["wide.weights"].shape
        keys = state["wide.keys"]
        return cls(keys, state["wide.idf"], features // (len(keys) + 1), classes)

    @override
    def forward(self, batch: Batch) -> Tensor:
        ids, lengths = features_of(batch.graph, TOKEN)["id"], lengths_of(batch.graph, TOKEN)
        rows, columns, values = self.entries(ids.to(self.keys.device), lengths.to(self.keys.device))
        ends = torch.searchsorted(rows, torch.arange(batch.size + 1, device=rows.device))
        weights = at_least_float32(self.weights)
        summed = F.embedding_bag(columns, weights, ends[:-1], mode="sum", per_sample_weights=values)
        return summed + self.bias

    def single_tokens(self) -> list[int]:
        """Ids of the known tokens; their columns are the first of the first block."""
        ids: list[int] = self.keys[self.keys < 1 << _SHIFT].tolist()
        return ids

    def design_entries(self, layouts: Sequence[Layout]) -> tuple[Tensor, Tensor, Tensor]:
        """:meth:`entries` of a whole corpus."""
        return self.entries(*_columns(layouts))

    def entries(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (ascending), columns and values of the sparse matrix (items, features).

        Parameters
        ----------
        ids : (N,) token ids of all texts; of pairs those of all first texts, then those of all second ones
        lengths : (B,) tokens of each text
        """
        texts, columns, values = self._tfidf(ids, lengths)
        width, items = len(self.keys), len(lengths)
        if self.blocks == 1:
            rows, blocks = texts, values.unsqueeze(1)
        else:
            items //= 2
            codes, index = (texts % max(1, items) * width + columns).unique(return_inverse=True)
            sides = values.new_zeros(2, len(codes))
            sides[texts // max(1, items), index] = values
            rows, columns = codes // max(1, width), codes % max(1, width)
            first, second = sides
            blocks = torch.stack([first, second, (first - second).abs(), first * second], dim=1)
        sums = values.new_zeros(items, self.blocks).index_add_(0, rows, blocks)
        offsets = torch.arange(self.blocks, device=columns.device) * width
        every = torch.arange(items, device=rows.device)
        rows = torch.cat([rows, every]).repeat_interleave(self.blocks)
        sum_columns = (self.blocks * width + torch.arange(self.blocks, device=columns.device)).repeat(items)
        columns = torch.cat([(columns.unsqueeze(1) + offsets).flatten(), sum_columns])
        order = rows.argsort(stable=True)
        return rows[order], columns[order], torch.cat([blocks.flatten(), sums.flatten()])[order]

    def _tfidf(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, columns and values of the known n-grams of each text; every row has length 1."""
        rows, keys = _list_ngrams(ids, lengths)
        width = len(self.keys)
        columns = torch.searchsorted(self.keys, keys).clamp_(max=max(0, width - 1))
        known = self.keys[columns] == keys if width else torch.zeros_like(keys, dtype=torch.bool)
        codes, counts = (rows[known] * width + columns[known]).unique(return_counts=True)
        rows, columns = codes // max(1, width), codes % max(1, width)
        idf = at_least_float32(self.idf)[columns]
        values = (1 + counts.to(idf.dtype).log()) * idf
        squares = values.new_zeros(len(lengths)).index_add_(0, rows, values**2)
        return rows, columns, values / squares.sqrt()[rows]


def _list_ngrams(ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The text and the key of each token and of each pair of neighbours, without special tokens."""
    ids = ids.long()
    rows = torch.arange(len(lengths), device=ids.device).repeat_interleave(lengths)
    ordinary = ids >= len(SPECIAL_TOKENS)
    neighbours = ordinary[:-1] & ordinary[1:] & (rows[:-1] == rows[1:])
    pairs = (ids[:-1] << _SHIFT) | ids[1:]
    return torch.cat([rows[ordinary], rows[:-1][neighbours]]), torch.cat([ids[ordinary], pairs[neighbours]])


def _columns(layouts: Sequence[Layout]) -> tuple[Tensor, Tensor]:
    """Token ids and lengths of all texts."""
    ids = np.concatenate([layout.features["id"] for layout in layouts])
    return torch.from_numpy(ids), torch.from_numpy(np.concatenate([layout.lengths for layout in layouts]))

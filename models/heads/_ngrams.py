"""The linear branch of a classifier: word n-grams next to the graph encoder ("wide and deep", Cheng et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn._edges import features_of, lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn.builders._layout import Layout
from graphattn.builders._vocabulary import SPECIAL_TOKENS
from graphattn.models._corpus import Batch
from graphattn.models._features.text_columns import count_columns, list_entries
from graphattn.models.heads._linear_branch import LinearBranch

_SHIFT = 32
_TOKENS_AT_ONCE = 1 << 17
"""Tokens whose n-grams are sorted together when a branch is fitted."""


class NgramBranch(LinearBranch):
    """A linear model on the tf-idf weights of a text's tokens and pairs of neighbouring tokens.

    A text is a vector x of (1 + log tf) idf, scaled to length 1. A pair of texts has four blocks of features:
    [x1, x2, |x1 - x2|, x1 x2]. The sum of each block is one more feature, which of x1 x2 is the cosine.

    With a presence of tokens, x is that of the complete text, where each number is multiplied by the mean presence of
    its n-gram: over its occurrences, and of a pair over both tokens. The length of x is not computed again, so that a
    text without tokens is at zero, and the line from there to the text is straight.

    Columns beside the texts follow these features: a column for each category, with 1, and one for each standardized
    number. Each has a mean square of 1, so that the penalty on weights holds a column like the whole text.

    ``keys`` are (F,) known n-grams, ascending: ids of two tokens as one number, of a single token its id; ``idf`` are
    their (F,) inverse document frequencies; ``blocks`` is 1 for texts, 4 for pairs;
    ``sizes`` are those of :class:`~graphattn.models._features.text_columns.TextColumns`, None without columns.
    """

    keys: Tensor
    idf: Tensor
    sizes: Tensor | None

    def __init__(self, keys: Tensor, idf: Tensor, blocks: int, classes: int, sizes: Tensor | None = None):
        self.num_ngrams = blocks * (len(keys) + 1)
        super().__init__(self.num_ngrams + (0 if sizes is None else count_columns(sizes)), classes)
        self.blocks = blocks
        self.register_buffer("keys", keys)
        self.register_buffer("idf", idf)
        self.register_buffer("sizes", sizes)

    @classmethod
    def of(
        cls,
        layouts: Sequence[Layout],
        classes: int,
        copies: npt.NDArray[np.float64] | None = None,
        least: int = 1,
        sizes: Tensor | None = None,
    ) -> NgramBranch:
        """A branch for the n-grams of at least ``least`` encoded texts, or of pairs; its weights are zero.

        ``copies`` are (S,) weights of the texts: a text of weight k counts as k texts, of weight 0 as none. ``sizes``
        are those of columns beside the texts.
        """
        counts = torch.from_numpy(np.ones(len(layouts[0])) if copies is None else copies)
        keys = torch.cat([_list_ngrams(*columns)[1].unique() for columns in _iter_columns(layouts)]).unique()
        frequencies, start = torch.zeros(len(keys), dtype=torch.float64), 0
        for ids, lengths in _iter_columns(layouts):
            rows, keys_of_rows, *_ = _list_ngrams(ids, lengths)
            codes = (rows * len(keys) + torch.searchsorted(keys, keys_of_rows)).unique()
            items = len(lengths) // len(layouts)
            of_texts = counts[start : start + items].repeat(len(layouts))
            numbers = codes % max(1, len(keys))
            frequencies.index_add_(0, numbers, of_texts[codes // max(1, len(keys))])
            start += items
        are_kept = frequencies >= least if least > 1 else frequencies > 0
        keys, frequencies = keys[are_kept], frequencies[are_kept]
        idf = ((1 + len(layouts) * counts.sum()) / (1 + frequencies)).log() + 1
        return cls(keys, idf.float(), 1 if len(layouts) == 1 else 4, classes, sizes)

    def count_texts(self) -> tuple[float, Tensor]:
        """How many texts the branch was fitted to, and in how many of them each n-gram occurs, as the idf say.

        The rarest n-gram is taken to occur once.
        """
        inverse = self.idf.double()
        texts = 2 * (inverse.max() - 1).exp() - 1 if len(inverse) else torch.zeros(())
        return float(texts), (1 + texts) * (1 - inverse).exp() - 1

    def grow(self, other: NgramBranch, classes: int, ids: Sequence[int]) -> NgramBranch:
        """This branch with the n-grams of another one as well, which have no weights yet, and with more classes.

        ``ids`` are the new ids of its classes. A new class begins with the mean bias of the others. Both have the same
        columns beside the texts.
        """
        keys = torch.cat([self.keys, other.keys]).unique()
        idf = torch.empty(len(keys))
        idf[torch.searchsorted(keys, other.keys)] = other.idf
        places = torch.searchsorted(keys, self.keys)
        idf[places] = self.idf
        grown = type(self)(keys, idf, self.blocks, classes, self.sizes)
        block = torch.arange(self.blocks).unsqueeze(1)
        of_columns = torch.arange(grown.num_ngrams, len(grown.weights))
        rows = torch.cat(
            [(block * len(keys) + places).flatten(), self.blocks * len(keys) + block.flatten(), of_columns]
        )
        columns = torch.tensor(ids) if len(ids) else torch.arange(classes)  # numbers have no classes
        grown.weights[rows.unsqueeze(1), columns] = self.weights
        grown.bias.fill_(float(self.bias.mean()))
        grown.bias[columns] = self.bias
        return grown

    @override
    @classmethod
    def like(cls, state: Mapping[str, Tensor]) -> Self:
        features, classes = state["linear_branch.weights"].shape
        keys, sizes = state["linear_branch.keys"], state.get("linear_branch.sizes")
        num_ngrams = features - (0 if sizes is None else count_columns(sizes))
        return cls(keys, state["linear_branch.idf"], num_ngrams // (len(keys) + 1), classes, sizes)

    @override
    def forward(self, batch: Batch, presence: Tensor | None = None) -> Tensor:
        ids, lengths = features_of(batch.graph, TOKEN)["id"], lengths_of(batch.graph, TOKEN)
        device = self.keys.device
        presence = None if presence is None else presence.to(device)
        rows, columns, values = self.entries(ids.to(device), lengths.to(device), presence, cells=batch.cells)
        ends = torch.searchsorted(rows, torch.arange(batch.size + 1, device=rows.device))
        weights = at_least_float32(self.weights)
        summed = F.embedding_bag(columns, weights, ends[:-1], mode="sum", per_sample_weights=values)
        return summed + self.bias

    def score_columns(self, batch: Batch) -> Tensor:
        """(items, K, classes) scores of each column beside the texts; K is 0 without columns."""
        weights = at_least_float32(self.weights)
        if self.sizes is None or batch.cells is None:
            return weights.new_zeros(batch.size, 0, weights.shape[1])
        columns, values = list_entries(batch.cells, self.sizes)
        return weights[self.num_ngrams + columns] * values.unsqueeze(2)

    def single_tokens(self) -> list[int]:
        """Ids of the known tokens; their columns are the first of the first block."""
        return self.keys[self.keys < 1 << _SHIFT].tolist()

    def design_entries(
        self, layouts: Sequence[Layout], cells: npt.NDArray[np.float32] | None = None
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """Items, and their :meth:`entries`, of one part of a corpus after the other."""
        start = 0
        for ids, lengths in _iter_columns(layouts):
            items = len(lengths) // len(layouts)
            beside = None if cells is None else torch.from_numpy(cells[start : start + items])
            yield items, *self.entries(ids, lengths, cells=beside)
            start += items

    def entries(
        self, ids: Tensor, lengths: Tensor, presence: Tensor | None = None, *, cells: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (ascending), columns and values of the sparse matrix (items, features).

        ``ids`` are (N,) token ids of all texts, of pairs those of all first texts, then those of all second ones;
        ``lengths`` are (B,) tokens of each text; ``presence`` is the (N,) share of each token, all 1 when None;
        ``cells`` are (items, K) encoded columns beside the texts, for a branch that has ``sizes``.
        """
        texts, columns, values = self._tfidf(ids, lengths, presence)
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
        values = torch.cat([blocks.flatten(), sums.flatten()])
        if self.sizes is not None and cells is not None:
            of_cells, numbers = list_entries(cells.to(self.sizes.device), self.sizes)
            rows = torch.cat([rows, every.repeat_interleave(cells.shape[1])])
            columns = torch.cat([columns, self.num_ngrams + of_cells.flatten()])
            values = torch.cat([values, numbers.flatten().to(values.dtype)])
        order = rows.argsort(stable=True)
        return rows[order], columns[order], values[order]

    def _tfidf(self, ids: Tensor, lengths: Tensor, presence: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, columns and values of the known n-grams of each text; every row of present tokens has length 1."""
        rows, keys, first, last = _list_ngrams(ids, lengths)
        width = len(self.keys)
        columns = torch.searchsorted(self.keys, keys).clamp_(max=max(0, width - 1))
        known = self.keys[columns] == keys if width else torch.zeros_like(keys, dtype=torch.bool)
        codes, index, counts = (rows[known] * width + columns[known]).unique(return_inverse=True, return_counts=True)
        rows, columns = codes // max(1, width), codes % max(1, width)
        idf = at_least_float32(self.idf)[columns]
        values = (1 + counts.to(idf.dtype).log()) * idf
        squares = values.new_zeros(len(lengths)).index_add_(0, rows, values**2)
        values = values / squares.sqrt()[rows]
        if presence is not None:
            shares = (presence[first[known]] + presence[last[known]]) / 2
            values = values * values.new_zeros(len(values)).index_add_(0, index, shares.to(values.dtype)) / counts
        return rows, columns, values


def _list_ngrams(ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Each token and each pair of neighbours, without special tokens: its text, key, first and last token."""
    ids = ids.long()
    texts = torch.arange(len(lengths), device=ids.device).repeat_interleave(lengths)
    ordinary = ids >= len(SPECIAL_TOKENS)
    singles = ordinary.nonzero().squeeze(1)
    starts = (ordinary[:-1] & ordinary[1:] & (texts[:-1] == texts[1:])).nonzero().squeeze(1)
    keys = torch.cat([ids[singles], (ids[starts] << _SHIFT) | ids[starts + 1]])
    first, last = torch.cat([singles, starts]), torch.cat([singles, starts + 1])
    return texts[first], keys, first, last


def _iter_columns(layouts: Sequence[Layout]) -> Iterator[tuple[Tensor, Tensor]]:
    """Token ids and lengths of about :data:`_TOKENS_AT_ONCE` tokens of texts or pairs at a time."""
    ends = [np.append(0, np.cumsum(layout.lengths, dtype=np.int64)) for layout in layouts]
    total = np.sum(ends, axis=0)
    starts = np.searchsorted(total, np.arange(0, total[-1], _TOKENS_AT_ONCE))
    for start, stop in pairwise(np.unique([0, *starts, len(total) - 1]).tolist()):
        ids = [layout.features["id"][end[start] : end[stop]] for layout, end in zip(layouts, ends, strict=True)]
        lengths = [layout.lengths[start:stop] for layout in layouts]
        yield torch.from_numpy(np.concatenate(ids)), torch.from_numpy(np.concatenate(lengths))

"""Counts of floating-point operations, which no implementation can go below, and the windows behind them.

A multiply-add counts as two. Matrix products, scores and weighted sums are counted; norms, softmax, activations and
biases are not. A window of width 1 is the identity on values and costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from graphattn.experiments.benchmarks._workloads import Lengths, Workload
from graphattn.models import MSTransOptions

FLOAT = 4


def count_window_edges(length: int, width: int) -> int:
    """Edges of a window of odd width, clipped at the ends of a sentence.

    Examples
    --------
    >>> count_window_edges(4, 3), count_window_edges(2, 9)
    (10, 4)
    """
    reach = min((width - 1) // 2, length - 1)
    return length * (2 * reach + 1) - reach * (reach + 1)


def count_transformer(lengths: Sequence[int], *, hidden: int, layers: int, ffn: int) -> int:
    """Operations of a forward pass through a Transformer encoder, without padding."""
    per_token = 4 * 2 * hidden * hidden + 2 * 2 * hidden * ffn
    per_pair = 4 * hidden
    return layers * (per_token * sum(lengths) + per_pair * sum(length * length for length in lengths))


def count_umst(lengths: Sequence[int], word_counts: Sequence[int], *, hidden: int, layers: int, ffn: int) -> int:
    """Operations of a forward pass through the UMST encoder: those of a Transformer, and those on words.

    Both graph convolutions multiply words, as the tokens of a word share their mean; arcs are not counted.
    """
    per_word = 4 * 2 * hidden * hidden  # two convolutions, queries and keys
    pairs = sum(count * count for count in word_counts)
    on_words = layers * (per_word * sum(word_counts) + 4 * hidden * pairs)
    return count_transformer(lengths, hidden=hidden, layers=layers, ffn=ffn) + on_words


class WindowHeads:
    """The heads of an MS-Trans encoder over a workload: their windows, operations and memory."""

    def __init__(self, workload: Workload, options: MSTransOptions):
        self.workload, self.options = workload, options
        self.layers = [{name: count for name, count in row.items() if count} for row in options.layer_heads()]
        self.num_heads = sum(self.layers[0].values())
        self.head_feats = options.head_feats or options.hidden // self.num_heads
        self._scales = {window.name: window.scale for window in options.windows()}
        self._head_counts = sum(map(Counter, self.layers), Counter[str]())

    @property
    def relations(self) -> list[str]:
        """The relations with at least one head."""
        return [name for name in self._scales if name in self._head_counts]

    def count_edges(self, relation: str) -> int:
        """Edges of one relation over all batches."""
        scale = self._scales[relation]
        return sum(count_window_edges(length, scale.width(length)) for length in self.workload.lengths)

    def _scoring_heads(self) -> Iterator[tuple[int, int, int]]:
        """Length, width and number of heads of all layers, for each sentence and each window wider than a token."""
        for length in self.workload.lengths:
            for name, count in self._head_counts.items():
                width = self._scales[name].width(length)
                if width > 1:
                    yield length, width, count

    @property
    def pairs(self) -> int:
        """Query-key pairs that heads score; windows of width 1 score none."""
        return sum(count * count_window_edges(length, width) for length, width, count in self._scoring_heads())

    def count_operations(self) -> int:
        """Operations of a forward pass through the encoder.

        All heads of all layers have values and an output; those that score have queries and keys too.
        """
        scoring = sum(length * count for length, _, count in self._scoring_heads())
        projections = 2 * self.options.layers * self.num_heads * self.workload.tokens + 2 * scoring
        return 2 * self.options.hidden * self.head_feats * projections + 4 * self.head_feats * self.pairs

    def reaches(self, batch: Lengths) -> list[Tensor]:
        """For each layer (B, H): how far each head sees to each side in each sentence of a batch."""
        return [
            torch.tensor(
                [
                    [(self._scales[name].width(length) - 1) // 2 for name, count in heads.items() for _ in range(count)]
                    for length in batch
                ]
            )
            for heads in self.layers
        ]

    def estimate_edge_bytes(self, *, per_pair: int, kept: int, transient: int, per_edge: int) -> int:
        """Bytes of arrays with ``per_pair`` bytes for each edge and head, and ``per_edge`` bytes for each edge.

        Of the former, ``kept`` arrays exist for every layer and relation, ``transient`` ones for one at a time.
        """
        pairs = [count * self.count_edges(name) for heads in self.layers for name, count in heads.items()]
        edges = sum(self.count_edges(name) for name in self.relations)
        return per_pair * (kept * sum(pairs) + transient * max(pairs)) + per_edge * edges

    def estimate_dgl_bytes(self, *, backward: bool) -> int:
        """Memory of DGL's operators: scores, weights, the temporaries of edge softmax, and the edges.

        A backward pass adds the weights of all layers and the reversed edges.
        """
        return self.estimate_edge_bytes(
            per_pair=FLOAT, kept=3 * backward, transient=4 + backward, per_edge=12 + 16 * backward
        )

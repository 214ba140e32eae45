"""Which head sees which window of which sentence: the arithmetic behind masks, edges and estimates of memory."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from graphattn.experiments.benchmarks.operations import scored_pairs, window_edges
from graphattn.experiments.benchmarks.workloads import Lengths, Workload
from graphattn.models import MSTransOptions

FLOAT = 4


class WindowHeads:
    """The heads of an MS-Trans encoder over a workload.

    Parameters
    ----------
    workload : the sentences
    options : of the encoder
    """

    def __init__(self, workload: Workload, options: MSTransOptions):
        self.workload, self.options = workload, options
        self.layers = [{name: count for name, count in row.items() if count} for row in options.layer_heads()]
        self._scales = {window.name: window.scale for window in options.windows()}

    @property
    def num_heads(self) -> int:
        """Heads of each layer."""
        return sum(self.layers[0].values())

    @property
    def head_feats(self) -> int:
        """Features of a head."""
        return self.options.head_feats or self.options.hidden // self.num_heads

    @property
    def relations(self) -> list[str]:
        """Those that at least one head uses."""
        return [name for name in self._scales if any(name in heads for heads in self.layers)]

    def edges(self, relation: str) -> int:
        """Edges of one relation over all batches."""
        scale = self._scales[relation]
        return sum(window_edges(length, scale.width(length)) for length in self.workload.lengths)

    @cached_property
    def pairs(self) -> int:
        """Query-key pairs that heads have to score."""
        return scored_pairs(self.workload.lengths, self.layers)

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

    def edge_sized_bytes(self, *, per_pair: int, kept: int, passing: int, per_edge: int) -> int:
        """Bytes of arrays of the edges' size.

        Parameters
        ----------
        per_pair : bytes of one array for each edge and head
        kept : such arrays that live until the backward pass, for every layer and relation
        passing : such arrays that live while one relation of one layer is computed
        per_edge : bytes for each edge of all relations
        """
        pairs = [count * self.edges(name) for heads in self.layers for name, count in heads.items()]
        edges = sum(self.edges(name) for name in self.relations)
        return per_pair * (kept * sum(pairs) + passing * max(pairs)) + per_edge * edges

    def dgl_bytes(self, *, backward: bool) -> int:
        """What DGL's operators take: scores, weights and what edge softmax puts beside them, and the edges.

        With a backward pass all layers' weights and the reversed edges come on top.
        """
        return self.edge_sized_bytes(
            per_pair=FLOAT, kept=3 * backward, passing=4 + backward, per_edge=12 + 16 * backward
        )


def is_uniform(lengths: Lengths) -> bool:
    """Whether all sentences of a batch are of one length, so that no padding is masked."""
    return len(set(lengths)) == 1

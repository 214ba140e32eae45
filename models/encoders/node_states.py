"""Nodes beside tokens that attention heads reach (a relay, spans, sentences), their edges and their first states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphattn.builders.relations import Relation
from graphattn.homogeneous import JointNodes
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


class NodeStates:
    """The nodes that heads reach: tokens first, then those that relations bring along.

    Parameters
    ----------
    graph : a batch
    relations : those of the heads
    tokens : (N, hidden)
    """

    def __init__(self, graph: TextBatch, relations: Sequence[Relation], tokens: Tensor):
        self._parts = {relation.name: [part.canonical for part in relation.parts()] for relation in relations}
        kinds = dict.fromkeys([TOKEN, *(part[2] for parts in self._parts.values() for part in parts)])
        self._tokens, self._nodes = tokens, JointNodes(graph, list(kinds), tokens.device)
        self.edges = {name: self._nodes.edges(parts).edges for name, parts in self._parts.items()}
        """Relation -> its edges between all nodes."""

    def start(self) -> Tensor:
        """(all nodes, hidden) states before the first layer."""
        states = {TOKEN: self._tokens}
        for relation in (part for parts in self._parts.values() for part in parts):
            if relation[0] == TOKEN and relation[2] not in states:
                states[relation[2]] = self._nodes.averages(relation, self._tokens)
        width = self._tokens.shape[1]
        rows = [states.get(kind, self._tokens.new_zeros(n, width)) for kind, n in self._nodes.counts.items()]
        return torch.cat(rows)

"""What a head is: token vectors to scores, scores to a loss, probabilities and decisions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


class Head(nn.Module):
    """Base of all heads; an item is what gets one decision: a sentence, a pair, or a word."""

    per_word: bool = False
    """Whether items are words."""

    @abstractmethod
    def forward(self, tokens: Tensor, graph: TextBatch) -> Tensor:
        """(N, F) token vectors -> (items, classes) scores."""

    @abstractmethod
    def loss(self, scores: Tensor, targets: Tensor, graph: TextBatch) -> Tensor:
        """Sum of the items' losses, a scalar."""

    @abstractmethod
    def probabilities(self, scores: Tensor, graph: TextBatch) -> Tensor:
        """(items, classes)."""

    @abstractmethod
    def decide(self, scores: Tensor, graph: TextBatch) -> Tensor:
        """(items,) class ids, or (items, classes) zeros and ones where there may be several."""

    @abstractmethod
    def items(self, graph: TextBatch) -> Tensor:
        """(B,) items of each sentence or pair."""

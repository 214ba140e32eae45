"""What training needs of a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from graphattn.models.corpus import Batch


class Trainable(nn.Module):
    """Base of models that are trained.

    Attributes
    ----------
    embedding : the input layer; its ``trained`` are vectors of words, on which there is no weight decay
    """

    embedding: Any

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch's loss, and the scores."""

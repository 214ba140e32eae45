"""What an encoder is: it names the relations it needs and turns token vectors into token vectors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from graphattn.builders.relations import Relation
from graphattn.models.options import Options, at_least, option, share

if TYPE_CHECKING:
    from dgl import DGLGraph

LayerWeights = dict[str, Tensor]
"""Relation -> (E, heads) attention weights of one layer."""


@dataclass
class EncoderOptions(Options):
    """Options that all encoders share; sub-classes add their own and their ``name``."""

    name: ClassVar[str]

    hidden: int = option(300, "width of the encoder")
    layers: int = option(3, "depth of the encoder")
    dropout: float = option(0.3, "dropout on what each layer adds")

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        at_least(self, 1, "hidden", "layers")
        share(self, "dropout")

    def to_dict(self) -> dict[str, Any]:
        """Plain values with the encoder's name."""
        return {"name": self.name, **super().to_dict()}


class Encoder(nn.Module):
    """Base of all encoders. ``width`` is the number of features each token gets."""

    width: int

    @abstractmethod
    def relations(self) -> list[Relation]:
        """The relations that graphs must have."""

    @abstractmethod
    def forward(self, graph: DGLGraph, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """Encode.

        Parameters
        ----------
        graph : a batch with this encoder's relations
        tokens : (N, hidden)
        weights : when given, one entry for each layer is appended

        Returns
        -------
        (N, width)
        """

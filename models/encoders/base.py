"""What an encoder is: it names the relations it needs and turns token vectors into token vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from graphattn.builders.relations import Relation
from graphattn.edges import lengths_of
from graphattn.models.heads.pooling import pool
from graphattn.models.options import Options, option
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch

LayerWeights = dict[str, Tensor]
"""Relation -> (E, heads) attention weights of one layer, by edge id; where a relation has several kinds of edges, kind
after kind, as in its ``parts()``."""


@dataclass
class EncoderOptions(Options):
    """Options that all encoders share; sub-classes add their own and their ``name``.

    Attributes
    ----------
    pooling : how sentence vectors are made on top of this encoder unless the head's options say otherwise
    linear_head : whether a linear layer then classifies them, unless the head's options say otherwise
    takes_parts : whether the encoder gets token vectors as they are, instead of projected to ``hidden``
    trains_special : whether the vectors of special tokens are trained even where no other word vectors are
    streams : vectors of width ``hidden`` that a token has side by side in a translator
    """

    name: ClassVar[str]
    pooling: ClassVar[str] = "cls+max"
    linear_head: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = False
    trains_special: ClassVar[bool] = True
    streams: ClassVar[int] = 1

    hidden: int = option(300, "width of the encoder", min=1)
    layers: int = option(3, "depth of the encoder", min=1)
    dropout: float = option(0.3, "dropout on what each layer adds", min=0, below=1)

    @classmethod
    def for_tagging(cls) -> EncoderOptions:
        """What the encoder's name stands for in a tagger."""
        return cls()

    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        """What the encoder's name stands for in a translator; of the sizes it takes those that it has."""
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in sizes.items() if name in names})

    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> EncoderOptions:
        """The options for token vectors that are made of sets of these widths, of files of word vectors or others."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values with the encoder's name."""
        return {"name": self.name, **super().to_dict()}


class Encoder(nn.Module):
    """Base of all encoders. ``width`` is the number of features each token gets."""

    width: int

    @abstractmethod
    def relations(self) -> list[Relation]:
        """The relations that graphs must have."""

    def heads_along(self) -> dict[str, int]:
        """Relation -> how many heads, of all layers together, have weights on its edges that can be asked for.

        Texts with too many weights are refused by them; an encoder that does not tell counts as one head a relation.
        """
        return {relation.name: 1 for relation in self.relations()}

    @abstractmethod
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
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

    def means(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(B, width) mean over the tokens of each sentence, by whatever way is the shortest."""
        return pool(self(graph, tokens, weights=weights), lengths_of(graph, TOKEN), "mean")

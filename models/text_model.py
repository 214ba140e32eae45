"""The model: input layer, encoder and head in a row."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.edges import features_of
from graphattn.models.corpus import Batch
from graphattn.models.encoders import Encoder
from graphattn.models.encoders.base import LayerWeights
from graphattn.models.heads import ClassificationHead, Head
from graphattn.models.token_embedding import TokenEmbedding
from graphattn.schema import TOKEN


class Trainable(nn.Module):
    """Base of models that are trained.

    Attributes
    ----------
    embedding : the input layer; its ``trained`` are vectors of words, on which there is no weight decay
    """

    embedding: Any
    encoder: Encoder
    cross_heads = 0
    """Heads of a decoder on the source, over all layers."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the parameters; graphs stay on the CPU."""

    @abstractmethod
    def embed_tokens(self, ids: Tensor, batch: Batch) -> Tensor:
        """(N, width) vectors of token ids in place of the batch's own."""

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch's loss, and the scores."""


class TextModel(Trainable):
    """Token ids on a graph -> token vectors -> encoder -> head.

    Parameters
    ----------
    embedding, encoder, head : the three parts
    """

    def __init__(self, embedding: TokenEmbedding, encoder: Encoder, head: Head):
        super().__init__()
        self.embedding, self.encoder, self.head = embedding, encoder, head

    @property
    @override
    def device(self) -> torch.device:
        return self.embedding.trained.device

    def encode(self, batch: Batch, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, width) vector of each token; ``weights`` gets the attention of each layer when given."""
        return self.encoder(batch.graph, self._embedded(batch), weights=weights)

    def forward(self, batch: Batch, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(items, classes) scores."""
        if isinstance(self.head, ClassificationHead) and self.head.pooling == "mean":
            return self.head.scores(self.encoder.means(batch.graph, self._embedded(batch), weights=weights))
        return self.head(self.encode(batch, weights=weights), batch.graph)

    def _embedded(self, batch: Batch) -> Tensor:
        """(N, hidden) vectors of the tokens, without their neighbours."""
        return self.embed_tokens(features_of(batch.graph, TOKEN)["id"].to(self.device), batch)

    @override
    def embed_tokens(self, ids: Tensor, batch: Batch) -> Tensor:
        forms = None if batch.forms is None else batch.forms.to(self.device)
        return self.embedding(ids, forms)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the items' losses divided by the whole batch's number of items, and the scores."""
        assert batch.targets is not None
        scores = self(batch)
        return self.head.loss(scores, batch.targets.to(scores.device), batch.graph) / batch.loss_normalizer, scores

"""A model: input layer, encoder and head."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import features_of
from graphattn._schema import TOKEN
from graphattn._transforms import OpaqueModule
from graphattn.exceptions import ModelDirectoryError
from graphattn.layers._packed import pack
from graphattn.layers._packed_weights import HAS_PANELS
from graphattn.models._corpus import Batch
from graphattn.models._encoders import Encoder
from graphattn.models._encoders.base import LayerWeights
from graphattn.models._features.token_embedding import TokenEmbedding
from graphattn.models.heads import Head
from graphattn.models.heads._linear_branch import LinearBranch

MIN_PACKED = 0 if HAS_PANELS else 1 << 22
"""Parameters of the smallest encoder that is faster packed. oneDNN gains little where weights stay in a cache."""


class Trainable(OpaqueModule):
    """Base of models that are trained."""

    embedding: Any  # the input layer; its parameter ``trained`` has the vectors of words, which do not decay
    encoder: Encoder
    precision = "32"
    """Number format of matrix products in predictions: ``"32"``, ``"bf16"`` or ``"int8"``."""
    learning_rates: Mapping[str, float] = MappingProxyType({})
    """Name of a parameter -> its maximum learning rate, if other than that of the training."""
    cross_heads = 0
    """Heads of all decoder layers on the source."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the parameters; graphs stay on the CPU."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Compute matrix products of predictions in bf16 if that is the ``precision``; else an outer autocast stays."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.precision == "bf16" else nullcontext()

    def set_precision(self, precision: str) -> None:
        """Choose the ``precision`` of predictions; with int8, the weights of linear layers are replaced."""
        self.precision = precision
        if precision == "int8":
            from graphattn.layers._int8 import quantize  # loads the compiler of kernels

            quantize(self)

    def pack(self) -> None:
        """Store weights in the order in which they are multiplied, where that is faster."""
        count = sum(parameter.numel() for parameter in self.encoder.parameters())
        if self.precision != "int8" and count >= MIN_PACKED:
            pack(self, self.precision)

    @abstractmethod
    def embed_tokens(self, ids: Tensor, batch: Batch) -> Tensor:
        """(N, width) vectors of token ids in place of the batch's own."""

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The items' losses, summed and divided by ``batch.loss_normalizer``, and the scores."""


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Turn dropout off; the model's mode is restored afterwards."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


@contextmanager
def set_gradients(parameters: Iterable[nn.Parameter], *, enabled: bool) -> Iterator[None]:
    """Turn the gradients of parameters on or off inside the block."""
    changed = [parameter for parameter in parameters if parameter.requires_grad is not enabled]
    for parameter in changed:
        parameter.requires_grad_(enabled)
    try:
        yield
    finally:
        for parameter in changed:
            parameter.requires_grad_(not enabled)


def check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Raise ModelDirectoryError when the weights of a directory have NaN or infinity, from which all results follow."""
    for name, tensor in weights.items():
        if tensor.is_floating_point() and tensor.numel() and not all(map(math.isfinite, tensor.aminmax())):
            raise ModelDirectoryError(f"{path}: {name} has NaN or infinity. Train the model again, or get another copy")


class TextModel(Trainable):
    """Token ids on a graph -> token vectors -> encoder -> head."""

    embedding: TokenEmbedding

    def __init__(self, embedding: TokenEmbedding, encoder: Encoder, head: Head):
        super().__init__()
        self.embedding, self.encoder, self.head = embedding, encoder, head
        self.linear_branch: LinearBranch | None = None
        """A linear branch, which is added after training."""
        self.learned_classes: Tensor | None = None
        """Ids of the classes that are trained, ascending; the scores of the others, without examples, do not count."""

    @property
    @override
    def device(self) -> torch.device:
        return self.embedding.trained.device

    def encode(self, batch: Batch, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, width) token vectors; the attention weights of each layer are appended to ``weights``."""
        if not batch.graph.num_nodes(TOKEN):  # texts without words, and no [CLS]
            return self.embedding.trained.new_zeros(0, self.encoder.width)
        return self.encoder(batch.graph, self._embed(batch), weights=weights)

    def forward(self, batch: Batch, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(items, classes) scores."""
        if self.head.pooling == "mean" and batch.graph.num_nodes(TOKEN):
            means = self.encoder.means(batch.graph, self._embed(batch), weights=weights)
            scores = self.head.scores(means, batch.cells)
        else:
            scores = self.head(self.encode(batch, weights=weights), batch.graph, batch.cells)
        return self.add_linear_scores(scores, batch)

    def add_linear_scores(self, scores: Tensor, batch: Batch, presence: Tensor | None = None) -> Tensor:
        """Add the scores of the linear branch, if there is one, to those of the head; see :class:`LinearBranch`."""
        if self.linear_branch is None:
            return scores
        return scores + to_device(self.linear_branch(batch, presence), scores.device)

    @property
    def is_linear(self) -> bool:
        """Whether all scores are those of the linear branch: the head, which the encoder feeds, gives zeros."""
        output = self.head.output
        return self.linear_branch is not None and not (output.bias.any() or output.weight.any())

    @torch.no_grad()
    def scale(self, factor: float) -> None:
        """Multiply all scores by a factor."""
        for parameter in self.head.output.parameters():
            parameter.mul_(factor)
        if self.linear_branch is not None:
            self.linear_branch.scale(factor)

    def _embed(self, batch: Batch) -> Tensor:
        """(N, hidden) input of the encoder."""
        return self.embed_tokens(to_device(features_of(batch.graph, TOKEN)["id"], self.device), batch)

    @override
    def embed_tokens(self, ids: Tensor, batch: Batch) -> Tensor:
        types = None if batch.token_types is None else batch.token_types.to(self.device)
        return self.embedding(ids, types, features_of(batch.graph, TOKEN))

    @override
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.targets is not None
        scores = self(batch)
        targets = to_device(batch.targets, scores.device)
        head, weights = self.head, batch.item_weights(scores.device)
        if self.learned_classes is not None:
            loss = head.loss_among(self.learned_classes.to(scores.device), scores, targets, weights)
        else:
            loss = head.loss(scores, targets, batch.graph, weights)
        return loss / batch.loss_normalizer, scores

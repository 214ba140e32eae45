"""Base class of encoders: an encoder names its relations and maps token vectors to token vectors."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import Edges, as_batch, features_of, lengths_of
from graphattn._precision import residual_type
from graphattn._schema import TOKEN, is_nameless
from graphattn._transforms import OpaqueModule, is_transformed
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.exceptions import GraphError
from graphattn.models.heads._pooling import pool
from graphattn.options import Options, option

LayerWeights = dict[str, Tensor]
"""Relation -> (E, heads) attention weights of one layer by edge id; a relation with several ``parts()`` concatenates
their edges."""


_MOST_KEPT_NODES = 16_384
"""Nodes above which training keeps less: a layer's activations are 7 kB for each."""

MOST_TOKENS = 8192
"""Tokens read of each text where edges grow with the square of its length: some twenty million edges."""

FFN_DROPOUT = "dropout inside the feed-forward layer (default: as dropout)"
"""Help of an option."""


@dataclass
class EncoderOptions(Options):
    """Base of the encoders' options; subclasses add options and their ``name``.

    Attributes
    ----------
    pooling : how sentence vectors are pooled unless the head's options say otherwise
    linear_head : classify with a linear layer unless the head's options say otherwise
    takes_parts : token vectors enter the encoder unprojected
    trains_special : train the vectors of special tokens even when no other word vectors are trained
    streams : vectors of width ``hidden`` per token in a translator
    begins_with_cls : texts begin with ``[CLS]`` unless the input's options say otherwise
    """

    name: ClassVar[str]
    pooling: ClassVar[str] = "cls+max"
    linear_head: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = False
    trains_special: ClassVar[bool] = True
    streams: ClassVar[int] = 1
    begins_with_cls: ClassVar[bool] = True

    hidden: int = option(300, "width of the encoder", min=1, common=True)
    layers: int = option(3, "depth of the encoder", min=1, common=True)
    dropout: float = option(0.3, "dropout on the output of each layer", min=0, below=1)

    @classmethod
    def for_tagging(cls) -> EncoderOptions:
        """Default options in a tagger."""
        return cls()

    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        """Default options in a translator; ``sizes`` that the encoder does not have are ignored."""
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in sizes.items() if name in names})

    @property
    def max_tokens(self) -> int | None:
        """Tokens that are read of each text unless the input's options say otherwise; None for all."""
        return MOST_TOKENS

    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> EncoderOptions:
        """Options for token vectors that concatenate parts of these widths.

        Parameters
        ----------
        widths : width of each part
        of_files : whether the parts are files of word vectors
        """
        return self

    @override
    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **super().to_dict()}


@dataclass
class BlockOptions(EncoderOptions):
    """Options that encoders with Transformer blocks share."""

    hidden: int = option(256, "width of the encoder", min=1, multiple_of="heads")
    layers: int = option(3, "depth of the encoder", min=1)
    dropout: float = option(0.1, "dropout on the output of each layer", min=0, below=1)
    heads: int = option(4, "heads of each layer", min=1)
    ffn: int = option(1024, "width of the feed-forward layer", min=1)
    ffn_dropout: float | None = option(None, FFN_DROPOUT, min=0, below=1)
    attn_drop: float = option(0.0, "dropout on attention weights", min=0, below=1)


@dataclass
class NoEncoderOptions(EncoderOptions):
    """No encoder on top of the pretrained model; a translator's decoder has the width ``hidden``."""

    name = "pretrained"
    pooling = "mean"
    takes_parts = True
    max_tokens = None  # the pretrained model has its own limit


class Encoder(OpaqueModule):
    """Base of all encoders. ``width`` is the number of features each token gets."""

    width: int

    @override
    def __init_subclass__(cls, **options: Any) -> None:
        for name in {"forward", "means"} & vars(cls).keys():
            setattr(cls, name, _read_batches(getattr(cls, name)))
        super().__init_subclass__(**options)

    @abstractmethod
    def relations(self) -> list[Relation]:
        """The relations that graphs must have."""

    def heads_along(self) -> dict[str, int]:
        """Relation -> number of heads over all layers; used to estimate the memory of attention weights."""
        return {relation.name: 1 for relation in self.relations()}

    @abstractmethod
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """Encode.

        Parameters
        ----------
        graph : a batch with this encoder's relations; an encoder with one relation also takes a graph without names,
            such as :class:`~graphattn._edges.Edges`, as one text
        tokens : (N, hidden), in bfloat16 where training computes products in it (``precision``)
        weights : list to which each layer's weights are appended

        Returns
        -------
        (N, width)
        """

    def means(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(B, width) mean over the tokens of each sentence; subclasses may compute it faster."""
        states = self(graph, tokens, weights=weights)
        return pool(states, as_batch(graph, (len(states), len(states))).batch_num_nodes(TOKEN).long(), "mean")


def _read_batches(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method of an encoder that also takes a graph without names, as a batch with the encoder's only relation."""

    @functools.wraps(method)
    def encode(self: Encoder, graph: Any, tokens: Any = None, *args: Any, **options: Any) -> Tensor:
        count = 0 if tokens is None else len(tokens)
        batch = as_batch(graph, (count, count))
        if is_nameless(list(batch.edges)):
            names = [relation.name for relation in self.relations()]
            if len(names) > 1:
                raise GraphError(f"the graph has one relation without a name; give one with: {', '.join(names)}")
            if tokens is not None:
                Edges.of(batch).check_nodes(tokens)
            graph = batch
        return method(self, graph, tokens, *args, **options)

    return encode


def run_layers(
    layers: Iterable[nn.Module],
    edges: Mapping[str, Edges],
    states: Tensor,
    weights: list[LayerWeights] | None,
    **shared: Any,
) -> Tensor:
    """Apply layers one after another and append the attention weights of each to ``weights``.

    All layers take the ``shared`` arguments.

    On a CPU, training on long texts keeps only the states between layers, and computes a layer again for its gradients.
    """
    for layer in layers:
        if weights is None and layer.training and is_too_long_to_keep(states):
            states = checkpoint(layer, edges, states, use_reentrant=False, **shared)
        else:
            states = layer(edges, states, append_layer(weights), **shared)
    return states


def append_layer(weights: list[LayerWeights] | None) -> LayerWeights | None:
    """Append an empty mapping, which is returned for the next layer to fill; None if no weights are requested."""
    if weights is None:
        return None
    weights.append({})
    return weights[-1]


def is_too_long_to_keep(states: Tensor) -> bool:
    """Whether gradients of more nodes than a shard of short texts has are being computed on a CPU."""
    is_long = len(states) > _MOST_KEPT_NODES and states.device.type == "cpu"
    return is_long and states.requires_grad and torch.is_grad_enabled() and not is_transformed()


def position_vectors(graph: TextBatch, width: int, tokens: Tensor) -> Tensor:
    """(N, width) sinusoids of the tokens' positions in their texts, to be added to ``tokens``."""
    positions = features_of(graph, TOKEN).get("position")
    if positions is None:  # a graph that no builder made
        lengths = lengths_of(graph, TOKEN)
        starts = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
        positions = torch.arange(len(starts), device=starts.device) - starts
    positions = to_device(positions, tokens.device)
    return sinusoids(positions, width, residual_type(tokens))


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """(N, width) sinusoids of (N,) positions: sine in even columns, cosine in odd ones (Vaswani et al. 2017, 3.5).

    Examples
    --------
    >>> sinusoids(torch.tensor([0]), 4)
    tensor([[0., 1., 0., 1.]])
    """
    columns = torch.arange(0, width, 2, dtype=torch.promote_types(dtype, torch.float32), device=positions.device)
    rates = torch.exp(columns * (-math.log(10000.0) / width))
    angles = positions.unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width].to(dtype)

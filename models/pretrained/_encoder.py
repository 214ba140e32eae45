"""A pretrained Transformer on graphs: each head attends along the edges of a relation, by default all edges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import Edges, edges_of, features_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Embedding, Linear, multiplies_in_bfloat16, pad_rows
from graphattn.layers._packed_weights import can_run_links, run_links
from graphattn.models._encoders.base import LayerWeights, append_layer, is_too_long_to_keep
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._checkpoint import read_weights
from graphattn.models.pretrained._export import NativeHead, write_directory
from graphattn.models.pretrained._layers import (
    HeadRange,
    LayerChain,
    PretrainedLayer,
    Rotation,
    head_ranges,
    list_texts,
    make_norm,
    parse_layer_heads,
    position_rows,
)
from graphattn.models.pretrained._model import PretrainedEmbedding, PretrainedModel

if TYPE_CHECKING:
    from graphattn._backends.cpu.products import Attention, Link

MOST_CHAINED = 1024
"""Tokens of the longest text of a model whose layers are one chain, where attention computes all scores of a head."""
MAX_DISTANCE = 128
"""Longer distances share MPNet's last bucket."""


class Pooler(nn.Module):
    """BERT's layer on ``[CLS]``, kept for an export; buffers, since nothing trains it."""

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("weight", torch.zeros(width, width))
        self.register_buffer("bias", torch.zeros(width))


class PretrainedEncoder(PretrainedModel):
    """BERT, RoBERTa, DistilBERT, ELECTRA, MPNet or ModernBERT on graphs.

    A batch is one graph without padding, so its cost is that of its edges. With the edges of pretraining, the states
    equal those of Hugging Face's ``transformers``.

    Parameters
    ----------
    architecture : shapes and switches
    heads : edges of the heads, see :func:`~graphattn.models.pretrained._layers.parse_layer_heads`; None for those of
        pretraining
    max_length : tokens of the longest text; that of pretraining when None

    Attributes
    ----------
    embedding : the word vectors; None inside a model that has its own
    vocabulary : the directory's tokenizer; None for an encoder that was not read from one

    Examples
    --------
    >>> encoder = PretrainedEncoder.from_directory("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> encoder(encoder.batch(["A dog barks."])).shape  # doctest: +SKIP
    torch.Size([6, 384])
    """

    architecture: Architecture

    def __init__(
        self, architecture: Architecture, *, heads: str | Mapping[str, int] | None = None, max_length: int | None = None
    ):
        super().__init__(architecture, max_length)
        self.layer_heads = parse_layer_heads(heads or "", architecture.heads, architecture.relations)
        self.frozen_layers, self.frozen_embedding = 0, False
        width = architecture.embedding
        self.embedding = PretrainedEmbedding(architecture.vocabulary, width)
        rows = architecture.position_offset + self.max_length if architecture.positions else 0
        self.position_vectors = Embedding(rows, width) if rows else None
        self.type_vectors = Embedding(architecture.types, width) if architecture.types else None
        self.norm = make_norm(architecture, width)
        self.dropout = Dropout(architecture.embedding_dropout)
        self.widen = Linear(width, architecture.hidden) if width != architecture.hidden else None
        self.layers = nn.ModuleList(
            PretrainedLayer(architecture, counts, number) for number, counts in enumerate(self.layer_heads)
        )
        self._chain = LayerChain()
        self.distance_bias = Embedding(architecture.buckets, architecture.heads) if architecture.buckets else None
        self.last_norm = make_norm(architecture, architecture.hidden) if architecture.is_modern else None
        self.pooler = Pooler(architecture.hidden) if architecture.has_pooler else None

    @classmethod
    def from_weights(
        cls,
        folder: Path,
        architecture: Architecture,
        *,
        heads: str | Mapping[str, int] | None,
        max_length: int | None,
        extend_positions: str,
    ) -> Self:
        """Read a directory of a known architecture, without its tokenizer; arguments as for :meth:`from_directory`."""
        with torch.device("meta"):
            encoder = cls(architecture, heads=heads, max_length=max_length)
        shapes = {name: weight.shape for name, weight in encoder.state_dict().items()}
        rows = "position_vectors.weight"
        if rows in shapes:
            shapes[rows] = torch.Size((architecture.positions, architecture.embedding))
        weights = read_weights(folder, architecture, shapes)
        if rows in weights:
            count = architecture.position_offset + encoder.max_length
            weights[rows] = resize_positions(weights[rows], architecture.position_offset, count, extend_positions)
        encoder.load_state_dict(weights, assign=True)
        return encoder.eval()

    @override
    def to_huggingface(
        self,
        directory: str | Path,
        *,
        embedding: Tensor | None = None,
        vocabulary: PretrainedVocabulary | None = None,
        head: NativeHead | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        self.check_native()
        vocabulary = self.vocabulary if vocabulary is None else vocabulary
        assert vocabulary is not None
        weights = self.state_dict()
        if embedding is not None:
            weights["embedding.trained"] = embedding
        write_directory(
            directory,
            self.architecture,
            weights,
            vocabulary.to_json(),
            max_length=self.max_length,
            head=head,
            missing=missing,
        )

    @property
    @override
    def device(self) -> torch.device:
        return self.norm.weight.device

    @override
    def freeze(self, tuned_layers: int) -> None:
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.frozen_layers, self.frozen_embedding = max(len(self.layers) - tuned_layers, 0), True
        for layer in [*self.layers[self.frozen_layers :], *([] if self.last_norm is None else [self.last_norm])]:
            layer.requires_grad_(tuned_layers > 0)
        self.train(self.training)

    @override
    def learning_rates(self, maximum: float, decay: float) -> dict[str, float]:
        depth = len(self.layers)
        rates = {}
        for name, _ in self.named_parameters():
            layer = int(name.split(".")[1]) if name.startswith("layers.") else depth if "last_norm" in name else -1
            rates[name] = maximum * decay ** max(depth - 1 - layer, 0)
        return rates

    @override
    def list_frozen_modules(self) -> Sequence[nn.Module]:
        return [self.dropout, *self.layers[: self.frozen_layers]] if self.frozen_embedding else []

    @override
    def forward(
        self, graph: TextBatch, tokens: Tensor | None = None, *, weights: list[LayerWeights] | None = None
    ) -> Tensor:
        """Encode; in bfloat16 of all families but ModernBERT under autocast, on a CPU and without gradients."""
        features = features_of(graph, TOKEN)
        device = self.device
        if tokens is None:
            assert self.embedding is not None
            tokens = self.embedding(to_device(features["id"], device))
        positions = to_device(features["position"], device)
        states = self.embed(tokens, positions, features.get("id"), features.get("segment"))
        count = len(states)
        if multiplies_in_bfloat16(states):
            states, positions = self._round_states(states, positions, weights)
        edges = edges_of(graph, self.heads_along(), device)
        states = self.run_layers(edges, states, positions, self._biases(edges), weights)[:count]
        return states if self.last_norm is None else self.last_norm(states)

    def run_layers(
        self,
        edges: Mapping[str, Edges],
        states: Tensor,
        positions: Tensor,
        biases: dict[HeadRange, Tensor] | None,
        weights: list[LayerWeights] | None = None,
    ) -> Tensor:
        """(N, hidden) input of the first layer -> (N, hidden) output of the last."""
        if weights is None and biases is None and (links := self._list_links(edges, states)):
            return run_links(states, links, states, list_texts(*edges.values()))
        rotations = self._rotations(positions, at_least_float32(states).dtype)
        for number, layer in enumerate(self.layers):
            rotation = rotations[self.architecture.thetas[number]] if rotations else None
            arguments = edges, states, rotation, biases, append_layer(weights)
            if self.training and (self.gradient_checkpointing or (weights is None and is_too_long_to_keep(states))):
                states = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                states = layer(*arguments)
        return states

    def _list_links(self, edges: Mapping[str, Edges], states: Tensor) -> list[Link | Attention]:
        """All layers as one chain of frozen layers, for texts with all edges; none where something else is needed."""
        if self.training or torch.is_grad_enabled() or self.architecture.thetas or not can_run_links(states):
            return []
        if self.max_length > MOST_CHAINED or len(edges) > 1 or list_texts(*edges.values()) is None:
            return []
        if not (links := self._chain.list_links(self.layers)):
            return []
        from graphattn._backends.cpu.products import can_attend  # loads the compiler of kernels

        return links if can_attend(self.architecture.hidden // self.architecture.heads) else []

    def _round_states(
        self, states: Tensor, positions: Tensor, weights: list[LayerWeights] | None
    ) -> tuple[Tensor, Tensor]:
        """States in bfloat16, unless gradients or ModernBERT's residuals need more digits, and padded rows of both."""
        if not (self.architecture.is_modern or torch.is_grad_enabled()):
            states = states.bfloat16()
        if weights is not None:  # weights with gradients come from operations without padded rows
            return states, positions
        return pad_rows(states), pad_rows(positions)

    def embed(self, tokens: Tensor, positions: Tensor, ids: Tensor | None, segments: Tensor | None) -> Tensor:
        """(N, embedding width) word vectors -> (N, hidden) input of the first layer."""
        if self.position_vectors is not None:
            rows = position_rows(positions, ids, self.architecture.position_offset)
            tokens = tokens + self.position_vectors(rows)
        if self.type_vectors is not None:
            first = self.type_vectors.weight[0]
            tokens = tokens + (first if segments is None else self.type_vectors(to_device(segments, first.device)))
        states: Tensor = self.dropout(self.norm(tokens))
        return states if self.widen is None else self.widen(states)

    def _rotations(self, positions: Tensor, dtype: torch.dtype) -> dict[float, Rotation]:
        """Base of the frequencies -> cosines and sines of the tokens' positions."""
        architecture = self.architecture
        size = architecture.hidden // architecture.heads
        exponents = torch.arange(0, size, 2, device=positions.device, dtype=dtype) / size
        rotations = {}
        for theta in dict.fromkeys(architecture.thetas):
            angles = (positions.to(dtype).unsqueeze(1) * theta**-exponents).unsqueeze(1)
            rotations[theta] = angles.cos(), angles.sin()
        return rotations

    def _biases(self, edges: Mapping[str, Edges]) -> dict[HeadRange, Tensor] | None:
        """(E, heads) added to the scores of a relation's edges, by edge id, for the heads that some layer has."""
        if self.distance_bias is None:
            return None
        buckets: dict[str, Tensor] = {}
        for name in self.heads_along():
            distances = edges[name].sources - edges[name].destinations
            buckets[name] = edges[name].by_id(distance_buckets(distances, self.architecture.buckets))
        return self.look_up_biases(buckets)

    def look_up_biases(self, buckets: Mapping[str, Tensor]) -> dict[HeadRange, Tensor]:
        """(..., heads) added to scores, for the heads that some layer has; ``buckets`` are (...) by relation."""
        assert self.distance_bias is not None
        table = at_least_float32(self.distance_bias.weight)  # gradients of many edges are summed
        return {
            (name, first, count): table[:, first : first + count][buckets[name]]
            for name, first, count in dict.fromkeys(chain.from_iterable(map(head_ranges, self.layer_heads)))
        }


def distance_buckets(distances: Tensor, count: int) -> Tensor:
    """The bucket of each distance: exact when short, logarithmic up to 128 (Raffel et al. 2020, section 2.1).

    ``distances`` are (E,) source minus destination; half of the buckets are for sources behind the destination.

    Examples
    --------
    >>> distance_buckets(torch.tensor([0, -1, 1, -7, -8, -200, 200]), 32).tolist()
    [0, 1, 17, 7, 8, 15, 31]
    """
    half, size = count // 2, distances.abs()
    exact = half // 2
    logarithms = torch.log(size.clamp(min=1).float() / exact) / math.log(MAX_DISTANCE / exact)
    far = (exact + (logarithms * (half - exact)).long()).clamp(max=half - 1)
    return (distances > 0).long() * half + torch.where(size < exact, size.long(), far)


def resize_positions(table: Tensor, offset: int, rows: int, how: str) -> Tensor:
    """(rows, D) position vectors for longer texts, from (P, D) learned ones.

    ``offset`` is the first row of a position; earlier rows are kept. ``"copy"`` repeats the learned vectors,
    ``"interpolate"`` stretches them.

    Examples
    --------
    >>> resize_positions(torch.tensor([[9.0], [0.0], [1.0]]), 1, 5, "copy").flatten().tolist()
    [9.0, 0.0, 1.0, 0.0, 1.0]
    >>> resize_positions(torch.tensor([[9.0], [0.0], [3.0]]), 1, 5, "interpolate").flatten().tolist()
    [9.0, 0.0, 1.0, 2.0, 3.0]
    """
    if rows <= len(table):
        return table[:rows].clone()
    kept, learned = table[:offset], table[offset:]
    if how == "interpolate":
        stretched = F.interpolate(learned.T[None], size=rows - offset, mode="linear", align_corners=True)
        return torch.cat([kept, stretched[0].T])
    return torch.cat([kept, learned.repeat(-(-(rows - offset) // len(learned)), 1)[: rows - offset]])

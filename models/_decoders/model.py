"""The translation model: shared embeddings, an encoder on the source's graph, a decoder, a tied softmax."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import features_of, lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.layers._dropout import dropout
from graphattn.layers._linear import Linear, embedding, linear
from graphattn.models._corpus import EOS, Batch
from graphattn.models._decoders.transformer import Decoder, DecoderState, Memory
from graphattn.models._encoders import Encoder
from graphattn.models._encoders.base import LayerWeights
from graphattn.models._padding import pad, prefix_mask, unpad
from graphattn.models._text_model import Trainable
from graphattn.models.heads._classification import sum_cross_entropy


class SharedEmbedding(nn.Module):
    """One table for sources, targets and output scores (Press and Wolf 2017; Vaswani et al. 2017, section 3.4).

    ``trained`` has (num_tokens, width) vectors of variance 1 / width; look-ups multiply them by the root of the width.
    """

    def __init__(self, num_tokens: int, width: int, dropout: float):
        super().__init__()
        self.trained = nn.Parameter(torch.randn(num_tokens, width) / math.sqrt(width))
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., width)."""
        return dropout(self.vectors(ids), self.dropout, self.training)

    def vectors(self, ids: Tensor) -> Tensor:
        """Look up vectors, without dropout."""
        return embedding(self.trained, ids) * math.sqrt(self.trained.shape[1])

    def table(self) -> Tensor:
        """(num_tokens, width) vectors of variance 1 / width, for scores of all tokens."""
        return self.trained


class WordVectorEmbedding(SharedEmbedding):
    """The Duo Transformer's embeddings, the second from word vectors by a feed-forward layer (Duo, section 4.2).

    The paper has GloVe of 300 columns and "feed-forward neural networks to fix the discrepancy of dimensionality": two
    layers in ours. The word vectors are trained further.

    ``vectors`` are (num_tokens, D), ``trained`` (num_tokens, width) for the first stream.
    """

    def __init__(self, num_tokens: int, width: int, dropout: float, vectors: Tensor):
        super().__init__(num_tokens, width, dropout)
        self.pretrained = nn.Parameter(vectors.clone())
        self.enter = nn.Sequential(Linear(vectors.shape[1], width), nn.ReLU(), Linear(width, width))

    @override
    def vectors(self, ids: Tensor) -> Tensor:
        return torch.cat([super().vectors(ids), self.enter(embedding(self.pretrained, ids))], dim=-1)

    @override
    def table(self) -> Tensor:
        root = math.sqrt(self.trained.shape[1])
        return torch.cat([self.trained, self.enter(self.pretrained) / root], dim=1)


class TiedSoftmax(nn.Module):
    """Scores of all tokens: products with the shared embeddings."""

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """(..., width) and (V, width) -> (..., V), at least float32."""
        return at_least_float32(linear(states, table))


class TranslationModel(Trainable):
    """Token ids on a graph -> encoder -> memory -> decoder -> scores of the target's tokens.

    ``output`` maps (..., width) decoder states and the embedding table to (..., V) scores; ``sources`` embeds the
    sources, if they have another vocabulary.
    """

    embedding: SharedEmbedding

    def __init__(
        self,
        embedding: SharedEmbedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Module,
        *,
        sources: nn.Module | None = None,
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        self.embedding, self.encoder, self.decoder, self.output = embedding, encoder, decoder, output
        self.sources = sources
        self.label_smoothing = label_smoothing

    @property
    @override
    def device(self) -> torch.device:
        return self.embedding.trained.device

    @property
    @override
    def cross_heads(self) -> int:  # type: ignore[override]
        layers: list[Any] = list(self.decoder.layers)
        return sum(layer.source.heads for layer in layers)

    @override
    def embed_tokens(self, ids: Tensor, batch: Batch) -> Tensor:
        return self.embedding(ids) if self.sources is None else self.sources(ids)

    def encode(self, batch: Batch, *, weights: list[LayerWeights] | None = None) -> Memory:
        """Encode the sources; the attention weights of each layer are appended to ``weights``."""
        ids = to_device(features_of(batch.graph, TOKEN)["id"], self.device)
        return self.encode_vectors(batch.graph, self.embed_tokens(ids, batch), weights=weights)

    def encode_vectors(self, graph: TextBatch, vectors: Tensor, *, weights: list[LayerWeights] | None = None) -> Memory:
        """:meth:`encode` from (N, width) token vectors."""
        states = self.encoder(graph, vectors, weights=weights)
        lengths = lengths_of(graph, TOKEN)
        return Memory(pad(states, lengths), to_device(prefix_mask(lengths), self.device)[:, None, None])

    def advance(
        self,
        tokens: Tensor,
        state: DecoderState,
        *,
        table: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(R, T) latest tokens -> (R, T, V) scores of the next ones; ``table`` is that of the embedding, if at hand."""
        states = self.decoder(self.embedding(tokens), state, weights)
        return self.output(states, self.embedding.table() if table is None else table)

    def forward(self, batch: Batch) -> Tensor:
        """(W, V) scores of the batch's target tokens, text after text."""
        assert batch.targets is not None and batch.target_counts is not None
        counts = batch.target_counts
        memory = self.encode(batch)
        states = self.decoder(
            self.embedding(shift_right(to_device(batch.targets, self.device), counts)), self.decoder.start(memory)
        )
        return self.output(unpad(states, counts), self.embedding.table())

    @override
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        r"""The tokens' losses, summed and divided by ``batch.loss_normalizer``, and the scores.

        With label smoothing :math:`\epsilon` over all V tokens (Szegedy et al. 2016, section 7):

        .. math:: -(1 - \epsilon) \log p_y - \frac{\epsilon}{V} \sum_v \log p_v
        """
        assert batch.targets is not None
        scores = self(batch)
        targets = to_device(batch.targets, scores.device)
        weights = batch.item_weights(scores.device)
        summed = sum_cross_entropy(scores, targets, weights, label_smoothing=self.label_smoothing)
        return summed / batch.loss_normalizer, scores


def shift_right(targets: Tensor, counts: Tensor) -> Tensor:
    """The decoder's input for teacher forcing: each target, shifted right by one, after EOS.

    ``targets`` are (W,) tokens of all targets, each with EOS at its end, ``counts`` their (B,) numbers; the result is
    (B, T).

    Examples
    --------
    >>> shift_right(torch.tensor([5, 6, 2, 7, 2]), torch.tensor([3, 2])).tolist()
    [[2, 5, 6], [2, 7, 2]]
    """
    return F.pad(pad(targets, counts), (1, -1), value=EOS)

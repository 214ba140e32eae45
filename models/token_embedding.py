"""The input layer: ids and characters of tokens to vectors of the encoder's width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.builders.vocabulary import SPECIAL_TOKENS
from graphattn.exceptions import ConfigError
from graphattn.layers.dropout import dropout
from graphattn.layers.linear import Linear, embedding
from graphattn.models.characters import CAPITALS_WIDTH, CharacterFeatures, FormBatch
from graphattn.models.options import InputOptions

UNKNOWN_ID = 1


def token_parts(options: InputOptions, widths: Sequence[int], *, characters: bool) -> tuple[int, ...]:
    """Widths of the sets of numbers that a token vector is made of, character features last.

    Parameters
    ----------
    options : how text becomes vectors
    widths : of the files of vectors; none when there are none
    characters : whether the model has character features

    Examples
    --------
    >>> token_parts(InputOptions(), [50, 300], characters=True)
    (50, 300, 60)
    >>> token_parts(InputOptions(combine="average"), [50, 300], characters=False)
    (300,)
    """
    own = tuple(widths) or (options.embedding,)
    if options.combine != "concatenation":
        own = (max(own),)
    return (*own, options.character_filters + CAPITALS_WIDTH) if characters else own


class TokenEmbedding(nn.Module):
    """Word vectors (frozen or trained), character features, dropout, and a projection to the encoder's width.

    Parameters
    ----------
    options : how text becomes vectors
    num_tokens : size of the vocabulary
    hidden : width of the output; None leaves token vectors as they are, without a projection
    vectors : (num_tokens, D) initial vectors; drawn at random when None
    num_trained : the vectors of this many first tokens are trained, the others frozen; without ``vectors`` all are
    trains_special : the special tokens' vectors are trained also where ``num_trained`` is 0
    widths : how many numbers of a vector come from each file of vectors
    num_characters : size of the character vocabulary; None for no character features

    Notes
    -----
    Frozen vectors are no part of ``state_dict``: checkpoints stay small, and a saved model holds them once.
    """

    table: Tensor
    """(num_tokens - num_trained, D) frozen vectors."""

    def __init__(
        self,
        options: InputOptions,
        num_tokens: int,
        hidden: int | None,
        *,
        vectors: npt.NDArray[np.float32] | None = None,
        num_trained: int = 0,
        trains_special: bool = True,
        widths: Sequence[int] = (),
        num_characters: int | None = None,
    ):
        super().__init__()
        if options.vectors and vectors is None:
            raise ConfigError("options name word vectors, but none were given to the input layer")
        self.options = options
        width = options.embedding if vectors is None else vectors.shape[1]
        start = torch.randn(num_tokens, width)
        if vectors is not None:
            start[len(SPECIAL_TOKENS) :] = torch.from_numpy(vectors[len(SPECIAL_TOKENS) :])
            if options.normalize_vectors:
                start[len(SPECIAL_TOKENS) :] /= start[len(SPECIAL_TOKENS) :].std().clamp(min=1e-8)
        trained = num_tokens if vectors is None else max(num_trained, len(SPECIAL_TOKENS))
        learns = vectors is None or num_trained > 0 or trains_special
        self.trained = nn.Parameter(start[:trained].clone(), requires_grad=learns)
        self.register_buffer("table", start[trained:].clone(), persistent=False)
        self.characters = None
        if num_characters is not None:
            self.characters = CharacterFeatures(num_characters, options.character_embedding, options.character_filters)
        self.widths = tuple(widths) or (width,)
        common = max(self.widths)
        of_sets = (Linear(own, common) for own in self.widths) if options.combine == "projection" else ()
        self.of_sets = nn.ModuleList(of_sets)
        parts = token_parts(options, self.widths, characters=num_characters is not None)
        self.project = nn.Identity() if hidden is None else Linear(sum(parts), hidden)

    def forward(self, ids: Tensor, forms: FormBatch | None = None) -> Tensor:
        """Embed.

        Parameters
        ----------
        ids : (N,)
        forms : the tokens' characters, when the model has character features

        Returns
        -------
        (N, hidden)
        """
        if self.training and self.options.word_dropout:
            lost = torch.rand(ids.shape, device=ids.device) < self.options.word_dropout
            ids = ids.masked_fill(lost & (ids >= len(SPECIAL_TOKENS)), UNKNOWN_ID)
        embedded = self._combined(self._look_up(ids))
        if self.characters is not None:
            assert forms is not None
            embedded = torch.cat([embedded, self.characters(forms)], dim=1)
        return self.project(dropout(embedded, self.options.embedding_dropout, self.training))

    def _combined(self, vectors: Tensor) -> Tensor:
        """(N, D) vectors of several sets, side by side, as one; the projections' mean goes through a tanh, without
        which it would be no more than what a projection makes of the concatenation."""
        if self.options.combine == "concatenation":
            return vectors
        sets = vectors.split(self.widths, dim=1)
        if self.options.combine == "projection":
            return torch.stack([own(part) for own, part in zip(self.of_sets, sets, strict=True)]).mean(0).tanh()
        return torch.stack([F.pad(part, (0, max(self.widths) - part.shape[1])) for part in sets]).mean(0)

    def _look_up(self, ids: Tensor) -> Tensor:
        """(N,) -> (N, D), from the trained rows or from the frozen ones, those that are the rule first."""
        count = len(self.trained)
        if not len(self.table):
            return embedding(self.trained, ids)
        frozen = ids >= count
        if count == len(SPECIAL_TOKENS):
            found, others = F.embedding((ids - count).clamp(min=0), self.table), (~frozen).nonzero().squeeze(1)
            return found.index_copy_(0, others, embedding(self.trained, ids[others]))
        found, others = embedding(self.trained, ids.clamp(max=count - 1)), frozen.nonzero().squeeze(1)
        return found.index_copy_(0, others, F.embedding(ids[others] - count, self.table))

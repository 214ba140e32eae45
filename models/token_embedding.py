"""The input layer: ids and characters of tokens to vectors of the encoder's width."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.builders.vocabulary_training import SPECIAL_TOKENS
from graphattn.exceptions import ConfigError
from graphattn.models.characters import CharacterFeatures, FormBatch
from graphattn.models.dropout import dropout
from graphattn.models.options import InputOptions

UNKNOWN_ID = 1


class TokenEmbedding(nn.Module):
    """Word vectors (frozen or trained), character features, dropout, and a projection to the encoder's width.

    Parameters
    ----------
    options : how text becomes vectors
    num_tokens : size of the vocabulary
    hidden : width of the output
    vectors : (num_tokens, D) initial vectors; drawn at random when None
    num_characters : size of the character vocabulary; None for no character features

    Notes
    -----
    The special tokens are always trained. Frozen vectors are no part of ``state_dict``: checkpoints stay small,
    and a saved model holds them once.
    """

    table: Tensor

    def __init__(
        self,
        options: InputOptions,
        num_tokens: int,
        hidden: int,
        *,
        vectors: npt.NDArray[np.float32] | None = None,
        num_characters: int | None = None,
    ):
        super().__init__()
        if options.vectors and vectors is None:
            raise ConfigError("options name word vectors, but none were given to the input layer")
        self.options = options
        self.frozen = vectors is not None and not options.tune_vectors
        width = options.embedding if vectors is None else vectors.shape[1]
        table = torch.randn(num_tokens, width) if vectors is None else torch.from_numpy(vectors).clone()
        if vectors is not None and options.normalize_vectors:
            table = table / table[len(SPECIAL_TOKENS) :].std().clamp(min=1e-8)
        self.special = nn.Parameter(torch.randn(len(SPECIAL_TOKENS), width))
        if self.frozen:
            self.register_buffer("table", table, persistent=False)
        else:
            self.table = nn.Parameter(table)
        self.characters = None
        if num_characters is not None:
            self.characters = CharacterFeatures(num_characters, options.character_embedding, options.character_filters)
            width += self.characters.width
        self.project = nn.Linear(width, hidden)

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
        is_special = (ids < len(SPECIAL_TOKENS)).unsqueeze(1)
        special = F.embedding(ids.clamp(max=len(SPECIAL_TOKENS) - 1), self.special)
        embedded = torch.where(is_special, special, F.embedding(ids, self.table))
        if self.characters is not None:
            assert forms is not None
            embedded = torch.cat([embedded, self.characters(forms)], dim=1)
        return self.project(dropout(embedded, self.options.embedding_dropout, self.training))

"""The input layer: ids and characters of tokens to vectors of the encoder's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._devices import to_device
from graphattn.builders._vocabulary import SPECIAL_TOKENS
from graphattn.layers._dropout import dropout
from graphattn.layers._linear import Embedding, Linear, embedding
from graphattn.models._features.characters import CAPITALS_WIDTH, CharacterFeatures, TokenTypeBatch
from graphattn.models._features.lexicon import Lexicon, LexiconFeatures
from graphattn.models._options import InputOptions

UNKNOWN_ID = 1


def part_widths(
    options: InputOptions, widths: Sequence[int], *, characters: bool, lexicon: int = 0, predicates: bool = False
) -> tuple[int, ...]:
    """Widths of the parts that a token vector concatenates: vectors; features of characters, lexicon and predicates.

    ``widths`` are those of the vectors in each file, empty without files; ``lexicon`` is the number of lexicon
    features.

    Examples
    --------
    >>> part_widths(InputOptions(), [50, 300], characters=True)
    (50, 300, 60)
    >>> part_widths(InputOptions(combine="average"), [50, 300], characters=False)
    (300,)
    """
    parts = tuple(widths) or (options.embedding,)
    if options.combine != "concatenation":
        parts = (max(parts),)
    features = lexicon + (options.predicate_embedding if predicates else 0)
    if characters:
        features += options.character_filters + CAPITALS_WIDTH
    return (*parts, features) if features else parts


class TokenEmbedding(nn.Module):
    """Word vectors (frozen or trained), character features, dropout, and a projection to the encoder's width.

    ``vectors`` are (num_tokens, D) initial vectors, random when None. With ``num_trained``, those of the first tokens
    are trained and the others frozen; without, all are trained, and ``trains_special`` trains the special tokens'
    vectors also if ``num_trained`` is 0. ``widths`` are those of the vectors in each file. None for ``num_characters``,
    ``lexicon`` or ``hidden`` leaves out character features, lexicon features or the projection. ``predicates`` adds an
    embedding that marks the predicates (MTSA, section 4.2; Tan et al. 2018). Frozen vectors are not part of
    ``state_dict``: checkpoints stay small, and a saved model contains them once.
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
        lexicon: Lexicon | None = None,
        predicates: bool = False,
    ):
        super().__init__()
        self.options = options
        initial = _initial_vectors(options, num_tokens, vectors)
        trained = num_tokens if vectors is None else max(num_trained, len(SPECIAL_TOKENS))
        requires_grad = vectors is None or num_trained > 0 or trains_special
        self.trained = nn.Parameter(initial[:trained].clone(), requires_grad=requires_grad)
        self.register_buffer("table", initial[trained:].clone(), persistent=False)
        self.characters = None
        if num_characters is not None:
            self.characters = CharacterFeatures(num_characters, options.character_embedding, options.character_filters)
        self.predicate = Embedding(2, options.predicate_embedding) if predicates else None
        self.widths = tuple(widths) or (initial.shape[1],)
        projected = self.widths if options.combine == "projection" else ()
        self.of_sets = nn.ModuleList(Linear(width, max(self.widths)) for width in projected)
        known = 0 if lexicon is None else lexicon.width
        self.lexicon = LexiconFeatures(lexicon) if lexicon is not None and known else None
        has_characters = num_characters is not None
        parts = part_widths(options, self.widths, characters=has_characters, lexicon=known, predicates=predicates)
        fits = sum(parts) == hidden and not options.always_project
        self.project = nn.Identity() if hidden is None or fits else Linear(sum(parts), hidden)

    def start(self, vectors: npt.NDArray[np.float32]) -> None:
        """Give the words of a new embedding, which has random vectors, these (num_tokens, D) ones instead."""
        _set_words(self.options, self.trained.data, vectors)

    def forward(
        self, ids: Tensor, types: TokenTypeBatch | None = None, features: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """(N,) ids -> (N, hidden).

        ``types`` are the tokens' characters, for a model with character features, ``features`` those of the token
        nodes, for a model with lexicon features or marks of predicates.
        """
        if self.training and self.options.word_dropout:
            dropped = torch.rand(ids.shape, device=ids.device) < self.options.word_dropout
            ids = ids.masked_fill(dropped & (ids >= len(SPECIAL_TOKENS)), UNKNOWN_ID)
        words_only = self.characters is None and self.lexicon is None and self.predicate is None
        if words_only and not self.training and isinstance(self.project, Linear) and ids.device.type == "cpu":
            # Project each word once: most tokens of a batch are repetitions. A GPU would wait for their number.
            words, word_of_token = ids.unique(return_inverse=True)
            return embedding(self.project(self._combine(self._look_up(words))), word_of_token)
        embedded = self._combine(self._look_up(ids))
        if self.characters is not None:
            assert types is not None
            embedded = torch.cat([embedded, self.characters(types)], dim=1)
        if self.lexicon is not None:
            assert features is not None
            embedded = self.lexicon(features, embedded)
        if self.predicate is not None:
            assert features is not None
            embedded = torch.cat([embedded, self.predicate(to_device(features["predicate"], embedded.device))], dim=1)
        return self.project(dropout(embedded, self.options.embedding_dropout, self.training))

    def _combine(self, vectors: Tensor) -> Tensor:
        """Combine (N, D) concatenated sets. Without its tanh, the mean of projections would be one linear map."""
        if self.options.combine == "concatenation":
            return vectors
        sets = vectors.split(self.widths, dim=1)
        if self.options.combine == "projection":
            return torch.stack([project(part) for project, part in zip(self.of_sets, sets, strict=True)]).mean(0).tanh()
        return torch.stack([F.pad(part, (0, max(self.widths) - part.shape[1])) for part in sets]).mean(0)

    def _look_up(self, ids: Tensor) -> Tensor:
        """(N,) -> (N, D), from the trained and the frozen rows; the more frequent kind first."""
        count = len(self.trained)
        if not len(self.table):
            return embedding(self.trained, ids)
        frozen = ids >= count
        if ids.device.type != "cpu":  # which would wait for the number of rows of each kind
            rows = embedding(self.trained, ids.clamp(max=count - 1))
            return torch.where(frozen.unsqueeze(1), F.embedding((ids - count).clamp(min=0), self.table), rows)
        if count == len(SPECIAL_TOKENS):
            rows, rest = F.embedding((ids - count).clamp(min=0), self.table), (~frozen).nonzero().squeeze(1)
            return rows.index_copy_(0, rest, embedding(self.trained, ids[rest]))
        rows, rest = embedding(self.trained, ids.clamp(max=count - 1)), frozen.nonzero().squeeze(1)
        return rows.index_copy_(0, rest, F.embedding(ids[rest] - count, self.table))


def _initial_vectors(options: InputOptions, num_tokens: int, vectors: npt.NDArray[np.float32] | None) -> Tensor:
    """(num_tokens, D): ``vectors`` of the words, random numbers for the special tokens or, without vectors, for all."""
    initial = torch.randn(num_tokens, options.embedding if vectors is None else vectors.shape[1])
    if vectors is not None:
        _set_words(options, initial, vectors)
    return initial


def _set_words(options: InputOptions, table: Tensor, vectors: npt.NDArray[np.float32]) -> None:
    """Replace the random vectors of words in place, and bring those of special tokens to the same scale."""
    words = table[len(SPECIAL_TOKENS) :]
    words.copy_(torch.from_numpy(vectors[len(SPECIAL_TOKENS) :]))
    deviation = words.std().clamp(min=1e-8) if words.numel() > 1 else 1.0
    if options.normalize_vectors:
        words /= deviation
    else:
        table[: len(SPECIAL_TOKENS)] *= deviation

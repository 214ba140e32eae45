"""Character features of tokens: a CNN over characters, and the kind of capitalisation (Ma and Hovy 2016)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._devices import to_device
from graphattn._precision import at_least_float32
from graphattn.builders._spelling import spell
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Embedding, embedding

MAX_CHARACTERS = 30
"""Longer tokens keep the first and the last half of these."""

PADDING, UNKNOWN = 0, 1
CAPITALS_WIDTH = 10
"""Width of the embedding of the capitalisation."""
CAPITALS = ("none", "all", "first", "inner", "digits", "other")
"""Kinds of capitalisation."""


def classify_capitals(token: str) -> int:
    """Index into :data:`CAPITALS`.

    Examples
    --------
    >>> [CAPITALS[classify_capitals(token)] for token in ("dog", "NATO", "Dog", "iPhone", "B52", "...")]
    ['none', 'all', 'first', 'inner', 'digits', 'other']
    """
    if any(character.isdigit() for character in token):
        return 4
    if not any(character.isalpha() for character in token):
        return 5
    if token == token.lower():
        return 0
    if token == token.upper() and len(token) > 1:
        return 1
    return 2 if token[0].isupper() and token[1:] == token[1:].lower() else 3


@dataclass(frozen=True, eq=False)
class TokenTypes:
    """The distinct tokens of a corpus as characters; type 0 is ``[CLS]``.

    ``characters`` are (U, MAX_CHARACTERS) ids, padded with 0; ``capitals`` (U,) indices into :data:`CAPITALS`;
    ``features`` (U, T) hashes of the spelling for a linear branch, or None.
    """

    characters: npt.NDArray[np.int32]
    capitals: npt.NDArray[np.int32]
    features: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.capitals)

    def concatenate(self, others: TokenTypes) -> TokenTypes:
        """These types, then others."""
        features = None
        if self.features is not None and others.features is not None:
            features = np.concatenate([self.features, others.features])
        return TokenTypes(
            np.concatenate([self.characters, others.characters]),
            np.concatenate([self.capitals, others.capitals]),
            features,
        )

    def take(self, types: npt.NDArray[np.integer]) -> TokenTypeBatch:
        """The types of a batch's (N,) tokens, each once, and type 0: the boundary of a text in linear branches."""
        used, index = np.unique(np.append(types, 0), return_inverse=True)
        characters = self.characters[used]
        longest = max(1, int((characters != PADDING).sum(1).max(initial=0)))
        return TokenTypeBatch(
            torch.from_numpy(characters[:, :longest]),
            torch.from_numpy(self.capitals[used]),
            torch.from_numpy(index[:-1]),
            None if self.features is None else torch.from_numpy(self.features[used]),
        )


@dataclass(frozen=True, eq=False)
class TokenTypeBatch:
    """Characters (U, L), capitals (U,) and features (U, T) of a batch's types; ``index``: (N,) type of each token."""

    characters: Tensor
    capitals: Tensor
    index: Tensor
    features: Tensor | None = None

    @property
    def model_inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """All but the features, which a linear branch reads on the CPU."""
        return self.characters, self.capitals, self.index

    def to(self, device: torch.device) -> TokenTypeBatch:
        """Copy the model's inputs to a device."""
        return TokenTypeBatch(*(to_device(ids, device) for ids in self.model_inputs))


class TokenTypeIndex:
    """Ids of distinct spellings of tokens, with case, in the order of their first appearance, from 1.

    Examples
    --------
    >>> TokenTypeIndex().encode([["a", "b", "a"], ["c"]])
    [array([1, 2, 1], dtype=int32), array([3], dtype=int32)]
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._by_token = _TypesByToken(self.ids)

    def encode(self, sentences: Iterable[Sequence[str]]) -> list[npt.NDArray[np.int32]]:
        """The type of each token, sentence by sentence; new spellings get a new id."""
        return [np.array([self._by_token[token] for token in tokens], dtype=np.int32) for tokens in sentences]


class _TypesByToken(dict[str, int]):
    """Token -> its type; a new token is added to the types by its spelling."""

    def __init__(self, types: dict[str, int]):
        self._types = types

    def __missing__(self, token: str) -> int:
        number = self[token] = self._types.setdefault(spell(token, lowercase=False), len(self._types) + 1)
        return number


class CharacterVocabulary:
    """The characters that a model knows, in the order of their ids, which start at 2."""

    def __init__(self, characters: Sequence[str]):
        self.characters = tuple(characters)
        self._ids = {character: index for index, character in enumerate(self.characters, start=UNKNOWN + 1)}

    @classmethod
    def of(cls, tokens: Iterable[str]) -> CharacterVocabulary:
        """All characters of a corpus, most frequent first."""
        counts: Counter[str] = Counter()
        for token, count in Counter(tokens).items():
            for character in spell(token, lowercase=False):
                counts[character] += count
        return cls(sorted(counts, key=lambda character: (-counts[character], character)))

    def __len__(self) -> int:
        return len(self.characters) + 2

    def encode(self, index: TokenTypeIndex) -> TokenTypes:
        """The characters of token types."""
        characters = np.zeros((len(index.ids) + 1, MAX_CHARACTERS), dtype=np.int32)
        capitals = np.zeros(len(index.ids) + 1, dtype=np.int32)
        half = MAX_CHARACTERS // 2
        for token, row in index.ids.items():
            kept = token if len(token) <= MAX_CHARACTERS else token[:half] + token[-half:]
            characters[row, : len(kept)] = [self._ids.get(character, UNKNOWN) for character in kept]
            capitals[row] = classify_capitals(token)
        return TokenTypes(characters, capitals)


class CharacterFeatures(nn.Module):
    """Character CNN (kernel size 3, maximum over the token) and an embedding of the capitalisation."""

    def __init__(self, num_characters: int, embedding: int, filters: int):
        super().__init__()
        self.embed = Embedding(num_characters, embedding, padding_idx=PADDING)
        self.convolve = nn.Conv1d(embedding, filters, kernel_size=3, padding=1)
        self.capitals = Embedding(len(CAPITALS), CAPITALS_WIDTH)
        self.dropout = Dropout(0.3)
        self.width = filters + CAPITALS_WIDTH

    def forward(self, types: TokenTypeBatch) -> Tensor:
        """(N, width), computed once per type."""
        embedded = self.dropout(self.embed(types.characters)).transpose(1, 2)  # (U, embedding, L)
        padding = (types.characters == PADDING).unsqueeze(1)  # the maximum must not depend on a batch's longest token
        padding[:, :, 0] = False
        weight, bias = self.convolve.weight, self.convolve.bias
        assert bias is not None
        # in float32: PyTorch sums gradients of float16 weights in float16
        convolved = F.conv1d(at_least_float32(embedded), at_least_float32(weight), at_least_float32(bias), padding=1)
        maxima = convolved.masked_fill(padding, float("-inf")).amax(2).to(weight.dtype)  # (U, filters)
        return embedding(torch.cat([maxima, self.capitals(types.capitals)], dim=1), types.index)

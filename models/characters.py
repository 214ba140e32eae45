"""Character features of tokens: a CNN over characters and the way a token is capitalised (Ma and Hovy 2016)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn.builders.vocabulary import make_normalizer
from graphattn.layers.dropout import Dropout

LONGEST = 30
"""Characters of a token that are looked at: the first and the last half of these."""

PADDING, UNKNOWN = 0, 1
CAPITALS = ("none", "all", "first", "inner", "digits", "other")
"""Ways of writing a token that a model can tell apart."""


def capitals_of(token: str) -> int:
    """Index into :data:`CAPITALS`.

    Examples
    --------
    >>> [CAPITALS[capitals_of(token)] for token in ("dog", "NATO", "Dog", "iPhone", "B52", "...")]
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
    """The distinct tokens of a corpus as characters; tokens refer to them by number, 0 is ``[CLS]``.

    Parameters
    ----------
    characters : (U, LONGEST) ids, 0 where a token has ended
    capitals : (U,) index into :data:`CAPITALS`
    """

    characters: npt.NDArray[np.int32]
    capitals: npt.NDArray[np.int32]

    def take(self, forms: npt.NDArray[np.integer]) -> FormBatch:
        """The forms of a batch, each once.

        Parameters
        ----------
        forms : (N,) form of each token
        """
        used, index = np.unique(forms, return_inverse=True)
        characters = self.characters[used]
        longest = max(1, int((characters != PADDING).sum(1).max(initial=0)))
        return FormBatch(
            torch.from_numpy(characters[:, :longest]),
            torch.from_numpy(self.capitals[used]),
            torch.from_numpy(index),
        )


@dataclass(frozen=True, eq=False)
class FormBatch:
    """Characters (U, L) and capitals (U,) of a batch's distinct tokens, and which one each token is (N,)."""

    characters: Tensor
    capitals: Tensor
    index: Tensor

    def to(self, device: torch.device) -> FormBatch:
        """The same on another device."""
        return FormBatch(self.characters.to(device), self.capitals.to(device), self.index.to(device))


class FormNumbers:
    """Numbers of distinct tokens in the order of their first appearance, from 1.

    Examples
    --------
    >>> FormNumbers().of([["a", "b", "a"], ["c"]])
    [array([1, 2, 1], dtype=int32), array([3], dtype=int32)]
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, sentences: Iterable[Sequence[str]]) -> list[npt.NDArray[np.int32]]:
        """For each sentence the number of each token; new tokens get a number."""
        numbers = self.numbers
        return [
            np.array([numbers.setdefault(token, len(numbers) + 1) for token in tokens], dtype=np.int32)
            for tokens in sentences
        ]


class CharacterVocabulary:
    """The characters a model knows.

    Parameters
    ----------
    characters : in the order of their ids, which start at 2
    """

    def __init__(self, characters: Sequence[str]):
        self.characters = tuple(characters)
        self._ids = {character: index for index, character in enumerate(self.characters, start=UNKNOWN + 1)}

    @classmethod
    def of(cls, tokens: Iterable[str]) -> CharacterVocabulary:
        """All characters of a corpus, most frequent first."""
        counts: Counter[str] = Counter()
        for token, count in Counter(tokens).items():
            for character in _as_in_vocabularies(token):
                counts[character] += count
        return cls(sorted(counts, key=lambda character: (-counts[character], character)))

    def __len__(self) -> int:
        return len(self.characters) + 2

    def forms(self, tokens: FormNumbers) -> TokenTypes:
        """The characters of distinct tokens."""
        characters = np.zeros((len(tokens.numbers) + 1, LONGEST), dtype=np.int32)
        capitals = np.zeros(len(tokens.numbers) + 1, dtype=np.int32)
        for raw, number in tokens.numbers.items():
            token = _as_in_vocabularies(raw)
            shown = token if len(token) <= LONGEST else token[: LONGEST // 2] + token[-LONGEST // 2 :]
            characters[number, : len(shown)] = [self._ids.get(character, UNKNOWN) for character in shown]
            capitals[number] = capitals_of(token)
        return TokenTypes(characters, capitals)


_SPELLING = make_normalizer("bpe", lowercase=False)


def _as_in_vocabularies(token: str) -> str:
    """Composed characters and straight quotes, as words are looked up, but in the case and the length they have."""
    return token if token.isascii() else str(_SPELLING.normalize_str(token))


CAPITALS_WIDTH = 10
"""Width of the embedding of the capitalisation."""


class CharacterFeatures(nn.Module):
    """Character CNN (window of 3, maximum over the token) and an embedding of the capitalisation.

    Parameters
    ----------
    num_characters : size of the character vocabulary
    embedding : width of character embeddings
    filters : features of the CNN
    """

    def __init__(self, num_characters: int, embedding: int, filters: int):
        super().__init__()
        self.embed = nn.Embedding(num_characters, embedding, padding_idx=PADDING)
        self.convolve = nn.Conv1d(embedding, filters, kernel_size=3, padding=1)
        self.capitals = nn.Embedding(len(CAPITALS), CAPITALS_WIDTH)
        self.dropout = Dropout(0.3)
        self.width = filters + CAPITALS_WIDTH

    def forward(self, forms: FormBatch) -> Tensor:
        """(N, width), computed once for each distinct token."""
        embedded = self.dropout(self.embed(forms.characters)).transpose(1, 2)  # (U, embedding, L)
        outside = (forms.characters == PADDING).unsqueeze(1)  # the maximum must not depend on a batch's longest token
        outside[:, :, 0] = False
        shape = self.convolve(embedded).masked_fill(outside, float("-inf")).amax(2)  # (U, filters)
        return torch.cat([shape, self.capitals(forms.capitals)], dim=1)[forms.index]

"""What is explained of a translator: the log-probability of a text that it writes, or of one of its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attention_map import TARGET
from graphattn.models.inspection.attributions.explained import ExplanationTarget
from graphattn.models.inspection.words import word_ids_of
from graphattn.models.inspection.written import ForcedDecoding

if TYPE_CHECKING:
    from graphattn.models.estimators.base import EncodedInput


@dataclass(frozen=True, eq=False)
class ExplainedText(ExplanationTarget):
    """Tokens of a text, each written after those before it.

    Parameters
    ----------
    tokens : (T,) ids of all tokens, the border at the end
    chosen : those that are explained
    """

    tokens: Tensor
    chosen: slice

    @override
    def value(self, scores: Tensor) -> Tensor:
        return self.log_probability(scores)

    def log_probability(self, scores: Tensor) -> Tensor:
        """What speaks for the tokens, summed over them.

        Parameters
        ----------
        scores : (copies, T, V), as the model gives them

        Returns
        -------
        (copies,)
        """
        tokens = self.tokens[self.chosen].to(scores.device).view(1, -1, 1).expand(len(scores), -1, -1)
        return scores[:, self.chosen].log_softmax(2).gather(2, tokens).sum((1, 2))


def explained_text(reading: ForcedDecoding | EncodedInput, word: int | None = None) -> ExplainedText:
    """What to explain.

    Parameters
    ----------
    reading : source and text
    word : of the text; all words and the text's end when None

    Raises
    ------
    ConfigError
        when there is no such word
    """
    tokens = reading.corpus[[0]].targets
    assert tokens is not None
    if word is None:
        return ExplainedText(tokens, slice(0, len(tokens)))
    sentence = reading.sentences[TARGET]
    if not 0 <= word < sentence.num_words:
        raise ConfigError(f"there is no word {word}; the text has {sentence.num_words}, and they count from 0")
    own = np.flatnonzero(np.array(word_ids_of(sentence)[1:]) == word + 1)
    return ExplainedText(tokens, slice(int(own[0]), int(own[-1]) + 1))

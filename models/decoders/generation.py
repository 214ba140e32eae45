"""Outputs of a model for a whole corpus, in the corpus' order, whatever the batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from graphattn.builders import BudgetBatches
from graphattn.builders.vocabulary import SPECIAL_TOKENS
from graphattn.edges import lengths_of
from graphattn.models.corpus import EOS, Batch, ParallelCorpus
from graphattn.models.decoders.model import TranslationModel
from graphattn.models.decoders.options import SearchOptions
from graphattn.models.decoders.search import Hypothesis, Rules, beam_search, sample
from graphattn.models.decoders.transformer import DecoderState
from graphattn.schema import TOKEN

MAX_TOKENS = 8192
"""Tokens of a batch's sources, times the texts written for each."""
_BANNED = [number for number in range(len(SPECIAL_TOKENS)) if number != EOS]


class ModelScores:
    """A model's scores of next tokens, with its keys and values of those before.

    Parameters
    ----------
    model : in evaluation mode
    batch : sources
    beams : texts written for each
    """

    def __init__(self, model: TranslationModel, batch: Batch, beams: int):
        self.model = model
        self.state: DecoderState = model.decoder.start(model.encode(batch), beams)

    def scores(self, tokens: Tensor) -> Tensor:
        """(B, K) -> (B, K, V)."""
        scores = self.model.advance(tokens.reshape(-1, 1), self.state).squeeze(1)
        return scores.log_softmax(1).unflatten(0, tokens.shape)

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Go on with some sources and some of their texts."""
        self.state.keep(sources, beams)


def generate(
    model: TranslationModel, corpus: ParallelCorpus, options: SearchOptions, *, count: int = 1, first: int = 1
) -> list[list[Hypothesis]]:
    """Write texts for sources, without gradients and in evaluation mode.

    Parameters
    ----------
    model : left in the mode it was in
    corpus : targets are not looked at
    options : how to search, or to sample
    count : texts for each source; a beam is at least as wide
    first : number of the first source, on which samples depend, when these are a part of more

    Returns
    -------
    For each source up to ``count`` hypotheses, best first; a source without words gets one without tokens
    """
    texts = count if options.sample else max(options.beam, count)
    found: list[list[Hypothesis]] = [[Hypothesis((), 0.0)]] * len(corpus)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for numbers in _batches(corpus, texts):
                own = _written(model, corpus[numbers], options, texts, [first - 1 + number for number in numbers])
                for number, hypotheses in zip(numbers, own, strict=True):
                    found[number] = hypotheses[:count]
    finally:
        model.train(was_training)
    return found


def _batches(corpus: ParallelCorpus, texts: int) -> Iterable[list[int]]:
    """Sources with words, those of like length together; longest first."""
    lengths = corpus.layouts[0].lengths
    filled = np.flatnonzero(lengths > 1)  # [CLS] stands before each
    batches = BudgetBatches(lengths[filled], max_tokens=max(1, MAX_TOKENS // texts), shuffle=False)
    return ([int(filled[number]) for number in batch] for batch in batches)


def _written(
    model: TranslationModel, batch: Batch, options: SearchOptions, texts: int, numbers: list[int]
) -> list[list[Hypothesis]]:
    lengths = lengths_of(batch.graph, TOKEN).to(model.device) - 1  # without [CLS]
    limits = 2 * lengths + 10 if options.max_length is None else torch.full_like(lengths, options.max_length)
    limits = limits.clamp(min=options.min_length)
    rules = Rules(_with_beam(options, texts), EOS, _BANNED)
    scores = ModelScores(model, batch, texts)
    if not options.sample:
        return beam_search(scores, limits, rules)
    most = int(limits.max()) + 1
    # a generator for each text, whose draws do not depend on how long the longest text of the batch may be
    draws = [
        [np.random.default_rng((options.sample_seed, number, text)).random(most) for text in range(texts)]
        for number in numbers
    ]
    return sample(scores, limits, rules, torch.tensor(np.array(draws), dtype=torch.float32, device=model.device))


def _with_beam(options: SearchOptions, beam: int) -> SearchOptions:
    widened = options.copied()
    widened.beam = beam
    return widened

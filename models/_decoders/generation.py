"""Generate texts for a whole corpus, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from graphattn._devices import to_device
from graphattn._edges import lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn.builders import BudgetBatches
from graphattn.builders._subwords import BLANK
from graphattn.builders._vocabulary import SPECIAL_TOKENS, Vocabulary
from graphattn.models._corpus import EOS, Batch, Corpus
from graphattn.models._decoders.model import TranslationModel
from graphattn.models._decoders.options import SearchOptions
from graphattn.models._decoders.search import Hypothesis, Rules, beam_search, sample
from graphattn.models._decoders.transformer import DecoderState
from graphattn.models._prediction import run_model, token_budget

MAX_TOKENS = 8192
"""Maximum size of a batch on a CPU: tokens of its sources times beams per source."""
_BANNED = [number for number in range(len(SPECIAL_TOKENS)) if number != EOS]


class ModelScores:
    """The :class:`~graphattn.models._decoders.search.NextTokens` of a model in evaluation mode."""

    def __init__(self, model: TranslationModel, batch: Batch, beams: int):
        self.model = model
        with model.autocast():
            self.state: DecoderState = model.decoder.start(model.encode(batch), beams)
            self.table = model.embedding.table()

    def scores(self, tokens: Tensor) -> Tensor:
        """(B, K) latest tokens -> (B, K, V) log-probabilities of the next ones."""
        latest = to_device(tokens.reshape(-1, 1), self.model.device)
        with self.model.autocast():
            rows = at_least_float32(self.model.advance(latest, self.state, table=self.table).squeeze(1))
        return rows.log_softmax(1).unflatten(0, tokens.shape)

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Keep some sources and some of their beams."""
        self.state.keep(to_device(sources, self.model.device), to_device(beams, self.model.device))


def generate(
    model: TranslationModel,
    corpus: Corpus,
    options: SearchOptions,
    vocabulary: Vocabulary,
    *,
    count: int = 1,
    first: int = 1,
) -> list[list[Hypothesis]]:
    """Generate up to ``count`` texts for each source, best first; an empty one for a source without words.

    The beam is at least as wide as ``count``. ``first`` is the number of the first source if the corpus is part of a
    larger one; samples depend on it.
    """
    options = replace(options, beam=max(options.beam, count))
    beams = count if options.sample else options.beam
    blanks = vocabulary.ids([BLANK]).tolist()
    special = corpus.builder.cls + corpus.builder.count_special_tokens(1)

    def generate_texts(batch: Batch, numbers: list[int]) -> Iterable[list[Hypothesis]]:
        seeds = [first - 1 + number for number in numbers]
        lengths = lengths_of(batch.graph, TOKEN) - special
        hypotheses = _generate_batch(model, batch, lengths, options, beams, seeds=seeds, blanks=blanks)
        return (best_first[:count] for best_first in hypotheses)

    outputs = run_model(model, corpus, generate_texts, batches=_batches(corpus, beams, model.device))
    return [[Hypothesis((), 0.0)] if hypotheses is None else hypotheses for hypotheses in outputs]


def _batches(corpus: Corpus, beams: int, device: torch.device) -> Iterable[list[int]]:
    """Sources with words, grouped by length, longest first."""
    lengths = corpus.layouts[0].lengths
    filled = np.flatnonzero(lengths > corpus.builder.cls)
    budget = max(1, token_budget(device, on_cpu=MAX_TOKENS) // beams)
    batches = BudgetBatches(lengths[filled], max_tokens=budget, shuffle=False)
    return ([int(filled[number]) for number in batch] for batch in batches)


def _generate_batch(
    model: TranslationModel,
    batch: Batch,
    lengths: Tensor,
    options: SearchOptions,
    beams: int,
    *,
    seeds: list[int],
    blanks: Sequence[int],
) -> list[list[Hypothesis]]:
    """The hypotheses of a batch.

    ``lengths`` are (B,) tokens of its sources besides special ones; ``seeds`` make samples independent of the batch.
    """
    limits = 2 * lengths + 10 if options.max_length is None else torch.full_like(lengths, options.max_length)
    limits = limits.clamp(min=options.min_length)
    rules = Rules(options, EOS, _BANNED, blanks)
    scores = ModelScores(model, batch, beams)
    if not options.sample:
        return beam_search(scores, limits, rules)
    steps = int(limits.max()) + 1
    # one generator per text, so that its draws do not depend on the longest text of the batch
    draws = [
        [np.random.default_rng((options.sample_seed, seed, text)).random(steps) for text in range(beams)]
        for seed in seeds
    ]
    return sample(scores, limits, rules, torch.tensor(np.array(draws), dtype=torch.float32))

"""Beam search and sampling. The scores of a step are on the model's device, and all else on the CPU, which waits once.

Letters: B unfinished sources, K beams (or samples) of each, T tokens of each so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphattn._devices import fetch, to_device
from graphattn.models._decoders.options import SearchOptions

NEG_INF = float("-inf")


@dataclass(frozen=True)
class Hypothesis:
    """A generated text.

    ``ids`` are without :data:`~graphattn.models._corpus.EOS`. ``score`` is its log-probability, including that of its
    end, divided by its length to the power of the length penalty.
    """

    ids: tuple[int, ...]
    score: float


class NextTokens(Protocol):
    """Scores next tokens, and keeps the state of the tokens before."""

    def scores(self, tokens: Tensor) -> Tensor:
        """(B, K) latest tokens -> (B, K, V) log-probabilities of the next ones."""

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Select sources: indices (b,) among the B, and (b, K) of the beams that each keeps."""


@dataclass(frozen=True)
class Rules:
    """Which tokens may follow, and how texts are ranked.

    ``end`` ends a text and precedes its first token; ``banned`` tokens never occur; ``blanks`` have no text: unless the
    minimum length is 0, a text has other tokens, too.
    """

    options: SearchOptions
    end: int
    banned: Sequence[int] = ()
    blanks: Sequence[int] = ()

    def mask(self, scores: Tensor, tokens: Tensor, limits: Tensor) -> Tensor:
        """Set the scores of forbidden tokens to minus infinity, in place; if none is left, the text ends.

        ``scores`` are (B, K, V), on any device; ``tokens`` (B, K, 1 + T), starting with ``end``; ``limits`` (B,)
        maximum numbers of tokens.
        """
        length, device, ends = tokens.shape[2] - 1, scores.device, scores[..., self.end].clone()
        scores.index_fill_(2, to_device(tokens.new_tensor(self.banned), device), NEG_INF)
        if length < self.options.min_length:
            scores[..., self.end] = NEG_INF
        elif self.options.min_length and self.blanks:
            empty = torch.isin(tokens[:, :, 1:], tokens.new_tensor(self.blanks)).all(2)
            others = to_device(tokens.new_tensor([self.end, *self.blanks]), device)
            scores[..., others] = scores[..., others].masked_fill(to_device(empty, device).unsqueeze(2), NEG_INF)
        if self.options.no_repeat_ngram is not None:
            _mask_repetitions(scores.flatten(0, 1), tokens[:, :, 1:].flatten(0, 1), self.options.no_repeat_ngram)
        scores.masked_fill_(to_device(limits <= length, device)[:, None, None], NEG_INF)
        stuck = scores.amax(2) == NEG_INF
        scores[..., self.end] = torch.where(stuck, ends, scores[..., self.end])
        return scores

    def score(self, log_probability: float, length: int) -> float:
        """The score of a text; ``length`` excludes its end."""
        return log_probability / float((length + 1) ** self.options.length_penalty)


def _mask_repetitions(scores: Tensor, tokens: Tensor, size: int) -> None:
    """Mask tokens that would repeat an n-gram of ``size``: (R, V) scores, (R, T) tokens."""
    if tokens.shape[1] < size:
        return
    ngrams = tokens.unfold(1, size, 1)  # (R, T - size + 1, size)
    same = (ngrams[..., :-1] == tokens[:, None, tokens.shape[1] - size + 1 :]).all(2)
    rows, positions = same.nonzero(as_tuple=True)
    repeated = ngrams[rows, positions, -1]
    scores[to_device(rows, scores.device), to_device(repeated, scores.device)] = NEG_INF


def beam_search(next_tokens: NextTokens, limits: Tensor, rules: Rules) -> list[list[Hypothesis]]:
    """The best texts for each source, at least one, best first.

    Each step keeps the K most probable continuations of all K beams. A text that ends, and is one of the K most
    probable, becomes a hypothesis; a source with K hypotheses is finished. (As in fairseq, the papers' toolkit.)

    ``next_tokens`` is for all sources with K = ``options.beam`` beams each; ``limits`` are (B,) maximum numbers of
    tokens.
    """
    width = rules.options.beam
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    sources = torch.arange(len(limits), device=limits.device)
    written = torch.full((len(limits), width, 1), rules.end, device=limits.device)
    sums = torch.full((len(limits), width), NEG_INF, device=limits.device)
    sums[:, 0] = 0.0
    while len(sources):
        scores = rules.mask(next_tokens.scores(written[:, :, -1]), written, limits)
        best = _top_continuations(to_device(sums, scores.device).unsqueeze(2) + scores, 2 * width)
        totals, beams, tokens = _fetch(*best)
        ends = tokens == rules.end
        _collect(hypotheses, sources, rules, totals[:, :width], beams, written, ends[:, :width])
        totals = totals.masked_fill(ends, NEG_INF)
        order = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
        sums, beams, tokens = (rows.gather(1, order) for rows in (totals, beams, tokens))
        counts = limits.new_tensor([len(hypotheses[source]) for source in sources.tolist()])
        left = ((counts < width) & (sums > NEG_INF).any(1)).nonzero().squeeze(1)
        beams, tokens, sums = beams[left], tokens[left], sums[left]
        sources, limits = sources[left], limits[left]
        kept = written[left].gather(1, beams.unsqueeze(2).expand(-1, -1, written.shape[2]))
        written = torch.cat([kept, tokens.unsqueeze(2)], dim=2)
        next_tokens.keep(left, beams)
    return [sorted(texts, key=lambda hypothesis: -hypothesis.score)[:width] for texts in hypotheses]


def _fetch(*rows: Tensor) -> list[Tensor]:
    """Copy results of a step to the CPU."""
    copies = [fetch(each) for each in rows]
    return [wait() for wait in copies]


def _top_continuations(totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The largest ``count`` of (B, K, V), or all if there are fewer: (B, count) totals, beams and tokens."""
    size = totals.shape[2]
    best, indices = totals.flatten(1).topk(min(count, totals.shape[1] * size), dim=1)
    return best, indices // size, indices % size


def _collect(
    hypotheses: list[list[Hypothesis]],
    sources: Tensor,
    rules: Rules,
    totals: Tensor,
    beams: Tensor,
    written: Tensor,
    ends: Tensor,
) -> None:
    """Add the texts that have ended to the hypotheses of their sources."""
    rows, ranks = (ends & (totals > NEG_INF)).nonzero(as_tuple=True)
    texts = written[rows, beams[rows, ranks], 1:].tolist()
    for source, ids, total in zip(sources[rows].tolist(), texts, totals[rows, ranks].tolist(), strict=True):
        hypotheses[source].append(Hypothesis(tuple(ids), rules.score(total, len(ids))))


def sample(next_tokens: NextTokens, limits: Tensor, rules: Rules, draws: Tensor) -> list[list[Hypothesis]]:
    """Draw K independent texts for each source, most probable first.

    ``next_tokens`` is for all sources with K texts each; ``limits`` are (B,) maximum numbers of tokens; ``draws`` are
    (B, K, T) numbers from 0 to 1, one for each token, where T exceeds the largest limit.
    """
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    sources = torch.arange(len(limits), device=limits.device)
    written = torch.full((*draws.shape[:2], 1), rules.end, device=limits.device)
    sums = torch.zeros(draws.shape[:2], device=limits.device)
    lengths = torch.full(draws.shape[:2], -1, device=limits.device)
    while len(sources):
        step = written.shape[2] - 1
        scores = rules.mask(next_tokens.scores(written[:, :, -1]), written, limits)
        drawn = draw_tokens(scores, to_device(draws[sources][:, :, step], scores.device), rules.options)
        tokens, added = _fetch(drawn, scores.gather(2, drawn.unsqueeze(2)).squeeze(2))
        running = lengths < 0
        sums = sums + added.masked_fill(~running, 0.0)
        lengths = torch.where(running & (tokens == rules.end), step, lengths)
        written = torch.cat([written, tokens.unsqueeze(2)], dim=2)
        done = (lengths >= 0).all(1)
        for row in done.nonzero().squeeze(1).tolist():
            ends = zip(written[row].tolist(), lengths[row].tolist(), sums[row].tolist(), strict=True)
            hypotheses[int(sources[row])] = [
                Hypothesis(tuple(ids[1 : 1 + length]), rules.score(total, length)) for ids, length, total in ends
            ]
        left = (~done).nonzero().squeeze(1)
        sources, limits, written, sums, lengths = (rows[left] for rows in (sources, limits, written, sums, lengths))
        next_tokens.keep(left, torch.arange(draws.shape[1], device=left.device).expand(len(left), -1))
    return [sorted(texts, key=lambda hypothesis: -hypothesis.score) for texts in hypotheses]


def draw_tokens(scores: Tensor, draws: Tensor, options: SearchOptions) -> Tensor:
    """Invert the cumulative distribution of the tokens, most probable first, at a number from 0 to 1.

    ``scores`` are (B, K, V) log-probabilities, ``draws`` (B, K).

    Examples
    --------
    >>> scores = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    >>> [int(draw_tokens(scores, torch.tensor([[draw]]), SearchOptions())) for draw in (0.0, 0.59, 0.61, 0.95)]
    [1, 1, 2, 0]
    >>> int(draw_tokens(scores, torch.tensor([[0.95]]), SearchOptions(top_p=0.5)))
    1
    """
    shares, order = (scores / options.temperature).softmax(2).sort(dim=2, descending=True, stable=True)
    if options.top_k is not None:
        shares[..., options.top_k :] = 0.0
        shares = shares / shares.sum(2, keepdim=True)
    before = shares.cumsum(2) - shares
    shares = shares.masked_fill(before >= options.top_p, 0.0)
    sums = shares.cumsum(2)
    rank = (sums <= draws.unsqueeze(2) * sums[..., -1:]).sum(2, keepdim=True)
    last = (shares > 0).sum(2, keepdim=True) - 1  # rounding must not select a token of probability zero
    return order.gather(2, torch.minimum(rank, last)).squeeze(2)

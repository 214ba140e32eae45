"""Beam search and sampling over anything that scores next tokens.

Letters: B sources still written for, K texts of each in the making, T tokens of each so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphattn.models.decoders.options import SearchOptions

NEVER = float("-inf")


@dataclass(frozen=True)
class Hypothesis:
    """A text that was written.

    Parameters
    ----------
    ids : its tokens, without borders
    score : its log-probability, the end's included, divided by its length to the power of the length penalty
    """

    ids: tuple[int, ...]
    score: float


class NextTokens(Protocol):
    """Scores the tokens that may come next, and keeps what it needs of those before."""

    def scores(self, tokens: Tensor) -> Tensor:
        """(B, K) tokens just written -> (B, K, V) log-probabilities of the next ones."""

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Go on with some sources, (b,) numbers among the B, and for each with (b, K) of its texts."""


@dataclass(frozen=True)
class Rules:
    """What may be written.

    Parameters
    ----------
    options : lengths, and runs that must not be repeated
    end : the token that ends a text; it stands before the first one, too
    banned : tokens that are never written
    """

    options: SearchOptions
    end: int
    banned: Sequence[int] = ()

    def applied(self, scores: Tensor, written: Tensor, limits: Tensor) -> Tensor:
        """Scores with those of forbidden tokens at minus infinity; where no token is left, the text ends.

        Parameters
        ----------
        scores : (B, K, V); changed in place
        written : (B, K, 1 + T), the border first
        limits : (B,) most tokens of each text
        """
        length, ends = written.shape[2] - 1, scores[..., self.end].clone()
        scores[..., list(self.banned)] = NEVER
        if length < self.options.min_length:
            scores[..., self.end] = NEVER
        if self.options.no_repeat_ngram is not None:
            _forbid_repetitions(scores.flatten(0, 1), written[:, :, 1:].flatten(0, 1), self.options.no_repeat_ngram)
        scores[limits <= length] = NEVER
        stuck = scores.amax(2) == NEVER
        scores[..., self.end] = torch.where(stuck, ends, scores[..., self.end])
        return scores

    def score(self, log_probability: float, length: int) -> float:
        """Of a text of so many tokens, its end not counted."""
        return log_probability / (length + 1) ** self.options.length_penalty


def _forbid_repetitions(scores: Tensor, written: Tensor, size: int) -> None:
    """Forbid the tokens that would complete a run of ``size`` a second time: (R, V), (R, T)."""
    if written.shape[1] < size:
        return
    runs = written.unfold(1, size, 1)  # (R, T - size + 1, size)
    same = (runs[..., :-1] == written[:, None, written.shape[1] - size + 1 :]).all(2)
    rows, places = same.nonzero(as_tuple=True)
    scores[rows, runs[rows, places, -1]] = NEVER


def beam_search(next_tokens: NextTokens, limits: Tensor, rules: Rules) -> list[list[Hypothesis]]:
    """The best texts that a beam finds for each source, best first.

    At each step the K likeliest continuations of all K texts are kept. One that ends, and is among the K likeliest,
    ends as a hypothesis; a source is done when it has K of them. (As in the search of the papers' toolkit, fairseq.)

    Parameters
    ----------
    next_tokens : for all sources, with K = ``options.beam`` texts each
    limits : (B,) most tokens of each text
    rules : what may be written

    Returns
    -------
    For each source at least one hypothesis
    """
    width, device = rules.options.beam, limits.device
    found: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    sources = torch.arange(len(limits), device=device)
    written = torch.full((len(limits), width, 1), rules.end, device=device)
    sums = torch.full((len(limits), width), NEVER, device=device)
    sums[:, 0] = 0.0
    while len(sources):
        scores = rules.applied(next_tokens.scores(written[:, :, -1]), written, limits)
        totals, beams, tokens = _likeliest(sums.unsqueeze(2) + scores, 2 * width)
        ends = tokens == rules.end
        _collect(found, sources, rules, totals[:, :width], beams, written, ends[:, :width])
        totals = totals.masked_fill(ends, NEVER)
        order = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
        sums, beams, tokens = (rows.gather(1, order) for rows in (totals, beams, tokens))
        counts = torch.tensor([len(found[source]) for source in sources.tolist()], device=device)
        left = ((counts < width) & (sums > NEVER).any(1)).nonzero().squeeze(1)
        beams, tokens, sums = beams[left], tokens[left], sums[left]
        sources, limits = sources[left], limits[left]
        kept = written[left].gather(1, beams.unsqueeze(2).expand(-1, -1, written.shape[2]))
        written = torch.cat([kept, tokens.unsqueeze(2)], dim=2)
        next_tokens.keep(left, beams)
    return [sorted(own, key=lambda hypothesis: -hypothesis.score)[:width] for own in found]


def _likeliest(totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` of (B, K, V), or all where there are fewer: (B, count) totals, texts and tokens."""
    size = totals.shape[2]
    best, places = totals.flatten(1).topk(min(count, totals.shape[1] * size), dim=1)
    return best, places // size, places % size


def _collect(
    found: list[list[Hypothesis]],
    sources: Tensor,
    rules: Rules,
    totals: Tensor,
    beams: Tensor,
    written: Tensor,
    ends: Tensor,
) -> None:
    """Add the texts that have ended to what was found for their sources."""
    rows, ranks = (ends & (totals > NEVER)).nonzero(as_tuple=True)
    texts = written[rows, beams[rows, ranks], 1:].tolist()
    for source, ids, total in zip(sources[rows].tolist(), texts, totals[rows, ranks].tolist(), strict=True):
        found[source].append(Hypothesis(tuple(ids), rules.score(total, len(ids))))


def sample(next_tokens: NextTokens, limits: Tensor, rules: Rules, chances: Tensor) -> list[list[Hypothesis]]:
    """K texts for each source, drawn independently of each other, likeliest first.

    Parameters
    ----------
    next_tokens : for all sources, with K texts each
    limits : (B,) most tokens of each text
    rules : what may be written, temperature and cuts
    chances : (B, K, T) a number from 0 to 1 for each token, T being at least 1 more than the greatest limit
    """
    found: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    sources = torch.arange(len(limits), device=limits.device)
    written = torch.full((*chances.shape[:2], 1), rules.end, device=limits.device)
    sums = torch.zeros(chances.shape[:2], device=limits.device)
    lengths = torch.full(chances.shape[:2], -1, device=limits.device)
    while len(sources):
        step = written.shape[2] - 1
        scores = rules.applied(next_tokens.scores(written[:, :, -1]), written, limits)
        tokens = drawn(scores, chances[sources][:, :, step], rules.options)
        running = lengths < 0
        sums = sums + scores.gather(2, tokens.unsqueeze(2)).squeeze(2).masked_fill(~running, 0.0)
        lengths = torch.where(running & (tokens == rules.end), step, lengths)
        written = torch.cat([written, tokens.unsqueeze(2)], dim=2)
        done = (lengths >= 0).all(1)
        for row in done.nonzero().squeeze(1).tolist():
            ends = zip(written[row].tolist(), lengths[row].tolist(), sums[row].tolist(), strict=True)
            found[int(sources[row])] = [
                Hypothesis(tuple(ids[1 : 1 + length]), rules.score(total, length)) for ids, length, total in ends
            ]
        left = (~done).nonzero().squeeze(1)
        sources, limits, written, sums, lengths = (rows[left] for rows in (sources, limits, written, sums, lengths))
        next_tokens.keep(left, torch.arange(chances.shape[1], device=limits.device).expand(len(left), -1))
    return [sorted(own, key=lambda hypothesis: -hypothesis.score) for own in found]


def drawn(scores: Tensor, chances: Tensor, options: SearchOptions) -> Tensor:
    """The token that a number between 0 and 1 stands for when likely tokens come first.

    Parameters
    ----------
    scores : (B, K, V) log-probabilities
    chances : (B, K)
    options : temperature, ``top_k`` and ``top_p``

    Examples
    --------
    >>> scores = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    >>> [int(drawn(scores, torch.tensor([[chance]]), SearchOptions())) for chance in (0.0, 0.59, 0.61, 0.95)]
    [1, 1, 2, 0]
    >>> int(drawn(scores, torch.tensor([[0.95]]), SearchOptions(top_p=0.5)))
    1
    """
    shares, order = (scores / options.temperature).softmax(2).sort(dim=2, descending=True, stable=True)
    if options.top_k is not None:
        shares[..., options.top_k :] = 0.0
        shares = shares / shares.sum(2, keepdim=True)
    before = shares.cumsum(2) - shares
    shares = shares.masked_fill(before >= options.top_p, 0.0)
    sums = shares.cumsum(2)
    place = (sums <= chances.unsqueeze(2) * sums[..., -1:]).sum(2, keepdim=True)
    last = (shares > 0).sum(2, keepdim=True) - 1  # rounding must not lead to a token without a share
    return order.gather(2, torch.minimum(place, last)).squeeze(2)

"""Writing by chance: each token is drawn from the model's distribution, or from its likeliest part."""

from __future__ import annotations

import torch
from torch import Tensor

from graphattn.models.decoders.options import SearchOptions
from graphattn.models.decoders.search import Hypothesis, NextTokens, Rules


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

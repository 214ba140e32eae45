"""A linear-chain conditional random field (Lafferty et al., 2001)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LinearChainCRF(nn.Module):
    """Sequence scores from the scores of each step and of each pair of neighbouring tags.

    ``emissions`` are (B, T, tags) scores; ``mask``, (B, T), is True at each word, and each sentence has at least one.
    """

    def __init__(self, num_tags: int):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """(B,) log-likelihood of (B, T) tag ids."""
        return self._sequence_scores(emissions.transpose(0, 1), tags.T, mask.T) - self.log_partition(emissions, mask)

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B,) log Z in the precision of the scores; its derivatives are the marginals."""
        return torch.logsumexp(self._prefix_scores(emissions, mask)[-1] + self.end_transitions, dim=1)

    def marginal_scores(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B, T, tags) scores whose softmax are the marginals of each step."""
        sides = zip(self._prefix_scores(emissions, mask), self._suffix_scores(emissions, mask), strict=True)
        return torch.stack([prefix + suffix for prefix, suffix in sides], 1)

    def log_probabilities(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """(B, T, 2) log-probability of each tag, alone and given the tag before it.

        The posterior is a Markov chain, so the probability of all tags of a segment is the first number of its first
        word times the second of each other word: constrained forward-backward (Culotta and McCallum, 2004).
        """

        def of_tags(scores: Tensor) -> Tensor:
            return scores.gather(2, tags.unsqueeze(2)).squeeze(2)

        prefixes = torch.stack(self._prefix_scores(emissions, mask), 1)
        suffixes = torch.stack(self._suffix_scores(emissions, mask), 1)
        alone = of_tags((prefixes + suffixes).log_softmax(2))
        suffix = of_tags(suffixes)
        steps = self.transitions[tags[:, :-1], tags[:, 1:]] + of_tags(emissions)[:, 1:]
        given_previous = torch.cat([alone[:, :1], steps + suffix[:, 1:] - suffix[:, :-1]], 1)
        return torch.stack([alone, given_previous], 2)

    def best_tags(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B, T) most likely tags of each sentence (Viterbi, 1967), padded with the last tag."""
        first, *others = emissions.unbind(1)
        transitions = self.transitions.to(emissions.dtype)
        same_tag = torch.arange(len(transitions), device=emissions.device)
        score, origins = self.start_transitions + first, []
        for emission, present in zip(others, mask[:, 1:].unsqueeze(2).unbind(1), strict=True):
            best, origin = (score.unsqueeze(2) + transitions).max(dim=1)
            score = torch.where(present, best + emission, score)
            origins.append(torch.where(present, origin, same_tag))
        tags = [(score + self.end_transitions).argmax(1, keepdim=True)]
        for origin in reversed(origins):
            tags.append(origin.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1)

    def _prefix_scores(self, emissions: Tensor, mask: Tensor) -> list[Tensor]:
        """For each step (B, tags): log-sum of the scores of all tags up to it, by its tag."""
        first, *others = emissions.unbind(1)
        transitions = self.transitions.to(emissions.dtype)
        scores = [self.start_transitions + first]
        for emission, present in zip(others, mask[:, 1:].unsqueeze(2).unbind(1), strict=True):
            score = torch.logsumexp(scores[-1].unsqueeze(2) + transitions, dim=1) + emission
            scores.append(torch.where(present, score, scores[-1]))
        return scores

    def _suffix_scores(self, emissions: Tensor, mask: Tensor) -> list[Tensor]:
        """For each step (B, tags): log-sum of the scores of all tags after it, by its tag."""
        transitions = self.transitions.to(emissions.dtype)
        scores = [self.end_transitions.to(emissions.dtype).expand_as(emissions[:, 0])]
        others = zip(emissions[:, 1:].unbind(1), mask[:, 1:].unsqueeze(2).unbind(1), strict=True)
        for emission, present in reversed(list(others)):
            score = torch.logsumexp(transitions + (emission + scores[-1]).unsqueeze(1), dim=2)
            scores.append(torch.where(present, score, scores[-1]))
        return scores[::-1]

    def _sequence_scores(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """(B,) from (T, B, tags), (T, B) and (T, B)."""
        tag_scores = emissions.gather(2, tags.unsqueeze(2)).squeeze(2) * mask
        transition_scores = self.transitions[tags[:-1], tags[1:]] * mask[1:]
        last = tags.gather(0, mask.long().sum(0, keepdim=True) - 1).squeeze(0)
        steps = tag_scores.sum(0) + transition_scores.sum(0)
        return steps + self.start_transitions[tags[0]] + self.end_transitions[last]

"""A linear-chain conditional random field (Lafferty et al., 2001)."""

from __future__ import annotations

import torch
from torch import Tensor
from torchcrf import CRF


class LinearChainCRF(CRF):
    """The CRF of pytorch-crf, but that gradients take time that grows with the sentences, not with their squares.

    Each step of pytorch-crf's own likelihood takes its scores out of those of the whole batch, and the gradient of each
    is as large as the batch; and its decoding goes through the words one by one. Parameters, their first values and
    checks are pytorch-crf's.

    Parameters
    ----------
    num_tags : number of tags
    batch_first : whether sentences come before time steps
    """

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B,) log Z, in the precision of the scores; its derivatives are the marginals.

        Parameters
        ----------
        emissions : (B, T, tags) scores
        mask : (B, T) True at each word; every sentence has one
        """
        return self._compute_normalizer(emissions.transpose(0, 1), mask.T)

    def best_tags(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B, T) the most likely tags of each sentence (Viterbi, 1967); behind its end the last one is repeated.

        Parameters
        ----------
        emissions : (B, T, tags) scores
        mask : (B, T) True at each word; every sentence has one
        """
        first, *others = emissions.unbind(1)
        transitions = self.transitions.to(emissions.dtype)
        itself = torch.arange(self.num_tags, device=emissions.device)
        score, origins = self.start_transitions + first, []
        for own, there in zip(others, mask[:, 1:].unsqueeze(2).unbind(1), strict=True):
            best, origin = (score.unsqueeze(2) + transitions).max(dim=1)
            score = torch.where(there, best + own, score)
            origins.append(torch.where(there, origin, itself))
        tags = [(score + self.end_transitions).argmax(1, keepdim=True)]
        for origin in reversed(origins):
            tags.append(origin.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1)

    def _compute_score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """(B,) from (T, B, tags), (T, B) and (T, B)."""
        of_tags = emissions.gather(2, tags.unsqueeze(2)).squeeze(2) * mask
        of_steps = self.transitions[tags[:-1], tags[1:]] * mask[1:]
        last = tags.gather(0, mask.long().sum(0, keepdim=True) - 1).squeeze(0)
        return of_tags.sum(0) + of_steps.sum(0) + self.start_transitions[tags[0]] + self.end_transitions[last]

    def _compute_normalizer(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """(B,) from (T, B, tags) and (T, B)."""
        first, *others = emissions.unbind(0)
        transitions = self.transitions.to(emissions.dtype)
        score = self.start_transitions + first
        for own, there in zip(others, mask[1:].unsqueeze(2).unbind(0), strict=True):
            score = torch.where(there, torch.logsumexp(score.unsqueeze(2) + transitions, dim=1) + own, score)
        return torch.logsumexp(score + self.end_transitions, dim=1)

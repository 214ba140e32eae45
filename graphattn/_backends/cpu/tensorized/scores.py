"""Scale functions of token2token scores (MTSA, Eq. 10, sigma_t), as exponentials and slopes on tensors.

The operator needs e^R only up to a factor for each destination, and the slope of R; both are computed in place.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SCALE_FUNCTIONS = ("identity", "sigmoid", "log-sigmoid", "tanh")
"""R = x, sigmoid(x), log(sigmoid(x)), or c tanh(x / c)."""


class ScoreRule(NamedTuple):
    """R = function(scale * q^T k); the function is one of :data:`SCALE_FUNCTIONS`, ``bound`` is c of ``tanh``."""

    scale: float
    function: str
    bound: float


class ScoredRows(NamedTuple):
    """Queries (N_dst, H, D) and keys (N_src, H, D), values and source scores (N_src, H, F)."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor

    @property
    def edge_size(self) -> int:
        """Numbers in the largest array of an edge."""
        return self.value.shape[1] * max(self.query.shape[2], self.value.shape[2])


def apply_scale_function(scores: Tensor, rule: ScoreRule) -> Tensor:
    """R, differentiable; the scores are scaled already.

    Examples
    --------
    >>> apply_scale_function(torch.tensor([0.0, 500.0]), ScoreRule(1.0, "tanh", 5.0))
    tensor([0., 5.])
    """
    if rule.function == "identity":
        return scores
    if rule.function == "tanh":
        return rule.bound * torch.tanh(scores / rule.bound)
    return scores.sigmoid() if rule.function == "sigmoid" else torch.nn.functional.logsigmoid(scores)


def scale_function_slope(scores: Tensor, rule: ScoreRule) -> Tensor | float:
    """The slope dR/dx at the scores."""
    if rule.function == "identity":
        return 1.0
    if rule.function == "tanh":
        return 1 - torch.tanh(scores / rule.bound).square()
    share = scores.sigmoid()
    return share * (1 - share) if rule.function == "sigmoid" else 1 - share


def exp_scores(scores: Tensor, hidden: Tensor | None, rule: ScoreRule) -> tuple[Tensor, Tensor | None]:
    """Exponentials e^R of rows of scaled scores (B, I, J), up to a factor for each row; overwrites the scores.

    ``hidden`` (1 or B, I, J) entries become zero. Also returns what :func:`multiply_slope` needs. A row of ``identity``
    that is all hidden is NaN.
    """
    _, function, bound = rule
    if function == "identity":
        if hidden is not None:
            scores.masked_fill_(hidden, float("-inf"))
        return torch.softmax(scores, -1), None
    inner = scores.div_(bound).tanh_() if function == "tanh" else scores.sigmoid_()
    powers = inner if function == "log-sigmoid" else torch.exp((inner - 1) * bound if function == "tanh" else inner)
    if hidden is not None:
        powers.masked_fill_(hidden, 0)
    return powers, inner


def multiply_slope(gradient: Tensor, powers: Tensor, kept: Tensor | None, function: str) -> Tensor:
    """Multiply the gradient (B, I, J) of e^R by e^R and the slope dR/dx, in place.

    ``powers`` and ``kept`` are what :func:`exp_scores` returned.
    """
    if function == "log-sigmoid":
        torch.ops.aten.sigmoid_backward.grad_input(gradient, powers, grad_input=gradient)
        return gradient
    gradient.mul_(powers)
    if kept is not None:
        backward = torch.ops.aten.tanh_backward if function == "tanh" else torch.ops.aten.sigmoid_backward
        backward.grad_input(gradient, kept, grad_input=gradient)
    return gradient

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
    """R = function(scale * q k), one of :data:`SCALE_FUNCTIONS`; ``bound`` is c of ``tanh``."""

    scale: float
    function: str
    bound: float


def apply_scale_function(scores: Tensor, function: str, bound: float) -> Tensor:
    """R, differentiably: the scale function of the scores.

    Parameters
    ----------
    scores : any shape
    function : one of :data:`SCALE_FUNCTIONS`
    bound : c of ``tanh``

    Examples
    --------
    >>> apply_scale_function(torch.tensor([0.0, 500.0]), "tanh", 5.0)
    tensor([0., 5.])
    """
    if function == "identity":
        return scores
    if function == "tanh":
        return bound * torch.tanh(scores / bound)
    return scores.sigmoid() if function == "sigmoid" else torch.nn.functional.logsigmoid(scores)


def scale_function_slope(scores: Tensor, function: str, bound: float) -> Tensor | float:
    """The slope dR/dx at the scores."""
    if function == "identity":
        return 1.0
    if function == "tanh":
        return 1 - torch.tanh(scores / bound).square()
    share = scores.sigmoid()
    return share * (1 - share) if function == "sigmoid" else 1 - share


def exp_scores(scores: Tensor, hidden: Tensor | None, function: str, bound: float) -> tuple[Tensor, Tensor | None]:
    """Exponentials e^R of rows of scores, up to a factor for each row; overwrites the scores.

    Parameters
    ----------
    scores : (B, I, J)
    hidden : (1 or B, I, J) which become zero; None for none
    function, bound : as for :func:`apply_scale_function`

    Returns
    -------
    e^R, and what :func:`multiply_slope` needs. A row of ``identity`` that is all hidden is NaN.
    """
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
    """In place: the gradient of R before its factor e^R, times that factor and the slope dR/dx.

    Parameters
    ----------
    gradient : (B, I, J)
    powers, kept : what :func:`exp_scores` returned
    function : as for :func:`apply_scale_function`
    """
    if function == "log-sigmoid":
        return torch.ops.aten.sigmoid_backward.grad_input(gradient, powers, grad_input=gradient)
    gradient.mul_(powers)
    if kept is None:
        return gradient
    backward = torch.ops.aten.tanh_backward if function == "tanh" else torch.ops.aten.sigmoid_backward
    return backward.grad_input(gradient, kept, grad_input=gradient)

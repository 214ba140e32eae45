"""Tensorized attention on a GPU: MTSA's two sums over edges are one call of the kernels for plain attention."""

from __future__ import annotations

import torch
from torch import Tensor

from graphattn._backends.cpu.tensorized.dense_blocks import MIN_DENOMINATOR
from graphattn._backends.cpu.tensorized.scores import ScoredRows, ScoreRule
from graphattn._backends.gpu.backend import WIDEST, Options, attend_planned, fits, require_gpu
from graphattn._backends.gpu.plan import plan_of, plan_relation
from graphattn._edges import Edges


def can_attend(edges: Edges, rows: ScoredRows) -> bool:
    """Whether the kernels can compute this."""
    require_gpu(rows.query)
    return fits(rows.query) and 2 * rows.value.shape[2] <= WIDEST and plan_of(edges) is not None


def attend_by_sums(edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (N_dst, H, F), and which rows (N_dst, H) need the exact computation: a denominator is too small.

    The outputs of plain attention with values ``[v e^S, e^S]`` have the same denominator, which their quotient cancels.
    """
    query, key, value, scores = rows
    layer = plan_relation(edges, query.shape[1])
    assert layer is not None
    top = scores.detach().amax(0) if len(scores) else scores.new_zeros(scores.shape[1:])
    exps = torch.exp(scores - top)
    options = Options(rule.scale, function=rule.function, bound=rule.bound)
    sums, _ = attend_planned(layer, (query, key, torch.cat([value * exps, exps], dim=2)), bias, query.shape[1], options)
    numerators, denominators = sums.chunk(2, -1)
    small = denominators < MIN_DENOMINATOR[torch.float32]
    out = torch.where(small, 0.0, numerators / torch.where(small, 1.0, denominators))
    return out, small.any(2) & (edges.indptr.diff() > 0).unsqueeze(1)

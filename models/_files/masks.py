"""Masks of padded texts that stand for the edges of relations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from graphattn._scales import Scale
from graphattn._schema import ALL
from graphattn.builders.relations import Causal, Complete, Intersection, Relation, Window


def make_masks(relations: Iterable[Relation], mask: Tensor) -> dict[str, Tensor]:
    """Relation -> (B, L, L), whether a token attends to another one; padding attends to itself, as it must to some."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    back = columns.unsqueeze(1) - columns
    lengths, tokens = mask.sum(1), mask.bool().unsqueeze(1)
    return {relation.name: (_draw(relation, back, lengths) & tokens) | (back == 0) for relation in relations}


def _draw(relation: Relation, back: Tensor, lengths: Tensor) -> Tensor:
    """(B or 1, L, L) whether a relation has an edge; ``back`` is how far the source is before the destination."""
    if isinstance(relation, Intersection):
        first, *others = (_draw(operand, back, lengths) for operand in relation.operands())
        return reduce(torch.logical_and, others, first)
    if isinstance(relation, Window):
        return back.abs() <= _reach(relation.scale, lengths, as_radius=relation.as_radius)
    if isinstance(relation, Causal):
        return (back >= 0) & (back < (relation.width or back.shape[0]))
    return torch.ones_like(back, dtype=torch.bool)


def can_draw(relation: Relation) -> bool:
    """Whether a mask of padded texts can express a relation."""
    if isinstance(relation, Intersection):
        return all(map(can_draw, relation.operands()))
    return isinstance(relation, (Window, Causal)) or (isinstance(relation, Complete) and relation.name == ALL)


def _reach(scale: Scale, lengths: Tensor, *, as_radius: bool) -> Tensor | int:
    """(B, 1, 1) tokens to each side of a window, or one number; see :meth:`Scale.widths`."""
    if scale.tokens is not None:
        return scale.tokens if as_radius else scale.tokens // 2
    assert scale.divisor is not None
    reach = torch.div(lengths, scale.divisor, rounding_mode="floor").clamp(min=1)
    widths = reach + 1 - reach % 2
    return (widths if as_radius else torch.div(widths, 2, rounding_mode="floor")).unsqueeze(1).unsqueeze(1)

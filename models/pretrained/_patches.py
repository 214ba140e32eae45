"""Attention along edges for families of ``transformers`` that have an attention of their own, with biases by distance.

Inside a context, these functions stand in for ``forward`` of the family's module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from graphattn.models.pretrained._interface import attend_edges


def attend_deberta(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, None]:
    """DeBERTa-v2 and v3: products with vectors of distances are added to the scores (He et al. 2021, Eq. 4)."""
    heads = module.num_attention_heads
    projected = [
        module.transpose_for_scores(project(states), heads)
        for project, states in (
            (module.query_proj, hidden_states if query_states is None else query_states),
            (module.key_proj, hidden_states),
            (module.value_proj, hidden_states),
        )
    ]
    terms = 1 + sum(name in module.pos_att_type for name in ("c2p", "p2c"))
    bias = None
    if module.relative_attention:
        distances = module.pos_dropout(rel_embeddings)
        bias = module.disentangled_attention_bias(*projected[:2], relative_pos, distances, terms)
        bias = bias.unflatten(0, (-1, heads))
    query, key, value = (each.unflatten(0, (-1, heads)) for each in projected)
    out, _ = attend_edges(
        module,
        query,
        key,
        value,
        attention_mask.bool(),
        scaling=(query.shape[-1] * terms) ** -0.5,
        dropout=module.dropout.p if module.training else 0.0,
        position_bias=bias,
    )
    return out.flatten(2), None


def attend_mpnet(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool = False,
    **settings: Any,
) -> tuple[Tensor, None]:
    """MPNet: a bias by distance is added to the scores."""
    query, key, value = (
        project(hidden_states).unflatten(-1, (module.num_attention_heads, -1)).transpose(1, 2)
        for project in (module.q, module.k, module.v)
    )
    dropout = module.dropout.p if module.training else 0.0
    out, _ = attend_edges(
        module, query, key, value, attention_mask, dropout=dropout, position_bias=position_bias, **settings
    )
    return module.o(out.flatten(2)), None


PATCHES: dict[tuple[str, str], Callable[..., Any]] = {
    ("deberta_v2", "DisentangledSelfAttention"): attend_deberta,
    ("mpnet", "MPNetSelfAttention"): attend_mpnet,
}
"""Family and class of a module -> what stands in for its ``forward``."""


def find_patch(module: nn.Module) -> Callable[..., Any] | None:
    """The function that stands in for a module's ``forward``, if its family has an attention of its own."""
    path = type(module).__module__.split(".")
    return PATCHES.get((path[-2], type(module).__name__)) if path[0] == "transformers" and len(path) > 1 else None

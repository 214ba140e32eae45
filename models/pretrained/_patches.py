"""Attention along edges for families of ``transformers`` that have an attention, or biases by distance, of their own.

Inside a context, these functions stand in for methods of the family's modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn._distances import DistanceBias, Distances
from graphattn.exceptions import ConfigError
from graphattn.models.pretrained._interface import (
    MaskEdges,
    OwnRows,
    Rule,
    all_edges_of,
    attend_edges,
    attend_mask,
    make_window_mask,
    read_packed_lengths,
    read_positions,
)

_WINDOWS: Any = WeakTensorKeyDictionary()
"""Mask of Longformer -> edges by the reach of a window, since layers share them."""


def mask_deberta(module: Any, attention_mask: Tensor) -> Tensor | MaskEdges:
    """The mask of all layers: a tensor of booleans, or the edges of packed texts."""
    lengths = read_packed_lengths()
    if lengths is not None:
        return all_edges_of(lengths, attention_mask.device)
    return type(module).get_attention_mask(module, attention_mask).bool()


def skip_distances(
    module: Any, hidden_states: Tensor, query_states: Tensor | None = None, relative_pos: Tensor | None = None
) -> Tensor | None:
    """No matrix of distances: layers make tables."""
    return relative_pos


def attend_deberta(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | MaskEdges,
    output_attentions: bool = False,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, None]:
    """DeBERTa-v2 and v3: products with vectors of distances are added to the scores (He et al. 2021, Eq. 4)."""
    if relative_pos is not None:
        raise ConfigError("DeBERTa gets relative_pos, which attention along edges does not know; leave it out")
    heads = module.num_attention_heads
    states = hidden_states if query_states is None else query_states
    query, key, value = (
        project(each).unflatten(-1, (heads, -1)).transpose(1, 2)
        for project, each in (
            (module.query_proj, states),
            (module.key_proj, hidden_states),
            (module.value_proj, hidden_states),
        )
    )
    terms = 1 + sum(name in module.pos_att_type for name in ("c2p", "p2c"))
    scaling = (query.shape[-1] * terms) ** -0.5
    bias = None
    if module.relative_attention:
        bias = _make_deberta_bias(module, query, key, module.pos_dropout(rel_embeddings), scaling)
    out, _ = attend_edges(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        dropout=module.dropout.p if module.training else 0.0,
        position_bias=bias,
    )
    return out.flatten(2), None


def _make_deberta_bias(module: Any, query: Tensor, key: Tensor, vectors: Tensor, scaling: float) -> DistanceBias:
    """Products of queries and keys (B, H, L, D) with projected vectors of distances (R, C), scaled."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    positions = read_positions(len(query), query.shape[2], query.device)
    farthest, span = int(positions.max()), module.pos_ebd_size
    distances = torch.arange(-farthest, farthest + 1, device=query.device)
    if module.position_buckets > 0:
        distances = make_log_bucket_position(distances, module.position_buckets, module.max_relative_positions).long()
    rows = (distances + span).clamp(0, 2 * span - 1)
    first = int(rows[0])
    vectors = vectors[first : int(rows[-1]) + 1]
    names = ("key_proj", "query_proj") if module.share_att_key else ("pos_key_proj", "pos_query_proj")
    of_queries, of_keys = (
        _multiply(states, scaling * getattr(module, name)(vectors)) if kind in module.pos_att_type else None
        for kind, name, states in zip(("c2p", "p2c"), names, (query, key), strict=True)
    )
    return DistanceBias(of_queries, of_keys, Distances(rows - first, positions, positions))


def _multiply(states: Tensor, vectors: Tensor) -> Tensor:
    """(B L, H, R) products of states (B, H, L, D) and vectors (R, H D)."""
    by_head = vectors.unflatten(1, (states.shape[1], -1)).permute(1, 2, 0)
    return torch.bmm(states.transpose(0, 1).flatten(1, 2), by_head).transpose(0, 1)


def make_mpnet_bias(module: Any, x: Tensor, position_ids: None = None, num_buckets: int = 32) -> DistanceBias:
    """MPNet: learned biases of buckets of distances, the same in all layers."""
    find_buckets = partial(module.relative_position_bucket, num_buckets=num_buckets)
    return _make_bucket_bias(module, read_positions(len(x), x.shape[1], x.device), find_buckets)


def make_t5_bias(
    module: Any, query_length: int, key_length: int, device: torch.device | None = None, past_seen_tokens: int = 0
) -> Tensor | DistanceBias:
    """T5 and mT5: learned biases of buckets of distances, the same in all layers; of padded texts as they are."""
    find_buckets = partial(
        module._relative_position_bucket,
        bidirectional=not module.is_decoder,
        num_buckets=module.relative_attention_num_buckets,
        max_distance=module.relative_attention_max_distance,
    )
    return _make_t5_bias(module, find_buckets, query_length, key_length, past_seen_tokens)


def make_umt5_bias(
    module: Any, query_length: int, key_length: int, device: torch.device | None = None, past_seen_tokens: int = 0
) -> Tensor | DistanceBias:
    """UMT5: as T5, with other biases in each layer."""
    return _make_t5_bias(module, module._relative_position_bucket, query_length, key_length, past_seen_tokens)


def _make_t5_bias(
    module: Any, find_buckets: Callable[[Tensor], Tensor], query_length: int, key_length: int, past_seen_tokens: int
) -> Tensor | DistanceBias:
    table = module.relative_attention_bias.weight
    if read_packed_lengths() is None:
        bias: Tensor = type(module).compute_bias(module, query_length, key_length, table.device, past_seen_tokens)
        return bias
    return _make_bucket_bias(module, read_positions(1, query_length, table.device), find_buckets)


def _make_bucket_bias(module: Any, positions: Tensor, find_buckets: Callable[[Tensor], Tensor]) -> DistanceBias:
    """Biases of nodes at these (N,) positions; a family's own function finds buckets of key minus query positions."""
    farthest = int(positions.max())
    rows = find_buckets(-torch.arange(-farthest, farthest + 1, device=positions.device))
    table = module.relative_attention_bias.weight.t().contiguous()
    return DistanceBias(table.expand(len(positions), -1, -1), None, Distances(rows, positions, positions))


def attend_mpnet(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | MaskEdges | None = None,
    position_bias: Tensor | DistanceBias | None = None,
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


def read_longformer(
    module: Any,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    global_attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    output_hidden_states: bool | None = None,
    return_dict: bool | None = None,
    **settings: Any,
) -> Any:
    """Longformer without padding to a multiple of its window."""
    from transformers.models.longformer.modeling_longformer import LongformerBaseModelOutputWithPooling

    states = module.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
    kinds = states.new_ones(states.shape[:2]) if attention_mask is None else attention_mask
    if global_attention_mask is not None:
        kinds = kinds * (1 + global_attention_mask)
    if output_hidden_states is None:
        output_hidden_states = module.config.output_hidden_states
    output = module.encoder(states, attention_mask=kinds - 1, output_hidden_states=output_hidden_states)
    pooled = None if module.pooler is None else module.pooler(output.last_hidden_state)
    full = LongformerBaseModelOutputWithPooling(pooler_output=pooled, **output)
    return full if return_dict is None or return_dict else full.to_tuple()


def attend_longformer(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    is_index_masked: Tensor,
    is_index_global_attn: Tensor,
    is_global_attn: bool,
    output_attentions: bool = False,
) -> tuple[Tensor]:
    """Longformer: a window and global tokens, which see all tokens through projections of their own."""
    windows = _WINDOWS.setdefault(attention_mask, {})
    reach = module.one_sided_attn_window_size
    if reach not in windows:
        windows[reach] = make_window_mask(~is_index_masked, is_index_global_attn, reach)

    def project(*modules: Any) -> tuple[Tensor, ...]:
        return tuple(each(hidden_states).unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for each in modules)

    query, key, value = project(module.query, module.key, module.value)
    own_rows = None
    if is_global_attn:
        own = project(module.query_global, module.key_global, module.value_global)
        own_rows = OwnRows(is_index_global_attn.flatten(), *own)
    rule = Rule(dropout=module.dropout if module.training else 0.0)
    out = attend_mask(module, (query, key, value), windows[reach], rule, own_rows=own_rows)
    return (out.flatten(2),)


def embed_esm(
    module: Any,
    input_ids: Tensor | None = None,
    attention_mask: Any = None,
    position_ids: Any = None,
    inputs_embeds: Tensor | None = None,
) -> Tensor:
    """ESM scales the vectors of a text by its share of masked tokens, so it embeds packed texts one by one."""
    embed, lengths = type(module).forward, read_packed_lengths()
    if lengths is None or not module.token_dropout or input_ids is None:
        return embed(module, input_ids, attention_mask, position_ids, inputs_embeds)
    vectors = module.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
    parts = (each.split(lengths.tolist(), 1) for each in (input_ids, attention_mask, position_ids, vectors))
    return torch.cat([embed(module, *text) for text in zip(*parts, strict=True)], 1)


PATCHES: Mapping[tuple[str, str], Mapping[str, Callable[..., Any]]] = {
    ("deberta_v2", "DebertaV2Encoder"): {"get_attention_mask": mask_deberta, "get_rel_pos": skip_distances},
    ("deberta_v2", "DisentangledSelfAttention"): {"forward": attend_deberta},
    ("esm", "EsmEmbeddings"): {"forward": embed_esm},
    ("longformer", "LongformerModel"): {"forward": read_longformer},
    ("longformer", "LongformerSelfAttention"): {"forward": attend_longformer},
    ("mpnet", "MPNetEncoder"): {"compute_position_bias": make_mpnet_bias},
    ("mpnet", "MPNetSelfAttention"): {"forward": attend_mpnet},
    ("mt5", "MT5Attention"): {"compute_bias": make_t5_bias},
    ("t5", "T5Attention"): {"compute_bias": make_t5_bias},
    ("umt5", "UMT5Attention"): {"compute_bias": make_umt5_bias},
}
"""Family and class of a module -> what stands in for its methods."""


def find_patches(module: nn.Module) -> Mapping[str, Callable[..., Any]]:
    """What stands in for a module's methods, if its family has an attention of its own."""
    path = type(module).__module__.split(".")
    return PATCHES.get((path[-2], type(module).__name__), {}) if path[0] == "transformers" and len(path) > 1 else {}

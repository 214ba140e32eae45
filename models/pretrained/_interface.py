"""Attention of models of ``transformers`` along edges: functions for its interfaces of masks and of attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn._attention import attend, attend_layer
from graphattn._distances import DistanceBias
from graphattn._edges import Edges
from graphattn._ragged import Ints, count_up
from graphattn._transforms import opaque
from graphattn.exceptions import ConfigError

NAME = "graphattn"
"""The value of ``attn_implementation``."""
_WITHOUT_EFFECT = frozenset(
    "cache_position cu_seq_lens_k cu_seq_lens_q cu_seqlens deterministic encoder_attention_mask encoder_hidden_states "
    "hidden_states input_ids inputs_embeds is_causal layer_idx max_length_k max_length_q num_items_in_batch "
    "output_attentions output_hidden_states output_router_logits past_key_values position_embeddings position_ids "
    "return_dict seq_idx sliding_window token_type_ids use_cache".split()
)
"""Settings whose effect is in the mask, in queries and keys, or outside of attention."""


@dataclass(frozen=True, eq=False)
class MaskEdges:
    """The pairs that a mask shows, as edges between the rows of a flattened batch.

    Of a padded batch, ``visible`` is the (B, Lq or 1, Lk) mask; of packed texts, ``packed_lengths`` are (B,). ``bias``
    are (E, 1 or heads) scores in CSC order that the mask adds. ``draw`` makes the mask of other sizes, as ``sdpa_mask``
    of ``transformers`` does; None for edges that no such function gives.
    """

    edges: Edges
    visible: Tensor | None = None
    packed_lengths: Ints | None = None
    bias: Tensor | None = None
    draw: Callable[..., Tensor] | None = None

    @cached_property
    def real(self) -> Tensor:
        """(B Lk,) whether a token is no padding: some token sees it."""
        if self.visible is None:
            return torch.ones(self.edges.num_sources, dtype=torch.bool, device=self.edges.indptr.device)
        return self.visible.any(1).flatten()

    @cached_property
    def lengths(self) -> Ints:
        """(B,) real tokens of each text."""
        if self.packed_lengths is not None:
            return self.packed_lengths
        assert self.visible is not None
        return self.visible.any(1).sum(1).cpu().numpy()

    @cached_property
    def is_causal(self) -> bool:
        """Whether no token sees a later one."""
        return not bool((self.edges.sources > self.edges.destinations).any())


class Heads(NamedTuple):
    """What the heads of a layer attend along.

    ``edges`` and ``counts`` are those of consecutive heads, between ``rows`` of the flattened batch; None for all rows.
    ``names`` are the relations' names, empty for the model's own edges.
    """

    edges: Sequence[Edges]
    counts: Sequence[int]
    rows: Tensor | None = None
    names: Sequence[str] = ()


class OwnRows(NamedTuple):
    """Projections that some tokens have of their own, to attend along the same edges (Longformer's global tokens)."""

    tokens: Tensor
    """(N,) which rows of the flattened batch these are."""
    query: Tensor
    """(B, H, L, D) of all tokens, like keys and values."""
    key: Tensor
    value: Tensor


class Watcher:
    """What sees, and may change, the edges of a model's layers while a context is open."""

    def begin_layer(self, module: nn.Module) -> None:
        """Count a call of a layer's attention."""

    def choose(self, module: nn.Module, mask: MaskEdges) -> Heads | None:
        """The edges of a layer's heads; None for those of the model."""
        return None

    @property
    def records(self) -> bool:
        """Whether it needs the weights."""
        return False

    def record(self, head: Heads, weights: Sequence[Tensor], mask: MaskEdges) -> None:
        """Take the (E, heads) weights of a layer, in the order of edge ids, for each of its relations."""


WATCHERS: WeakKeyDictionary[nn.Module, list[Watcher]] = WeakKeyDictionary()
"""Module -> the open contexts of its model, outermost first."""
_PACKED: ContextVar[Ints | None] = ContextVar("_PACKED", default=None)
_READS_MASKS: ContextVar[bool] = ContextVar("_READS_MASKS", default=True)
_READ_MASKS: Any = WeakTensorKeyDictionary()
"""Mask -> its :class:`MaskEdges`, since all layers share it."""


@contextmanager
def packed(lengths: Ints, *, reads_masks: bool = True) -> Iterator[None]:
    """Let a model read the texts of these lengths as one row, one after another, without padding.

    Where a watcher chooses the edges of all layers, nothing ``reads_masks``, which take memory by the square of a text.
    """
    tokens = _PACKED.set(lengths), _READS_MASKS.set(reads_masks)
    try:
        yield
    finally:
        _PACKED.reset(tokens[0])
        _READS_MASKS.reset(tokens[1])


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Tensor] | None = None,
    attention_mask: Tensor | None = None,
    **settings: Any,
) -> Tensor | MaskEdges:
    """The mask of a family's rule; of packed texts, their edges.

    Returns
    -------
    (B, 1, Lq, Lk) as for ``eager``, so that families with an attention of their own are right, too: zero where a token
    sees another, else the least number
    """
    from transformers.masking_utils import eager_mask, sdpa_mask

    settings |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False, "mask_function": mask_function}
    lengths = _PACKED.get()
    if lengths is None:
        return eager_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, attention_mask=attention_mask, **settings
        )
    if not _READS_MASKS.get():
        return all_edges_of(lengths, torch.device(settings.get("device", "cpu")))
    longest = int(lengths.max())
    draw: Any = partial(sdpa_mask, **settings)
    return MaskEdges(_repeat_mask(draw(1, longest, longest)[0, 0], lengths), packed_lengths=lengths, draw=draw)


def _repeat_mask(visible: Tensor, lengths: Ints) -> Edges:
    """The edges of texts of these lengths, of which each sees what the first tokens of a (L, L) mask see."""
    sizes = torch.from_numpy(lengths).to(visible.device)
    starts = torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    stops = starts + torch.repeat_interleave(sizes, sizes)
    positions = torch.arange(len(starts), device=visible.device) - starts
    counts, first, contiguous = _find_ranges(visible)
    if contiguous:
        low = torch.minimum(starts + first[positions], stops)
        high = torch.minimum(low + counts[positions], stops)
        return Edges.of_ranges(low.int(), high.int(), len(starts))
    key = visible.nonzero(as_tuple=True)[1]
    degrees = counts[positions]
    sees = torch.repeat_interleave(torch.arange(len(starts), device=visible.device), degrees)
    slots = torch.arange(len(sees), device=visible.device) - torch.repeat_interleave(
        degrees.cumsum(0) - degrees, degrees
    )
    sources = starts[sees] + key[(counts.cumsum(0) - counts)[positions][sees] + slots]
    inside = sources < stops[sees]
    return _edges_by_destination(sources[inside], sees[inside], len(starts), len(starts))


def _find_ranges(visible: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Of each row of a mask the number of visible sources and the first one; and whether all sources are contiguous."""
    counts = visible.sum(-1)
    seen = visible.to(torch.uint8)
    first, last = seen.argmax(-1), visible.shape[-1] - seen.flip(-1).argmax(-1)
    return counts, first, bool(((last - first == counts) | (counts == 0)).all())


def _edges_by_destination(sources: Tensor, destinations: Tensor, num_sources: int, num_destinations: int) -> Edges:
    """Edges whose destinations ascend."""
    degrees = torch.bincount(destinations, minlength=num_destinations)
    indptr = torch.zeros(num_destinations + 1, dtype=torch.int32, device=sources.device)
    torch.cumsum(degrees, 0, out=indptr[1:])
    return Edges(indptr, sources.int(), num_sources, checked=True)


def edges_of_mask(visible: Tensor) -> Edges:
    """Edges between the rows of a flattened batch, from a (B, Lq, Lk) mask.

    Examples
    --------
    >>> edges_of_mask(torch.tensor([[[True, False], [True, True]]])).indices.tolist()
    [0, 0, 1]
    """
    batch, queries, keys = visible.shape
    counts, first, contiguous = _find_ranges(visible)
    starts = torch.arange(batch, device=visible.device) * keys
    if contiguous:
        low = (first + starts[:, None]).flatten()
        return Edges.of_ranges(low.int(), (low + counts.flatten()).int(), batch * keys)
    text, query, key = visible.nonzero(as_tuple=True)
    return _edges_by_destination(starts[text] + key, text * queries + query, batch * keys, batch * queries)


def _read_mask(mask: Tensor | MaskEdges | None, query: Tensor, key: Tensor) -> MaskEdges:
    """The edges of a mask; of all pairs of a text's tokens if there is none."""
    batch, length, keys = len(query), query.shape[2], key.shape[2]
    lengths = _PACKED.get()
    if isinstance(mask, MaskEdges):
        return mask
    if lengths is not None:
        if mask is not None and not bool(_is_visible(mask).all()):
            raise ConfigError("it makes its own mask, and reads each text apart")
        return all_edges_of(lengths, query.device)
    if mask is None:
        visible = torch.ones(batch, length, keys, dtype=torch.bool, device=query.device)
        return MaskEdges(edges_of_mask(visible), visible)
    if mask not in _READ_MASKS:
        _READ_MASKS[mask] = _read_tensor(mask, batch, length, keys)
    return _READ_MASKS[mask]


def read_packed_lengths() -> Ints | None:
    """The lengths of the texts that the model reads as one row; None for a padded batch."""
    return _PACKED.get()


def read_positions(batch: int, length: int, device: torch.device) -> Tensor:
    """(B L,) the positions of a batch's rows in their texts."""
    lengths = _PACKED.get()
    if lengths is None:
        return torch.arange(length, device=device).repeat(batch)
    return torch.from_numpy(count_up(lengths)).long().to(device)


def all_edges_of(lengths: Ints, device: torch.device) -> MaskEdges:
    """All pairs of each packed text."""
    sizes = torch.from_numpy(lengths).int().to(device)
    stops = torch.repeat_interleave(sizes.cumsum(0).int(), sizes)
    edges = Edges.of_ranges(stops - torch.repeat_interleave(sizes, sizes), stops, len(stops))
    return MaskEdges(edges, packed_lengths=lengths, draw=partial(_draw_window, 1 << 31))


def _draw_window(reach: int, batch_size: int, q_length: int, kv_length: int, q_offset: int = 0) -> Tensor:
    """(B, 1, Lq, Lk) whether two tokens are at most ``reach`` apart."""
    queries = torch.arange(q_offset, q_offset + q_length)
    near = (torch.arange(kv_length) - queries[:, None]).abs() <= reach
    return near.expand(batch_size, 1, q_length, kv_length)


def make_window_mask(real: Tensor, is_global: Tensor, reach: int) -> MaskEdges:
    """Edges between real tokens (B, L) up to ``reach`` apart, and to and from global ones (B, L) of the same text."""
    lengths = _PACKED.get()
    batch, length = real.shape
    nodes = torch.arange(batch * length, device=real.device)
    sizes = torch.full((batch,), length) if lengths is None else torch.from_numpy(lengths)
    sizes = sizes.to(real.device)
    stops = torch.repeat_interleave(sizes.cumsum(0), sizes)
    starts = stops - torch.repeat_interleave(sizes, sizes)
    near = torch.maximum(starts, nodes - reach).int(), torch.minimum(stops, nodes + reach + 1).int()
    edges = Edges.of_ranges(*near, len(nodes))
    parts = {"visible": real[:, None]} if lengths is None else {"packed_lengths": lengths}
    if bool(real.all()) and not bool(is_global.any()):
        return MaskEdges(edges, **parts, draw=partial(_draw_window, reach))
    sources, destinations = edges.sources, edges.destinations
    if bool(is_global.any()):
        of_text = Edges.of_ranges(starts.int(), stops.int(), len(nodes))
        marked = is_global.flatten()
        far = marked[of_text.sources] | marked[of_text.destinations]
        sources = torch.cat([sources, of_text.sources[far]])
        destinations = torch.cat([destinations, of_text.destinations[far]])
    kept = real.flatten()[sources] & real.flatten()[destinations]
    pairs = (destinations * len(nodes) + sources)[kept].unique()
    return MaskEdges(_edges_by_destination(pairs % len(nodes), pairs // len(nodes), len(nodes), len(nodes)), **parts)


def _is_visible(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def _read_tensor(mask: Tensor, batch: int, length: int, keys: int) -> MaskEdges:
    """The edges of a (B or 1, heads or 1, Lq or 1, Lk) mask of booleans, or of numbers that are added to scores."""
    if mask.dim() != 4 or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise ConfigError(f"its mask is {mask.dtype} of shape {tuple(mask.shape)}; expected (batch, heads, L, L)")
    mask = mask[..., :keys].expand(batch, -1, length, keys)
    seen = _is_visible(mask)
    visible = seen.any(1)
    edges = edges_of_mask(visible)
    added = mask.new_zeros((), dtype=torch.float32) if mask.dtype == torch.bool else mask
    if bool((seen == visible[:, None]).all()) and not bool((added * seen).any()):
        return MaskEdges(edges, visible)
    return MaskEdges(edges, visible, bias=_at_edges(torch.where(seen, added, -math.inf), edges))


def _at_edges(values: Tensor, edges: Edges, rows: Tensor | None = None) -> Tensor:
    """(E, heads) values of the edges in CSC order, out of (B or 1, heads, Lq or 1, Lk).

    ``rows`` of the flattened batch are the nodes, in which Lq is Lk; all rows when None.
    """
    batch, _, queries, keys = values.shape
    sources, destinations = edges.sources, edges.destinations
    if rows is not None:
        sources, destinations = rows[sources], rows[destinations]
    text, key = sources // keys, sources % keys
    query = destinations % (keys if rows is not None else edges.num_destinations // (edges.num_sources // keys))
    by_pair = values.permute(0, 2, 3, 1)
    return by_pair[text if batch > 1 else 0, query if queries > 1 else 0, key]


@opaque
def attend_edges(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | MaskEdges | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | DistanceBias | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attention for ``AttentionInterface``: equal to that of ``eager``, along the edges that the mask shows.

    Parameters
    ----------
    module : the layer's attention
    query : (B, H, Lq, D)
    key, value : (B, H or a divisor of it, Lk, D) and (B, H or a divisor, Lk, D_v)
    attention_mask : of :func:`make_mask`, or a family's own
    scaling : factor on the dot products, 1/sqrt(D) when None
    dropout : probability with which a weight is dropped
    softcap : scores s become softcap * tanh(s / softcap)
    s_aux : (H,) score of a further token, whose value is zero (a sink)
    position_bias : (B or 1, H, Lq, Lk), or tables of the flattened batch's rows, added to the scores

    Returns
    -------
    (B, Lq, H, D_v)

    Raises
    ------
    ConfigError
        for a setting that changes attention in a way that this function does not know
    """
    unknown = sorted(name for name, setting in settings.items() if setting is not None and name not in _WITHOUT_EFFECT)
    if unknown:
        raise ConfigError(
            f"{type(module).__name__} gives its attention the setting {unknown[0]!r}, which attn_implementation="
            f"{NAME!r} does not know; use 'eager'"
        )
    mask = _read_mask(attention_mask, query, key)
    rule = Rule(scaling, dropout, softcap, s_aux)
    return attend_mask(module, (query, key, value), mask, rule, position_bias), None


class Rule(NamedTuple):
    """Settings of :func:`attend_edges`."""

    scaling: float | None = None
    dropout: float = 0.0
    softcap: float | None = None
    sinks: Tensor | None = None


@opaque
def attend_mask(
    module: nn.Module,
    projected: tuple[Tensor, Tensor, Tensor],
    mask: MaskEdges,
    rule: Rule,
    position_bias: Tensor | DistanceBias | None = None,
    own_rows: OwnRows | None = None,
) -> Tensor:
    """(B, Lq, H, D_v), as :func:`attend_edges`, along the edges of a mask, or those that a watcher chooses."""
    query, key, value = projected
    batch, heads, length = query.shape[:3]
    if heads % key.shape[1] or heads % value.shape[1]:
        shown = f"{heads} heads of queries, {key.shape[1]} of keys and {value.shape[1]} of values"
        raise ConfigError(f"{type(module).__name__} has {shown}; the first number must be a multiple of the others")
    query, key = query.to(value.dtype), key.to(value.dtype)  # autocast leaves rotated ones in float32
    key, value = (each.repeat_interleave(heads // each.shape[1], dim=1) for each in (key, value))
    rows = _flatten_batch(query, key, value)
    watchers = WATCHERS.get(module, [])
    for watcher in watchers:
        watcher.begin_layer(module)
    chosen = next(filter(None, (watcher.choose(module, mask) for watcher in reversed(watchers))), None)
    head = Heads([mask.edges], [heads]) if chosen is None else chosen
    if head.rows is not None:
        rows = tuple(each[head.rows] for each in rows)
    _check_sizes(module, head, rows)
    if mask.bias is not None and chosen is not None:
        raise ConfigError(f"{type(module).__name__} has a mask with scores of its own edges; others cannot be chosen")
    bias = None if mask.bias is None else mask.bias.expand(-1, heads)
    biases = _add_position_bias(head, position_bias, bias)
    record = any(watcher.records for watcher in watchers)
    out, weights = _attend(head, rows, rule, biases, record)
    if own_rows is not None:
        out, weights = _replace_own_rows(head, own_rows, rule, out, weights)
    if record:
        for watcher in watchers:
            watcher.record(head, weights, mask)
    if head.rows is not None:
        out = out.new_zeros(batch * length, *out.shape[1:]).index_copy(0, head.rows, out)
    return out.view(batch, length, heads, -1)


def _check_sizes(module: nn.Module, head: Heads, rows: Sequence[Tensor]) -> None:
    """Reject edges and heads of other sizes than queries and keys, which kernels do not check."""
    expected = len(rows[1]), len(rows[0]), rows[0].shape[1]
    for edges in head.edges:
        found = edges.num_sources, edges.num_destinations, sum(head.counts)
        if found != expected:
            shown = "edges from {} to {} tokens for {} heads".format(*found)
            raise ConfigError(
                f"{type(module).__name__} got {shown}; expected {expected[0]}, {expected[1]} and {expected[2]}"
            )


def _flatten_batch(*projected: Tensor) -> tuple[Tensor, ...]:
    """(B L, H, D) of each (B, H, L, D)."""
    return tuple(each.transpose(1, 2).flatten(0, 1) for each in projected)


def _replace_own_rows(
    head: Heads, own_rows: OwnRows, rule: Rule, out: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Sequence[Tensor]]:
    """Outputs and weights in which those of tokens with their own projections are replaced."""
    tokens, *projected = own_rows.tokens, *_flatten_batch(*own_rows[1:])
    if head.rows is not None:
        tokens, *projected = (each[head.rows] for each in (tokens, *projected))
    keeps = [tokens[edges.destinations] for edges in head.edges]
    kept = [
        _edges_by_destination(edges.sources[keep], edges.destinations[keep], edges.num_sources, len(tokens))
        for edges, keep in zip(head.edges, keeps, strict=True)
    ]
    own_out, own_weights = _attend(head._replace(edges=kept), tuple(projected), rule, [None] * len(kept), bool(weights))
    out = torch.where(tokens[:, None, None], own_out, out)
    by_slot = [edges.by_slot(each) for edges, each in zip(head.edges, weights, strict=False)]
    replaced = [
        edges.by_id(each.masked_scatter(keep[:, None], own))
        for edges, each, keep, own in zip(head.edges, by_slot, keeps, own_weights, strict=False)
    ]
    return out, replaced


def _add_position_bias(
    head: Heads, position_bias: Tensor | DistanceBias | None, bias: Tensor | None
) -> list[Tensor | DistanceBias | None]:
    """Biases of each relation: tables, or (E, heads) in CSC order, out of those of positions and of the mask."""
    if position_bias is None:
        return [bias] * len(head.edges)
    stops = list(accumulate(head.counts))
    of_heads = [slice(stop - count, stop) for stop, count in zip(stops, head.counts, strict=True)]
    if isinstance(position_bias, DistanceBias):
        by_node = position_bias if head.rows is None else position_bias.select_nodes(head.rows)
        tables = [by_node.map(itemgetter((slice(None), heads))) for heads in of_heads]
        if bias is None:
            return list(tables)
        added = [each.of_edges(edges) for each, edges in zip(tables, head.edges, strict=True)]
    else:
        by_head = position_bias.expand(-1, stops[-1], -1, -1)
        added = [
            _at_edges(by_head[:, heads], edges, head.rows) for heads, edges in zip(of_heads, head.edges, strict=True)
        ]
    return [each if bias is None else each + bias for each in added]


def _attend(
    head: Heads,
    rows: tuple[Tensor, ...],
    rule: Rule,
    biases: Sequence[Tensor | DistanceBias | None],
    return_weights: bool,
) -> tuple[Tensor, Sequence[Tensor]]:
    """(N_dst, H, D_v) outputs and, on request, the weights of each relation; ``biases`` are in CSC order."""
    query, key, value = rows
    scaling, dropout, softcap, sinks = rule
    if softcap is None and sinks is None:
        by_id = [
            edges.by_id(bias) if isinstance(bias, Tensor) else bias
            for edges, bias in zip(head.edges, biases, strict=True)
        ]
        out, weights = attend_layer(
            head.edges,
            head.counts,
            (query, key, value),
            scale=scaling,
            biases=None if all(each is None for each in by_id) else by_id,
            dropout=dropout,
            return_weights=return_weights,
        )
        return out, weights or []
    outputs, by_relation, first = [], [], 0
    scale = 1 / math.sqrt(query.shape[2]) if scaling is None else scaling
    for edges, count, bias in zip(head.edges, head.counts, biases, strict=True):
        heads = slice(first, first + count)
        first += count
        scores = _score_edges(edges, query[:, heads], key[:, heads]) * scale
        scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
        bias = bias.of_edges(edges) if isinstance(bias, DistanceBias) else bias
        scores = scores if bias is None else scores + bias
        values = value[:, heads]
        slots = None
        if sinks is not None:
            edges, slots = _add_sink(edges)
            sink = sinks[heads].to(scores.dtype).expand(edges.num_edges, -1)
            scores = sink.index_copy(0, slots, scores)
            values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
        no_query = query.new_zeros(edges.num_destinations, count, 1)
        no_key = query.new_zeros(edges.num_sources, count, 1)
        out, of_heads = attend(
            edges,
            no_query,
            no_key,
            values,
            scale=1.0,
            bias=edges.by_id(scores),
            dropout=dropout,
            return_weights=True,
        )
        outputs.append(out)
        by_relation.append(of_heads if slots is None else of_heads[slots])
    return torch.cat(outputs, 1), by_relation


def _score_edges(edges: Edges, query: Tensor, key: Tensor) -> Tensor:
    """(E, H) products of the ends of edges in CSC order, head by head, so that copies stay small."""
    by_head = [
        (query[:, head][edges.destinations] * key[:, head][edges.sources]).sum(-1) for head in range(query.shape[1])
    ]
    return torch.stack(by_head, 1)


def _add_sink(edges: Edges) -> tuple[Edges, Tensor]:
    """Edges from one further source to all destinations, last of each; and the (E,) new slots of the others."""
    slots = torch.arange(edges.num_edges, device=edges.indptr.device) + edges.destinations
    shifts = torch.arange(edges.num_destinations + 1, device=edges.indptr.device, dtype=edges.indptr.dtype)
    sources = edges.indices.new_full((edges.num_edges + edges.num_destinations,), edges.num_sources)
    sources[slots] = edges.indices
    return Edges(edges.indptr + shifts, sources, edges.num_sources + 1, checked=True), slots


def register() -> None:
    """Make ``attn_implementation="graphattn"`` known to ``transformers``."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend_edges)
    AttentionMaskInterface.register(NAME, make_mask)

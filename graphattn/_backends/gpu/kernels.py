"""Triton kernels: attention as in FlashAttention, in tiles of a block of nodes and some nodes that they see.

The backward pass recomputes weights from the logarithm of each softmax's sum. No kernel uses atomics: each number is
summed by one program, in one order, so results repeat bit for bit.

A program computes a block of nodes for one head. In :func:`forward` and :func:`backward_query` the block are
destinations and the tiles keys; in :func:`backward_key` the block are keys and the tiles their destinations. Which
nodes see each other comes from ``PLAN``, see :mod:`~graphattn._backends.gpu.plan`: with ``IS_RANGE``, tiles are
consecutive nodes and each node of the block sees a range of them; otherwise tiles are gathered nodes, and each node has
32 bits for each tile.

Scores are in base 2 (times log2 e), because a GPU has an instruction for ``exp2``.

Capital letters are pointers and constants.
"""

from typing import Any, NamedTuple

# Triton reads annotations when it compiles: constants must be objects, not strings.
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
HIDDEN = tl.constexpr(-1e30)
"""Score of a pair without an edge; with a bias of -inf an edge is hidden, too."""
NO_EDGES = tl.constexpr(1e30)
"""Logarithm of the sum of a node that sees nothing: with it all weights are zero."""
BLOCK = tl.constexpr(64)
"""Nodes of a block of gathered tiles; programs may compute fewer."""
WORD = tl.constexpr(32)
"""Nodes of a gathered tile, a bit of a word each."""


class Inputs(NamedTuple):
    """What all kernels read; the annotation is that of a tensor or, for compilation, of Triton's types."""

    query: Any  # (N_dst, P, D)
    key: Any  # (N_src, P, D)
    value: Any  # (N_src, P, F)
    bias: Any  # (E, H), or any pointer without a bias
    plan: Any  # of all relations of the launch
    # (heads of the launch, 6) int64: number of the head among all H; its rows of queries, keys and values among the P
    # of a node; where its relation's plan begins, by destination and by source
    heads: Any
    seeds: Any  # (H,) int32, of dropout
    num_dst: Any
    num_src: Any
    query_strides: Any  # from a node to the next, and from a head to the next
    key_strides: Any
    value_strides: Any
    scale: Any
    bound: Any  # c of tanh
    limit: Any  # bits below it drop a weight
    gain: Any  # factor of the weights that are kept


class Saved(NamedTuple):
    """What the backward kernels read besides."""

    grad_out: Any  # (N_dst, H, F)
    lse: Any  # (H, N_dst) logarithm in base 2 of each softmax's sum
    delta: Any  # (H, N_dst) gradient times output, summed
    grad_weights: Any  # (E, H), or any pointer


@triton.jit
def _mix(bits):
    """MurmurHash3's finalizer."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def _keep_edges(numbers, seed, limit):
    """Which edges dropout keeps, by their numbers: the same bits as backend ``fused`` draws from a seed."""
    bits = numbers.to(tl.uint32) * 0x9E3779B9 ^ seed.to(tl.uint32)
    return _mix(_mix(bits)) >= limit.to(tl.uint32)


@triton.jit
def _count_bits(words):
    words = words.to(tl.uint32)
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    return ((((words + (words >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24).to(tl.int32)


@triton.jit
def _point_to(POINTER, place, nodes, strides, PADDED: tl.constexpr, ALIGN: tl.constexpr):
    """Pointers (nodes, PADDED) to one row of each node."""
    # strides are multiples of ALIGN already; the division tells Triton, which then copies ALIGN numbers at once
    starts = nodes.to(tl.int64) * (strides[0] // ALIGN * ALIGN) + place * (strides[1] // ALIGN * ALIGN)
    return POINTER + starts[:, None] + tl.arange(0, PADDED)[None, :]


@triton.jit
def _load_rows(
    POINTER, place, nodes, count, strides, WIDTH: tl.constexpr, PADDED: tl.constexpr, ALIGN: tl.constexpr
):  # fmt: skip
    """One row of each node, with zeros beyond its width."""
    mask = (nodes < count)[:, None] & (tl.arange(0, PADDED) < WIDTH)[None, :]
    return tl.load(_point_to(POINTER, place, nodes, strides, PADDED, ALIGN), mask=mask, other=0.0)


@triton.jit
def _store_rows(
    POINTER, rows, place, nodes, count, strides, WIDTH: tl.constexpr, PADDED: tl.constexpr, ALIGN: tl.constexpr
):  # fmt: skip
    mask = (nodes < count)[:, None] & (tl.arange(0, PADDED) < WIDTH)[None, :]
    pointers = _point_to(POINTER, place, nodes, strides, PADDED, ALIGN)
    tl.store(pointers, rows.to(POINTER.dtype.element_ty), mask=mask)


@triton.jit
def _find_tiles(PLAN, nodes, count, SIZE: tl.constexpr, TILE: tl.constexpr, IS_RANGE: tl.constexpr):
    """First tile of a block, the one after the last, and the range of each node."""
    if IS_RANGE:
        low = tl.load(PLAN + nodes, mask=nodes < count, other=0x7FFFFFFF)
        high = tl.load(PLAN + count + nodes, mask=nodes < count, other=0)
        return tl.min(low, 0) // TILE * TILE, tl.max(high, 0), low, high
    block = tl.program_id(0) * SIZE // BLOCK
    return tl.load(PLAN + block), tl.load(PLAN + block + 1), nodes, nodes


@triton.jit
def _see_tile(PLAN, tile, nodes, count, low, high, TILE: tl.constexpr, IS_RANGE: tl.constexpr):
    """Nodes of a tile, which of them each node of the block sees, and the same as bits."""
    column = tl.arange(0, TILE)
    if IS_RANGE:
        others = tile + column
        sees = (others[None, :] >= low[:, None]) & (others[None, :] < high[:, None])
        return others, sees, low
    # after the pointers and the number of earlier edges of each node, as plan.py writes them
    COLUMNS = PLAN + tl.cdiv(count, BLOCK) + 1 + count
    BITS = COLUMNS + WORD * tl.load(PLAN + tl.cdiv(count, BLOCK))
    bits = tl.load(BITS + tile * BLOCK + nodes % BLOCK)
    return tl.load(COLUMNS + tile * WORD + column), ((bits[:, None] >> column[None, :]) & 1) > 0, bits


@triton.jit
def _first_edges(PLAN, nodes, count, IS_RANGE: tl.constexpr):
    """What :func:`_number_edges` adds to: the number of an edge minus its key, or the edges of earlier nodes."""
    if IS_RANGE:
        return tl.load(PLAN + 2 * count + nodes, mask=nodes < count, other=0)
    return tl.load(PLAN + tl.cdiv(count, BLOCK) + 1 + nodes, mask=nodes < count, other=0)


@triton.jit
def _number_edges(PLAN, first, bits, others, sees, count, TILE: tl.constexpr, IS_RANGE: tl.constexpr):
    """Number of each edge of a tile in its relation, modulo 2^32."""
    if IS_RANGE:
        return first[:, None] + others[None, :]
    blocks = tl.cdiv(count, BLOCK)
    SLOTS = PLAN + blocks + 1 + count + (WORD + BLOCK) * tl.load(PLAN + blocks)
    before = (1 << tl.arange(0, TILE)) - 1
    return tl.load(SLOTS + first[:, None] + _count_bits(bits[:, None] & before[None, :]), mask=sees, other=0)


@triton.jit
def _apply_function(products, bound, FUNCTION: tl.constexpr):
    """The scale function of tensorized attention (MTSA, Eq. 10)."""
    if FUNCTION == "tanh":
        return bound * (2 * tl.sigmoid(2 * products / bound) - 1)
    elif FUNCTION == "sigmoid":
        return tl.sigmoid(products)
    elif FUNCTION == "log-sigmoid":
        return tl.minimum(products, 0.0) - tl.log(1 + tl.exp(-tl.abs(products)))
    else:
        return products


@triton.jit
def _multiply_slope(slopes, products, bound, FUNCTION: tl.constexpr):
    """Gradients of scores to gradients of products."""
    if FUNCTION == "tanh":
        inner = 2 * tl.sigmoid(2 * products / bound) - 1
        return slopes * (1 - inner * inner)
    elif FUNCTION == "sigmoid":
        share = tl.sigmoid(products)
        return slopes * share * (1 - share)
    elif FUNCTION == "log-sigmoid":
        return slopes * tl.sigmoid(-products)
    else:
        return slopes


@triton.jit
def _score(
    inputs, products, edges, sees, head,
    HEADS: tl.constexpr, HAS_BIAS: tl.constexpr, FUNCTION: tl.constexpr,
):  # fmt: skip
    """Scores of scaled products in base 2, and which pairs have an edge that no bias hides."""
    scores = _apply_function(products, inputs.bound, FUNCTION) * LOG2_E
    if HAS_BIAS:
        bias = tl.load(inputs.bias + edges.to(tl.int64) * HEADS + head, mask=sees, other=0.0)
        scores += bias.to(tl.float32) * LOG2_E
        sees = sees & (scores > 0.1 * HIDDEN)
    return scores, sees


@triton.jit
def forward(
    inputs, OUT, LSE,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, HEADS: tl.constexpr,
    IS_RANGE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, FUNCTION: tl.constexpr,
    PRECISION: tl.constexpr, ALIGN: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Outputs (N_dst, H, F) and the logarithms LSE (H, N_dst) of a block of SIZE destinations: online softmax."""
    HEAD = inputs.heads + tl.program_id(1) * 6
    head, num_dst, num_src = tl.load(HEAD), inputs.num_dst, inputs.num_src
    nodes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    query_place, key_place, value_place = tl.load(HEAD + 1), tl.load(HEAD + 2), tl.load(HEAD + 3)
    query = _load_rows(inputs.query, query_place, nodes, num_dst, inputs.query_strides, D, D_PAD, ALIGN)
    PLAN = inputs.plan + tl.load(HEAD + 4)
    begin, end, low, high = _find_tiles(PLAN, nodes, num_dst, SIZE, TILE, IS_RANGE)
    first = _first_edges(PLAN, nodes, num_dst, IS_RANGE)
    seed = tl.load(inputs.seeds + head)
    total = tl.zeros((SIZE, F_PAD), tl.float32)
    top = tl.full((SIZE,), HIDDEN, tl.float32)
    weight_sum = tl.zeros((SIZE,), tl.float32)
    for tile in range(begin, end, TILE if IS_RANGE else 1):
        keys, sees, bits = _see_tile(PLAN, tile, nodes, num_dst, low, high, TILE, IS_RANGE)
        edges = bits
        if HAS_BIAS or HAS_DROPOUT:
            edges = _number_edges(PLAN, first, bits, keys, sees, num_dst, TILE, IS_RANGE)
        key = _load_rows(inputs.key, key_place, keys, num_src, inputs.key_strides, D, D_PAD, ALIGN)
        value = _load_rows(inputs.value, value_place, keys, num_src, inputs.value_strides, F, F_PAD, ALIGN)
        products = tl.dot(query, tl.trans(key), input_precision=PRECISION) * inputs.scale
        scores, sees = _score(inputs, products, edges, sees, head, HEADS, HAS_BIAS, FUNCTION)
        scores = tl.where(sees, scores, HIDDEN)
        new_top = tl.maximum(top, tl.max(scores, 1))
        # not by scores alone: if a node has seen nothing yet, its top is HIDDEN, too
        weights = tl.where(sees, tl.exp2(scores - new_top[:, None]), 0.0)
        shrink = tl.exp2(top - new_top)
        weight_sum = weight_sum * shrink + tl.sum(weights, 1)
        if HAS_DROPOUT:
            weights = tl.where(_keep_edges(edges, seed, inputs.limit), weights * inputs.gain, 0.0)
        total = tl.dot(weights.to(value.dtype), value, total * shrink[:, None], input_precision=PRECISION)
        top = new_top
        if not IS_RANGE:
            first += _count_bits(bits)
    exists = weight_sum > 0
    weight_sum = tl.where(exists, weight_sum, 1.0)
    _store_rows(OUT, total / weight_sum[:, None], head, nodes, num_dst, (HEADS * F, F), F, F_PAD, ALIGN)
    lse = tl.where(exists, top + tl.log2(weight_sum), NO_EDGES)
    tl.store(LSE + head * num_dst + nodes, lse, mask=nodes < num_dst)


@triton.jit
def edge_weights(
    inputs, LSE, WEIGHTS,
    D: tl.constexpr, D_PAD: tl.constexpr, HEADS: tl.constexpr, IS_RANGE: tl.constexpr, HAS_BIAS: tl.constexpr,
    FUNCTION: tl.constexpr, PRECISION: tl.constexpr, ALIGN: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Weights (E, H) of the edges of a block of destinations, before dropout."""
    HEAD = inputs.heads + tl.program_id(1) * 6
    head, num_dst, num_src = tl.load(HEAD), inputs.num_dst, inputs.num_src
    nodes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    query_place, key_place = tl.load(HEAD + 1), tl.load(HEAD + 2)
    query = _load_rows(inputs.query, query_place, nodes, num_dst, inputs.query_strides, D, D_PAD, ALIGN)
    PLAN = inputs.plan + tl.load(HEAD + 4)
    begin, end, low, high = _find_tiles(PLAN, nodes, num_dst, SIZE, TILE, IS_RANGE)
    first = _first_edges(PLAN, nodes, num_dst, IS_RANGE)
    lse = tl.load(LSE + head * num_dst + nodes, mask=nodes < num_dst, other=NO_EDGES)
    for tile in range(begin, end, TILE if IS_RANGE else 1):
        keys, has_edge, bits = _see_tile(PLAN, tile, nodes, num_dst, low, high, TILE, IS_RANGE)
        edges = _number_edges(PLAN, first, bits, keys, has_edge, num_dst, TILE, IS_RANGE)
        key = _load_rows(inputs.key, key_place, keys, num_src, inputs.key_strides, D, D_PAD, ALIGN)
        products = tl.dot(query, tl.trans(key), input_precision=PRECISION) * inputs.scale
        scores, sees = _score(inputs, products, edges, has_edge, head, HEADS, HAS_BIAS, FUNCTION)
        weights = tl.where(sees, tl.exp2(scores - lse[:, None]), 0.0)
        pointers = WEIGHTS + edges.to(tl.int64) * HEADS + head
        tl.store(pointers, weights.to(WEIGHTS.dtype.element_ty), mask=has_edge)
        if not IS_RANGE:
            first += _count_bits(bits)


@triton.jit
def backward_query(
    inputs, saved, GRAD_QUERY, query_strides, GRAD_BIAS,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, HEADS: tl.constexpr,
    IS_RANGE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    FUNCTION: tl.constexpr, PRECISION: tl.constexpr, ALIGN: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Gradients of the queries of a block of destinations, and of biases (E, H)."""
    HEAD = inputs.heads + tl.program_id(1) * 6
    head, num_dst, num_src = tl.load(HEAD), inputs.num_dst, inputs.num_src
    nodes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    query_place, key_place, value_place = tl.load(HEAD + 1), tl.load(HEAD + 2), tl.load(HEAD + 3)
    query = _load_rows(inputs.query, query_place, nodes, num_dst, inputs.query_strides, D, D_PAD, ALIGN)
    upstream = _load_rows(saved.grad_out, head, nodes, num_dst, (HEADS * F, F), F, F_PAD, ALIGN)
    PLAN = inputs.plan + tl.load(HEAD + 4)
    begin, end, low, high = _find_tiles(PLAN, nodes, num_dst, SIZE, TILE, IS_RANGE)
    first = _first_edges(PLAN, nodes, num_dst, IS_RANGE)
    seed = tl.load(inputs.seeds + head)
    lse = tl.load(saved.lse + head * num_dst + nodes, mask=nodes < num_dst, other=NO_EDGES)
    delta = tl.load(saved.delta + head * num_dst + nodes, mask=nodes < num_dst, other=0.0)
    total = tl.zeros((SIZE, D_PAD), tl.float32)
    for tile in range(begin, end, TILE if IS_RANGE else 1):
        keys, has_edge, bits = _see_tile(PLAN, tile, nodes, num_dst, low, high, TILE, IS_RANGE)
        edges = bits
        if HAS_BIAS or HAS_DROPOUT or HAS_WEIGHTS:
            edges = _number_edges(PLAN, first, bits, keys, has_edge, num_dst, TILE, IS_RANGE)
        key = _load_rows(inputs.key, key_place, keys, num_src, inputs.key_strides, D, D_PAD, ALIGN)
        value = _load_rows(inputs.value, value_place, keys, num_src, inputs.value_strides, F, F_PAD, ALIGN)
        products = tl.dot(query, tl.trans(key), input_precision=PRECISION) * inputs.scale
        scores, sees = _score(inputs, products, edges, has_edge, head, HEADS, HAS_BIAS, FUNCTION)
        weights = tl.where(sees, tl.exp2(scores - lse[:, None]), 0.0)
        slopes = tl.dot(upstream, tl.trans(value), input_precision=PRECISION)
        if HAS_DROPOUT:
            slopes = tl.where(_keep_edges(edges, seed, inputs.limit), slopes * inputs.gain, 0.0)
        if HAS_WEIGHTS:
            pointers = saved.grad_weights + edges.to(tl.int64) * HEADS + head
            slopes += tl.load(pointers, mask=sees, other=0.0).to(tl.float32)
        slopes = weights * (slopes - delta[:, None])
        if HAS_BIAS:
            pointers = GRAD_BIAS + edges.to(tl.int64) * HEADS + head
            tl.store(pointers, slopes.to(GRAD_BIAS.dtype.element_ty), mask=has_edge)
        slopes = _multiply_slope(slopes, products, inputs.bound, FUNCTION)
        total = tl.dot(slopes.to(key.dtype), key, total, input_precision=PRECISION)
        if not IS_RANGE:
            first += _count_bits(bits)
    total *= inputs.scale
    _store_rows(GRAD_QUERY, total, query_place, nodes, num_dst, query_strides, D, D_PAD, ALIGN)


@triton.jit
def backward_key(
    inputs, saved, GRAD_KEY, key_strides, GRAD_VALUE, value_strides,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, HEADS: tl.constexpr,
    IS_RANGE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    FUNCTION: tl.constexpr, PRECISION: tl.constexpr, ALIGN: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Gradients of the keys and values of a block of sources, by tiles of their destinations."""
    HEAD = inputs.heads + tl.program_id(1) * 6
    head, num_dst, num_src = tl.load(HEAD), inputs.num_dst, inputs.num_src
    nodes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    query_place, key_place, value_place = tl.load(HEAD + 1), tl.load(HEAD + 2), tl.load(HEAD + 3)
    key = _load_rows(inputs.key, key_place, nodes, num_src, inputs.key_strides, D, D_PAD, ALIGN)
    value = _load_rows(inputs.value, value_place, nodes, num_src, inputs.value_strides, F, F_PAD, ALIGN)
    PLAN = inputs.plan + tl.load(HEAD + 5)
    begin, end, low, high = _find_tiles(PLAN, nodes, num_src, SIZE, TILE, IS_RANGE)
    first = nodes
    if not IS_RANGE:
        first = _first_edges(PLAN, nodes, num_src, IS_RANGE)
    seed = tl.load(inputs.seeds + head)
    key_total, value_total = tl.zeros((SIZE, D_PAD), tl.float32), tl.zeros((SIZE, F_PAD), tl.float32)
    for tile in range(begin, end, TILE if IS_RANGE else 1):
        rows, sees, bits = _see_tile(PLAN, tile, nodes, num_src, low, high, TILE, IS_RANGE)
        edges = bits
        if HAS_BIAS or HAS_DROPOUT or HAS_WEIGHTS:
            if IS_RANGE:  # the number of an edge minus its key is known by destination
                shifts = _first_edges(inputs.plan + tl.load(HEAD + 4), rows, num_dst, IS_RANGE)
                edges = nodes[:, None] + shifts[None, :]
            else:
                edges = _number_edges(PLAN, first, bits, rows, sees, num_src, TILE, IS_RANGE)
        query = _load_rows(inputs.query, query_place, rows, num_dst, inputs.query_strides, D, D_PAD, ALIGN)
        upstream = _load_rows(saved.grad_out, head, rows, num_dst, (HEADS * F, F), F, F_PAD, ALIGN)
        lse = tl.load(saved.lse + head * num_dst + rows, mask=rows < num_dst, other=NO_EDGES)
        delta = tl.load(saved.delta + head * num_dst + rows, mask=rows < num_dst, other=0.0)
        products = tl.dot(key, tl.trans(query), input_precision=PRECISION) * inputs.scale
        scores, sees = _score(inputs, products, edges, sees, head, HEADS, HAS_BIAS, FUNCTION)
        weights = tl.where(sees, tl.exp2(scores - lse[None, :]), 0.0)
        slopes = tl.dot(value, tl.trans(upstream), input_precision=PRECISION)
        applied = weights
        if HAS_DROPOUT:
            kept = _keep_edges(edges, seed, inputs.limit)
            slopes = tl.where(kept, slopes * inputs.gain, 0.0)
            applied = tl.where(kept, weights * inputs.gain, 0.0)
        if HAS_WEIGHTS:
            pointers = saved.grad_weights + edges.to(tl.int64) * HEADS + head
            slopes += tl.load(pointers, mask=sees, other=0.0).to(tl.float32)
        value_total = tl.dot(applied.to(upstream.dtype), upstream, value_total, input_precision=PRECISION)
        slopes = _multiply_slope(weights * (slopes - delta[None, :]), products, inputs.bound, FUNCTION)
        key_total = tl.dot(slopes.to(query.dtype), query, key_total, input_precision=PRECISION)
        if not IS_RANGE:
            first += _count_bits(bits)
    key_total *= inputs.scale
    _store_rows(GRAD_KEY, key_total, key_place, nodes, num_src, key_strides, D, D_PAD, ALIGN)
    _store_rows(GRAD_VALUE, value_total, value_place, nodes, num_src, value_strides, F, F_PAD, ALIGN)

"""Triton kernels: attention over ranges of keys, and over any edges; both recompute weights in the backward pass.

Scores are in base 2 (times log2 e), so that ``exp2`` is one instruction; ``LSE`` is the logarithm of the sum of each
softmax, 1e30 for a node without edges, for which all weights are then 0. No kernel uses atomics: each gradient is
summed by one program, so results repeat bit for bit.

Capital letters are pointers. A program computes a block of nodes for one head; ``HEADS`` are (heads of the launch, 5):
the head of the output, the relation, and the places of query, key and value among the P rows of a node.
"""

# Triton reads annotations when it compiles: constants must be objects, not strings.
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _mix(bits):
    """MurmurHash3's finalizer."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def keep_edges(numbers, seed, limit):
    """Which edges dropout keeps, by their numbers: the same bits as backend ``fused`` draws from a seed."""
    bits = numbers.to(tl.uint32) * 0x9E3779B9 ^ seed.to(tl.uint32)
    return _mix(_mix(bits)) >= limit.to(tl.uint32)


@triton.jit
def range_forward(
    Q, K, V, OUT, LSE, BIAS, HEADS, LOW, HIGH, FIRST, SEEDS,
    num_dst, num_src, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs (N_dst, H, F) and LSE (H, N_dst) of a block of ``ROWS`` destinations, by tiles of ``KEYS`` keys."""
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < num_dst
    at = relation.to(tl.int64) * num_dst + rows
    low, high = tl.load(LOW + at, mask=is_row, other=num_src), tl.load(HIGH + at, mask=is_row, other=0)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    queries = Q + rows.to(tl.int64)[:, None] * q_node + tl.load(entry + 2) * q_head + d[None, :]
    query = tl.load(queries, mask=is_row[:, None] & (d < D)[None, :], other=0.0)
    K += tl.load(entry + 3) * k_head
    V += tl.load(entry + 4) * v_head
    first = tl.zeros((ROWS,), tl.int64)
    if HAS_BIAS or HAS_DROPOUT:
        first = tl.load(FIRST + at, mask=is_row, other=0) - low  # number of an edge minus its key
    seed = tl.load(SEEDS + head)
    total = tl.zeros((ROWS, F_PAD), tl.float32)
    top = tl.full((ROWS,), -1e30, tl.float32)
    weight_sum = tl.zeros((ROWS,), tl.float32)
    for start in range(tl.min(low, 0) // KEYS * KEYS, tl.max(high, 0), KEYS):
        keys = start + tl.arange(0, KEYS)
        is_key = keys < num_src
        key = tl.load(
            K + keys.to(tl.int64)[None, :] * k_node + d[:, None], mask=is_key[None, :] & (d < D)[:, None], other=0.0
        )
        value = tl.load(
            V + keys.to(tl.int64)[:, None] * v_node + f[None, :], mask=is_key[:, None] & (f < F)[None, :], other=0.0
        )
        scores = tl.dot(query, key, input_precision=PRECISION) * scale
        sees = (keys[None, :] >= low[:, None]) & (keys[None, :] < high[:, None])
        edges = first[:, None] + keys[None, :]
        if HAS_BIAS:
            biases = tl.load(BIAS + edges * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        sees = sees & (scores > -1e29)
        new_top = tl.maximum(top, tl.max(tl.where(sees, scores, -1e30), 1))
        weights = tl.where(sees, tl.exp2(scores - new_top[:, None]), 0.0)
        shrink = tl.exp2(top - new_top)
        weight_sum = weight_sum * shrink + tl.sum(weights, 1)
        if HAS_DROPOUT:
            weights = tl.where(keep_edges(edges, seed, limit), weights * gain, 0.0)
        total = tl.dot(weights.to(value.dtype), value, total * shrink[:, None], input_precision=PRECISION)
        top = new_top
    exists = weight_sum > 0
    total = total / tl.where(exists, weight_sum, 1.0)[:, None]
    outputs = OUT + (rows.to(tl.int64)[:, None] * TOTAL_HEADS + head) * F + f[None, :]
    tl.store(outputs, total.to(OUT.dtype.element_ty), mask=is_row[:, None] & (f < F)[None, :])
    lse = tl.where(exists, top + tl.log2(tl.where(exists, weight_sum, 1.0)), 1e30)
    tl.store(LSE + head.to(tl.int64) * num_dst + rows, lse, mask=is_row)


@triton.jit
def range_backward_query(
    Q, K, V, GRAD_OUT, GRAD_Q, GRAD_BIAS, LSE, DELTA, BIAS, HEADS, LOW, HIGH, FIRST, SEEDS,
    num_dst, num_src, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain,
    natural_scale,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, written where the queries are, and of biases; ``DELTA`` is (H, N_dst) grad_out . out."""
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < num_dst
    at = relation.to(tl.int64) * num_dst + rows
    low, high = tl.load(LOW + at, mask=is_row, other=num_src), tl.load(HIGH + at, mask=is_row, other=0)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    is_query = is_row[:, None] & (d < D)[None, :]
    offsets = rows.to(tl.int64)[:, None] * q_node + tl.load(entry + 2) * q_head + d[None, :]
    query = tl.load(Q + offsets, mask=is_query, other=0.0)
    K += tl.load(entry + 3) * k_head
    V += tl.load(entry + 4) * v_head
    upstreams = GRAD_OUT + (rows.to(tl.int64)[:, None] * TOTAL_HEADS + head) * F + f[None, :]
    upstream = tl.load(upstreams, mask=is_row[:, None] & (f < F)[None, :], other=0.0)
    of_head = head.to(tl.int64) * num_dst + rows
    lse, delta = tl.load(LSE + of_head, mask=is_row, other=1e30), tl.load(DELTA + of_head, mask=is_row, other=0.0)
    first = tl.zeros((ROWS,), tl.int64)
    if HAS_BIAS or HAS_DROPOUT:
        first = tl.load(FIRST + at, mask=is_row, other=0) - low
    seed = tl.load(SEEDS + head)
    total = tl.zeros((ROWS, D_PAD), tl.float32)
    for start in range(tl.min(low, 0) // KEYS * KEYS, tl.max(high, 0), KEYS):
        keys = start + tl.arange(0, KEYS)
        is_key = keys < num_src
        key = tl.load(
            K + keys.to(tl.int64)[:, None] * k_node + d[None, :], mask=is_key[:, None] & (d < D)[None, :], other=0.0
        )
        value = tl.load(
            V + keys.to(tl.int64)[None, :] * v_node + f[:, None], mask=is_key[None, :] & (f < F)[:, None], other=0.0
        )
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        sees = (keys[None, :] >= low[:, None]) & (keys[None, :] < high[:, None])
        edges = first[:, None] + keys[None, :]
        if HAS_BIAS:
            biases = tl.load(BIAS + edges * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        weights = tl.where(sees & (scores > -1e29), tl.exp2(scores - lse[:, None]), 0.0)
        slopes = tl.dot(upstream, value, input_precision=PRECISION)
        if HAS_DROPOUT:
            slopes = tl.where(keep_edges(edges, seed, limit), slopes * gain, 0.0)
        slopes = weights * (slopes - delta[:, None])
        if HAS_BIAS:
            tl.store(GRAD_BIAS + edges * bias_edge + head * bias_head, slopes.to(GRAD_BIAS.dtype.element_ty), mask=sees)
        total = tl.dot(slopes.to(key.dtype), key, total, input_precision=PRECISION)
    tl.store(GRAD_Q + offsets, (total * natural_scale).to(GRAD_Q.dtype.element_ty), mask=is_query)


@triton.jit
def range_backward_key(
    Q, K, V, GRAD_OUT, GRAD_K, GRAD_V, LSE, DELTA, BIAS, HEADS, LOW, HIGH, FIRST, FIRST_ROW, LAST_ROW, SEEDS,
    num_dst, num_src, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain,
    natural_scale,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of keys and values; the destinations that see a key are from ``FIRST_ROW`` to before ``LAST_ROW``."""
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    keys = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    is_key = keys < num_src
    at = relation.to(tl.int64) * num_src + keys
    first_row = tl.min(tl.load(FIRST_ROW + at, mask=is_key, other=num_dst), 0)
    last_row = tl.max(tl.load(LAST_ROW + at, mask=is_key, other=0), 0)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    key_offsets = keys.to(tl.int64)[:, None] * k_node + tl.load(entry + 3) * k_head + d[None, :]
    value_offsets = keys.to(tl.int64)[:, None] * v_node + tl.load(entry + 4) * v_head + f[None, :]
    in_key, in_value = is_key[:, None] & (d < D)[None, :], is_key[:, None] & (f < F)[None, :]
    key, value = tl.load(K + key_offsets, mask=in_key, other=0.0), tl.load(V + value_offsets, mask=in_value, other=0.0)
    Q += tl.load(entry + 2) * q_head
    seed = tl.load(SEEDS + head)
    key_total, value_total = tl.zeros((KEYS, D_PAD), tl.float32), tl.zeros((KEYS, F_PAD), tl.float32)
    for start in range(first_row // ROWS * ROWS, last_row, ROWS):
        rows = start + tl.arange(0, ROWS)
        is_row = rows < num_dst
        query = tl.load(
            Q + rows.to(tl.int64)[None, :] * q_node + d[:, None], mask=is_row[None, :] & (d < D)[:, None], other=0.0
        )
        upstreams = GRAD_OUT + (rows.to(tl.int64)[:, None] * TOTAL_HEADS + head) * F + f[None, :]
        upstream = tl.load(upstreams, mask=is_row[:, None] & (f < F)[None, :], other=0.0)
        of_head = head.to(tl.int64) * num_dst + rows
        lse, delta = tl.load(LSE + of_head, mask=is_row, other=1e30), tl.load(DELTA + of_head, mask=is_row, other=0.0)
        of_relation = relation.to(tl.int64) * num_dst + rows
        low = tl.load(LOW + of_relation, mask=is_row, other=num_src)
        high = tl.load(HIGH + of_relation, mask=is_row, other=0)
        scores = tl.dot(key, query, input_precision=PRECISION) * scale
        sees = (keys[:, None] >= low[None, :]) & (keys[:, None] < high[None, :])
        first = tl.zeros((ROWS,), tl.int64)
        if HAS_BIAS or HAS_DROPOUT:
            first = tl.load(FIRST + of_relation, mask=is_row, other=0) - low
        edges = first[None, :] + keys[:, None]
        if HAS_BIAS:
            biases = tl.load(BIAS + edges * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        weights = tl.where(sees & (scores > -1e29), tl.exp2(scores - lse[None, :]), 0.0)
        slopes = tl.dot(value, tl.trans(upstream), input_precision=PRECISION)
        applied = weights
        if HAS_DROPOUT:
            kept = keep_edges(edges, seed, limit)
            slopes, applied = tl.where(kept, slopes * gain, 0.0), tl.where(kept, weights * gain, 0.0)
        value_total = tl.dot(applied.to(upstream.dtype), upstream, value_total, input_precision=PRECISION)
        slopes = weights * (slopes - delta[None, :])
        key_total = tl.dot(slopes.to(query.dtype), tl.trans(query), key_total, input_precision=PRECISION)
    tl.store(GRAD_K + key_offsets, (key_total * natural_scale).to(GRAD_K.dtype.element_ty), mask=in_key)
    tl.store(GRAD_V + value_offsets, value_total.to(GRAD_V.dtype.element_ty), mask=in_value)


@triton.jit
def edge_forward(
    Q, K, V, OUT, LSE, WEIGHTS, BIAS, HEADS, POINTERS, SOURCES, STARTS, SEEDS,
    num_dst, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_WEIGHTS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Like :func:`range_forward` for one destination with any sources, by tiles of ``KEYS`` gathered keys.

    The slots of relation r begin at ``STARTS[r]``; weights (E, H of the relation) are before dropout.
    """
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    row = tl.program_id(0).to(tl.int64)
    begin, end = (
        tl.load(POINTERS + relation * (num_dst + 1) + row),
        tl.load(POINTERS + relation * (num_dst + 1) + row + 1),
    )
    own = tl.load(STARTS + relation)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    query = tl.load(Q + row * q_node + tl.load(entry + 2) * q_head + d, mask=d < D, other=0.0).to(tl.float32)
    K += tl.load(entry + 3) * k_head
    V += tl.load(entry + 4) * v_head
    seed = tl.load(SEEDS + head)
    total = tl.zeros((F_PAD,), tl.float32)
    top = tl.full((1,), -1e30, tl.float32)
    weight_sum = tl.zeros((1,), tl.float32)
    for start in range(begin, end, KEYS):
        slots = start + tl.arange(0, KEYS)
        sees = slots < end
        sources = tl.load(SOURCES + slots, mask=sees, other=0).to(tl.int64)
        key = tl.load(K + sources[:, None] * k_node + d[None, :], mask=sees[:, None] & (d < D)[None, :], other=0.0)
        value = tl.load(V + sources[:, None] * v_node + f[None, :], mask=sees[:, None] & (f < F)[None, :], other=0.0)
        scores = tl.sum(key.to(tl.float32) * query[None, :], 1) * scale
        if HAS_BIAS:
            biases = tl.load(BIAS + (slots - own) * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        sees = sees & (scores > -1e29)
        new_top = tl.maximum(top, tl.max(tl.where(sees, scores, -1e30), 0))
        weights = tl.where(sees, tl.exp2(scores - new_top), 0.0)
        shrink = tl.exp2(top - new_top)
        weight_sum = weight_sum * shrink + tl.sum(weights, 0)
        if HAS_DROPOUT:
            weights = tl.where(keep_edges(slots - own, seed, limit), weights * gain, 0.0)
        total = total * shrink + tl.sum(weights[:, None] * value.to(tl.float32), 0)
        top = new_top
    exists = weight_sum > 0
    total = total / tl.where(exists, weight_sum, 1.0)
    tl.store(OUT + (row * TOTAL_HEADS + head) * F + f, total.to(OUT.dtype.element_ty), mask=f < F)
    lse = tl.where(exists, top + tl.log2(tl.where(exists, weight_sum, 1.0)), 1e30)
    tl.store(LSE + head.to(tl.int64) * num_dst + row + tl.arange(0, 1), lse)
    if HAS_WEIGHTS:
        for start in range(begin, end, KEYS):
            slots = start + tl.arange(0, KEYS)
            sees = slots < end
            sources = tl.load(SOURCES + slots, mask=sees, other=0).to(tl.int64)
            key = tl.load(K + sources[:, None] * k_node + d[None, :], mask=sees[:, None] & (d < D)[None, :], other=0.0)
            scores = tl.sum(key.to(tl.float32) * query[None, :], 1) * scale
            if HAS_BIAS:
                biases = tl.load(BIAS + (slots - own) * bias_edge + head * bias_head, mask=sees, other=0.0)
                scores += biases.to(tl.float32) * LOG2_E
            weights = tl.where(scores > -1e29, tl.exp2(scores - lse), 0.0)
            tl.store(WEIGHTS + (slots - own) * TOTAL_HEADS + head, weights.to(WEIGHTS.dtype.element_ty), mask=sees)


@triton.jit
def edge_backward_query(
    Q, K, V, GRAD_OUT, GRAD_Q, GRAD_BIAS, GRAD_WEIGHTS, LSE, DELTA, BIAS, HEADS, POINTERS, SOURCES, STARTS, SEEDS,
    num_dst, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain, natural_scale,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_WEIGHTS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Like :func:`range_backward_query` for any sources; adds to ``DELTA`` what gradients of weights contribute."""
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    row = tl.program_id(0).to(tl.int64)
    begin, end = (
        tl.load(POINTERS + relation * (num_dst + 1) + row),
        tl.load(POINTERS + relation * (num_dst + 1) + row + 1),
    )
    own = tl.load(STARTS + relation)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    offsets = row * q_node + tl.load(entry + 2) * q_head + d
    query = tl.load(Q + offsets, mask=d < D, other=0.0).to(tl.float32)
    upstream = tl.load(GRAD_OUT + (row * TOTAL_HEADS + head) * F + f, mask=f < F, other=0.0).to(tl.float32)
    K += tl.load(entry + 3) * k_head
    V += tl.load(entry + 4) * v_head
    of_head = head.to(tl.int64) * num_dst + row
    lse, delta = tl.load(LSE + of_head), tl.load(DELTA + of_head)
    seed = tl.load(SEEDS + head)
    total = tl.zeros((D_PAD,), tl.float32)
    if HAS_WEIGHTS:
        more = tl.zeros((KEYS,), tl.float32)
        for start in range(begin, end, KEYS):
            slots = start + tl.arange(0, KEYS)
            sees = slots < end
            sources = tl.load(SOURCES + slots, mask=sees, other=0).to(tl.int64)
            key = tl.load(K + sources[:, None] * k_node + d[None, :], mask=sees[:, None] & (d < D)[None, :], other=0.0)
            scores = tl.sum(key.to(tl.float32) * query[None, :], 1) * scale
            if HAS_BIAS:
                biases = tl.load(BIAS + (slots - own) * bias_edge + head * bias_head, mask=sees, other=0.0)
                scores += biases.to(tl.float32) * LOG2_E
            weights = tl.where(sees & (scores > -1e29), tl.exp2(scores - lse), 0.0)
            grads = tl.load(GRAD_WEIGHTS + (slots - own) * TOTAL_HEADS + head, mask=sees, other=0.0)
            more += weights * grads.to(tl.float32)
        delta += tl.sum(more, 0)
        tl.store(DELTA + of_head, delta)
    for start in range(begin, end, KEYS):
        slots = start + tl.arange(0, KEYS)
        sees = slots < end
        sources = tl.load(SOURCES + slots, mask=sees, other=0).to(tl.int64)
        key = tl.load(K + sources[:, None] * k_node + d[None, :], mask=sees[:, None] & (d < D)[None, :], other=0.0)
        value = tl.load(V + sources[:, None] * v_node + f[None, :], mask=sees[:, None] & (f < F)[None, :], other=0.0)
        scores = tl.sum(key.to(tl.float32) * query[None, :], 1) * scale
        if HAS_BIAS:
            biases = tl.load(BIAS + (slots - own) * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        weights = tl.where(sees & (scores > -1e29), tl.exp2(scores - lse), 0.0)
        slopes = tl.sum(value.to(tl.float32) * upstream[None, :], 1)
        if HAS_DROPOUT:
            slopes = tl.where(keep_edges(slots - own, seed, limit), slopes * gain, 0.0)
        if HAS_WEIGHTS:
            slopes += tl.load(GRAD_WEIGHTS + (slots - own) * TOTAL_HEADS + head, mask=sees, other=0.0).to(tl.float32)
        slopes = weights * (slopes - delta)
        if HAS_BIAS:
            tl.store(
                GRAD_BIAS + (slots - own) * bias_edge + head * bias_head,
                slopes.to(GRAD_BIAS.dtype.element_ty),
                mask=slots < end,
            )
        total += tl.sum(slopes[:, None] * key.to(tl.float32), 0)
    tl.store(GRAD_Q + offsets, (total * natural_scale).to(GRAD_Q.dtype.element_ty), mask=d < D)


@triton.jit
def edge_backward_key(
    Q, K, V, GRAD_OUT, GRAD_K, GRAD_V, GRAD_WEIGHTS, LSE, DELTA, BIAS, HEADS, POINTERS, DESTINATIONS, SLOTS, SEEDS,
    num_dst, num_src, q_node, q_head, k_node, k_head, v_node, v_head, bias_edge, bias_head, scale, limit, gain,
    natural_scale,
    D: tl.constexpr, F: tl.constexpr, D_PAD: tl.constexpr, F_PAD: tl.constexpr, TOTAL_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, HAS_WEIGHTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients of the key and value of one source, over the reversed edges; ``SLOTS`` are their numbers."""
    entry = HEADS + tl.program_id(1) * 5
    head, relation = tl.load(entry), tl.load(entry + 1)
    node = tl.program_id(0).to(tl.int64)
    begin = tl.load(POINTERS + relation * (num_src + 1) + node)
    end = tl.load(POINTERS + relation * (num_src + 1) + node + 1)
    d, f = tl.arange(0, D_PAD), tl.arange(0, F_PAD)
    key_offsets = node * k_node + tl.load(entry + 3) * k_head + d
    value_offsets = node * v_node + tl.load(entry + 4) * v_head + f
    key = tl.load(K + key_offsets, mask=d < D, other=0.0).to(tl.float32)
    value = tl.load(V + value_offsets, mask=f < F, other=0.0).to(tl.float32)
    Q += tl.load(entry + 2) * q_head
    seed = tl.load(SEEDS + head)
    key_total, value_total = tl.zeros((D_PAD,), tl.float32), tl.zeros((F_PAD,), tl.float32)
    for start in range(begin, end, ROWS):
        places = start + tl.arange(0, ROWS)
        sees = places < end
        rows = tl.load(DESTINATIONS + places, mask=sees, other=0).to(tl.int64)
        slots = tl.load(SLOTS + places, mask=sees, other=0).to(tl.int64)
        query = tl.load(Q + rows[:, None] * q_node + d[None, :], mask=sees[:, None] & (d < D)[None, :], other=0.0)
        upstreams = GRAD_OUT + (rows[:, None] * TOTAL_HEADS + head) * F + f[None, :]
        upstream = tl.load(upstreams, mask=sees[:, None] & (f < F)[None, :], other=0.0).to(tl.float32)
        of_head = head.to(tl.int64) * num_dst + rows
        lse, delta = tl.load(LSE + of_head, mask=sees, other=1e30), tl.load(DELTA + of_head, mask=sees, other=0.0)
        scores = tl.sum(query.to(tl.float32) * key[None, :], 1) * scale
        if HAS_BIAS:
            biases = tl.load(BIAS + slots * bias_edge + head * bias_head, mask=sees, other=0.0)
            scores += biases.to(tl.float32) * LOG2_E
        weights = tl.where(sees & (scores > -1e29), tl.exp2(scores - lse), 0.0)
        slopes = tl.sum(upstream * value[None, :], 1)
        applied = weights
        if HAS_DROPOUT:
            kept = keep_edges(slots, seed, limit)
            slopes, applied = tl.where(kept, slopes * gain, 0.0), tl.where(kept, weights * gain, 0.0)
        if HAS_WEIGHTS:
            slopes += tl.load(GRAD_WEIGHTS + slots * TOTAL_HEADS + head, mask=sees, other=0.0).to(tl.float32)
        value_total += tl.sum(applied[:, None] * upstream, 0)
        slopes = weights * (slopes - delta)
        key_total += tl.sum(slopes[:, None] * query.to(tl.float32), 0)
    tl.store(GRAD_K + key_offsets, (key_total * natural_scale).to(GRAD_K.dtype.element_ty), mask=d < D)
    tl.store(GRAD_V + value_offsets, value_total.to(GRAD_V.dtype.element_ty), mask=f < F)

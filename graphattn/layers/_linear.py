"""Linear layers and embeddings that are faster on a CPU than PyTorch's; results are equal up to rounding.

PyTorch's float32 linear layers pass all rows to one call of BLAS, which is MKL. On processors of Intel nothing is
faster. On AMD's it is slow for thousands of rows, and with AVX-512 for hundreds. There, PyTorch's oneDNN operator is
faster, and so is BLAS on blocks of rows. Where registers have 32 bytes, oneDNN is slower than BLAS, and our kernels are
faster for many products, although the weight is brought into panels at each call; gradients of weights stay with BLAS.

In bfloat16, oneDNN compiles a kernel in about 5 ms for each new number of rows, and batches of texts have many. So the
number of rows is rounded up to one of 16 values for each power of two. Weights are converted at each call: a kept copy
could not notice every change, such as ``weight.data[0, 0] = 1``. That costs a few per cent for thousands of rows; a
model whose weights are bfloat16 does without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._backends.cpu.buffer_pool import MIN_BYTES, Pool
from graphattn._gradients import Function, apply
from graphattn._precision import at_least_float32
from graphattn._transforms import is_transformed

_PROCESSOR: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in older PyTorch
HAS_FAST_BLAS = torch.backends.mkl.is_available() and "Intel" in str(_PROCESSOR.get("cpu_name"))
"""Whether products of BLAS are as fast as the processor."""
HAS_AVX2 = torch.backends.cpu.get_cpu_capability() == "AVX2"
"""Whether registers have 32 bytes: with these our kernels are faster than oneDNN in training, too."""
MIN_ROWS, MIN_PRODUCTS = 1024, 1 << 25
"""With fewer rows and fewer multiplications, oneDNN's set-up for each new number of rows costs more than it saves."""
MIN_PRODUCTS_OF_PANELS = 1 << 27
"""With fewer multiplications, bringing a weight into panels costs more than it saves."""
BLOCK = 256
"""Rows per block."""
MOST_ROWS = 4096
"""Rows that oneDNN multiplies at a time."""
HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this build of PyTorch has oneDNN's linear operator, which ``torch.compile`` uses."""


class Linear(nn.Linear):
    """:class:`torch.nn.Linear`, faster on many rows; same parameters, and equal results up to rounding.

    Examples
    --------
    >>> Linear(300, 600)(torch.zeros(2, 300)).shape
    torch.Size([2, 600])
    """

    is_quantized = False
    """Whether the weights are in int8."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weight, and of the outputs outside of autocast."""
        return self.weight.dtype

    if TYPE_CHECKING:

        @override
        def __call__(self, inputs: Tensor) -> Tensor: ...

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def is_plain(module: nn.Module) -> bool:
    """Whether calling the module is only a product with its weight: no hooks, no subclass.

    Only then may a caller use slices of the weight instead.
    """
    return type(module) is Linear and "forward" not in vars(module) and not has_hooks(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of the module calls hooks, too."""
    own = vars(module)
    return bool(
        own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
    )


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`torch.nn.functional.linear` in the precision of the weight (O, I).

    Inputs (..., I) may be float32 for a weight in float16 or bfloat16.
    """
    if weight.element_size() < 4 and inputs.dtype == torch.float32:
        inputs = inputs.to(weight.dtype)  # sums in float32 may precede
    if is_transformed():
        return F.linear(inputs, weight, bias)
    if not torch.is_grad_enabled() and weight.dtype == torch.float32 and multiplies_in_bfloat16(inputs):
        rows = inputs.reshape(-1, inputs.shape[-1])
        out = onednn(pad_rows(rows.bfloat16()), weight.bfloat16(), bias)[: len(rows)]
        return out.view(*inputs.shape[:-1], weight.shape[0])
    if weight.dtype == torch.float32 and weight.numel() and multiplies_in_bfloat16(inputs):
        inputs, weight = inputs.bfloat16(), weight.bfloat16()
        bias = None if bias is None else bias.bfloat16()
    elif not _is_slow_in_blas(inputs, weight):
        return F.linear(inputs, weight, bias)
    # reshape outside: autograd forbids in-place changes of views made inside a function
    rows = apply(_LinearFunction, inputs.reshape(-1, inputs.shape[-1]), weight, bias)
    return rows if inputs.dim() == 2 else rows.view(*inputs.shape[:-1], weight.shape[0])


def by_head(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A separate linear map for each head: (H, N, I), (H, I, O) and a bias (H, 1 or N, O) give (H, N, O)."""
    if is_transformed() or inputs.shape[1] < MIN_ROWS or not _may_be_slow(inputs, weight):
        return torch.bmm(inputs, weight) if bias is None else torch.baddbmm(bias, inputs, weight)
    return apply(_ByHead, inputs, weight, bias)


def rows_times(rows: Tensor, weight: Tensor) -> Tensor:
    """(N, I), (I, O) -> (N, O), the gradient of a linear layer's input; not differentiable."""
    return _multiply(rows, weight.t()) if _is_slow_in_blas(rows, weight) else rows @ weight


def weight_gradient(gradient: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """(N, O), (N, I) -> (O, I), the gradient of a linear layer's weight; not differentiable."""
    return _sum_products(gradient, rows) if _is_slow_in_blas(rows, weight) else gradient.t() @ rows


class _LinearFunction(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _multiply(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        rows, weight = ctx.saved_tensors
        for_rows, for_weight, for_bias = ctx.needs_input_grad
        differentiable = torch.is_grad_enabled()
        return (
            (gradient @ weight if differentiable else _multiply(gradient, weight.t())) if for_rows else None,
            (gradient.t() @ rows if differentiable else _sum_products(gradient, rows)) if for_weight else None,
            gradient.sum(0) if for_bias else None,
        )


def _multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(N, I), (O, I), (O,) -> (N, O)."""
    if HAS_AVX2 and rows.dtype == torch.float32:
        from graphattn._backends.cpu.products import multiply  # loads the compiler of kernels

        return multiply(rows, weight, bias)
    out = rows.new_empty(len(rows), len(weight))
    for rows_slice, size in split_rows(len(rows)):
        target = out[rows_slice]
        target.copy_(onednn(_pad(rows[rows_slice], size), weight, bias)[: len(target)])
    return out


def _sum_products(gradient: Tensor, rows: Tensor) -> Tensor:
    """(N, O), (N, I) -> (O, I)."""
    if HAS_AVX2 and rows.dtype == torch.float32:
        return gradient.t() @ rows
    total = rows.new_zeros(gradient.shape[1], rows.shape[1], dtype=torch.float32)
    for rows_slice, size in split_rows(len(rows)):
        left, right = _pad(gradient[rows_slice], size).t(), _pad(rows[rows_slice], size)
        # in bfloat16, PyTorch's product is oneDNN's, without reordering the factors
        total += left @ right if rows.dtype == torch.bfloat16 else onednn(left, right.t(), None)
    return total.to(rows.dtype)


def split_rows(count: int) -> Iterator[tuple[slice, int]]:
    """Slices of rows, and how many rows to pad them to: powers of two from 16 to ``MOST_ROWS``.

    oneDNN keeps what it compiles for each new number of rows, half a megabyte. Batches of long texts have thousands.
    """
    start = 0
    while start < count:
        left = count - start
        size = min(MOST_ROWS, max(16, 1 << (left - 1).bit_length()))
        if size > BLOCK and left < 0.875 * size:
            size //= 2
        yield slice(start, start + size), size
        start += size


def _pad(rows: Tensor, count: int) -> Tensor:
    """Append rows of zeros."""
    return rows if len(rows) == count else F.pad(rows, (0, 0, 0, count - len(rows)))


class _ByHead(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.bias_per_row = bias is not None and bias.shape[1] > 1
        return _in_blocks(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        inputs, weight = ctx.saved_tensors
        for_inputs, for_weight, for_bias = ctx.needs_input_grad
        bias_gradient = gradient if ctx.bias_per_row else gradient.sum(1, keepdim=True) if for_bias else None
        back = torch.bmm if torch.is_grad_enabled() else _in_blocks
        return (
            back(gradient, weight.transpose(1, 2)) if for_inputs else None,
            torch.bmm(inputs.transpose(1, 2), gradient) if for_weight else None,
            bias_gradient,
        )


def _in_blocks(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(H, N, I), (H, I, O), (H, 1 or N, O) -> (H, N, O), in blocks of rows."""
    out = inputs.new_empty(*inputs.shape[:2], weight.shape[2])
    full = inputs.shape[1] // BLOCK * BLOCK
    for head, (rows, matrix) in enumerate(zip(inputs, weight, strict=True)):
        for rows_slice, size in ((slice(0, full), BLOCK), (slice(full, None), len(rows) - full)):
            if size:
                blocks, target = (tensor[rows_slice].unflatten(0, (-1, size)) for tensor in (rows, out[head]))
                factor = matrix.expand(len(blocks), -1, -1)
                if bias is None:
                    torch.bmm(blocks, factor, out=target)
                else:
                    addend = bias[head] if bias.shape[1] == 1 else bias[head, rows_slice].unflatten(0, (-1, size))
                    torch.baddbmm(addend, blocks, factor, out=target)
    return out


def _is_slow_in_blas(inputs: Tensor, weight: Tensor) -> bool:
    """Whether another kernel supports these rows and is faster."""
    rows = inputs.numel() // max(1, inputs.shape[-1])
    products = rows * weight.numel()
    if HAS_AVX2:
        is_large = products >= MIN_PRODUCTS_OF_PANELS
    else:
        is_large = HAS_ONEDNN and weight.numel() > 0 and (rows >= MIN_ROWS or products >= MIN_PRODUCTS)
    return is_large and _may_be_slow(inputs, weight)


def _may_be_slow(inputs: Tensor, weight: Tensor) -> bool:
    """Whether BLAS, which multiplies float32 on a CPU outside of autocast, is slow on this processor."""
    return (
        not HAS_FAST_BLAS
        and inputs.dtype == weight.dtype == torch.float32
        and inputs.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


def multiplies_in_bfloat16(inputs: Tensor) -> bool:
    """Whether autocast computes products with these inputs in bfloat16, and the processor supports it."""
    return (
        inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.bfloat16)
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and HAS_ONEDNN
        and has_bfloat16()
    )


def pad_rows(rows: Tensor) -> Tensor:
    """(N, I) or (N,), followed by zeros: less than N / 16 rows of them for large N."""
    count = len(rows)
    step = 1 << max(4, count.bit_length() - 5)
    missing = -count % step
    return F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing)) if missing else rows  # padding always copies


@cache
def has_bfloat16() -> bool:
    """Whether oneDNN has products in bfloat16 on this processor."""
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()


def onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """:func:`torch.nn.functional.linear` by PyTorch's oneDNN operator, without gradients."""
    bias = None if bias is None else bias.contiguous()  # oneDNN ignores its strides
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")


MAX_UNUSED_GRADIENT_BYTES = 1 << 30
"""Upper bound for the unused memory of gradients."""

gradient_pool = Pool(MAX_UNUSED_GRADIENT_BYTES)
_sums: dict[int, Tensor | None] = {}
"""Sums of gradients by the id of the table, see :func:`sum_embedding_gradients`; None before the first."""


def embedding(table: Tensor, ids: Tensor, padding: int | None = None) -> Tensor:
    """:func:`torch.nn.functional.embedding`, whose gradient is summed in float32 and reuses memory.

    On a CPU, PyTorch sums the gradient of a float16 or bfloat16 table in that type, in which 10,000 times 0.01 is 32 or
    4. The gradient of a table has the table's size. PyTorch allocates it in every step, which costs page faults. Call
    :func:`forget_gradients` to return the reused memory to the system. The id ``padding`` gets no gradient.
    """
    differs = table.element_size() < 4 or table.numel() * table.element_size() >= MIN_BYTES
    if is_transformed():
        return F.embedding(ids, at_least_float32(table), padding).to(table.dtype)
    if not (differs and table.device.type == "cpu" and table.requires_grad):
        return F.embedding(ids, table, padding)
    return apply(_EmbeddingFunction, table, ids, padding)


class Embedding(nn.Embedding):
    """:class:`torch.nn.Embedding` by :func:`embedding`."""

    @override
    def forward(self, input: Tensor) -> Tensor:
        if self.max_norm is not None or self.scale_grad_by_freq or self.sparse:
            return super().forward(input)
        return embedding(self.weight, input, self.padding_idx)


@contextmanager
def sum_embedding_gradients(parameters: Iterable[Tensor]) -> Iterator[dict[int, Tensor]]:
    """Let several backward passes add to one gradient for each table, as each pass uses few of its rows.

    Meanwhile, these passes return None for the tables. The result has, after the block, the sums by the table's id.
    """
    gradients: dict[int, Tensor] = {}
    _sums.update({id(parameter): None for parameter in parameters})
    try:
        yield gradients
        gradients.update({table: total for table, total in _sums.items() if total is not None})
    finally:
        _sums.clear()


def forget_gradients() -> None:
    """Return the memory of embedding gradients, and other freed memory, to the system; training calls this at its end.

    glibc keeps the memory of most activations otherwise.
    """
    gradient_pool.clear()
    with suppress(AttributeError, OSError, TypeError):  # another C library; Windows has no library without a name
        ctypes.CDLL(None).malloc_trim(0)


class _EmbeddingFunction(Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, padding: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape, ctx.padding, ctx.table = table.shape, padding, id(table)
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        (ids,), (gradient,) = ctx.saved_tensors, gradients
        ids, rows = ids.reshape(-1), at_least_float32(gradient.reshape(-1, ctx.shape[1]))
        if ctx.padding is not None:
            rows = rows.masked_fill((ids == ctx.padding).unsqueeze(1), 0)
        if torch.is_grad_enabled():
            return rows.new_zeros(ctx.shape).index_add(0, ids, rows).to(gradient.dtype), None, None
        total = _sums.get(ctx.table)
        if total is None:
            total = gradient_pool.empty(ctx.shape, rows.dtype).zero_()
        total.index_add_(0, ids, rows)
        if ctx.table not in _sums:
            return total.to(gradient.dtype), None, None
        _sums[ctx.table] = total
        return None, None, None

"""``bench shapes``: what dense attention costs when each batch has a new shape.

Letters: B texts, H heads, T tokens, D features of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count, cycle, product

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import override

from graphattn._dense import attend_dense
from graphattn.experiments.benchmarks._contenders import Contender, Job, Problem, Settings, UnableError
from graphattn.experiments.benchmarks._harness import BOTH, COLUMNS, FORWARD, OURS, Comparison, compare
from graphattn.experiments.benchmarks._report import BenchmarkReport

LENGTHS = ("32x20",)
QUICK = ("2x5",)
HEADS, FEATURES = 12, 32
SHIFT = 30
NEW, KNOWN, MASKED = "new shape", "known shape", "with a mask"
DESCRIPTION = f"""\
One call of PyTorch's dense attention, {HEADS} heads of {FEATURES} features. In a run on a new shape, texts are one
token longer than in the run before, as batches of texts nearly always differ; a known shape is that of the run before.
`default` leaves the choice of the kernel to PyTorch; `ours` is what GraphAttn's models call. Masks have True
everywhere. With gradients, new shapes begin {SHIFT} tokens later, so that no plan is there from the forward pass."""


def measure(settings: Settings) -> BenchmarkReport:
    """Time all contenders on new and on known shapes."""
    report = BenchmarkReport("shapes", DESCRIPTION, COLUMNS, settings)
    return compare(report, settings, Comparison(CONTENDERS, {FORWARD: False, BOTH: True}))


@dataclass(frozen=True)
class DenseCall(Contender):
    """One call for each run."""

    problem = Problem  # texts of one length at the start

    is_new: bool = field(default=True, kw_only=True)
    has_mask: bool = field(default=False, kw_only=True)
    kernel: str | None = field(default=None, kw_only=True)  # of SDPBackend

    def attend(self, rows: tuple[Tensor, ...], mask: Tensor | None) -> Tensor:
        """Call the function."""
        query, key, value = rows
        with nullcontext() if self.kernel is None else sdpa_kernel(getattr(SDPBackend, self.kernel)):
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    @override
    def check_problem(self, problem: Problem, *, backward: bool) -> None:
        if problem.placement.device.type == "cpu" and self.kernel is not None:
            raise UnableError("a kernel of GPUs")
        super().check_problem(problem, backward=backward)

    @override
    def make_job(self, problem: Problem, *, backward: bool) -> Job:
        texts, first = len(problem.workload.lengths), max(problem.workload.lengths)
        first += SHIFT * backward
        lengths: Iterator[int] = count(first) if self.is_new else cycle([first])
        put = problem.placement.put

        def prepare() -> tuple[tuple[Tensor, ...], Tensor | None]:
            length = next(lengths)
            rows = tuple(put(torch.randn(texts, HEADS, length, FEATURES)).requires_grad_(backward) for _ in range(3))
            return rows, put(torch.ones(texts, 1, 1, length, dtype=torch.bool)) if self.has_mask else None

        def run(inputs: tuple[tuple[Tensor, ...], Tensor | None]) -> None:
            rows, mask = inputs
            out = self.attend(rows, mask)
            if backward:
                torch.autograd.grad(out, rows, out.detach())

        return Job(run, prepare)


class OurCall(DenseCall):
    """The function that our models call."""

    @override
    def attend(self, rows: tuple[Tensor, ...], mask: Tensor | None) -> Tensor:
        query, key, value = rows
        return attend_dense(query, key, value, mask=mask)


def _list_contenders() -> Iterator[DenseCall]:
    kernels = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}  # cuDNN's plans are those of default
    for is_new, has_mask, name in product((True, False), (False, True), (OURS, "default", *kernels)):
        if name == "flash" and has_mask:  # it takes none
            continue
        suffix = ("" if is_new else "-known") + ("-masked" if has_mask else "")
        title = f"{name}, {NEW if is_new else KNOWN}" + (f", {MASKED}" if has_mask else "")
        make = OurCall if name == OURS else DenseCall
        yield make(name + suffix, title, is_new=is_new, has_mask=has_mask, kernel=kernels.get(name))


CONTENDERS = tuple(_list_contenders())

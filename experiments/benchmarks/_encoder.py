"""``bench encoder`` and ``bench train-step``: whole encoders over the same random token vectors.

Letters: B sentences, T tokens of the longest one, C width, H heads, D features of a head.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.builders import TextGraphBuilder
from graphattn.experiments.benchmarks._contenders import Contender, Settings
from graphattn.experiments.benchmarks._harness import COLUMNS, INFERENCE, OURS, TRAINING, Comparison, column, compare
from graphattn.experiments.benchmarks._operations import WindowHeads, count_transformer
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record, plot_cost
from graphattn.experiments.benchmarks._token_modules import GraphContender, ModuleContender, TokenProblem
from graphattn.experiments.benchmarks._workloads import Lengths, Workload, is_uniform
from graphattn.layers._multi_scale import MultiScaleAttention
from graphattn.models import MSTransOptions
from graphattn.models._encoders import MSTransEncoder
from graphattn.models._padding import prefix_mask

if TYPE_CHECKING:
    from dgl import DGLGraph

LENGTHS = ("22", "1024x22", "109", "201", "512", "2048", "8192", "mr", "mtl16", "imdb")
QUICK = ("22", "109", "4x512")
FFN = 1200
DESCRIPTION = """\
Whole encoders in inference mode, float32: three layers, 300 wide, ten heads, from token vectors to token vectors.
nn.TransformerEncoder has a feed-forward layer of 1200; MS-Trans has none, as in its paper. Its fast path stores all
scores of attention and skips padding; its ordinary path does neither (`torch.backends.mha.set_fastpath_enabled`).
"MS-Trans (dense with masks)" computes the same numbers as GraphAttn by dense attention with masks. Not timed: graph
construction (see `bench build`), padding and masks. Each run of GraphAttn gets new graphs. `limit` is the ratio of
floating-point operations without padding: the speed-up at equal efficiency."""
TRAINING_DESCRIPTION = """\
One training step of whole encoders for each batch, float32: forward, backward down to the token vectors, and Adam.
Sizes as in `bench encoder`; dropout is 0 for all, since dropout on attention weights would send nn.TransformerEncoder
down a slow path. Its fast path has no gradients. Not timed: graph construction (each run of GraphAttn gets new graphs),
padding and masks. `limit` is the ratio of floating-point operations, the same for training as for inference."""


def measure(settings: Settings) -> BenchmarkReport:
    """Time inference with every encoder on every workload."""
    report = BenchmarkReport("encoder", DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    return compare(report, settings, Comparison(CONTENDERS, {INFERENCE: False}, add_columns=_add_limit))


def measure_training(settings: Settings) -> BenchmarkReport:
    """Time a training step of every encoder on every workload."""
    report = BenchmarkReport("train-step", TRAINING_DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    return compare(report, settings, Comparison(CONTENDERS, {TRAINING: True}, add_columns=_add_limit))


def _add_limit(contender: Contender, workload: Workload) -> Record:
    return {"limit": arithmetic_limit(workload)} if isinstance(contender, DenseTransformer) else {}


_COLUMNS = {**COLUMNS, "limit": column("limit", ".2f")}


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of the Transformer over those of MS-Trans; the backward pass doubles both."""
    options = MSTransOptions()
    dense = count_transformer(workload.lengths, hidden=options.hidden, layers=options.layers, ffn=FFN)
    return dense / WindowHeads(workload, options).count_operations()


class EncoderProblem(TokenProblem):
    """Random token vectors for MS-Trans."""

    def __init__(self, workload: Workload, options: MSTransOptions | None = None):
        self.options = options or MSTransOptions(dropout=0.0)
        super().__init__(workload, self.options.hidden)
        self.heads = WindowHeads(workload, self.options)


class GraphEncoder(GraphContender):
    """The MS-Trans encoder as models use it."""

    problem = EncoderProblem
    backend: ClassVar[str] = "auto"

    @override
    def make_module(self, problem: EncoderProblem) -> nn.Module:
        encoder = MSTransEncoder(problem.options)
        for module in encoder.modules():
            if isinstance(module, MultiScaleAttention):
                module.backend = self.backend
        return encoder

    @override
    def build_graphs(self, problem: EncoderProblem, module: MSTransEncoder) -> list[Any]:
        return list(problem.workload.graphs(TextGraphBuilder(module.relations(), cls=False)))


class DGLEncoder(GraphEncoder):
    """The same encoder with DGL's three operators, on DGL graphs."""

    backend, packages, runs_on_gpu = "dgl", ("dgl",), False

    @override
    def build_graphs(self, problem: EncoderProblem, module: MSTransEncoder) -> list[DGLGraph]:
        return [graph.to_dgl() for graph in super().build_graphs(problem, module)]

    @override
    def estimate_bytes(self, problem: EncoderProblem, *, backward: bool) -> int:
        return problem.heads.estimate_dgl_bytes(backward=backward)


@dataclass(frozen=True)
class DenseTransformer(ModuleContender):
    """PyTorch's ``nn.TransformerEncoder``, as wide and deep as ours, post-norm, on its ordinary or its fast path."""

    problem = EncoderProblem
    infers_under_autocast = False  # which turns its fast path off

    has_fast_path: bool = False
    is_compiled: bool = False  # for each shape

    @override
    def make_module(self, problem: EncoderProblem) -> nn.Module:
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # from its fast path
        options = problem.options
        layer = nn.TransformerEncoderLayer(options.hidden, problem.heads.num_heads, FFN, dropout=0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, options.layers)
        if self.is_compiled:
            encoder.compile(dynamic=False)
        return encoder

    @override
    def prepare(self, problem: EncoderProblem, module: nn.Module) -> Callable[[], list[Tensor | None]]:
        batches = problem.workload.batches
        put = problem.placement.put
        masks = [None if is_uniform(batch) else put(~prefix_mask(torch.tensor(batch))) for batch in batches]
        return lambda: masks

    @override
    def apply(self, module: Callable[..., Tensor], tokens: Tensor, context: Tensor | None) -> Tensor:
        torch.backends.mha.set_fastpath_enabled(self.has_fast_path)
        return module(tokens, src_key_padding_mask=context)


@dataclass(frozen=True)
class MaskedDense(ModuleContender):
    """MS-Trans by dense attention of all heads at once, with a mask of every head's window."""

    problem = EncoderProblem

    is_additive: bool = False  # whether masks are zeros and minus infinity

    @override
    def make_module(self, problem: EncoderProblem) -> nn.Module:
        return MSTransEncoder(problem.options)

    @override
    def estimate_bytes(self, problem: EncoderProblem, *, backward: bool) -> int:
        # the masks of all layers, the temporaries that make them, and one mask as numbers
        heads, batches = problem.heads.num_heads, problem.workload.batches
        squares = [(1 if is_uniform(batch) else len(batch)) * max(batch) ** 2 for batch in batches]
        scores = 4 * heads * max(len(batch) * max(batch) ** 2 for batch in batches)
        return len(problem.heads.layers) * heads * sum(squares) + 12 * heads * max(squares) + scores * backward

    @override
    def prepare(self, problem: EncoderProblem, module: nn.Module) -> Callable[[], list[list[Tensor]]]:
        batches = problem.workload.batches
        put = problem.placement.put
        masks = [[put(_mask_windows(batch, reach)) for reach in problem.heads.reaches(batch)] for batch in batches]
        if self.is_additive:
            masks = [[mask.float().log() for mask in layers] for layers in masks]
        return lambda: masks

    @override
    def apply(self, module: MSTransEncoder, tokens: Tensor, context: list[Tensor]) -> Tensor:
        for layer, mask in zip(module.layers, context, strict=True):
            tokens = _apply_masked_layer(layer, tokens, mask)
        return tokens


def _mask_windows(lengths: Lengths, reach: Tensor) -> Tensor:
    """(B or 1, H, T, T) True where a head attends; padding attends to itself."""
    positions = torch.arange(max(lengths))
    distance = (positions.unsqueeze(1) - positions).abs()
    if is_uniform(lengths):
        return distance <= reach[:1, :, None, None]
    inside = positions < torch.tensor(lengths)[:, None, None, None]
    return (distance <= reach[:, :, None, None]) & inside | (distance == 0)


def _apply_masked_layer(layer: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    """One MS-Trans layer on padded rows (B, T, C)."""
    attention = layer.attention
    rows, longest, _ = tokens.shape
    projected = attention.project(tokens).view(rows, longest, 3, attention.num_heads, attention.head_feats)
    query, key, value = projected.permute(2, 0, 3, 1, 4)  # (B, H, T, D) each
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=attention.scale)
    added = F.relu(attention.output(attended.transpose(1, 2).flatten(2)))
    return layer.norm(tokens + added)


OURS_ENCODER = GraphEncoder(OURS, "GraphAttn MS-Trans")
_TITLE = "nn.TransformerEncoder"
CONTENDERS = (
    OURS_ENCODER,
    DenseTransformer("transformer", _TITLE),
    DenseTransformer("transformer-fast-path", f"{_TITLE}, fast path", has_fast_path=True, has_backward=False),
    DenseTransformer("transformer-compiled", f"{_TITLE}, compiled", is_compiled=True, is_trial=True),
    MaskedDense("masked", "MS-Trans (dense with masks)"),
    MaskedDense("masked-additive", "MS-Trans (dense with additive masks)", is_additive=True, is_trial=True),
    DGLEncoder("dgl", "MS-Trans on DGL's operators"),
)

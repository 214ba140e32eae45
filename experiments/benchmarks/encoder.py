"""``bench encoder`` and ``bench train-step``: whole encoders over the same random token vectors.

Letters: N tokens, B sentences, T tokens of the longest one, C width, H heads, D features of a head.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.builders import TextGraphBuilder
from graphattn.experiments.benchmarks.harness import (
    COLUMNS,
    INFERENCE,
    OURS,
    TRAINING,
    Contender,
    Job,
    Settings,
    column,
    compare,
)
from graphattn.experiments.benchmarks.operations import WindowHeads, count_ms_trans, count_transformer
from graphattn.experiments.benchmarks.plots import plot_cost
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.workloads import Lengths, Workload, is_uniform
from graphattn.layers.multi_scale import MultiScaleAttention
from graphattn.models import MSTransOptions
from graphattn.models.encoders import MSTransEncoder
from graphattn.models.padding import pad, prefix_mask

if TYPE_CHECKING:
    from dgl import DGLGraph

LENGTHS = ("22", "1024x22", "109", "201", "512", "2048", "8192", "mr", "mtl16", "imdb")
QUICK = ("22", "109", "4x512")
FFN = 1200
LEARNING_RATE = 1e-4
DESCRIPTION = """\
Whole encoders in inference mode, float32: three layers, 300 wide, ten heads, from token vectors to token vectors.
nn.TransformerEncoder has a feed-forward layer of 1200 and runs on its fast path; MS-Trans has none, as in its paper.
"MS-Trans (dense with masks)" computes the same numbers as GraphAttn by dense attention with masks. Not timed: graph
construction (see `bench build`), padding and masks. Each run of GraphAttn gets new graphs. `limit` is the ratio of
floating-point operations without padding: the speed-up at equal efficiency."""
TRAINING_DESCRIPTION = """\
One training step of whole encoders for each batch, float32: forward, backward down to the token vectors, and Adam.
Sizes as in `bench encoder`; dropout is 0 for all, since dropout on attention weights would send nn.TransformerEncoder
down a slow path. Not timed: graph construction (each run of GraphAttn gets new graphs), padding and masks. `limit` is
the ratio of floating-point operations, the same for training as for inference."""


def measure(settings: Settings) -> Report:
    """Time inference with every encoder on every workload."""
    return _measure(Report("encoder", DESCRIPTION, _COLUMNS, settings, plot=plot_cost), {INFERENCE: False}, settings)


def measure_training(settings: Settings) -> Report:
    """Time a training step of every encoder on every workload."""
    report = Report("train-step", TRAINING_DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    return _measure(report, {TRAINING: True}, settings)


def _measure(report: Report, tasks: dict[str, bool], settings: Settings) -> Report:
    compare(report, CONTENDERS, tasks, settings, add_columns=_add_limit)
    return report


def _add_limit(contender: Contender, workload: Workload) -> Row:
    return {"limit": arithmetic_limit(workload)} if isinstance(contender, DenseTransformer) else {}


_COLUMNS = {**COLUMNS, "limit": column("limit", ".2f")}


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of the Transformer over those of MS-Trans; the backward pass doubles both."""
    options = MSTransOptions()
    dense = count_transformer(workload.lengths, hidden=options.hidden, layers=options.layers, ffn=FFN)
    return dense / count_ms_trans(workload.lengths, options)


class EncoderProblem:
    """Random token vectors for a workload.

    Parameters
    ----------
    workload : the sentences
    options : of the MS-Trans encoder, without dropout; the paper's when None
    seed : of the vectors
    """

    def __init__(self, workload: Workload, options: MSTransOptions | None = None, *, seed: int = 0):
        self.workload = workload
        self.options = options or MSTransOptions(dropout=0.0)
        self.heads = WindowHeads(workload, self.options)
        random = torch.Generator().manual_seed(seed)
        self.tokens = [torch.randn(sum(batch), self.options.hidden, generator=random) for batch in workload.batches]


class EncoderContender(Contender):
    """An encoder over all batches: inference, or a training step with Adam; dropout is 0 for all."""

    problem = EncoderProblem

    @override
    def make_job(self, problem: EncoderProblem, *, backward: bool) -> Job:
        batches = problem.workload.batches
        encoder = self.make_encoder(problem).train(backward)
        inputs = [
            self.to_layout(tokens, batch).requires_grad_(backward)
            for tokens, batch in zip(problem.tokens, batches, strict=True)
        ]
        encode, prepare = self.prepare(problem, encoder)
        if not backward:
            return Job(lambda state: _infer(encode, state, inputs), prepare)
        weights = [torch.randn_like(tokens) for tokens in inputs]  # of a loss that depends on every number
        optimizer = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE)

        def step(state: Any) -> None:
            for number, (tokens, weight) in enumerate(zip(inputs, weights, strict=True)):
                (encode(state, number, tokens) * weight).mean().backward()
                tokens.grad = None
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        return Job(step, prepare)

    @abstractmethod
    def make_encoder(self, problem: EncoderProblem) -> nn.Module:
        """The encoder, with new weights."""

    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """Pad (N, C) to (B, T, C)."""
        return pad(flat, torch.tensor(lengths))

    @abstractmethod
    def prepare(
        self, problem: EncoderProblem, encoder: nn.Module
    ) -> tuple[Callable[[Any, int, Tensor], Tensor], Callable[[], Any]]:
        """A function that encodes a batch by its number, and one that makes its first argument before each run."""


def _infer(encode: Callable[[Any, int, Tensor], Tensor], state: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    with torch.inference_mode():
        return [encode(state, number, tokens) for number, tokens in enumerate(inputs)]


class OursEncoder(EncoderContender):
    """The MS-Trans encoder as models use it; every run gets new graphs, whose construction is not timed."""

    name, title, backend = OURS, "GraphAttn MS-Trans", "auto"

    @override
    def make_encoder(self, problem: EncoderProblem) -> nn.Module:
        encoder = MSTransEncoder(problem.options)
        for module in encoder.modules():
            if isinstance(module, MultiScaleAttention):
                module.backend = self.backend
        return encoder

    @override
    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        return flat.clone()

    @override
    def prepare(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        assert isinstance(encoder, MSTransEncoder)
        builder = TextGraphBuilder(encoder.relations(), cls=False)

        def encode(graphs: list[Any], number: int, tokens: Tensor) -> Tensor:
            return encoder(graphs[number], tokens)

        return encode, lambda: self.build_graphs(problem, builder)

    def build_graphs(self, problem: EncoderProblem, builder: TextGraphBuilder) -> list[Any]:
        """New graphs of the batches, in the favourite form of this contender."""
        return list(problem.workload.graphs(builder))


class DGLEncoder(OursEncoder):
    """The same encoder with DGL's three operators, on DGL graphs."""

    name, title, backend = "dgl", "MS-Trans on DGL's operators", "dgl"

    @override
    def build_graphs(self, problem: EncoderProblem, builder: TextGraphBuilder) -> list[DGLGraph]:
        return [graph.to_dgl() for graph in problem.workload.graphs(builder)]

    @override
    def estimate_bytes(self, problem: EncoderProblem, *, backward: bool) -> int:
        return problem.heads.estimate_dgl_bytes(backward=backward)


class DenseTransformer(EncoderContender):
    """PyTorch's ``nn.TransformerEncoder``, as wide and deep as ours, post-norm; in inference on its fast path."""

    name, title = "transformer", "nn.TransformerEncoder"

    @override
    def make_encoder(self, problem: EncoderProblem) -> nn.Module:
        options = problem.options
        layer = nn.TransformerEncoderLayer(options.hidden, problem.heads.num_heads, FFN, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, options.layers)

    @override
    def prepare(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # from its fast path
        batches = problem.workload.batches
        masks = [None if is_uniform(batch) else ~prefix_mask(torch.tensor(batch)) for batch in batches]

        def encode(state: None, number: int, tokens: Tensor) -> Tensor:
            return encoder(tokens, src_key_padding_mask=masks[number])

        return encode, lambda: None


class MaskedDense(EncoderContender):
    """MS-Trans the usual way: dense attention of all heads at once, with a mask of every head's window."""

    name, title = "masked", "MS-Trans (dense with masks)"

    @override
    def make_encoder(self, problem: EncoderProblem) -> nn.Module:
        return MSTransEncoder(problem.options)

    @override
    def estimate_bytes(self, problem: EncoderProblem, *, backward: bool) -> int:
        """The masks of all layers, the temporaries that make them, and one mask as numbers."""
        heads, batches = problem.heads.num_heads, problem.workload.batches
        squares = [(1 if is_uniform(batch) else len(batch)) * max(batch) ** 2 for batch in batches]
        scores = 4 * heads * max(len(batch) * max(batch) ** 2 for batch in batches)
        return len(problem.heads.layers) * heads * sum(squares) + 12 * heads * max(squares) + scores * backward

    @override
    def prepare(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        assert isinstance(encoder, MSTransEncoder)
        masks = [
            [_mask_windows(batch, reach) for reach in problem.heads.reaches(batch)]
            for batch in problem.workload.batches
        ]

        def encode(state: None, number: int, tokens: Tensor) -> Tensor:
            for layer, mask in zip(encoder.layers, masks[number], strict=True):
                tokens = _apply_masked_layer(layer, tokens, mask)
            return tokens

        return encode, lambda: None


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


CONTENDERS = (OursEncoder, DenseTransformer, MaskedDense, DGLEncoder)

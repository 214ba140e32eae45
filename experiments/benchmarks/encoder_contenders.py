"""Who encodes: whole encoders of three layers, 300 wide, ten heads, over the same random token vectors.

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

from graphattn.builders import TextGraphBuilder
from graphattn.experiments.benchmarks.clock import Job
from graphattn.experiments.benchmarks.contenders import OURS, Contender
from graphattn.experiments.benchmarks.window_heads import WindowHeads, is_uniform
from graphattn.experiments.benchmarks.workloads import Lengths, Workload
from graphattn.layers.multi_scale import MultiScaleAttention
from graphattn.models import MSTransOptions
from graphattn.models.encoders import MSTransEncoder
from graphattn.models.padding import pad, prefix_mask

if TYPE_CHECKING:
    from dgl import DGLGraph

FFN = 1200
LEARNING_RATE = 1e-4


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


class EncoderContender(Contender[EncoderProblem]):
    """An encoder over all batches: inference, or a training step with Adam; dropout is 0 for all.

    Dropout on attention weights would send PyTorch's encoder down a slow path, so nobody has any.
    """

    def job(self, problem: EncoderProblem, *, backward: bool) -> Job:
        """Forward in inference mode, or forward, backward (down to the token vectors) and a step of the optimizer."""
        batches = problem.workload.batches
        encoder = self.encoder(problem).train(backward)
        inputs = [
            self.laid_out(tokens, batch).requires_grad_(backward)
            for tokens, batch in zip(problem.tokens, batches, strict=True)
        ]
        encode, fresh = self.prepared(problem, encoder)
        if not backward:
            return Job(lambda made: _infer(encode, made, inputs), fresh)
        weights = [torch.randn_like(tokens) for tokens in inputs]  # of a loss that looks at every number
        optimizer = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE)

        def step(made: Any) -> None:
            for number, (tokens, weight) in enumerate(zip(inputs, weights, strict=True)):
                (encode(made, number, tokens) * weight).mean().backward()
                tokens.grad = None
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        return Job(step, fresh)

    @abstractmethod
    def encoder(self, problem: EncoderProblem) -> nn.Module:
        """The encoder, with fresh weights."""

    @abstractmethod
    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(N, C) in the encoder's layout."""

    @abstractmethod
    def prepared(
        self, problem: EncoderProblem, encoder: nn.Module
    ) -> tuple[Callable[[Any, int, Tensor], Tensor], Callable[[], Any]]:
        """What encodes batch number so-and-so, and what makes its first argument anew before each run."""


def _infer(encode: Callable[[Any, int, Tensor], Tensor], made: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    with torch.inference_mode():
        return [encode(made, number, tokens) for number, tokens in enumerate(inputs)]


class OursEncoder(EncoderContender):
    """The MS-Trans encoder as models use it; every run gets new graphs, whose making is not timed."""

    name, title, backend = OURS, "GraphAttn MS-Trans", "auto"

    def encoder(self, problem: EncoderProblem) -> nn.Module:
        """MS-Trans with one backend in all layers."""
        encoder = MSTransEncoder(problem.options)
        for module in encoder.modules():
            if isinstance(module, MultiScaleAttention):
                module.backend = self.backend
        return encoder

    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(N, C) as it is."""
        return flat.clone()

    def prepared(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        """The encoder on graph and tokens."""
        assert isinstance(encoder, MSTransEncoder)
        builder = TextGraphBuilder(encoder.relations(), cls=False)

        def encode(graphs: list[Any], number: int, tokens: Tensor) -> Tensor:
            return encoder(graphs[number], tokens)

        return encode, lambda: self.graphs(problem, builder)

    def graphs(self, problem: EncoderProblem, builder: TextGraphBuilder) -> list[Any]:
        """New graphs of the batches, in the form that this contender likes best."""
        return list(problem.workload.graphs(builder))


class DGLEncoder(OursEncoder):
    """The same encoder with DGL's three operators, on DGL graphs."""

    name, title, backend = "dgl", "MS-Trans on DGL's operators", "dgl"

    def graphs(self, problem: EncoderProblem, builder: TextGraphBuilder) -> list[DGLGraph]:
        """DGL graphs, all edges written out."""
        return [graph.dgl for graph in problem.workload.graphs(builder)]

    def needs(self, problem: EncoderProblem, *, backward: bool) -> int:
        """As attention alone."""
        return problem.heads.dgl_bytes(backward=backward)


class DenseTransformer(EncoderContender):
    """PyTorch's ``nn.TransformerEncoder``; in inference on its fast path."""

    name, title = "transformer", "nn.TransformerEncoder"

    def encoder(self, problem: EncoderProblem) -> nn.Module:
        """Post-norm layers as wide and deep as ours, feed-forward part 1200."""
        options = problem.options
        layer = nn.TransformerEncoderLayer(options.hidden, problem.heads.num_heads, FFN, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, options.layers)

    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(B, T, C), padded."""
        return pad(flat, torch.tensor(lengths))

    def prepared(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        """The encoder on rows; padding is masked where there is some."""
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # its fast path says so once
        batches = problem.workload.batches
        masks = [None if is_uniform(batch) else ~prefix_mask(torch.tensor(batch)) for batch in batches]

        def encode(made: None, number: int, tokens: Tensor) -> Tensor:
            return encoder(tokens, src_key_padding_mask=masks[number])

        return encode, lambda: None


class MaskedDense(EncoderContender):
    """MS-Trans the usual way: dense attention of all heads at once, with a mask of every head's window."""

    name, title = "masked", "MS-Trans (dense with masks)"

    def encoder(self, problem: EncoderProblem) -> nn.Module:
        """The same weights as ours."""
        return MSTransEncoder(problem.options)

    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(B, T, C), padded."""
        return pad(flat, torch.tensor(lengths))

    def needs(self, problem: EncoderProblem, *, backward: bool) -> int:
        """The masks of three layers, their making, and one as numbers."""
        heads, batches = problem.heads.num_heads, problem.workload.batches
        squares = [(1 if is_uniform(batch) else len(batch)) * max(batch) ** 2 for batch in batches]
        scores = 4 * heads * max(len(batch) * max(batch) ** 2 for batch in batches)
        return len(problem.heads.layers) * heads * sum(squares) + 12 * heads * max(squares) + scores * backward

    def prepared(self, problem: EncoderProblem, encoder: nn.Module) -> Any:
        """Masks are made outside the clock."""
        assert isinstance(encoder, MSTransEncoder)
        masks = [
            [_window_mask(batch, reach) for reach in problem.heads.reaches(batch)] for batch in problem.workload.batches
        ]

        def encode(made: None, number: int, tokens: Tensor) -> Tensor:
            for layer, mask in zip(encoder.layers, masks[number], strict=True):
                tokens = _masked_layer(layer, tokens, mask)
            return tokens

        return encode, lambda: None


def _window_mask(lengths: Lengths, reach: Tensor) -> Tensor:
    """(B or 1, H, T, T) True where a head may look; padding looks at itself."""
    places = torch.arange(max(lengths))
    distance = (places.unsqueeze(1) - places).abs()
    if is_uniform(lengths):
        return distance <= reach[:1, :, None, None]
    inside = places < torch.tensor(lengths)[:, None, None, None]
    return (distance <= reach[:, :, None, None]) & inside | (distance == 0)


def _masked_layer(layer: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    """One MS-Trans layer on padded rows (B, T, C)."""
    attention = layer.attention
    rows, longest, _ = tokens.shape
    projected = attention.project(tokens).view(rows, longest, 3, attention.num_heads, attention.head_feats)
    query, key, value = projected.permute(2, 0, 3, 1, 4)  # (B, H, T, D) each
    seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=attention.scale)
    added = F.relu(attention.output(seen.transpose(1, 2).flatten(2)))
    return layer.norm(tokens + added)


CONTENDERS: tuple[type[EncoderContender], ...] = (OursEncoder, DenseTransformer, MaskedDense, DGLEncoder)

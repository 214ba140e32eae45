"""Who computes attention: the same random queries, keys and values of three layers, each in its favourite layout.

Letters: N tokens, B sentences, T tokens of the longest one, H heads, D features of a head.
"""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn import attend
from graphattn.array_graph import ArrayGraph
from graphattn.attention import attend_heads
from graphattn.builders import TextGraphBuilder
from graphattn.experiments.benchmarks.clock import Job, timed
from graphattn.experiments.benchmarks.contenders import OURS, Contender, Unable
from graphattn.experiments.benchmarks.window_heads import FLOAT, WindowHeads, is_uniform
from graphattn.experiments.benchmarks.workloads import Lengths, Workload
from graphattn.layers.multi_scale import edges_of
from graphattn.models import MSTransOptions
from graphattn.models.padding import pad, prefix_mask

if TYPE_CHECKING:
    from dgl import DGLGraph

Triple = tuple[Tensor, Tensor, Tensor]
"""Query, key and value."""


class AttentionProblem:
    """Three layers of MS-Trans heads (Table 1 of the paper) over a workload.

    Parameters
    ----------
    workload : the sentences
    options : heads, scales and widths; the paper's when None
    seed : of the random inputs
    """

    def __init__(self, workload: Workload, options: MSTransOptions | None = None, *, seed: int = 0):
        options = options or MSTransOptions()
        self.workload, self.heads = workload, WindowHeads(workload, options)
        shape = self.heads.num_heads, self.heads.head_feats
        self.builder = TextGraphBuilder(options.windows(), cls=False)
        random = torch.Generator().manual_seed(seed)

        def triple(tokens: int) -> Triple:
            query, key, value = torch.randn(3, tokens, *shape, generator=random)
            return query, key, value

        self.inputs = [[triple(sum(batch)) for _ in self.heads.layers] for batch in workload.batches]

    def graphs(self) -> list[ArrayGraph]:
        """New graphs of the batches, as models take them."""
        return self.workload.graphs(self.builder)


class AttentionContender(Contender[AttentionProblem]):
    """Attention of all layers and batches; sub-classes say how inputs are laid out and what is computed."""

    def job(self, problem: AttentionProblem, *, backward: bool) -> Job:
        """Forward without gradients, or forward and the gradients of query, key and value."""
        inputs = self.inputs(problem)
        leaves = [tensor.requires_grad_(backward) for layers in inputs for own in layers for tensor in own]
        gradients = [
            gradient
            for layers in inputs
            for gradient in self.gradients(problem, [self.value(problem, own) for own in layers])
        ]
        forward, fresh = self.prepared(problem)

        def run(made: Any) -> Sequence[Tensor]:
            if backward:
                return torch.autograd.grad(forward(made, inputs), leaves, gradients)
            with torch.inference_mode():
                return forward(made, inputs)

        return Job(run, fresh)

    def gradients(self, problem: AttentionProblem, values: Sequence[Tensor]) -> list[Tensor]:
        """What the backward pass gets for each output of one batch; ``values`` of its layers have the right shapes."""
        return [value.detach().clone() for value in values]

    def value(self, problem: AttentionProblem, inputs: tuple[Tensor, ...]) -> Tensor:
        """The values among the inputs of a layer, which are shaped like its output."""
        return inputs[2]

    def inputs(self, problem: AttentionProblem) -> list[list[tuple[Tensor, ...]]]:
        """What each layer gets, for each batch."""
        return [
            [tuple(self.laid_out(tensor, batch) for tensor in triple) for triple in layers]
            for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True)
        ]

    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(N, H, D) in the layout that this contender likes best."""
        return flat.clone()

    @abstractmethod
    def prepared(
        self, problem: AttentionProblem
    ) -> tuple[Callable[[Any, list[list[Any]]], list[Tensor]], Callable[[], Any]]:
        """What is timed, and what makes its first argument anew before each run."""


class Ours(AttentionContender):
    """GraphAttn's ``attend_heads``, a call for each layer, as models do; each run on new graphs."""

    name, title = OURS, "GraphAttn"

    def prepared(self, problem: AttentionProblem) -> Any:
        """Takes the relations out of the graph inside the clock, once for all layers, as the encoder does."""

        def forward(graphs: list[Any], inputs: list[list[tuple[Tensor, ...]]]) -> list[Tensor]:
            outputs = []
            for graph, layers in zip(graphs, inputs, strict=True):
                edges = edges_of(graph, problem.heads.relations)
                for heads, (projected,) in zip(problem.heads.layers, layers, strict=True):
                    taken = [edges[name] for name in heads]
                    outputs.append(attend_heads(taken, list(heads.values()), projected))
            return outputs

        return forward, problem.graphs

    def value(self, problem: AttentionProblem, inputs: tuple[Tensor, ...]) -> Tensor:
        """The last rows of what one projection makes."""
        return inputs[0][:, -problem.heads.num_heads :]

    def inputs(self, problem: AttentionProblem) -> list[list[tuple[Tensor, ...]]]:
        """Queries and keys of the heads that see more than their own token, values of all, side by side."""
        made: list[list[tuple[Tensor, ...]]] = []
        for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True):
            scored = [(reach > 0).any(dim=0) for reach in problem.heads.reaches(batch)]
            pairs = zip(scored, layers, strict=True)
            made.append([(torch.cat([query[:, own], key[:, own], value], 1),) for own, (query, key, value) in pairs])
        return made


class ByRelation(AttentionContender):
    """GraphAttn's ``attend``, a call for each relation, with a backend to compare with."""

    backend = "torch"

    def prepared(self, problem: AttentionProblem) -> Any:
        """Takes the relations out of the graph inside the clock, once for all layers, as the encoder does."""

        def forward(graphs: list[Any], inputs: list[list[Triple]]) -> list[Tensor]:
            outputs = []
            for graph, layers in zip(graphs, inputs, strict=True):
                edges = edges_of(graph, problem.heads.relations)
                for heads, triple in zip(problem.heads.layers, layers, strict=True):
                    parts = parts_of(heads, triple)
                    outputs += [attend(edges[name], *parts[name], backend=self.backend) for name in heads]
            return outputs

        return forward, lambda: self.graphs(problem)

    def gradients(self, problem: AttentionProblem, values: Sequence[Tensor]) -> list[Tensor]:
        """One for each layer and relation."""
        return gradients_of_relations(problem, values)

    def graphs(self, problem: AttentionProblem) -> list[Any]:
        """New graphs of the batches, in the form that this contender likes best."""
        return problem.graphs()


class DGLOperators(ByRelation):
    """The same through DGL's u_dot_v, edge_softmax and u_mul_e_sum, on DGL graphs."""

    name, title, backend = "dgl", "DGL's three operators", "dgl"

    def graphs(self, problem: AttentionProblem) -> list[DGLGraph]:
        """DGL graphs, all edges written out."""
        return [graph.dgl for graph in problem.graphs()]

    def needs(self, problem: AttentionProblem, *, backward: bool) -> int:
        """Arrays of the edges' size."""
        return problem.heads.dgl_bytes(backward=backward)


class TorchSegments(ByRelation):
    """The same through PyTorch's gathers and segment sums."""

    name, title, backend = "torch", "GraphAttn (backend torch)", "torch"

    def needs(self, problem: AttentionProblem, *, backward: bool) -> int:
        """Weights of all layers when there is a backward pass."""
        return problem.heads.edge_sized_bytes(per_pair=FLOAT, kept=int(backward), passing=1, per_edge=4)


def parts_of(heads: Mapping[str, int], triple: Triple) -> dict[str, Triple]:
    """Relation -> queries, keys and values of its heads, (N, heads of the relation, D)."""
    queries, keys, values = (tensor.split(list(heads.values()), dim=1) for tensor in triple)
    return dict(zip(heads, zip(queries, keys, values, strict=True), strict=True))


def gradients_of_relations(problem: AttentionProblem, values: Sequence[Tensor]) -> list[Tensor]:
    """(N, heads of the relation, D) for each layer and relation."""
    return [
        part.clone()
        for heads, value in zip(problem.heads.layers, values, strict=True)
        for part in value.detach().split(list(heads.values()), dim=1)
    ]


class DenseAttention(AttentionContender):
    """What a plain Transformer of the same width does: every token attends to every other, in all heads."""

    name, title = "dense", "dense SDPA (full attention)"

    def laid_out(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """(B, H, T, D), contiguous."""
        return pad(flat, torch.tensor(lengths)).transpose(1, 2).contiguous()

    def prepared(self, problem: AttentionProblem) -> Any:
        """PyTorch's ``scaled_dot_product_attention``; padding is masked where there is some."""
        masks = [_padding_mask(batch) for batch in problem.workload.batches]

        def forward(made: None, inputs: list[list[Triple]]) -> list[Tensor]:
            return [
                F.scaled_dot_product_attention(*triple, attn_mask=mask)
                for mask, layers in zip(masks, inputs, strict=True)
                for triple in layers
            ]

        return forward, _nothing


class Flex(AttentionContender):
    """PyTorch's FlexAttention, compiled for each shape, with a block mask of every head's window."""

    name, title, has_backward = "flex", "FlexAttention (compiled)", False

    laid_out = DenseAttention.laid_out

    def __init__(self, *, compiled: bool = True):
        self.compiled = compiled

    def missing(self) -> str | None:
        """It compiles C++."""
        compilers = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
        if self.compiled and not any(compiler and shutil.which(compiler) for compiler in compilers):
            return "there is no C++ compiler"
        return None

    def needs(self, problem: AttentionProblem, *, backward: bool) -> int:
        """Making a block mask writes the whole mask out: positions once, decisions for each head."""
        longest = [(1 if is_uniform(batch) else len(batch), max(batch)) for batch in problem.workload.batches]
        heads = problem.heads.num_heads
        return max(rows * length * length * (16 + 3 * heads) for rows, length in longest)

    def job(self, problem: AttentionProblem, *, backward: bool) -> Job:
        """Compiles by a first run.

        Raises
        ------
        Unable
            when PyTorch cannot compile it here
        """
        job = super().job(problem, backward=backward)
        try:
            timed(job)
        except RuntimeError as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise Unable(f"does not compile here ({first})") from error
        return job

    def prepared(self, problem: AttentionProblem) -> Any:
        """Masks and compilation lie outside the clock."""
        from torch.nn.attention.flex_attention import flex_attention

        torch.compiler.reset()  # else compilations of earlier shapes count towards PyTorch's limit
        attention = torch.compile(flex_attention, dynamic=False, fullgraph=True) if self.compiled else flex_attention
        masks = [_block_masks(batch, problem.heads.reaches(batch)) for batch in problem.workload.batches]

        def forward(made: None, inputs: list[list[Triple]]) -> list[Any]:
            return [
                attention(*triple, block_mask=mask)
                for own, layers in zip(masks, inputs, strict=True)
                for mask, triple in zip(own, layers, strict=True)
            ]

        return forward, _nothing


def _block_masks(lengths: Lengths, reaches: Sequence[Tensor]) -> list[Any]:
    """A block mask of each layer; one for all sentences when they are of one length."""
    from torch.nn.attention.flex_attention import create_block_mask

    longest, ends = max(lengths), torch.tensor(lengths)
    alike = is_uniform(lengths)

    def mask_of(reach: Tensor) -> Any:
        def inside(sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            near = (query - key).abs() <= reach[sentence, head]
            return near if alike else near & (key < ends[sentence])

        def inside_any(sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (query - key).abs() <= reach[0, head]

        mask = inside_any if alike else inside
        return create_block_mask(mask, None if alike else len(lengths), reach.shape[1], longest, longest, device="cpu")

    return [mask_of(reach) for reach in reaches]


class PyGTransformerConv(AttentionContender):
    """PyTorch Geometric's TransformerConv: its message passing, without its projections."""

    name, title, package = "pyg", "PyG TransformerConv", "torch_geometric"

    def needs(self, problem: AttentionProblem, *, backward: bool) -> int:
        """Queries, keys, values and messages of every edge are written out; the backward pass keeps them."""
        width = FLOAT * problem.heads.head_feats
        return problem.heads.edge_sized_bytes(per_pair=width, kept=4 * backward, passing=4, per_edge=16)

    def prepared(self, problem: AttentionProblem) -> Any:
        """Edges are laid out as pairs of node numbers outside the clock."""
        from torch_geometric.nn import TransformerConv

        feats = problem.heads.head_feats
        layers_of = [
            {name: TransformerConv(feats, feats, heads=count) for name, count in heads.items()}
            for heads in problem.heads.layers
        ]
        ends = []
        for graph in problem.graphs():
            taken = edges_of(graph, problem.heads.relations)
            ends.append({name: torch.stack([own.sources, own.destinations]) for name, own in taken.items()})

        def forward(made: None, inputs: list[list[Triple]]) -> list[Tensor]:
            outputs = []
            for own, layers in zip(ends, inputs, strict=True):
                for heads, convs, triple in zip(problem.heads.layers, layers_of, layers, strict=True):
                    for name, (query, key, value) in parts_of(heads, triple).items():
                        propagate = convs[name].propagate
                        outputs.append(propagate(own[name], query=query, key=key, value=value, edge_attr=None))
            return outputs

        return forward, _nothing

    def gradients(self, problem: AttentionProblem, values: Sequence[Tensor]) -> list[Tensor]:
        """One for each layer and relation."""
        return gradients_of_relations(problem, values)


def _padding_mask(lengths: Lengths) -> Tensor | None:
    """(B, 1, 1, T) True at tokens; None when there is no padding."""
    return None if is_uniform(lengths) else prefix_mask(torch.tensor(lengths))[:, None, None, :]


def _nothing() -> None:
    return None

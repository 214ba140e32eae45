"""``bench attention``: the operator alone, forward and backward, against other implementations of attention.

All contenders get the same random queries, keys and values of three layers, each in its favourite layout.
Letters: N tokens, B sentences, T tokens of the longest one, H heads, D features of a head.
"""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import override

from graphattn import attend
from graphattn._attention import attend_heads
from graphattn._edges import edges_of
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.experiments.benchmarks._contenders import Contender, Job, Problem, Settings, UnableError
from graphattn.experiments.benchmarks._harness import BOTH, COLUMNS, FORWARD, OURS, Comparison, compare
from graphattn.experiments.benchmarks._operations import FLOAT, WindowHeads
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record, plot_cost
from graphattn.experiments.benchmarks._workloads import Lengths, Workload, is_uniform
from graphattn.models import MSTransOptions
from graphattn.models._padding import pad, prefix_mask

if TYPE_CHECKING:
    from dgl import DGLGraph

LENGTHS = ("22", "1024x22", "109", "201", "512", "2048", "8192", "32768", "mr", "mtl16", "imdb")
QUICK = ("22", "109", "4x512")
LONG = 2048
DESCRIPTION = """\
Attention of three layers with MS-Trans heads (alpha 0.5, scales 1, 3, N/16, N/8, N/4), ten heads of 30 features,
float32. All contenders get the same random queries, keys and values, in their favourite layout. GraphAttn, DGL and
PyTorch Geometric follow the edges of the windows; FlexAttention has a block mask of every head's window, in blocks of
64 tokens; dense SDPA attends to all tokens in all heads, as a plain Transformer of the same width does, by PyTorch's
fused kernel or by its backend "math". GraphAttn gets no queries and keys
of heads whose window is one token, as in its models: their softmax is one, whatever the score, and gradients of both
are zero. Outputs stay in the layout of the inputs. `forward` runs in inference mode; `forward + backward` ends with
the gradients of queries, keys and values. Not timed: random numbers, padding, masks, compilation, graph construction
(each run of GraphAttn and of DGL gets a new graph without cached values)."""

LayerTensors = list[tuple[Tensor, ...]]
"""The tensors of each layer: queries, keys and values."""
LayerInputs = list[LayerTensors]
"""The layers of each batch."""


def measure(settings: Settings) -> BenchmarkReport:
    """Time all contenders on all workloads."""
    report = BenchmarkReport("attention", DESCRIPTION, COLUMNS, settings, plot=plot_cost)
    compare(report, settings, Comparison(CONTENDERS, {FORWARD: False, BOTH: True}, add_columns=count_pairs))
    report.notes = [line for name in (FORWARD, BOTH) if (line := summarize_pair_cost(report.rows, name))]
    return report


def count_pairs(contender: Contender, workload: Workload) -> Record:
    """The column ``pairs``: query-key pairs that the heads score."""
    return {"pairs": WindowHeads(workload, MSTransOptions()).pairs}


def summarize_pair_cost(rows: Sequence[Record], task: str) -> str | None:
    """Our cost of a query-key pair at each length from :data:`LONG` tokens on; None if there is only one."""
    long = [
        row
        for row in rows
        if row["contender"] == OURS and row["task"] == task and row["pairs"] and (row["length"] or 0) >= LONG
    ]
    if len({row["length"] for row in long}) < 2:
        return None
    costs = {row["workload"]: 1e6 * row["median_ms"] / row["pairs"] for row in long}
    each = ", ".join(f"{name} {cost:.3f} ns" for name, cost in costs.items())
    spread = max(costs.values()) / min(costs.values())
    return f"{task}, cost of one edge of one head: {each}; largest over smallest {spread:.2f}"


class AttentionProblem(Problem):
    """Three layers of MS-Trans heads (Table 1 of the paper) over a workload."""

    def __init__(self, workload: Workload, options: MSTransOptions | None = None):
        options = options or MSTransOptions()
        super().__init__(workload)
        self.heads = WindowHeads(workload, options)
        shape = self.heads.num_heads, self.heads.head_feats
        self.builder = TextGraphBuilder(options.windows(), cls=False)
        random = torch.Generator().manual_seed(0)
        self.inputs: LayerInputs = [
            [tuple(torch.randn(3, sum(batch), *shape, generator=random)) for _ in self.heads.layers]
            for batch in workload.batches
        ]

    def build_graphs(self) -> list[TextBatch]:
        """New graphs of the batches, as models take them."""
        return self.workload.graphs(self.builder)


class AttentionContender(Contender):
    """Attention of all layers and batches; subclasses define the layout and the computation."""

    problem = AttentionProblem

    @override
    def make_job(self, problem: AttentionProblem, *, backward: bool) -> Job:
        inputs = [
            [tuple(map(problem.placement.put, layer)) for layer in layers] for layers in self.make_inputs(problem)
        ]
        leaves = [tensor.requires_grad_(backward) for layers in inputs for layer in layers for tensor in layer]
        gradients = [gradient for layers in inputs for gradient in self.make_gradients(problem, layers)]

        def run(contexts: Sequence[Any]) -> Sequence[Tensor]:
            with torch.inference_mode(not backward):
                outputs = [
                    output
                    for context, layers in zip(contexts, inputs, strict=True)
                    for output in self.attend(problem, context, layers)
                ]
            return torch.autograd.grad(outputs, leaves, gradients) if backward else outputs

        return Job(run, self.prepare(problem))

    def make_inputs(self, problem: AttentionProblem) -> LayerInputs:
        """The inputs in the layout of this contender."""
        return [
            [tuple(self.to_layout(tensor, batch) for tensor in triple) for triple in layers]
            for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True)
        ]

    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """Convert (N, H, D) to the favourite layout of this contender."""
        return flat.clone()

    def make_gradients(self, problem: AttentionProblem, layers: LayerTensors) -> list[Tensor]:
        """The gradients of the outputs of one batch: copies of the values, which have the same shapes."""
        return [value.detach().clone() for _, _, value in layers]

    @abstractmethod
    def prepare(self, problem: AttentionProblem) -> Callable[[], Sequence[Any]]:
        """A function that makes the context of each batch before each run: its edges or its mask."""

    @abstractmethod
    def attend(self, problem: AttentionProblem, context: Any, layers: LayerTensors) -> list[Tensor]:
        """The outputs of one batch."""


@dataclass(frozen=True)
class AttendHeads(AttentionContender):
    """GraphAttn's ``attend_heads``, one call for each layer, as in models; each run on new graphs, or on known ones."""

    is_known: bool = False

    @override
    def make_inputs(self, problem: AttentionProblem) -> LayerInputs:
        # one projection: queries and keys of the heads that see more than their own token, and all values
        inputs: LayerInputs = []
        for batch, layers in zip(problem.workload.batches, problem.inputs, strict=True):
            scoring = [(reach > 0).any(dim=0) for reach in problem.heads.reaches(batch)]
            pairs = zip(scoring, layers, strict=True)
            inputs.append(
                [(torch.cat([query[:, mask], key[:, mask], value], 1),) for mask, (query, key, value) in pairs]
            )
        return inputs

    @override
    def make_gradients(self, problem: AttentionProblem, layers: LayerTensors) -> list[Tensor]:
        return [projected.detach()[:, -problem.heads.num_heads :].clone() for (projected,) in layers]

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], list[TextBatch]]:
        graphs = problem.build_graphs() if self.is_known else []
        return (lambda: graphs) if self.is_known else problem.build_graphs

    @override
    def attend(self, problem: AttentionProblem, context: TextBatch, layers: LayerTensors) -> list[Tensor]:
        # timed, once for all layers, as in the encoder
        edges = edges_of(context, problem.heads.relations, problem.placement.device)
        return [
            attend_heads([edges[name] for name in heads], list(heads.values()), projected)
            for heads, (projected,) in zip(problem.heads.layers, layers, strict=True)
        ]


class AttendByRelation(AttentionContender):
    """One call of an operator for each layer and relation."""

    @override
    def make_gradients(self, problem: AttentionProblem, layers: LayerTensors) -> list[Tensor]:
        return [value.detach().clone() for _, _, (_, _, value) in split_by_relation(problem.heads, layers)]


class TorchSegments(AttendByRelation):
    """GraphAttn's ``attend`` with PyTorch's gathers and segment sums."""

    backend: ClassVar[str] = "torch"

    @override
    def estimate_bytes(self, problem: AttentionProblem, *, backward: bool) -> int:
        return problem.heads.estimate_edge_bytes(per_pair=FLOAT, kept=int(backward), transient=1, per_edge=4)

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], list[Any]]:
        return problem.build_graphs

    @override
    def attend(self, problem: AttentionProblem, context: Any, layers: LayerTensors) -> list[Tensor]:
        edges = edges_of(context, problem.heads.relations, problem.placement.device)
        parts = split_by_relation(problem.heads, layers)
        return [attend(edges[name], *triple, backend=self.backend) for _, name, triple in parts]


class DGLOperators(TorchSegments):
    """GraphAttn's ``attend`` with DGL's u_dot_v, edge_softmax and u_mul_e_sum, on DGL graphs."""

    backend, packages, runs_on_gpu = "dgl", ("dgl",), False

    @override
    def estimate_bytes(self, problem: AttentionProblem, *, backward: bool) -> int:
        return problem.heads.estimate_dgl_bytes(backward=backward)

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], list[DGLGraph]]:
        return lambda: [graph.to_dgl() for graph in problem.build_graphs()]


def split_by_relation(heads: WindowHeads, layers: LayerTensors) -> list[tuple[int, str, tuple[Tensor, ...]]]:
    """Layer, relation, and queries, keys and values of its heads, (N, heads of the relation, D)."""
    parts = []
    for number, (counts, tensors) in enumerate(zip(heads.layers, layers, strict=True)):
        triples = zip(*(tensor.split(list(counts.values()), dim=1) for tensor in tensors), strict=True)
        parts += [(number, name, triple) for name, triple in zip(counts, triples, strict=True)]
    return parts


@dataclass(frozen=True)
class DenseAttention(AttentionContender):
    """A plain Transformer's attention, PyTorch's ``scaled_dot_product_attention``, with masked padding."""

    by_token: bool = False  # whether tensors lie in memory as (B, T, H, D)

    @override
    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        # (B, H, T, D)
        padded = pad(flat, torch.tensor(lengths)).transpose(1, 2)
        return padded if self.by_token else padded.contiguous()

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], Sequence[Any]]:
        batches = problem.workload.batches
        put = problem.placement.put
        masks = [
            None if is_uniform(batch) else put(prefix_mask(torch.tensor(batch))[:, None, None]) for batch in batches
        ]
        return lambda: masks

    @override
    def attend(self, problem: AttentionProblem, context: Any, layers: LayerTensors) -> list[Tensor]:
        return [F.scaled_dot_product_attention(q, k, v, attn_mask=context) for q, k, v in layers]


class DenseMath(DenseAttention):
    """The same by matrix products and a softmax, which store all scores."""

    @override
    def estimate_bytes(self, problem: AttentionProblem, *, backward: bool) -> int:
        # scores before and after the softmax; the backward pass keeps the latter of all layers
        pairs = [len(batch) * max(batch) ** 2 for batch in problem.workload.batches]
        kept = len(problem.heads.layers) * sum(pairs) if backward else 0
        return FLOAT * problem.heads.num_heads * (2 * max(pairs) + kept)

    @override
    def attend(self, problem: AttentionProblem, context: Any, layers: LayerTensors) -> list[Tensor]:
        with sdpa_kernel(SDPBackend.MATH):
            return super().attend(problem, context, layers)


@dataclass(frozen=True)
class Flex(DenseAttention):
    """PyTorch's FlexAttention, compiled for each shape, with a block mask of every head's window."""

    compiled: bool = True
    block_size: int = 64  # larger ones skip less of a window's neighbourhood

    @override
    def check_requirements(self) -> Contender:
        compilers = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
        if self.compiled and not any(compiler and shutil.which(compiler) for compiler in compilers):
            raise UnableError("there is no C++ compiler")
        return self

    @override
    def estimate_bytes(self, problem: AttentionProblem, *, backward: bool) -> int:
        # making a block mask needs the full mask: positions once, decisions for each head
        longest = [(1 if is_uniform(batch) else len(batch), max(batch)) for batch in problem.workload.batches]
        heads = problem.heads.num_heads
        return max(rows * length * length * (16 + 3 * heads) for rows, length in longest)

    @override
    def make_job(self, problem: AttentionProblem, *, backward: bool) -> Job:
        # compile in a first run
        job = super().make_job(problem, backward=backward)
        try:
            job.time(problem.placement.device)
        except RuntimeError as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnableError(f"does not compile here ({first})") from error
        return job

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], list[list[Callable[..., Tensor]]]]:
        from torch.nn.attention.flex_attention import flex_attention

        device = problem.placement.device
        block_size = self.block_size if device.type == "cpu" else 128  # of its kernels on a GPU
        torch.compiler.reset()  # else compilations of earlier shapes count towards PyTorch's limit
        function = torch.compile(flex_attention, dynamic=False, fullgraph=True) if self.compiled else flex_attention
        contexts: list[list[Callable[..., Tensor]]] = [
            [
                partial(function, block_mask=mask)
                for mask in _make_block_masks(batch, problem.heads.reaches(batch), block_size, device)
            ]
            for batch in problem.workload.batches
        ]
        return lambda: contexts

    @override
    def attend(
        self, problem: AttentionProblem, context: list[Callable[..., Tensor]], layers: LayerTensors
    ) -> list[Tensor]:
        return [function(*triple) for function, triple in zip(context, layers, strict=True)]


def _make_block_masks(lengths: Lengths, reaches: Sequence[Tensor], block_size: int, device: torch.device) -> list[Any]:
    """A block mask of each layer; one for all sentences if they have one length."""
    from torch.nn.attention.flex_attention import create_block_mask

    longest, ends = max(lengths), torch.tensor(lengths, device=device)
    uniform = is_uniform(lengths)

    def make_mask(reach: Tensor) -> Any:
        def is_inside(sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return ((query - key).abs() <= reach[sentence, head]) & (key < ends[sentence])

        def is_inside_any(sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (query - key).abs() <= reach[0, head]

        mask, sentences = (is_inside_any, None) if uniform else (is_inside, len(lengths))
        heads = reach.shape[1]
        return create_block_mask(mask, sentences, heads, longest, longest, device=device, BLOCK_SIZE=block_size)

    return [make_mask(reach.to(device)) for reach in reaches]


@dataclass(frozen=True)
class PyGTransformerConv(AttendByRelation):
    """The message passing of PyTorch Geometric's TransformerConv, without its projections."""

    packages = ("torch_geometric",)

    is_sorted: bool = False  # whether it gets an ``EdgeIndex`` that is known to be sorted by destination

    @override
    def estimate_bytes(self, problem: AttentionProblem, *, backward: bool) -> int:
        # it materializes queries, keys, values and messages of every edge; the backward pass keeps them
        width = FLOAT * problem.heads.head_feats
        return problem.heads.estimate_edge_bytes(per_pair=width, kept=4 * backward, transient=4, per_edge=16)

    @override
    def prepare(self, problem: AttentionProblem) -> Callable[[], list[dict[tuple[int, str], Callable[..., Tensor]]]]:
        from torch_geometric import EdgeIndex
        from torch_geometric.nn import TransformerConv

        feats = problem.heads.head_feats
        sort: Callable[[Tensor], Tensor] = (
            partial(EdgeIndex, sort_order="col") if self.is_sorted else lambda index: index
        )
        contexts: list[dict[tuple[int, str], Callable[..., Tensor]]] = []
        for graph in problem.build_graphs():
            edges = edges_of(graph, problem.heads.relations)
            indices = {
                name: problem.placement.put(torch.stack([relation.sources, relation.destinations]))
                for name, relation in edges.items()
            }
            contexts.append(
                {
                    (number, name): partial(TransformerConv(feats, feats, heads=count).propagate, sort(indices[name]))
                    for number, heads in enumerate(problem.heads.layers)
                    for name, count in heads.items()
                }
            )
        return lambda: contexts

    @override
    def attend(self, problem: AttentionProblem, context: Any, layers: LayerTensors) -> list[Tensor]:
        with torch.inference_mode(False) if self.is_sorted else nullcontext():  # which an EdgeIndex does not support
            return [
                context[number, name](query=query, key=key, value=value, edge_attr=None)
                for number, name, (query, key, value) in split_by_relation(problem.heads, layers)
            ]


OURS_ATTENTION = AttendHeads(OURS, "GraphAttn")
TORCH = TorchSegments("torch", "GraphAttn (backend torch)")
DENSE = DenseAttention("dense", "dense SDPA (full attention)")
DGL = DGLOperators("dgl", "DGL's three operators")
PYG = PyGTransformerConv("pyg", "PyG TransformerConv")
CONTENDERS = (
    OURS_ATTENTION,
    DENSE,
    DenseMath("dense-math", "dense SDPA, backend math"),
    DenseAttention("dense-by-token", "dense SDPA, (B, T, H, D)", by_token=True, is_trial=True),
    DGL,
    Flex("flex", "FlexAttention (compiled)", has_backward=False),
    Flex("flex-128", "FlexAttention, blocks of 128", block_size=128, has_backward=False, is_trial=True),
    PYG,
    PyGTransformerConv("pyg-sorted", "PyG TransformerConv, sorted EdgeIndex", is_sorted=True, is_trial=True),
    AttendHeads("ours-known", "GraphAttn, known graphs", is_known=True, is_trial=True),
)

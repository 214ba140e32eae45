"""``bench store``: building a store of generated parsed sentences, its memory, and reading it beside inference."""

from __future__ import annotations

import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from graphattn.builders import Dependency, TextGraphBuilder
from graphattn.builders.store import GraphStream, Store
from graphattn.builders.store._datasets import StoreBatch
from graphattn.experiments.benchmarks._fresh_processes import build_in_subprocess
from graphattn.experiments.benchmarks._harness import MEBIBYTE, column
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.models import MSTransOptions
from graphattn.models._encoders import MSTransEncoder

DESCRIPTION = """\
`graphattn build` of a generated CoNLL-U file (1 to 49 words a sentence, 25 on average, from a vocabulary of 50,000 by
Zipf's law, with heads, relations and tags), with the windows of MS-Trans and dependencies. Memory is the peak of
resident memory in the parent and in the largest of the other processes. Reading is one epoch of `GraphStream`:
shuffled batches of 128 sentences, decoded from disk and built for models; inference is MS-Trans (three layers, 300
wide, ten heads, float32) on the same batches, the first of the epoch."""
_COLUMNS = {name: column(name) for name in ("step", "seconds", "result")}
_RELATIONS = "window:1,window:3,window:N/16,window:N/8,window:N/4,dependency"
_NAMES = "acl advcl advmod amod appos aux case cc ccomp conj cop det nmod nsubj obj obl punct".split()
_TAGS = "NOUN VERB ADJ ADP DET PUNCT PRON ADV".split()
_WORDS, _LONGEST, _CHUNK = 50_000, 49, 20_000
_BATCH, _INFERRED = 128, 40


def measure(sentences: int, jobs: int, *, folder: Path | None = None) -> BenchmarkReport:
    """Generate, build, read, and run a model."""
    with tempfile.TemporaryDirectory(dir=None if folder is None else folder.absolute()) as name:
        corpus, store = Path(name) / "corpus.conllu", Path(name) / "store"
        with open(corpus, "w", encoding="utf-8") as file:
            write_conllu(file, sentences)
        built = build_in_subprocess([corpus], store, "--relations", _RELATIONS, "--jobs", str(jobs))
        size, written = corpus.stat().st_size, sum(path.stat().st_size for path in store.rglob("*.parquet"))
        read, inferred, batches = _time_reading(Store(store))
    parent, worker = built.parent / MEBIBYTE, built.worker / MEBIBYTE
    rows = [
        make_row("build", built.seconds, f"{sentences / built.seconds:,.0f} sentences a second, {jobs} processes"),
        make_row("", None, f"{parent:,.0f} MiB in the parent, {worker:,.0f} MiB in the largest other process"),
        make_row("", None, f"{written / 1e6:,.1f} MB, from {size / 1e6:,.1f} MB of text"),
        make_row("read", read, f"{sentences / read:,.0f} sentences a second, one process"),
        make_row("inference", inferred * batches, f"{batches:,} batches, from the first {min(_INFERRED, batches)}"),
        make_row("read / inference", None, f"{read / (inferred * batches):.1%}"),
    ]
    return BenchmarkReport("store", DESCRIPTION, _COLUMNS, {"sentences": sentences, "jobs": jobs}, rows)


def write_conllu(file: TextIO, sentences: int) -> None:
    """Write generated sentences with random trees."""
    random = np.random.default_rng(0)
    chances = 1 / np.arange(1, _WORDS + 1)
    chances /= chances.sum()
    for start in range(0, sentences, _CHUNK):
        lengths = random.integers(1, _LONGEST + 1, min(_CHUNK, sentences - start))
        words = iter(random.choice(_WORDS, lengths.sum(), p=chances).tolist())
        names = iter(random.integers(0, len(_NAMES), lengths.sum()).tolist())
        tags = iter(random.integers(0, len(_TAGS), lengths.sum()).tolist())
        positions = iter(random.random(lengths.sum()).tolist())
        for length in lengths.tolist():
            for number in range(1, length + 1):
                head, name = int(next(positions) * (number - 1)) + (number > 1), _NAMES[next(names)]
                relation = name if head else "root"
                file.write(f"{number}\tw{next(words)}\t_\t{_TAGS[next(tags)]}\t_\t_\t{head}\t{relation}\t_\t_\n")
            file.write("\n")


def _time_reading(store: Store) -> tuple[float, float, int]:
    """Seconds to read an epoch, seconds of inference on a batch, and the batches of an epoch."""
    encoder = MSTransEncoder(MSTransOptions()).eval()
    builder = TextGraphBuilder([*encoder.options.windows(), Dependency()], vocabulary=store.vocabulary)
    stream = GraphStream(store, builder, max_sentences=_BATCH)
    first = list(islice(stream, _INFERRED))
    start = time.perf_counter()
    batches = sum(1 for _ in stream)
    read = time.perf_counter() - start
    return read, min(_time_inference(encoder, first), _time_inference(encoder, first)), batches


def _time_inference(encoder: Any, batches: list[StoreBatch]) -> float:
    """Mean seconds of a batch."""
    inputs = [(batch.batch, torch.randn(batch.batch.num_nodes("token"), encoder.width)) for batch in batches]
    start = time.perf_counter()
    with torch.inference_mode():
        for graph, tokens in inputs:
            encoder(graph, tokens)
    return (time.perf_counter() - start) / max(len(inputs), 1)


def make_row(step: str, seconds: float | None, result: str) -> Record:
    """One step with its time and a sentence about it."""
    return {"step": step, "seconds": "" if seconds is None else f"{seconds:,.1f}", "result": result}

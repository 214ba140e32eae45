"""``bench latency``: one text at a time, and batches of 8 and 64, by models that are loaded, in one interleaved run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.output import show_progress
from graphattn.experiments.benchmarks._contenders import CPU, Job, UnableError
from graphattn.experiments.benchmarks._exports import export_onnx, quantize_onnx
from graphattn.experiments.benchmarks._harness import (
    LeftOut,
    describe_skipped,
    format_number,
    summarize_times,
    time_interleaved,
)
from graphattn.experiments.benchmarks._predict import train_model
from graphattn.experiments.benchmarks._pretrained import WORDS, find_minilm, load_reference
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record, describe_machine
from graphattn.models import MSTransOptions
from graphattn.models.pretrained._checkpoint import find_directory, find_transformer

SCRIPT = Path(__file__).with_name("_latency_peers.py")
THREADS = (1, 2)
REPEATS, QUICK_REPEATS = 45, 3
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip
_OFFLINE = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
SECONDS = 20.0
"""Measured time of all contenders on one kind of texts, after which no round starts."""
TRAINING_TEXTS, LONGEST = 256, 512


class Kind(NamedTuple):
    """Texts of so many words, so many at a time."""

    words: int
    texts: int


ALONE = (Kind(5, 1), Kind(22, 1), Kind(200, 1))
BATCHES = (Kind(22, 8), Kind(22, 64))

DESCRIPTION = """\
Milliseconds from raw texts to their vectors or labels by models that are loaded: tokenization, model, pooling. Texts
are new in each run; each word is one token of MiniLM. All contenders run in processes of their own, one after another
in each round, with one thread and then with two; the others are stopped meanwhile, since their idle threads would spin.
Numbers are medians. The first contenders read all-MiniLM-L6-v2 and have the same vectors up to rounding: GraphAttn's
`SentenceEncoder`, `transformers` and sentence-transformers in float32, and PyTorch's export in ONNX Runtime and
OpenVINO. In int8, GraphAttn has a scale and a zero for each token, ONNX Runtime for each batch, and OpenVINO fixed
ones, which nncf calibrates. `peer / ours` is of one text of 22 words, beside GraphAttn in the same precision. The last
contenders are small classifiers: GraphAttn's `predict` of an MS-Trans model with its defaults, spaCy's `textcat` and
fastText, which were trained on a few random texts."""


@dataclass(frozen=True)
class Entry:
    """One contender."""

    name: str  # in ``--peers`` and in JSON
    title: str  # in tables
    base: str  # the contender that it is compared with; itself for ours
    install: str = ""  # what pip gets

    @property
    def is_export(self) -> bool:
        """Whether it runs a file in ONNX's format."""
        return self.name.startswith(("onnx", "openvino"))


ENTRIES = (
    Entry("ours", "GraphAttn", "ours"),
    Entry("transformers", "transformers", "ours", "transformers"),
    Entry("sentence-transformers", "sentence-transformers", "ours", "sentence-transformers"),
    Entry("onnx", "ONNX Runtime", "ours", "onnxruntime tokenizers"),
    Entry("openvino", "OpenVINO", "ours", "openvino tokenizers"),
    Entry("ours-bfloat16", "GraphAttn, bfloat16", "ours-bfloat16"),
    Entry("openvino-bfloat16", "OpenVINO, bfloat16", "ours-bfloat16", "openvino tokenizers"),
    Entry("ours-int8", "GraphAttn, int8", "ours-int8"),
    Entry("onnx-int8", "ONNX Runtime, int8", "ours-int8", "onnxruntime tokenizers"),
    Entry("openvino-int8", "OpenVINO, int8", "ours-int8", "openvino nncf tokenizers"),
    Entry("ms-trans", "GraphAttn, MS-Trans", "ms-trans"),
    Entry("spacy", "spaCy, textcat", "ms-trans", "spacy"),
    Entry("fasttext", "fastText", "ms-trans", "fasttext-numpy2"),
)


def _show_time(kind: Kind) -> Any:
    return lambda row: format_number(row["times"][f"{kind.texts}x{kind.words}"]["median_ms"])


def _show_rate(kind: Kind) -> Any:
    return lambda row: format_number(1000 * kind.texts / row["times"][f"{kind.texts}x{kind.words}"]["median_ms"])


_COLUMNS = {
    "threads": lambda row: str(row["threads"]),
    "contender": lambda row: row["title"],
    **{f"{kind.words} words, ms": _show_time(kind) for kind in ALONE},
    "peer / ours": lambda row: f"{row['ratio']:.2f}" if "ratio" in row else "",
    "texts a second, one at a time": _show_rate(ALONE[1]),
    **{f"{kind.texts} at a time": _show_rate(kind) for kind in BATCHES},
}


@dataclass(frozen=True)
class LatencySettings:
    """What is measured, and how."""

    repeats: int = REPEATS
    peers: tuple[str, ...] | None = None  # None for all
    seconds: float = SECONDS
    pythons: Mapping[str, str] = field(default_factory=dict)  # peer -> the Python that has it, if not this one
    threads: tuple[int, ...] = THREADS

    def select(self) -> list[Entry]:
        """Ours, and the chosen peers; raises a ConfigError for a name of none."""
        names = [entry.name for entry in ENTRIES if entry.install]
        for flag, given in (("--peers", self.peers or ()), ("--pythons", self.pythons)):
            for name in given:
                if name not in names:
                    raise ConfigError(f"{flag} has {name!r}; choose from: {', '.join(names)}; or none")
        return [entry for entry in ENTRIES if not entry.install or self.peers is None or entry.name in self.peers]


def measure(settings: LatencySettings, *, pretrained: str | Path | None = None) -> BenchmarkReport:
    """Load all contenders that can run, and time them interleaved."""
    entries = settings.select()
    described = {name: value for name, value in asdict(settings).items() if name != "pythons"}  # no paths
    report = BenchmarkReport("latency", DESCRIPTION, _COLUMNS, described, plot=plot_latency)
    report.machine = {**describe_machine(), "threads": " and ".join(map(str, settings.threads))}
    skipped: list[LeftOut] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request = _prepare(folder, entries, pretrained, skipped)
        for threads in settings.threads:
            with ExitStack() as stack:
                started = {
                    entry: stack.enter_context(
                        start_worker(
                            entry.name,
                            {**request, "threads": threads},
                            settings.pythons.get(entry.name, sys.executable),
                            folder,
                        )
                    )
                    for entry in entries
                    if request["is_exported"] or not entry.is_export
                }
                workers: dict[str, Worker] = {}
                for entry, worker in show_progress(list(started.items()), f"loading, {threads} threads"):
                    try:
                        worker.wait()
                        workers[entry.name] = worker
                    except UnableError as error:
                        skipped.append(LeftOut(entry.title, "", add_advice(str(error), entry.install)))
                report.rows += time_workers(entries, workers, threads, settings)
                versions = {text for worker in workers.values() for text in worker.versions}
        report.notes = [f"Versions: {', '.join(sorted(versions))}."]
    report.left_out = describe_skipped(dict.fromkeys(skipped))
    return report


def _prepare(
    folder: Path, entries: Sequence[Entry], pretrained: str | Path | None, skipped: list[LeftOut]
) -> dict[str, Any]:
    """Write what contenders load: exports, if there are packages for them, and a classifier."""
    texts = [make_text(22, np.random.default_rng(number)) for number in range(TRAINING_TEXTS)]
    request: dict[str, Any] = {"texts": texts, "folder": str(folder), "classifier": str(folder / "classifier")}
    train_model(folder / "classifier", MSTransOptions(), texts)
    request["model"] = model = str(
        find_transformer(find_directory(find_minilm() if pretrained is None else pretrained))
    )
    exports = [entry for entry in entries if entry.is_export]
    request["is_exported"] = bool(exports)
    if not exports:
        return request
    try:
        exported = export_onnx(model, partial(load_reference, model, LONGEST), LONGEST)
        paths = {"model.onnx": exported, "int8.onnx": quantize_onnx(model, exported, LONGEST)}
    except ImportError as error:
        skipped += [LeftOut(entry.title, "", f"the export needs a package: {error}") for entry in exports]
        return {**request, "is_exported": False}
    for name, path in paths.items():  # copies: OpenVINO reads no data that a link leads to
        shutil.copy(path, folder / name)
        for data in path.parent.glob("*.data"):
            shutil.copy(data, folder)
    return request


def make_text(words: int, random: np.random.Generator) -> str:
    """A text of random words, each of which is one token."""
    return " ".join(WORDS[number] for number in random.integers(0, len(WORDS), words))


@dataclass
class Worker:
    """A process that loads a model and runs it on texts."""

    process: subprocess.Popen[str]
    errors: Path  # what it prints besides answers
    versions: Sequence[str] = ()  # of its packages

    def wait(self) -> None:
        """Wait until the model is loaded."""
        versions = json.loads(self._read_answer())
        self.versions = [f"{name} {number}" for name, number in versions.items()]
        self.process.send_signal(signal.SIGSTOP)

    def time(self, texts: Sequence[str]) -> float:
        """Milliseconds that the model takes; between calls the process is stopped, so that no thread of it spins."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        milliseconds = float(self._read_answer())
        self.process.send_signal(signal.SIGSTOP)
        return milliseconds

    def _read_answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            lines = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UnableError(lines[-1] if lines else f"the process ended with code {self.process.wait()}")
        return answer


class WorkerJob(Job):
    """A job whose ``run`` returns the milliseconds that it measured."""

    @override
    def time(self, device: torch.device = CPU) -> float:
        return cast(float, self.run(self.prepare()))


@contextmanager
def start_worker(name: str, request: Record, python: str, folder: Path) -> Iterator[Worker]:
    """Start the process of a contender, which ends with the context."""
    threads = str(request["threads"])
    variables = dict.fromkeys(_THREAD_VARIABLES, threads)
    errors = folder / f"{name}.errors"
    with open(errors, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            # without -P, Python would find the modules beside the script
            [python, "-P", str(SCRIPT), name, json.dumps(request)],
            cwd=folder,
            env={**os.environ, **variables, **_OFFLINE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    with process:
        try:
            yield Worker(process, errors)
        finally:
            process.kill()


def add_advice(error: str, install: str) -> str:
    """An error of a process; if a package is missing, with what pip gets.

    Examples
    --------
    >>> add_advice("ModuleNotFoundError: No module named 'fasttext'", "fasttext-numpy2")
    'fasttext is not installed: pip install fasttext-numpy2'
    """
    if missing := re.search(r"No module named '(\w+)|No package metadata was found for (\S+)", error):
        return f"{missing[1] or missing[2]} is not installed: pip install {install}"
    return error


def time_workers(
    entries: Sequence[Entry], workers: Mapping[str, Worker], threads: int, settings: LatencySettings
) -> list[Record]:
    """Time all contenders that are loaded: a row for each."""
    times: dict[str, Record] = {name: {} for name in workers}
    for kind in show_progress((*ALONE, *BATCHES), f"measuring, {threads} threads"):
        random = np.random.default_rng(0)

        def make_texts(kind: Kind = kind, random: np.random.Generator = random) -> list[str]:
            return [make_text(kind.words, random) for _ in range(kind.texts)]

        jobs = {name: WorkerJob(worker.time, make_texts) for name, worker in workers.items()}
        for job in jobs.values():
            job.time()  # and a second time untimed below: kernels are compiled for the first texts
        measured = time_interleaved(jobs, settings.repeats, seconds=settings.seconds)
        for name, runs in measured.items():
            times[name][f"{kind.texts}x{kind.words}"] = summarize_times(runs)
    rows: list[Record] = []
    for entry in entries:
        if entry.name not in workers:
            continue
        row = {"contender": entry.name, "title": entry.title, "threads": threads, "times": times[entry.name]}
        if entry.base != entry.name and entry.base in times:
            own, ours = (times[name]["1x22"]["median_ms"] for name in (entry.name, entry.base))
            row["ratio"] = own / ours
        rows.append(row)
    return rows


def plot_latency(rows: Sequence[Record], path: Path) -> None:
    """Draw milliseconds against the words of a text: one panel for each number of threads."""
    from graphattn.experiments.drawing._curves import Panel, draw_panels

    panels = []
    for threads in dict.fromkeys(row["threads"] for row in rows):
        curves = {
            row["title"]: [(float(kind.words), row["times"][f"1x{kind.words}"]["median_ms"]) for kind in ALONE]
            for row in rows
            if row["threads"] == threads
        }
        panels.append(Panel(f"{threads} thread{'s' * (threads > 1)}", "words of a text", curves))
    draw_panels(panels, path, up="milliseconds", logarithmic=True)

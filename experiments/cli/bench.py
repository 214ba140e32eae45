"""``graphattn bench NAME``: measure speed and memory against peers, as medians and ratios."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.optional_packages import import_optional

if TYPE_CHECKING:
    from graphattn.experiments.benchmarks.report import BenchmarkReport

app = typer.Typer(help="Measure speed and memory; only ratios within one run mean anything.", no_args_is_help=True)


@dataclass(frozen=True)
class BenchFlags:
    """The flags of all benchmarks; each benchmark has some of these."""

    lengths: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated workloads: 109, 8x2048 (sentences x tokens), mr, mtl16, imdb; random lengths: "
            "questions, sentences, reviews."
        ),
    ] = None
    sentences: Annotated[int, typer.Option(help="Sentences to generate.", min=1)] = 1_000_000
    repeats: Annotated[int | None, typer.Option(help="Timed runs of each contender (default: 9, quick: 3).", min=1)] = (
        None
    )
    peers: Annotated[str | None, typer.Option(help="Comma-separated peers, or none (default: all that can run).")] = (
        None
    )
    threads: Annotated[int | None, typer.Option(help="Threads of all contenders (default: all cores).", min=1)] = None
    seconds: Annotated[float, typer.Option(help="Seconds after which no new round on a workload starts.", min=0)] = (
        120.0
    )
    pretrained: Annotated[
        str | None,
        typer.Option(help="Hugging Face directory, or its name on the hub (default: all-MiniLM-L6-v2)."),
    ] = None
    jobs: Annotated[int, typer.Option(help="Processes that build.", min=1)] = 2
    data: Annotated[Path | None, typer.Option(help="Data folder (default: the one GRAPHATTN_DATA names).")] = None
    folder: Annotated[Path | None, typer.Option(help="Folder for temporary files (default: the system's).")] = None
    out: Annotated[Path | None, typer.Option(help="Folder for NAME.md, NAME.json and NAME.png.")] = None
    quick: Annotated[bool, typer.Option("--quick", help="A trial: few small workloads and few runs.")] = False


class Benchmark(NamedTuple):
    """One ``graphattn bench NAME``: its help, an example, and its flags."""

    help: str
    example: str
    flags: str


_TIMED = "lengths repeats threads seconds out quick"
_COMPARED = "lengths repeats peers threads seconds out quick"
BENCHMARKS = {
    "attention": Benchmark(
        "The operator, forward and backward. Peers: dense, dense-math, dgl, flex, pyg.",
        "--lengths 109,8x2048,mr --peers dense,dgl",
        _COMPARED,
    ),
    "encoder": Benchmark(
        "Whole encoders, inference. Peers: transformer, transformer-fast-path, masked, dgl.",
        "--lengths 22,109,201",
        _COMPARED,
    ),
    "train-step": Benchmark(
        "Forward, backward and Adam, whole encoders. Peers: transformer, masked, dgl.",
        "--lengths 22,109,201 --peers transformer",
        _COMPARED,
    ),
    "memory": Benchmark(
        "Peak memory of forward + backward, each contender in a new process. Peers: torch, dgl, dense, pyg.",
        "--lengths 2x8192 --peers dgl",
        "lengths peers threads out quick",
    ),
    "build": Benchmark(
        "Building a batch's graph (scales 1, 3, N/16, N/8, N/4, dependency) and one MS-Trans forward pass over it.",
        "--lengths 22,109",
        _TIMED,
    ),
    "predict": Benchmark(
        "From a file of texts to a file of predictions, the encoder alone, and one short sentence.",
        "--lengths mr",
        _TIMED,
    ),
    "inspect": Benchmark(
        "Passes that return attention weights and plain forward passes, for every encoder.",
        "--lengths 128x22,8x1024",
        _TIMED,
    ),
    "mtsa": Benchmark(
        "MTSA's layer, time and memory against length. Peers: paper, multihead, dense, bilstm, cnn.",
        "--lengths 64x64,64x128 --peers multihead",
        _COMPARED,
    ),
    "umst": Benchmark(
        "The cost of words in UMST on top of a Transformer, in time and memory. Peers: transformer, without-words.",
        "--lengths 164x25 --peers transformer",
        _COMPARED,
    ),
    "pretrained": Benchmark(
        "A pretrained Transformer, inference and training. Peers: transformers, transformers-sorted, onnx, "
        "onnx-sorted, ours-float32, sentence-transformers.",
        "--lengths questions,reviews --peers transformers",
        f"{_COMPARED} pretrained",
    ),
    "store": Benchmark(
        "Building a store of parsed sentences, its memory, reading it as batches, and inference.",
        "--sentences 100000",
        "sentences jobs folder out",
    ),
    "corpora": Benchmark(
        "Stores of real corpora: IMDB's size compared to xz, and Stanza's parses with and without a cache.",
        "--jobs 2",
        "jobs data folder out",
    ),
    "all": Benchmark(
        "All benchmarks but store and corpora, one after the other.",
        "--out docs/benchmarks",
        "repeats threads seconds out quick",
    ),
}
ALL = tuple(name for name in BENCHMARKS if name not in ("store", "corpora", "all"))
"""The benchmarks of ``all``."""
_FUNCTIONS = {
    "store": "graphattn.experiments.benchmarks.store:measure_store",
    "corpora": "graphattn.experiments.benchmarks.corpora:measure_corpora",
    "train-step": "graphattn.experiments.benchmarks.encoder:measure_training",
}
"""Name -> the function that measures, where it is not ``measure`` of the module of that name."""


def _add_command(name: str) -> None:
    """Register the command of a benchmark, which has only the benchmark's flags."""
    benchmark = BENCHMARKS[name]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(BenchFlags, eval_str=True).parameters.values()
        if parameter.name in benchmark.flags.split()
    ]

    def command(**values: Any) -> None:
        run(name, BenchFlags(**values))

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, help=benchmark.help, epilog=f"graphattn bench {name} {benchmark.example}")(command)


for _name in BENCHMARKS:
    _add_command(_name)


def run(name: str, flags: BenchFlags) -> None:
    """Measure, print the table, and write it if ``flags.out`` is set."""
    for package in ("psutil", "matplotlib"):  # DGL installs psutil
        import_optional(package, "graphattn bench needs", "bench")
    _set_threads(flags.threads)
    for folder, flag in ((flags.out, "--out"), (flags.folder, "--folder")):
        if folder is not None:
            _make_folder(folder, flag)
    for member in ALL if name == "all" else (name,):
        report = measure(member, flags)
        print(report.to_markdown(), end="")
        if flags.out is not None:
            report.write(flags.out)


def measure(name: str, flags: BenchFlags) -> BenchmarkReport:
    """Run one benchmark."""
    module_name, _, function_name = _FUNCTIONS.get(name, f"graphattn.experiments.benchmarks.{name}:measure").partition(
        ":"
    )
    module = import_module(module_name)
    function: Callable[..., BenchmarkReport] = getattr(module, function_name)
    if name == "store":
        return function(flags.sentences, flags.jobs, folder=flags.folder)
    if name == "corpora":
        return function(flags.jobs, data=flags.data, folder=flags.folder)

    from graphattn.experiments.benchmarks.harness import Settings

    lengths = module.QUICK if flags.quick else module.LENGTHS
    repeats = 1 if name == "memory" else flags.repeats or (3 if flags.quick else 9)
    peers = () if flags.peers == "none" else _split("--peers", flags.peers)
    settings = Settings(_split("--lengths", flags.lengths) or lengths, repeats, peers, flags.seconds)
    texts: dict[str, Any] = module.QUICK_TEXTS if flags.quick and name in ("memory", "pretrained") else {}
    return function(settings, **texts, **({"directory": flags.pretrained} if name == "pretrained" else {}))


def _split(flag: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise ConfigError(f"{flag} is {text!r}; give comma-separated names")
    return parts


def _set_threads(threads: int | None) -> None:
    """Set the threads of all libraries; those that are imported later read the environment."""
    if threads is None:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)


def _make_folder(folder: Path, flag: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created ({error.strerror})", path=folder, hint=f"Choose another {flag}.") from error

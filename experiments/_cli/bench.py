"""``graphattn bench NAME``: measure speed and memory against peers, as medians and ratios."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from graphattn._optional_packages import import_optional
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.docstrings import read_docstring
from graphattn.experiments._cli.flags import LazyGroup, Values, make_command, with_flags
from graphattn.options import Options, list_options, option

if TYPE_CHECKING:
    from graphattn.experiments.benchmarks._contenders import Settings
    from graphattn.experiments.benchmarks._frontier import FrontierSettings
    from graphattn.experiments.benchmarks._latency import LatencySettings
    from graphattn.experiments.benchmarks._report import BenchmarkReport


@dataclass
class BenchOptions(Options):
    """The options of all benchmarks; each benchmark has some of these."""

    lengths: str | None = option(
        None,
        "Comma-separated workloads: 109, 8x2048 (sentences x tokens), mr, mtl16, imdb; random lengths: questions, "
        "sentences, reviews.",
    )
    sentences: int = option(1_000_000, "Sentences to generate.", min=1)
    repeats: int | None = option(None, "Timed runs of each contender (default: 9, quick: 3).", min=1)
    peers: str = option("", "Comma-separated peers, or none (default: all that can run).")
    threads: int | None = option(None, "Threads of all contenders (default: all cores).", min=1)
    device: str = option("cpu", "Where contenders compute: cpu, cuda or cuda:1.")
    precision: str = option("32", "On a GPU, the number format of contenders.", choices=("32", "bf16"))
    seconds: float = option(120.0, "Seconds after which no new round on a workload starts.", min=0)
    pretrained: str | None = option(None, "Hugging Face directory, or its name on the hub (default: all-MiniLM-L6-v2).")
    families: bool = option(
        False, "Instead of one model: random ones of six families, packed by graphattn.transformers, and padded."
    )
    data_sets: str | None = option(
        None, "Comma-separated data sets (default: sst2,r8,20ng,imdb,sick,conll2003); sst2:500 has 500 examples."
    )
    only: str = option("", "Comma-separated data sets, contenders, or both: r8,tfidf,'sst2/spacy*' (default: all).")
    limit: float = option(7200.0, "CPU seconds of training after which a contender is stopped.", min=1)
    pythons: str = option("", "Other environments of peers: flair=/path/to/python.")
    jobs: int = option(2, "Processes that build.", min=1)
    data: Path | None = option(None, "Data folder (default: the one GRAPHATTN_DATA names).")
    folder: Path | None = option(None, "Folder for temporary files (default: the system's).")
    out: Path | None = option(None, "Folder for NAME.md, NAME.json and NAME.png.")
    quick: bool = option(False, "A trial: few small workloads and few runs.")


class Benchmark(NamedTuple):
    """One ``graphattn bench NAME``: its help, an example, and its flags."""

    help: str
    example: str
    flags: str
    measure: Callable[[Settings], BenchmarkReport] | None = None
    """Of a registered one, with its workloads: the usual ones, and those of ``--quick``."""
    lengths: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


_TIMED = "lengths repeats threads seconds out quick"
_COMPARED = "lengths repeats peers threads seconds out quick"
_ON_GPU = f"{_COMPARED} device precision"
BENCHMARKS = {
    "attention": Benchmark(
        "The operator, forward and backward. Peers: dense, dense-math, dgl, flex, pyg.",
        "--lengths 109,8x2048,mr --peers dense,dgl",
        _ON_GPU,
    ),
    "encoder": Benchmark(
        "Whole encoders, inference. Peers: transformer, transformer-fast-path, masked, dgl.",
        "--lengths 22,109,201",
        _ON_GPU,
    ),
    "train-step": Benchmark(
        "Forward, backward and Adam, whole encoders. Peers: transformer, masked, dgl.",
        "--lengths 22,109,201 --peers transformer",
        _ON_GPU,
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
    "serve": Benchmark(
        "Clients of graphattn serve, and predict of the same texts.",
        "--lengths 2048x22",
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
        "A pretrained Transformer, inference and training. Peers: transformers, transformers-sorted, onnx-sorted, "
        "openvino, openvino-sorted, ours-float32, ours-int8, sentence-transformers, model2vec.",
        "--lengths questions,reviews --peers transformers",
        f"{_COMPARED} device pretrained families",
    ),
    "shapes": Benchmark(
        "Dense attention when each batch has a new shape: kernels that need a plan for it, and those that do not.",
        "--device cuda --precision bf16",
        _ON_GPU,
    ),
    "kernels": Benchmark(
        "Registers and shared memory of the GPU kernels, compiled without a GPU.",
        "--out docs/benchmarks",
        "out quick",
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
    "frontier": Benchmark(
        "CPU time of training against the score on the test set, for our command line and other libraries.",
        "--only 'sst2/linear,sst2/tfidf' --out docs/benchmarks",
        "data_sets only limit pythons pretrained data folder out quick",
    ),
    "latency": Benchmark(
        "One text at a time, with one thread and two, by loaded models. Peers: transformers, sentence-transformers, "
        "onnx, onnx-int8, openvino, openvino-bfloat16, openvino-int8, spacy, fasttext.",
        "--peers onnx,spacy --repeats 9",
        "repeats peers pythons seconds pretrained out quick",
    ),
    "all": Benchmark(
        "All benchmarks but shapes, kernels, serve, store, corpora, frontier and latency, one after the other.",
        "--out docs/benchmarks",
        "repeats threads seconds out quick",
    ),
}
ALL = tuple(
    name
    for name in BENCHMARKS
    if name not in ("shapes", "kernels", "serve", "store", "corpora", "frontier", "latency", "all")
)
"""The benchmarks of ``all``."""


def register_benchmark(
    name: str,
    measure: Callable[[Settings], BenchmarkReport],
    *,
    lengths: Sequence[str],
    quick: Sequence[str] | None = None,
) -> None:
    """Add a benchmark to ``graphattn bench``.

    Parameters
    ----------
    name : of the command and of its files
    measure : settings, with workloads, runs and peers -> a report; the first line of its docstring is the help
    lengths, quick : default workloads, also of ``--quick``, as ``--lengths`` names them

    Raises
    ------
    ConfigError
        when another benchmark has this name
    """
    summary, quick = (read_docstring(measure) or name).partition("\n")[0], tuple(quick or lengths)
    new = Benchmark(summary, f"--lengths {','.join(quick)}", _COMPARED, measure, tuple(lengths), quick)
    other = BENCHMARKS.get(name, new).measure
    if getattr(other, "__module__", None) != measure.__module__:
        raise ConfigError(f"the benchmark {name!r} exists already; choose another name")
    BENCHMARKS[name] = new


class BenchCommands(LazyGroup):
    """One command for each benchmark, which has only the benchmark's flags."""

    @override
    def list_summaries(self) -> dict[str, str]:
        return {name: benchmark.help for name, benchmark in BENCHMARKS.items()}

    @override
    def build_command(self, name: str, arguments: Sequence[str]) -> Any:
        benchmark = BENCHMARKS[name]

        def command(flag_values: Values) -> None:
            run(name, BenchOptions(**flag_values))

        flags = [
            replace(flag, common=True) for flag in list_options(BenchOptions) if flag.name in benchmark.flags.split()
        ]
        example = f"graphattn bench {name} {benchmark.example}"
        return make_command(with_flags(flag_values=flags)(command), benchmark.help, example)


group = BenchCommands(
    name="bench", help="Measure speed and memory; only ratios within one run mean anything.", no_args_is_help=True
)


def run(name: str, options: BenchOptions) -> None:
    """Measure, print the table, and write it if ``options.out`` is set."""
    options.validate()
    for package in ("psutil", "matplotlib"):  # DGL installs psutil
        import_optional(package, "graphattn bench needs", "bench")
    _set_threads(options.threads)
    for folder, flag in ((options.out, "--out"), (options.folder, "--folder")):
        if folder is not None:
            _make_folder(folder, flag)
    for member in ALL if name == "all" else (name,):
        report = measure(member, options)
        print(report.to_markdown(), end="")
        if options.out is not None:
            report.write(options.out)


def measure(name: str, options: BenchOptions) -> BenchmarkReport:
    """Run one benchmark."""
    benchmark = BENCHMARKS[name]
    if benchmark.measure is not None:
        return benchmark.measure(_make_settings(options, benchmark.lengths, benchmark.quick))
    is_training = name == "train-step"  # it is in _encoder.py
    name = "families" if options.families else name
    module: Any = import_module(f"graphattn.experiments.benchmarks._{'encoder' if is_training else name}")
    function: Callable[..., BenchmarkReport] = module.measure_training if is_training else module.measure
    if name == "store":
        return function(options.sentences, options.jobs, folder=options.folder)
    if name == "corpora":
        return function(options.jobs, data=options.data, folder=options.folder)
    if name == "frontier":
        places: dict[str, Any] = {"data": options.data, "folder": options.folder, "out": options.out}
        return function(_make_frontier_settings(options), **places, pretrained=options.pretrained)
    if name == "latency":
        return function(_make_latency_settings(options), pretrained=options.pretrained)

    settings = _make_settings(options, module.LENGTHS, module.QUICK, one_run=name == "memory")
    texts: dict[str, Any] = module.QUICK_TEXTS if options.quick and name in ("memory", "pretrained", "families") else {}
    return function(settings, **texts, **({"directory": options.pretrained} if name == "pretrained" else {}))


def _make_settings(
    options: BenchOptions, lengths: tuple[str, ...], quick: tuple[str, ...], *, one_run: bool = False
) -> Settings:
    """The settings of a benchmark with these default workloads."""
    from graphattn.experiments.benchmarks._contenders import Settings

    lengths = quick if options.quick else lengths
    repeats = 1 if one_run else options.repeats or (3 if options.quick else 9)
    peers = () if options.peers == "none" else _split("--peers", options.peers or None)
    device = _find_device(options)
    names = _split("--lengths", options.lengths) or lengths
    return Settings(names, repeats, peers, options.seconds, device, options.precision)


def _make_frontier_settings(options: BenchOptions) -> FrontierSettings:
    from graphattn.experiments.benchmarks._frontier import DATA_SETS, QUICK, FrontierSettings

    return FrontierSettings(
        _split("--data-sets", options.data_sets) or (QUICK if options.quick else DATA_SETS),
        _split("--only", options.only or None) or (),
        options.limit,
        _read_pythons(options),
    )


def _make_latency_settings(options: BenchOptions) -> LatencySettings:
    from graphattn.experiments.benchmarks._latency import QUICK_REPEATS, REPEATS, LatencySettings

    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    peers = () if options.peers == "none" else _split("--peers", options.peers or None)
    settings = LatencySettings(repeats, peers, pythons=_read_pythons(options))
    return replace(settings, seconds=min(settings.seconds, options.seconds))


def _read_pythons(options: BenchOptions) -> dict[str, str]:
    """Peer -> the Python that has it."""
    pairs = [word.partition("=") for word in _split("--pythons", options.pythons or None) or ()]
    if not all(path for _, _, path in pairs):
        raise ConfigError(f"--pythons is {options.pythons!r}; give peers and paths: flair=/path/to/python")
    return {name: path for name, _, path in pairs}


def _find_device(options: BenchOptions) -> str:
    """The device; the benchmarks measure a GPU of CUDA or the CPU."""
    from graphattn._devices import find_device

    device = find_device(options.device)
    if device.type == "mps" or (device.type == "cpu" and options.precision != "32"):
        raise ConfigError(
            f"{{device}} is {options.device} and {{precision}} {options.precision}; give {{device=cuda}}, or neither",
            options=("device", "precision"),
        )
    return str(device)


def _split(flag: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ConfigError(f"{flag} is {text!r}; give comma-separated names")
    return words


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

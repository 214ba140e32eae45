"""``graphattn bench``: measurements in turns, as medians and ratios, with what was promised beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from graphattn.experiments.benchmarks.report import Report

app = typer.Typer(help="Measure speed and memory; only ratios within one run mean anything.", no_args_is_help=True)

Lengths = Annotated[
    str | None,
    typer.Option(help="Workloads with commas between: 109, 8x2048 (sentences x tokens), mr, mtl16, imdb."),
]
Repeats = Annotated[int | None, typer.Option(help="Timed runs of each contender (default: 9, quick: 3).", min=1)]
EVERYTHING = ("attention", "encoder", "train-step", "memory", "build", "predict", "inspect", "mtsa", "umst")
"""What ``all`` measures."""

Peers = Annotated[str | None, typer.Option(help="Peers with commas between, or none (default: all that can run).")]
Threads = Annotated[int | None, typer.Option(help="Threads of all contenders (default: all cores).", min=1)]
Seconds = Annotated[float, typer.Option(help="Begin no new round on a workload after so much time.", min=0)]
Out = Annotated[Path | None, typer.Option(help="Folder for NAME.md, NAME.json and NAME.png.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few, small workloads and few runs: a trial.")]


@dataclass(frozen=True)
class Given:
    """The flags that all sub-commands share."""

    lengths: str | None = None
    repeats: int | None = None
    peers: str | None = None
    threads: int | None = None
    seconds: float = 120.0
    out: Path | None = None
    quick: bool = False


@app.command(epilog="graphattn bench attention --lengths 109,8x2048,mr --peers dense,dgl")
def attention(
    lengths: Lengths = None,
    repeats: Repeats = None,
    peers: Peers = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """The operator, forward and backward. Peers: dense, dgl, flex, pyg."""
    _run("attention", Given(lengths, repeats, peers, threads, seconds, out, quick))


@app.command(epilog="graphattn bench encoder --lengths 22,109,201")
def encoder(
    lengths: Lengths = None,
    repeats: Repeats = None,
    peers: Peers = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Whole encoders, inference. Peers: transformer, masked, dgl."""
    _run("encoder", Given(lengths, repeats, peers, threads, seconds, out, quick))


@app.command("train-step", epilog="graphattn bench train-step --lengths 22,109,201 --peers transformer")
def train_step(
    lengths: Lengths = None,
    repeats: Repeats = None,
    peers: Peers = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Forward, backward and Adam, whole encoders. Peers: transformer, masked, dgl."""
    _run("train-step", Given(lengths, repeats, peers, threads, seconds, out, quick))


@app.command(epilog="graphattn bench memory --lengths 2x8192 --peers dgl")
def memory(
    lengths: Lengths = None,
    peers: Peers = None,
    threads: Threads = None,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Peak memory of forward + backward, each contender in a new process. Peers: torch, dgl, dense, pyg."""
    _run("memory", Given(lengths, 1, peers, threads, out=out, quick=quick))


@app.command(epilog="graphattn bench build --lengths 22,109")
def build(
    lengths: Lengths = None,
    repeats: Repeats = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Building a batch's graph (scales 1, 3, N/16, N/8, N/4, dependency) beside one MS-Trans forward pass over it."""
    _run("build", Given(lengths, repeats, None, threads, seconds, out, quick))


@app.command(epilog="graphattn bench predict --lengths mr")
def predict(
    lengths: Lengths = None,
    repeats: Repeats = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """From a file of texts to a file of predictions, beside the bare encoder; and one short sentence."""
    _run("predict", Given(lengths, repeats, None, threads, seconds, out, quick))


@app.command(epilog="graphattn bench inspect --lengths 128x22,8x1024")
def inspect(
    lengths: Lengths = None,
    repeats: Repeats = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Asking for attention weights beside the plain forward pass, for every encoder."""
    _run("inspect", Given(lengths, repeats, None, threads, seconds, out, quick))


@app.command(epilog="graphattn bench mtsa --lengths 64x64,64x128 --peers multihead")
def mtsa(
    lengths: Lengths = None,
    repeats: Repeats = None,
    peers: Peers = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """MTSA's layer, time and memory against length. Peers: paper, multihead, dense, bilstm, cnn."""
    _run("mtsa", Given(lengths, repeats, peers, threads, seconds, out, quick))


@app.command(epilog="graphattn bench umst --lengths 164x25 --peers transformer")
def umst(
    lengths: Lengths = None,
    repeats: Repeats = None,
    peers: Peers = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """What words cost UMST on top of a Transformer, in time and memory. Peers: transformer, without-words."""
    _run("umst", Given(lengths, repeats, peers, threads, seconds, out, quick))


@app.command(epilog="graphattn bench store --sentences 100000")
def store(
    sentences: Annotated[int, typer.Option(help="Sentences to generate.", min=1)] = 1_000_000,
    jobs: Annotated[int, typer.Option(help="Processes that build.", min=1)] = 2,
    folder: Annotated[Path | None, typer.Option(help="Folder for corpus and store (default: the system's).")] = None,
    out: Out = None,
) -> None:
    """Building a store of parsed sentences, its memory, and reading it as batches beside inference."""
    from graphattn.experiments.benchmarks.store import measure_store

    _make_folders(out, folder)
    _publish(measure_store(sentences, jobs, folder=folder), out)


@app.command(epilog="graphattn bench corpora --jobs 2")
def corpora(
    jobs: Annotated[int, typer.Option(help="Processes that build.", min=1)] = 2,
    data: Annotated[Path | None, typer.Option(help="Data folder (default: the one GRAPHATTN_DATA names).")] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder for the stores (default: the system's).")] = None,
    out: Out = None,
) -> None:
    """Stores of real corpora: IMDB's size beside xz, and Stanza's parses with and without a cache."""
    from graphattn.experiments.benchmarks.corpora import measure_corpora

    _make_folders(out, folder)
    _publish(measure_corpora(jobs, data=data, folder=folder), out)


@app.command("all", epilog="graphattn bench all --out docs/benchmarks")
def all_(
    repeats: Repeats = None,
    threads: Threads = None,
    seconds: Seconds = 120.0,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Everything above but store and corpora, one after the other."""
    for name in EVERYTHING:
        _run(name, Given(None, repeats, None, threads, seconds, out, quick))


def _run(name: str, given: Given) -> None:
    """Measure, print the table, and write it when a folder is given."""
    _use_threads(given.threads)
    _make_folders(given.out)
    _publish(_measured(name, given), given.out)


def _make_folders(out: Path | None, folder: Path | None = None) -> None:
    """Make the folders that are given before anything is measured."""
    if out is not None:
        _make(out)
    if folder is not None:
        _make(folder, "--folder")


def _publish(report: Report, out: Path | None) -> None:
    """Print the table, and write it when a folder is given."""
    print(report.markdown(), end="")
    if out is not None:
        report.write(out)


def _measured(name: str, given: Given) -> Report:
    from graphattn.experiments.benchmarks.comparison import Settings

    module: Any = import_module(f"graphattn.experiments.benchmarks.{name.replace('-', '_')}")
    lengths = module.QUICK if given.quick else module.LENGTHS
    settings = Settings(
        lengths if given.lengths is None else _listed("--lengths", given.lengths),
        given.repeats or (3 if given.quick else 9),
        None if given.peers is None else () if given.peers == "none" else _listed("--peers", given.peers),
        given.seconds,
    )
    measure: Callable[..., Report] = module.measure
    if name == "memory" and given.quick:
        return measure(settings, text=module.QUICK_TEXT)
    return measure(settings)


def _listed(flag: str, text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise ConfigError(f"{flag} is {text!r}; give names with commas between")
    return parts


def _use_threads(threads: int | None) -> None:
    """Set the threads of all libraries; those that are loaded later read the environment."""
    if threads is None:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)


def _make(folder: Path, flag: str = "--out") -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made ({error.strerror})", path=folder, hint=f"Choose another {flag}.") from error

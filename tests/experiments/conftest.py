"""The command line in this process or a new one, small corpora as files, and small trained models."""

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphattn.experiments._cli.main import app, main

# One layer of two heads, without logs.
TINY = (
    "--hidden 16 --heads 2 --layers 1 --scales 1,3 --embedding 16 --epochs 2 --batch-size 16 --no-logs --quiet".split()
)
GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "dull")


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The message of a command that failed."""
        assert (self.code, self.err[:7], self.err[-1:]) == (1, "error: ", "\n"), self
        return self.err[7:-1]


@pytest.fixture(scope="session")
def graphattn() -> Callable[..., Answer]:
    """Run ``graphattn`` in this process: ``graphattn("predict", model, stdin="a film")``."""

    def run(*words: object, stdin: str | bytes = "") -> Answer:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, prog_name="graphattn")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


class Command:
    """``graphattn`` in a fork of this process, which has the libraries loaded; used like ``subprocess.Popen``."""

    def __init__(self, words: list[str], stdin: int, folder: Path):
        (reading_out, out), (reading_err, err) = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(900)  # a command that hangs does not outlive the tests
            os.close(reading_out)
            os.close(reading_err)
            self._run(words, (stdin, out, err), folder)
        os.close(out)
        os.close(err)
        self.stdout, self.stderr = os.fdopen(reading_out), os.fdopen(reading_err)

    @staticmethod
    def _run(words: list[str], streams: tuple[int, int, int], folder: Path) -> None:
        """Call the command in the fork, with these files as its standard streams."""
        code = 1
        try:
            for number, file in enumerate(streams):
                os.dup2(file, number)
                os.close(file)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
            os.chdir(folder)
            sys.argv = ["graphattn", *words]
            signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore Ctrl-C
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code; None while the command runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 600) -> int:
        """The exit code, when the command ends."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, "the command does not end"
            time.sleep(0.01)
        return code

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        """The output and the errors, when the command ends."""
        self.wait(timeout)
        return self.stdout.read(), self.stderr.read()

    def send_signal(self, number: int) -> None:
        """Send a signal to the command."""
        os.kill(self.pid, number)


@pytest.fixture(scope="session")
def start_command() -> Callable[..., Command]:
    """Start ``graphattn`` in another process: ``start_command("train", ...)``."""

    def start(*words: object, stdin: int | None = None, cwd: Path = Path()) -> Command:
        with open(os.devnull) as empty:
            return Command([*map(str, words)], empty.fileno() if stdin is None else stdin, cwd)

    return start


@pytest.fixture(scope="session")
def serve_app() -> Callable[..., AbstractContextManager[int]]:
    """A server of an application in this process: ``with serve_app(app, limits) as port:``.

    ``run`` runs a coroutine in an event loop; by default in uvicorn's.
    """
    pytest.importorskip("fastapi")
    from graphattn.experiments._serving.connections import make_server

    @contextmanager
    def serve(
        app: object, limits: object, run: Callable[[Coroutine[object, object, None]], None] | None = None
    ) -> Iterator[int]:
        listener = socket.create_server(("127.0.0.1", 0))
        server = make_server(app, listener, limits)
        target = (lambda: run(server.serve())) if run else server.run
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(10)
        listener.close()

    return serve


def reviews(count: int = 40) -> list[tuple[str, str]]:
    """Labels and texts; one text is empty."""
    rows = []
    for number in range(count):
        words = GOOD if number % 2 else BAD
        text = "" if number == 4 else f"a {words[number % 3]} film of {number} scenes"
        rows.append(("pos" if number % 2 else "neg", text))
    return rows


@pytest.fixture(scope="session")
def corpora_folder(tmp_path_factory) -> Path:
    """Small corpora for every task: ``reviews.tsv``, ``pairs.jsonl``, ``tags.conll``, ``trees.conllu``."""
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "reviews.tsv").write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in reviews()))
    (folder / "pairs.tsv").write_text(
        "label\ttext\tsecond\n" + "".join(f"{label}\t{text}\tthe {text}\n" for label, text in reviews())
    )
    (folder / "tags.conll").write_text("Ada B-PER\nsaw O\nRome B-LOC\n\nthe O\nfilm O\nended O\n\n" * 10)
    rows = ["1 Dogs _ NOUN NNS _ 2 nsubj _ _", "2 bark _ VERB VBP _ 0 root _ _"]
    tree = "".join(row.replace(" ", "\t") + "\n" for row in rows)
    (folder / "trees.conllu").write_text(f"{tree}\n" * 10)
    return folder


@pytest.fixture(scope="session")
def classifier(graphattn, corpora_folder, tmp_path_factory) -> Path:
    """The model directory of a small classifier."""
    out = tmp_path_factory.mktemp("models") / "classifier"
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", "--out", out, *TINY)
    assert (answer.code, answer.err) == (0, "")
    return out


@pytest.fixture(scope="session")
def tagger(graphattn, corpora_folder, tmp_path_factory) -> Path:
    """The model directory of a small tagger of entities."""
    out = tmp_path_factory.mktemp("models") / "tagger"
    answer = graphattn("train", "tag", corpora_folder / "tags.conll", "--out", out, *TINY)
    assert (answer.code, answer.err) == (0, "")
    return out


@pytest.fixture(scope="session")
def pair_classifier(graphattn, corpora_folder, tmp_path_factory) -> Path:
    """The model directory of a small classifier of pairs."""
    out = tmp_path_factory.mktemp("models") / "pairs"
    answer = graphattn("train", "pair", corpora_folder / "pairs.tsv", "--out", out, *TINY)
    assert (answer.code, answer.err) == (0, "")
    return out


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A data folder with small generated corpora, word vectors and a pretrained model."""
    from graphattn.experiments.papers._smoke import smoke_folder

    with smoke_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Flags of a very short training."""
    return list(TINY)

"""The command line in this process or a new one, small corpora as files, and small trained models."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphattn.experiments._cli.main import app

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


def _accept_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def start_command() -> Callable[..., subprocess.Popen]:
    """Start ``graphattn`` in a new process: ``start_command("train", ...)``."""

    def start(*words: object, **options: object) -> subprocess.Popen:
        command = [sys.executable, "-m", "graphattn", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # Background jobs of a shell ignore Ctrl-C, and so do their children.
        return subprocess.Popen(command, **pipes, env={**os.environ}, preexec_fn=_accept_ctrl_c, **options)

    return start


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
def tiny() -> list[str]:
    """Flags of a very short training."""
    return list(TINY)

"""Settings of all tests, the folder of real corpora, and random sentences with their edges."""

import gc
import io
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock
from hypothesis import settings

if TYPE_CHECKING:
    from graphattn.builders import Sentence

NO_DGL = "DGL has wheels for Python 3.11 and 3.12 on Linux and macOS only"
NO_PARAMETERS = SimpleNamespace(params={})

FIRST = ("test_precision.py", "test_interpreter.py", "test_llvm.py")
"""Of two workers, one compiles most kernels, which take a minute, while the other has files that do not load them."""

settings.register_profile("local", deadline=None)
# The examples of CI are always the same; new ones are found locally.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=30)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure() -> None:
    """Give this process and its children one thread, no display and the package under test."""
    threads = os.environ.get("GRAPHATTN_TEST_THREADS", "1")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    os.environ.setdefault("MPLBACKEND", "Agg")
    # `make test` tests the built wheel; without one, subprocesses import this clone, as the tests do.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    if "GRAPHATTN_WHEEL" not in os.environ:
        root = str(Path(__file__).resolve().parents[1])
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))

    import torch  # reads the variables above on import

    torch.set_num_threads(int(threads))
    os.fsync = lambda file: None  # no test needs its files after a power failure; a disk takes milliseconds each time


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let workers collect in turns in a clean environment: the second one finds the modules that the first compiled."""
    if not (hasattr(session.config, "workerinput") and os.environ.get("CI")):
        return (yield)
    with FileLock(session.config.rootpath / ".pytest_cache" / "collection.lock"):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that need the corpora with `data`, and tests in a browser with `slow`; let long files start first."""
    has_dgl = find_spec("dgl") is not None
    for item in items:
        if "corpora" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        parameters = getattr(item, "callspec", NO_PARAMETERS).params.values()
        names = [value for value in parameters if isinstance(value, str)]
        peers = [package for value in parameters for package in getattr(value, "packages", ())]
        if not has_dgl and "dgl" in [*names, *peers]:
            item.add_marker(pytest.mark.skip(NO_DGL))
    if hasattr(config, "workerinput"):  # a worker runs whole files; a long one at the end would run alone
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: (item.path.name not in FIRST, item.path.name != FIRST[0], -slow[item.path]))


def pytest_collection_finish() -> None:
    """Take modules and tests, which remain until the end, out of every garbage collection."""
    gc.freeze()


@pytest.fixture(scope="session")
def dgl() -> Any:
    """The module ``dgl``; where it is not installed, the test is skipped."""
    if find_spec("dgl") is None:
        pytest.skip(NO_DGL)
    from graphattn._dgl_graphs import import_dgl

    return import_dgl()


def find_corpora(folder: str | None) -> Path:
    """The folder of real corpora in GRAPHATTN_DATA."""
    if not folder:
        pytest.skip("GRAPHATTN_DATA is not set")
    if not Path(folder).is_dir():
        pytest.fail(f"GRAPHATTN_DATA is {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora in GRAPHATTN_DATA; without it, tests are skipped."""
    return find_corpora(os.environ.get("GRAPHATTN_DATA"))


@pytest.fixture
def count_copies() -> "Callable[[Callable[[], object]], int]":
    """Count the tensors that a function copies from the CPU to ``meta``, which takes a GPU's place."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Copies(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            device = (kwargs or {}).get("device")
            if func is torch.ops.aten._to_copy.default and device is not None:
                self.count += args[0].is_cpu and device.type == "meta"
            return func(*args, **(kwargs or {}))

    def count(function: Callable[[], object]) -> int:
        with Copies() as copies:
            function()
        return copies.count

    return count


@pytest.fixture(scope="session")
def run_in_fork() -> Callable[[Callable[[], object]], int]:
    """Call a function in a fork of this process, which has the libraries loaded, and return the fork's exit code.

    For functions that kill their process: ``assert run_in_fork(...) == -signal.SIGKILL``.
    """

    def run(function: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(900)
                forkserver.ensure_running.__self__.__init__()  # the parent's server cannot serve its fork
                function()
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run


@pytest.fixture
def set_stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make a text, bytes or a stream of bytes the standard input."""

    def give(content: Any) -> None:
        content = content.encode() if isinstance(content, str) else content
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(stream)))

    return give


@pytest.fixture(scope="session")
def random_sentence() -> "Callable[[Random, int], Sentence]":
    """Make a sentence with this number of words: random word groups, a random tree (or several), random relations."""
    from graphattn.builders import Sentence

    def make(random: Random, num_words: int) -> Sentence:
        sizes = [random.choice([1, 1, 1, 2, 3]) for _ in range(num_words)]
        word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
        order = random.sample(range(1, num_words + 1), num_words)
        heads = [0] * num_words
        for number, word in enumerate(order):
            heads[word - 1] = random.choice([0, *order[:number]])
        return Sentence(
            [f"t{position}" for position in range(len(word_ids))],
            word_ids=None if max(sizes, default=1) == 1 and random.random() < 0.5 else word_ids,
            heads=heads,
            deprels=random.choice([None, [random.choice(["nsubj", "nsubj:pass", "obj", "?"]) for _ in sizes]]),
        )

    return make


@pytest.fixture(scope="session")
def edge_table() -> "Callable[[tuple[str, str, str], Sentence, bool], list[tuple[int, int, str, int]]]":
    """The edges of a relation in one sentence, decided by its definition one pair of nodes at a time.

    Each is (destination, source, name of the arc or "self" or "", direction), by destination, then by source.
    """

    def table(relation: tuple[str, str, str], sentence: "Sentence", cls: bool) -> list[tuple[int, int, str, int]]:
        source_type, name, target_type = relation
        words = list(range(len(sentence)) if sentence.word_ids is None else sentence.word_ids)
        if cls:
            words = [0, *(word + 1 for word in words)]
        sizes = {"token": len(words), "word": sentence.num_words + cls}
        pairs = [(target, source) for target in range(sizes[target_type]) for source in range(sizes[source_type])]
        if name != "dependency":
            is_edge = _make_rule(name, words)
            return [(target, source, "", 0) for target, source in pairs if is_edge(source, target)]
        arcs = _list_arcs(sentence, cls)
        word_of = range(sizes["word"]) if source_type == "word" else words
        return [
            (target, source, *arcs[word_of[source], word_of[target]])
            for target, source in pairs
            if (word_of[source], word_of[target]) in arcs
        ]

    return table


def _list_arcs(sentence: "Sentence", cls: bool) -> dict[tuple[int, int], tuple[str, int]]:
    """(source word, destination word) -> name and direction: 0 itself, 1 from the head, 2 from the dependent."""
    arcs = {(word, word): ("self", 0) for word in range(sentence.num_words + cls)}
    for dependent, head in enumerate(sentence.heads or (), start=1):
        if head:
            name = "" if sentence.deprels is None else sentence.deprels[dependent - 1]
            arcs[head - 1 + cls, dependent - 1 + cls] = (name, 1)
            arcs[dependent - 1 + cls, head - 1 + cls] = (name, 2)
    return arcs


def _make_rule(name: str, words: list[int]) -> "Callable[[int, int], bool]":
    """Whether there is an edge from a source to a target position; ``words`` is the word of each token."""
    kind, _, scale = name.partition(":")
    if kind in ("window", "radius"):
        width = int(scale) if scale.isdigit() else max(1, len(words) // int(scale[2:] or 1))
        width += width % 2 == 0
        reach = width if kind == "radius" else (width - 1) // 2
        return lambda source, target: abs(source - target) <= reach
    return {
        "group": lambda source, target: words[source] == words[target],
        "in": lambda source, target: words[source] == target,
        "forward": lambda source, target: source < target,
        "backward": lambda source, target: source > target,
        "all": lambda source, target: True,
    }[kind]

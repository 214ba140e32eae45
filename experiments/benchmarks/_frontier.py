"""``bench frontier``: CPU time from the start of a process to a saved model against the score on the test set."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphattn.builders.tag_schemes import convert, detect_scheme
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.output import show_progress
from graphattn.experiments._commit import current_commit
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.benchmarks._harness import LeftOut, column, describe_skipped, format_number
from graphattn.experiments.benchmarks._pretrained import find_minilm
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record, describe_machine
from graphattn.experiments.papers._data_sets import DataSet, data_folder, find_data_set
from graphattn.models._estimators.inputs import split_held_out
from graphattn.models.pretrained._checkpoint import find_directory
from graphattn.models.training._metrics import tagging_metrics

DATA_SETS = ("sst2", "r8", "20ng", "imdb", "sick", "conll2003")
QUICK = ("sst2:500",)
ROWS_FILE = "frontier.rows.jsonl"
"""Finished rows, in the folder of the report: the same command resumes after them."""
PEERS_SCRIPT = Path(__file__).with_name("_frontier_peers.py")
TEXTS, PAIRS, TAGS = "classify", "pair", "tag"
MODEL = "MODEL"
"""In a command, the directory of the pretrained model."""
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
}
_COMPILE_MODULES_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}
"""So that a process finds the modules compiled, as everywhere else, where the shell forbids Python to write them."""
_HELD_OUT = 0.1
"""Share of a training set without a dev set that becomes one."""
_FEW = 64
"""Examples of an untimed run."""
_METRICS = ".metrics.json"
_SHORTEST, _LONGEST = 3.0, 600.0
"""CPU seconds between which no peer should be above our curve."""

DESCRIPTION = f"""\
CPU seconds (user and system, of a process and those it starts) from the start of a fresh process, with its imports, to
its saved model, and the score of that model on the test set: accuracy, for CoNLL-2003 the F1 of entities. One process
at a time, with one thread. All contenders have the same files: where a data set has no dev set, a tenth of the training
set, by class, is the dev set of all, and nobody trains on it. `test s` are CPU seconds of another process that loads
the model and measures or predicts the test set. All did this before on a few examples, untimed, which compiles modules
and kernels. `±` is the standard error of an accuracy by the number of test texts.

Ours: `graphattn train TASK train --dev dev --out model` with the options in the table; {MODEL} is all-MiniLM-L6-v2.
Peers, each a function of `experiments/benchmarks/_frontier_peers.py`, have settings of their documentation, and none
was tuned on a test set:

- `tfidf`: scikit-learn's `TfidfVectorizer` (words and pairs of words, `sublinear_tf`) and `LogisticRegression` with its
  default strength; `tfidf-tuned`: the dev set chooses among five. For pairs of texts both vectors, their absolute
  difference and product.
- `fasttext`: the supervised model of its tutorial (rate 1.0, 25 epochs, pairs of words, 200,000 buckets, 50 wide).
- `spacy-bow`, `spacy-ensemble`, `spacy-ner`: `spacy train` with `spacy init config --optimize efficiency` (ensemble:
  `accuracy`), without static vectors and without importing PyTorch.
- `sentence-vectors`: vectors of sentence-transformers by {MODEL} (at most 256 tokens) and `LogisticRegression`, whose
  strength the dev set chooses among five.
- `trainer`: {MODEL} fine-tuned by the Trainer of transformers: its default rate and epochs (5e-5, 3), batches of 16 and
  the best epoch by dev loss, as in its guides.
- `crfsuite`: python-crfsuite with the features and settings of sklearn-crfsuite's tutorial, without parts of speech.
- `flair`: a BiLSTM-CRF (256 wide) on vectors of words and characters that it trains, 10 epochs."""


@dataclass(frozen=True)
class Entry:
    """One way to train: our command line with these flags, or a peer."""

    name: str  # in ``--only`` and in JSON
    title: str  # in tables
    tasks: Sequence[str]
    flags: tuple[str, ...] = ()  # of a peer, MODEL if it needs that
    flags_of_taggers: tuple[str, ...] | None = None  # where they differ
    install: str = ""  # of a peer: what pip gets

    @property
    def is_peer(self) -> bool:
        """Whether it is another library."""
        return bool(self.install)

    def get_flags(self, task: str) -> tuple[str, ...]:
        """Our flags for a task."""
        return self.flags_of_taggers if task == TAGS and self.flags_of_taggers is not None else self.flags

    def describe_command(self, task: str) -> str:
        """The command in tables."""
        if self.is_peer:
            return " ".join((PEERS_SCRIPT.name, "fit", self.name, *self.flags))
        return " ".join((f"train {task}", *self.get_flags(task)))


_ALL_TASKS = (TEXTS, PAIRS, TAGS)
OURS = (
    Entry("linear", "GraphAttn, linear model", _ALL_TASKS, ("--epochs", "0")),
    Entry("minutes-0.25", "GraphAttn, 0.25 minutes", _ALL_TASKS, ("--minutes", "0.25")),
    Entry("minutes-1", "GraphAttn, 1 minute", _ALL_TASKS, ("--minutes", "1")),
    Entry("minutes-4", "GraphAttn, 4 minutes", _ALL_TASKS, ("--minutes", "4")),
    Entry("default", "GraphAttn, default", _ALL_TASKS),
    Entry(
        "frozen",
        "GraphAttn, MiniLM frozen",
        _ALL_TASKS,
        ("--pretrained", MODEL, "--frozen"),
        ("--pretrained", MODEL, "--tuned-layers", "0"),
    ),
    Entry("fine-tuned", "GraphAttn, MiniLM fine-tuned", _ALL_TASKS, ("--pretrained", MODEL)),
)
PEERS = (
    Entry("tfidf", "TF-IDF, logistic regression", (TEXTS, PAIRS), install="scikit-learn"),
    Entry("tfidf-tuned", "TF-IDF, logistic regression, five strengths", (TEXTS, PAIRS), install="scikit-learn"),
    Entry("fasttext", "fastText", (TEXTS,), install="fasttext-numpy2"),
    Entry("spacy-bow", "spaCy, bag of words", (TEXTS,), install="spacy"),
    Entry("spacy-ensemble", "spaCy, ensemble", (TEXTS,), install="spacy"),
    Entry(
        "sentence-vectors",
        "sentence-transformers, logistic regression",
        (TEXTS, PAIRS),
        (MODEL,),
        install="sentence-transformers",
    ),
    Entry("trainer", "transformers, fine-tuned", _ALL_TASKS, (MODEL,), install="'transformers[torch]'"),
    Entry("crfsuite", "CRFsuite", (TAGS,), install="python-crfsuite"),
    Entry("spacy-ner", "spaCy, named entities", (TAGS,), install="spacy"),
    Entry("flair", "flair, BiLSTM-CRF", (TAGS,), install="flair"),
)
ENTRIES = (*OURS, *PEERS)
_COLUMNS = {
    "data set": column("data_set"),
    "contender": column("title"),
    "CPU s": lambda row: format_number(row["cpu_seconds"]),
    "test score": column("score", ".2f"),
    "±": column("error", ".2f"),
    "test s": lambda row: format_number(row["test_cpu_seconds"]),
    "command": lambda row: f"`{row['command']}`",
}


@dataclass(frozen=True)
class FrontierSettings:
    """What is measured, and how."""

    data_sets: tuple[str, ...] = DATA_SETS
    only: tuple[str, ...] = ()  # patterns of ``data set/contender``, or of one of both; none for all
    limit: float = 7200.0  # CPU seconds after which a process is stopped
    pythons: Mapping[str, str] = field(default_factory=dict)  # peer -> the Python that has it, if not this one

    def selects(self, data_set: str, entry: Entry) -> bool:
        """Whether a row is measured."""
        names = (f"{data_set}/{entry.name}", data_set, entry.name)
        return not self.only or any(fnmatchcase(name, pattern) for pattern in self.only for name in names)


class CpuLimitError(UnableError):
    """A process took all CPU seconds that it may take."""


def measure(
    settings: FrontierSettings,
    *,
    data: Path | None = None,
    folder: Path | None = None,
    out: Path | None = None,
    pretrained: str | Path | None = None,
    contenders: Sequence[Entry] = ENTRIES,
) -> BenchmarkReport:
    """Measure each row that ``out`` does not have yet, one at a time; the report also has those that it has."""
    corpora = find_corpora(settings)
    report = BenchmarkReport("frontier", DESCRIPTION, _COLUMNS, _describe_settings(settings), plot=plot_frontier)
    report.machine = {**describe_machine(), "threads": 1}
    done = RowsFile(None if out is None else out / ROWS_FILE)
    skipped: list[LeftOut] = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        runner = Runner(Path(name), settings, pretrained)
        for data_set, corpus in corpora.items():
            entries = [each for each in contenders if corpus.task in each.tasks and settings.selects(data_set, each)]
            todo = [entry for entry in entries if not done.has(data_set, corpus.task, entry, settings.limit)]
            if not todo:
                continue
            try:
                files = write_splits(data_set, corpus, data or data_folder(), Path(name))
            except DataError as error:
                skipped += [LeftOut(entry.title, data_set, str(error)) for entry in todo]
                continue
            for entry in show_progress(todo, data_set):
                try:
                    done.append(runner.run(entry, files))
                except CpuLimitError:
                    done.append(files.describe(entry) | {"stopped_after": settings.limit})
                except UnableError as error:
                    skipped.append(LeftOut(entry.title, data_set, str(error)))
    report.rows = sorted((row for row in done.rows if "score" in row), key=_sorting_key)
    stopped = [row for row in done.rows if "score" not in row]
    skipped += [
        LeftOut(row["title"], row["data_set"], f"stopped after {row['stopped_after']:g} CPU s") for row in stopped
    ]
    report.left_out = describe_skipped(skipped)
    report.notes = [*list_peers_above(report.rows), *_list_versions(report.rows)]
    return report


def find_corpora(settings: FrontierSettings) -> dict[str, DataSet]:
    """The data sets; raises a ConfigError for other tasks, a pattern that selects nothing, or a Python of no peer."""
    corpora = {name: find_data_set(name) for name in settings.data_sets}
    for name, corpus in corpora.items():
        if corpus.task not in _ALL_TASKS:
            raise ConfigError(f"data set {name!r} has no classes and tags; choose among: {', '.join(DATA_SETS)}")
    for pattern in settings.only:
        chosen = FrontierSettings(settings.data_sets, (pattern,))
        if not any(chosen.selects(data_set, entry) for data_set in settings.data_sets for entry in ENTRIES):
            names = ", ".join(entry.name for entry in ENTRIES)
            raise ConfigError(
                f"--only has {pattern!r}, which selects no row; give data sets ({', '.join(settings.data_sets)}), "
                f"contenders ({names}), or both: sst2/tfidf, 'r8/*'"
            )
    for name in settings.pythons:
        if name not in [entry.name for entry in PEERS]:
            raise ConfigError(f"--pythons has {name!r}; choose from: {', '.join(entry.name for entry in PEERS)}")
    return corpora


def _describe_settings(settings: FrontierSettings) -> Record:
    """Settings without the paths of this machine."""
    return {"data_sets": list(settings.data_sets), "only": list(settings.only), "limit": settings.limit}


class RowsFile:
    """The finished rows, in memory and as lines of a file, if there is one."""

    def __init__(self, path: Path | None):
        self.path = path
        self._by_names: dict[tuple[str, str], Record] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        if complete != text:  # the machine failed while a line was written
            path.write_text(complete, encoding="utf-8")
        for line in complete.splitlines():
            self._keep(json.loads(line))

    @property
    def rows(self) -> list[Record]:
        """The last row of each data set and contender."""
        return list(self._by_names.values())

    def _keep(self, row: Record) -> None:
        self._by_names[row["data_set"], row["contender"]] = row

    def has(self, data_set: str, task: str, entry: Entry, limit: float) -> bool:
        """Whether a row is finished, or was stopped after at least so many CPU seconds."""
        wanted = {"data_set": data_set, "contender": entry.name, "command": entry.describe_command(task)}
        return any(
            wanted.items() <= row.items() and ("score" in row or row["stopped_after"] >= limit) for row in self.rows
        )

    def append(self, row: Record) -> None:
        """Add a row, which replaces one with the same names."""
        self._keep(row)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class Files:
    """The splits of a data set in a folder, and the answers of its test set."""

    data_set: str
    task: str
    folder: Path
    gold: list[Any]

    @property
    def suffix(self) -> str:
        """Of the files."""
        return ".conll" if self.task == TAGS else ".jsonl"

    def path(self, split: str) -> Path:
        """The file of a split."""
        return self.folder / f"{split}{self.suffix}"

    def take_few(self, folder: Path) -> Files:
        """A few examples of the training set, of all classes, as each of the splits."""
        few = replace(self, folder=folder)
        folder.mkdir(exist_ok=True)
        end = "\n\n" if self.task == TAGS else "\n"
        *examples, _ = self.path("train").read_text(encoding="utf-8").split(end)
        step = max(1, len(examples) // _FEW)  # of all classes, also if the file is sorted
        for split in ("train", "dev", "test"):
            few.path(split).write_text("".join(example + end for example in examples[::step]), encoding="utf-8")
        return few

    def describe(self, entry: Entry) -> Record:
        """The first columns of a row."""
        names = {"data_set": self.data_set, "task": self.task, "contender": entry.name, "title": entry.title}
        return names | {"is_peer": entry.is_peer, "command": entry.describe_command(self.task)}

    def measure(self, decided: Sequence[Any]) -> float:
        """Accuracy, or the F1 of entities, in percent."""
        if self.task == TAGS:
            repaired = [convert(tags, "IOB2", "IOB2", repair=True) for tags in decided]
            return tagging_metrics(self.gold, repaired, "IOB2")["f1"]
        return 100 * float(np.mean([a == b for a, b in zip(self.gold, decided, strict=True)]))


def write_splits(data_set: str, corpus: DataSet, data: Path, folder: Path) -> Files:
    """Write the training, dev and test set of a corpus as files that all contenders read."""
    splits = corpus.load_splits(0, data)
    if "dev" not in splits:
        train = splits["train"]
        classes = None if corpus.per_word else np.unique([item.label for item in train], return_inverse=True)[1]
        parts = split_held_out(len(train), math.ceil(_HELD_OUT * len(train)), classes, 0)
        splits |= {name: [train[n] for n in numbers] for name, numbers in zip(("train", "dev"), parts, strict=True)}
    target = folder / re.sub(r"\W", "-", data_set)
    target.mkdir(exist_ok=True)
    scheme = detect_scheme([list(item.tags) for item in splits["train"]]) if corpus.per_word else ""
    for name, items in splits.items():
        files = Files(data_set, corpus.task, target, [_answer(item, scheme) for item in items])
        lines = (
            _format_item(item, answer, is_tagged=corpus.per_word)
            for item, answer in zip(items, files.gold, strict=True)
        )
        files.path(name).write_text("".join(lines), encoding="utf-8")
        if name == "test":
            tested = files
    return tested


def _answer(item: Any, scheme: str) -> Any:
    return convert(list(item.tags), scheme, "IOB2", repair=True) if scheme else str(item.label)


def _format_item(item: Any, answer: Any, *, is_tagged: bool) -> str:
    if is_tagged:
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(item.words, answer, strict=True)) + "\n"
    second = {} if item.second is None else {"second": str(item.second)}
    return json.dumps({"text": str(item.text), **second, "label": answer}) + "\n"


@dataclass(frozen=True)
class Used:
    """What a process took, and what it printed."""

    cpu_seconds: float
    seconds: float
    output: str


class Runner:
    """Runs contenders in processes, one after the other."""

    def __init__(self, folder: Path, settings: FrontierSettings, pretrained: str | Path | None):
        self.folder, self.settings, self._pretrained = folder, settings, pretrained

    def run(self, entry: Entry, files: Files) -> Record:
        """Train, save and test; the row of the table. Raises an UnableError if a process fails."""
        self._warm_up(entry, files)
        with self._empty_folder() as model:
            trained, tested = self._train(entry, files, model), self._test(entry, files, model)
            score = self._read_score(entry, files, model)
            size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
        row = files.describe(entry) | {"cpu_seconds": trained.cpu_seconds, "seconds": trained.seconds, "score": score}
        if files.task != TAGS:
            row["error"] = math.sqrt(score * (100 - score) / len(files.gold))
        versions = json.loads(trained.output.splitlines()[-1]) if entry.is_peer else {}
        return row | {
            "test_cpu_seconds": tested.cpu_seconds,
            "model_bytes": size,
            "versions": versions,
            "commit": current_commit(),
            "code": _digest(PEERS_SCRIPT) if entry.is_peer else None,
        }

    @contextmanager
    def _empty_folder(self) -> Iterator[Path]:
        """The path of a model, which is removed at the end."""
        model = self.folder / "model"
        try:
            yield model
        finally:
            for path in self.folder.glob("model*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _warm_up(self, entry: Entry, files: Files) -> None:
        """Train and test on a few examples, untimed, which compiles kernels and modules."""
        few = files.take_few(self.folder / "few")
        with self._empty_folder() as model, suppress(UnableError):  # the timed run says why
            self._train(entry, few, model)
            self._test(entry, few, model)

    def _train(self, entry: Entry, files: Files, model: Path) -> Used:
        if entry.is_peer:
            return self._run_peer(entry, files, model, "fit")
        flags = self._fill_in(entry.get_flags(files.task))
        splits = [str(files.path("train")), "--dev", str(files.path("dev"))]
        return self._run_ours(["train", files.task, *splits, "--out", str(model), *flags], self.settings.limit)

    def _test(self, entry: Entry, files: Files, model: Path) -> Used:
        if entry.is_peer:
            return self._run_peer(entry, files, model, "predict")
        return self._run_ours(["evaluate", str(model), str(files.path("test")), "--out", f"{model}{_METRICS}"])

    def _read_score(self, entry: Entry, files: Files, model: Path) -> float:
        if entry.is_peer:
            return files.measure(json.loads((model / "predictions.json").read_text(encoding="utf-8")))
        metrics = json.loads(Path(f"{model}{_METRICS}").read_text(encoding="utf-8"))
        return float(metrics["f1" if files.task == TAGS else "accuracy"])

    def _run_ours(self, arguments: Sequence[str], limit: float = math.inf) -> Used:
        return run_process([sys.executable, "-m", "graphattn", *arguments], self.folder, limit)

    def _run_peer(self, entry: Entry, files: Files, model: Path, verb: str) -> Used:
        python = self.settings.pythons.get(entry.name, sys.executable)
        limit = math.inf if verb == "predict" else self.settings.limit
        # without -P, Python would find the modules beside the script
        command = [python, "-P", str(PEERS_SCRIPT), verb, entry.name, str(files.folder), str(model)]
        try:
            return run_process([*command, *self._fill_in(entry.flags)], self.folder, limit)
        except CpuLimitError:
            raise
        except UnableError as error:
            if missing := re.search(r"ModuleNotFoundError: No module named '(\w+)", str(error)):
                raise UnableError(f"{missing[1]} is not installed: pip install {entry.install}") from None
            raise

    def _fill_in(self, flags: Sequence[str]) -> list[str]:
        """Flags with the directory of the pretrained model, if there is one."""
        if MODEL not in flags:
            return list(flags)
        try:
            model = str(find_directory(find_minilm() if self._pretrained is None else self._pretrained))
        except ConfigError as error:
            raise UnableError(str(error)) from error
        return [model if flag == MODEL else flag for flag in flags]


def run_process(command: Sequence[str], folder: Path, most_seconds: float) -> Used:
    """Run a command with one thread in a folder; raises an UnableError if it fails."""
    if not hasattr(os, "wait4"):
        raise UnableError("this system does not measure the CPU time of processes that ended")
    import resource

    limits = (math.ceil(most_seconds), math.ceil(most_seconds) + 5) if most_seconds < math.inf else None
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **_ONE_THREAD, **_COMPILE_MODULES_ONCE},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, limits) if limits else None,
        )
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        cpu_seconds = used.ru_utime + used.ru_stime
        if process.returncode:
            if process.returncode == -signal.SIGXCPU or cpu_seconds >= most_seconds:
                raise CpuLimitError(f"stopped after {most_seconds:g} CPU s")
            lines = errors.read().strip().splitlines() or [f"ended with code {process.returncode}, no message"]
            raise UnableError(lines[-1].removeprefix("error: "))
        return Used(cpu_seconds, seconds, out.read())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _sorting_key(row: Record) -> tuple[int, str, float]:
    base = row["data_set"].partition(":")[0]
    place = DATA_SETS.index(base) if base in DATA_SETS else len(DATA_SETS)
    return place, row["data_set"], row["cpu_seconds"]


def list_peers_above(rows: Sequence[Record]) -> list[str]:
    """For each data set the peers that are more accurate than anything of ours in their time.

    Examples
    --------
    >>> ours = {"data_set": "sst2", "title": "ours", "is_peer": False, "cpu_seconds": 9.0, "score": 81.0}
    >>> peer = {"data_set": "sst2", "title": "peer", "is_peer": True, "cpu_seconds": 20.0, "score": 80.0}
    >>> list_peers_above([ours, peer])
    ['sst2: no peer is above our curve.']
    >>> list_peers_above([ours, {**peer, "cpu_seconds": 5.0}])
    ['sst2: above our curve: peer (80.00 after 5 s; ours has no model by then).']
    """
    lines = []
    for data_set in dict.fromkeys(row["data_set"] for row in rows):
        here = [row for row in rows if row["data_set"] == data_set]
        above = []
        if len({row["is_peer"] for row in here}) < 2:  # nothing to compare
            continue
        for row in here:
            if not row["is_peer"] or not _SHORTEST <= row["cpu_seconds"] <= _LONGEST:
                continue
            ours = [
                other["score"] for other in here if not other["is_peer"] and other["cpu_seconds"] <= row["cpu_seconds"]
            ]
            if not ours or max(ours) < row["score"]:
                best = f"ours: {max(ours):.2f}" if ours else "ours has no model by then"
                seconds = format_number(row["cpu_seconds"])
                above.append(f"{row['title']} ({row['score']:.2f} after {seconds} s; {best})")
        lines.append(
            f"{data_set}: " + (f"above our curve: {', '.join(above)}." if above else "no peer is above our curve.")
        )
    return lines


def _list_versions(rows: Sequence[Record]) -> list[str]:
    """One line with the versions of peers."""
    versions = sorted({f"{name} {number}" for row in rows for name, number in row["versions"].items()})
    return [f"Peers: {', '.join(versions)}."] if versions else []


def plot_frontier(rows: Sequence[Record], path: Path) -> None:
    """Draw the score against CPU seconds: one panel for each data set, and a line through our best models."""
    from graphattn.experiments.drawing._canvas import GREY, INK, PALETTE, new_picture
    from graphattn.experiments.drawing._curves import style_axes

    our_colour, peer_colour = PALETTE[:2]
    names = list(dict.fromkeys(row["data_set"] for row in rows))
    across = min(3, len(names))
    down = math.ceil(len(names) / across)
    with new_picture(path, 4.6 * across, 3.8 * down) as figure:
        figure.set_layout_engine("constrained")
        panels = list(figure.subplots(down, across, squeeze=False).flat)
        for axes, name in zip(panels, names, strict=False):
            here = [row for row in rows if row["data_set"] == name]
            style_axes(axes, "CPU seconds to the saved model", title=name)
            axes.set_xscale("log")
            curve = trace_curve([row for row in here if not row["is_peer"]])
            if curve:
                axes.step(*zip(*curve, strict=True), where="post", color=our_colour, lw=1.6)
            for row in here:
                colour = peer_colour if row["is_peer"] else our_colour
                point = (row["cpu_seconds"], row["score"])
                axes.plot(*point, marker="s" if row["is_peer"] else "o", ms=5, color=colour)
                axes.annotate(row["contender"], point, (4, -8), textcoords="offset points", fontsize=6.5, color=colour)
            axes.margins(x=0.18, y=0.1)
        for axes in panels[len(names) :]:
            axes.set_axis_off()
        figure.axes[0].set_ylabel("test score, %", color=INK, size=9)
        figure.supxlabel("circles and line: GraphAttn; squares: other libraries", fontsize=8, color=GREY)


def trace_curve(rows: Sequence[Record]) -> list[tuple[float, float]]:
    """(CPU seconds, best score by then) of rows, from the first model to the slowest.

    Examples
    --------
    >>> trace_curve([{"cpu_seconds": 9.0, "score": 80.0}, {"cpu_seconds": 4.0, "score": 81.0}])
    [(4.0, 81.0), (9.0, 81.0)]
    """
    points, best = [], -math.inf
    for row in sorted(rows, key=lambda row: row["cpu_seconds"]):
        best = max(best, row["score"])
        points.append((row["cpu_seconds"], best))
    return points

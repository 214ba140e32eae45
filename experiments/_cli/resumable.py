"""Apply a model to chunks of texts, in this process, in several, or on Ray: to a stream, or resumably to a file.

With a file to write, the results of chunks are kept beside it until the file is complete. Their names are digests of
the model, the options and the texts, so a second run finds those that are still valid and computes the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import (
    ConfigError,
    DataError,
    DeviceMemoryError,
    GraphAttnError,
    GraphError,
    Hint,
    verbatim,
    warn_caller,
)
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.loaded_models import ModelSettings, load_once
from graphattn.experiments._cli.output import show_progress

if TYPE_CHECKING:
    from graphattn.builders._jobs import Engine
    from graphattn.experiments._cli.text_stream import NumberedText
    from graphattn.models import Estimator
    from graphattn.models._features.text_columns import Gaps, TextColumns

CHUNK, GPU_CHUNK = 512, 8192
"""Default number of texts that are processed together, also on a GPU, whose batches are larger."""
_SHOWN = 5
"""Lines of bad texts that an error lists."""


def iter_chunks(texts: Iterable[NumberedText], size: int) -> Iterator[Sequence[NumberedText]]:
    """Number texts and group those that are processed together, reading no more than one ahead of what is taken."""
    numbered = (text._replace(number=number) for number, text in enumerate(texts, 1))
    while chunk := tuple(islice(numbered, size)):
        yield chunk


@dataclass(frozen=True)
class TextError:
    """A text that cannot be processed, with its line."""

    line: int
    message: str

    @classmethod
    def of(cls, line: int, error: GraphAttnError) -> TextError:
        """The error in one line, with the flags that it names."""
        return cls(line, " ".join(error.render(as_flag).split()))

    def to_row(self) -> dict[str, Any]:
        """The error as a row of JSON."""
        return {"line": self.line, "error": self.message}


def apply_to_texts(function: Callable[[list[Any], int], Sequence[Any]], chunk: Sequence[NumberedText]) -> list[Any]:
    """Apply a function to the texts of a chunk; one that fails has a :class:`TextError` in place of its result.

    ``function`` takes inputs and the number of the first one, and returns a result for each.
    """
    results: list[Any] = []
    for is_bad, group in groupby(chunk, key=lambda text: text.error is not None):
        texts = list(group)
        if is_bad:
            results += [TextError.of(text.line, text.error) for text in texts if text.error is not None]
        else:
            results += _apply(function, texts, texts[0].number)
    return results


def _apply(function: Callable[[list[Any], int], Sequence[Any]], texts: list[NumberedText], first: int) -> list[Any]:
    """Apply a function to all texts, or after an error to each half."""
    try:
        return list(function([text.content for text in texts], first))
    except (DataError, DeviceMemoryError, GraphError) as error:
        if len(texts) == 1:
            return [TextError.of(texts[0].line, error)]
    middle = len(texts) // 2
    return [*_apply(function, texts[:middle], first), *_apply(function, texts[middle:], first + middle)]


def choose_chunk(settings: ModelSettings) -> int:
    """The default number of texts of a chunk."""
    return GPU_CHUNK if settings.has_gpu else CHUNK


def choose_gpus(device: str | None, flag: str) -> float | None:
    """The share of a GPU for each actor on Ray, whose device has this name; None for a share of all GPUs."""
    gpus = {None: None, "auto": None, "cpu": 0.0, "cuda": 1.0}  # of each actor, which sees no other
    if device not in gpus:
        raise ConfigError(
            f"{flag} is {device!r}; with --engine ray give cpu or cuda: Ray chooses a GPU for each worker"
        )
    return gpus[device]


def make_engine(
    engine: str, jobs: int, address: str | None, device: str | None, *, device_flag: str = "--device"
) -> Engine:
    """The engine that the flags name, with its workers on a device."""
    from graphattn.builders._jobs import LocalEngine, RayEngine

    if engine == "ray":
        return RayEngine(jobs, address=address, gpus=choose_gpus(device, device_flag))
    if address is not None:
        raise ConfigError("--address is for --engine ray; give both, or neither")
    return LocalEngine(jobs)


@dataclass(frozen=True)
class ChunkResult:
    """The output of a chunk, the lines of texts with errors, and the first error.

    ``truncated`` are the number of texts that were truncated, and of tokens left out.
    """

    content: bytes
    bad_lines: tuple[int, ...] = ()
    error: str = ""
    truncated: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, content: bytes, errors: Sequence[TextError]) -> ChunkResult:
        """The output of a chunk, in which some texts have errors."""
        return cls(content, tuple(error.line for error in errors), errors[0].message if errors else "")


@dataclass(frozen=True)
class ModelJob:
    """A job for an engine, in any process: ``convert(estimator, chunk, **options)``, a function of a module."""

    settings: ModelSettings
    convert: Callable[..., ChunkResult]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, task: tuple[str, Sequence[NumberedText]]) -> tuple[str, ChunkResult]:
        """The name of a chunk and its result."""
        from graphattn.models._features.text_columns import hint_at_gaps_later
        from graphattn.models._prediction import count_truncation

        name, chunk = task
        estimator = load_once(self.settings)
        with count_truncation() as counts, hint_at_gaps_later():
            result = self.convert(estimator, chunk, **self.options)
        return name, replace(result, truncated=(counts[0], counts[1]))

    def digest(self, chunk: Sequence[NumberedText]) -> str:
        """Digest of all that determines the result."""
        content = repr((self.settings.decisive, self.convert.__name__, sorted(self.options.items()), chunk))
        return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def stream_results(job: ModelJob, chunks: Iterable[Sequence[NumberedText]], engine: Engine) -> Iterator[ChunkResult]:
    """Yield the results in order, each as soon as it is ready."""
    try:
        for _, result in engine.run(job, (("", chunk) for chunk in chunks), in_order=True):
            yield result
    finally:
        engine.close()


class ChunkCache:
    """The results of chunks as files in a folder that this process alone uses; it may have those of an earlier run."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._names: list[str] = []

    def compute(
        self, job: ModelJob, chunks: Iterable[Sequence[NumberedText]], engine: Engine, description: str | None
    ) -> None:
        """Compute the results that are missing, and show how many are done, if that has a description."""
        from graphattn.builders._atomic import write_with_checksum

        try:
            for name, result in show_progress(engine.run(job, self._find_missing(job, chunks)), description):
                header = json.dumps([name, result.truncated, result.error, *result.bad_lines])
                write_with_checksum(self._path(name), b"%b\n%b" % (header.encode(), result.content))
        finally:
            engine.close()

    def _find_missing(
        self, job: ModelJob, chunks: Iterable[Sequence[NumberedText]]
    ) -> Iterator[tuple[str, Sequence[NumberedText]]]:
        for chunk in chunks:
            name = job.digest(chunk)
            self._names.append(name)
            if self._read(name) is None:
                yield name, chunk

    def __iter__(self) -> Iterator[ChunkResult]:
        """Read the results in the order of the chunks."""
        for name in self._names:
            result = self._read(name)
            if result is None:
                raise DataError("was damaged", path=self._path(name), hint="Run the same command again to repair it.")
            yield result

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.part"

    def _read(self, name: str) -> ChunkResult | None:
        """The result of a chunk; None if it is missing or damaged."""
        from graphattn.builders._atomic import read_sealed

        sealed = read_sealed(self._path(name))
        if sealed is None:
            return None
        header, _, content = sealed.partition(b"\n")
        written_as, truncated, error, *bad_lines = json.loads(header)
        return ChunkResult(content, tuple(bad_lines), error, truncated) if written_as == name else None


@contextmanager
def keep_results(out: Path) -> Iterator[ChunkCache]:
    """Keep the results of chunks beside a file, or for a pipe in a temporary folder, until the block has no error."""
    from graphattn.builders._atomic import remove_leftovers
    from graphattn.builders._locks import folder_lock
    from graphattn.builders._paths import is_stream, write_error

    if is_stream(out):
        with tempfile.TemporaryDirectory(prefix="graphattn-") as name:
            yield ChunkCache(Path(name))
        return
    target = Path(os.path.realpath(out))
    folder = target.with_name(f".{target.name}.parts")
    try:
        folder.mkdir(exist_ok=True)
        with folder_lock(folder):
            yield ChunkCache(folder)
            for file in folder.glob("*.part*"):  # also those that a killed process was writing
                file.unlink()
            remove_leftovers(target, seconds=0)  # the lock keeps other writers out
    except OSError as error:
        raise write_error(out, error) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("resumable") from None
    finally:
        with suppress(OSError):  # it has results
            folder.rmdir()


@dataclass
class ProgressCounts:
    """Counts texts, and those that were truncated, and collects the lines of those that could not be processed."""

    texts: int = 0
    bad_lines: list[int] = field(default_factory=list)
    error: str = ""
    truncated: int = 0
    tokens: int = 0
    columns: TextColumns | None = None
    """Columns beside the texts, whose gaps are counted."""
    gaps: Gaps | None = None

    def count(self, results: Iterable[ChunkResult]) -> Iterator[bytes]:
        """Yield the contents of results and count their texts."""
        for result in results:
            self.bad_lines += result.bad_lines
            self.error = self.error or result.error
            texts, tokens = result.truncated
            self.truncated, self.tokens = self.truncated + texts, self.tokens + tokens
            yield result.content

    def watch(self, chunks: Iterable[Sequence[NumberedText]]) -> Iterator[Sequence[NumberedText]]:
        """Pass chunks on and count their texts."""
        for chunk in chunks:
            self.texts += len(chunk)
            self._count_gaps(chunk)
            yield chunk

    def _count_gaps(self, chunk: Sequence[NumberedText]) -> None:
        """Count empty cells and unknown values, if the model reads columns beside the texts."""
        if self.columns is None:
            return
        from graphattn.models._features.text_columns import Gaps

        rows = [text.content.cells for text in chunk if text.error is None]
        self.gaps = self.gaps or Gaps()
        self.gaps.add(self.columns, {name: [row[name] for row in rows] for name in self.columns.names})

    @property
    def processed(self) -> int:
        """The number of texts without an error."""
        return self.texts - len(self.bad_lines)

    def report(self, estimator: Estimator, hint: str) -> None:
        """Warn of truncated texts, and raise an error if some texts could not be processed.

        ``hint`` is a sentence that says where the output has the errors.
        """
        if self.truncated:
            warn_caller(estimator.describe_truncation(self.truncated, self.tokens))
        if self.columns is not None and self.gaps is not None:
            for sentence in self.gaps.describe(self.columns).values():
                warn_caller(Hint(verbatim(sentence)))
        lines = self.bad_lines
        if not lines:
            return
        shown = ", ".join(map(str, lines[:_SHOWN])) + (", ..." if len(lines) > _SHOWN else "")
        texts = "1 text" if len(lines) == 1 else f"{len(lines):,} texts"
        raise DataError(f"{texts} could not be processed (line {shown}). {hint} The first error: {self.error}")

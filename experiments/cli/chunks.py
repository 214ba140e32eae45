"""Apply a model to a stream of texts in chunks: in this process, in several, or on a Ray cluster.

With a file to write, the results of chunks are kept beside it until the file is complete. Their names are digests of
the model, the options and the texts, so a second run finds those that are still valid and computes the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn import __version__
from graphattn.exceptions import ConfigError, DataError, GraphError
from graphattn.experiments.cli.flags import as_flag
from graphattn.experiments.cli.output import show_progress

if TYPE_CHECKING:
    from graphattn.builders.jobs import Engine
    from graphattn.experiments.cli.text_stream import NumberedText
    from graphattn.models import Estimator

Jobs = Annotated[int, typer.Option(min=1, help="Number of processes.")]
EngineName = Annotated[Literal["local", "ray"], typer.Option(help="Processes of this machine, or a Ray cluster.")]
Address = Annotated[str | None, typer.Option(help="Ray cluster to use (default: one on this machine).")]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Truncate longer texts (classifiers; default: as in training).")
]
Search = Annotated[str, typer.Option(help="Changes of a translator's search, such as beam=8,length_penalty=1.")]
Longest = Annotated[
    int | None, typer.Option(min=1, help="Most sub-words of a source (translators; default: as in training).")
]
Precision = Annotated[
    Literal["32", "bf16", "auto"],
    typer.Option(help="Number format of matrix products; auto is bf16 where the hardware supports it, else 32."),
]

CHUNK = 512
"""Default number of texts that are processed together."""
RESUME = "run the same command again to resume"
_SHOWN = 5


def make_engine(engine: str, jobs: int, address: str | None, *, gpus: float | None = 0.0) -> Engine:
    """The engine that the flags name.

    Parameters
    ----------
    engine, jobs, address : values of the flags
    gpus : see :class:`~graphattn.builders.jobs.RayEngine`
    """
    from graphattn.builders.jobs import LocalEngine, RayEngine

    if engine == "ray":
        return RayEngine(jobs, address=address, gpus=gpus)
    if address is not None:
        raise ConfigError("--address is for --engine ray; give both, or neither")
    return LocalEngine(jobs)


@dataclass(frozen=True)
class ModelSettings:
    """How each process loads the model.

    Parameters
    ----------
    path : the model directory
    digest : of its contents; a process that loads another model stops
    parser : see :func:`~graphattn.experiments.cli.prediction_options.load_model`; pairs of name and value
    search, longest : see :func:`~graphattn.experiments.cli.prediction_options.change_search`
    precision : see :func:`graphattn.load`
    max_tokens_per_text : see :func:`~graphattn.experiments.cli.prediction_options.load_model`
    modules : the user's modules to import first
    threads : of each process; None for PyTorch's default
    """

    path: Path
    digest: str
    parser: tuple[tuple[str, Any], ...] = ()
    search: str = ""
    longest: int | None = None
    precision: str = "32"
    max_tokens_per_text: int | None = None
    modules: tuple[str, ...] = ()
    threads: int | None = None

    @classmethod
    def of(cls, path: Path, *, engine: str = "local", jobs: int = 1, **options: Any) -> ModelSettings:
        """The settings for several processes, which share the threads of this one."""
        import torch

        from graphattn.experiments.cli.user_modules import imported_modules
        from graphattn.models.pretrained.checkpoint import digest_directory, is_hugging_face_directory
        from graphattn.models.saving import read_digest

        load_once.cache_clear()  # the model of an earlier command in this process
        threads = max(1, torch.get_num_threads() // jobs) if jobs > 1 and engine == "local" else None
        digest = digest_directory(path) if is_hugging_face_directory(path) else read_digest(path)
        return cls(path, digest, modules=imported_modules(), threads=threads, **options)

    @property
    def decisive(self) -> tuple[Any, ...]:
        """What determines the results."""
        return (
            __version__,
            self.digest,
            self.parser,
            self.search,
            self.longest,
            self.precision,
            self.max_tokens_per_text,
        )


@lru_cache(maxsize=1)
def load_once(settings: ModelSettings) -> Estimator:
    """Load a model, or the sentence encoder of a Hugging Face directory, once in each process.

    Raises
    ------
    ModelDirectoryError
        when the directory has another model than the settings say
    """
    import torch

    from graphattn.experiments.cli.prediction_options import change_search, load_model, load_sentence_encoder
    from graphattn.experiments.cli.user_modules import import_modules
    from graphattn.models.pretrained.checkpoint import is_hugging_face_directory

    if settings.threads is not None and settings.threads != torch.get_num_threads():
        torch.set_num_threads(settings.threads)
        os.environ["RAYON_NUM_THREADS"] = str(settings.threads)  # of the tokenizers
    import_modules(settings.modules)
    read: Any = load_sentence_encoder if is_hugging_face_directory(settings.path) else load_model
    estimator: Estimator = read(
        settings.path,
        dict(settings.parser),
        precision=settings.precision,
        max_tokens_per_text=settings.max_tokens_per_text,
        digest=settings.digest,
    )
    change_search(estimator, settings.search, settings.longest)
    return estimator


@dataclass(frozen=True)
class Chunk:
    """Texts that are processed together; ``first`` is the number of the first one, from 1."""

    first: int
    texts: tuple[NumberedText, ...]


def iter_chunks(texts: Iterable[NumberedText], size: int) -> Iterator[Chunk]:
    """Group texts into chunks, reading no more than one ahead of what is taken."""
    remaining, first = iter(texts), 1
    while part := tuple(islice(remaining, size)):
        yield Chunk(first, part)
        first += len(part)


@dataclass(frozen=True)
class TextError:
    """A text that cannot be processed, with its line."""

    line: int
    message: str


def apply_to_texts(function: Callable[[list[Any], int], Sequence[Any]], chunk: Chunk) -> list[Any]:
    """Apply a function to the texts of a chunk; one that fails has a :class:`TextError` in place of its result.

    Parameters
    ----------
    function : takes inputs and the number of the first one, and returns a result for each
    chunk : the texts
    """
    results: list[Any] = []
    for is_bad, group in groupby(chunk.texts, key=lambda text: text.error is not None):
        texts = list(group)
        if is_bad:
            results += [_describe_error(text.line, text.error) for text in texts]
        else:
            results += _apply(function, texts, chunk.first + len(results))
    return results


def _apply(function: Callable[[list[Any], int], Sequence[Any]], texts: list[NumberedText], first: int) -> list[Any]:
    """Apply a function to all texts, or after an error to each half."""
    try:
        return list(function([text.content for text in texts], first))
    except (DataError, GraphError) as error:
        if len(texts) == 1:
            return [_describe_error(texts[0].line, error)]
    middle = len(texts) // 2
    return [*_apply(function, texts[:middle], first), *_apply(function, texts[middle:], first + middle)]


def _describe_error(line: int, error: DataError | GraphError | None) -> TextError:
    assert error is not None
    return TextError(line, " ".join(error.render(as_flag).split()))


@dataclass(frozen=True)
class Part:
    """The result of a chunk: a part of the output, and how the texts fared.

    Parameters
    ----------
    content : of the output
    bad_lines : lines of texts that could not be processed
    error : of the first of them
    truncated : number of texts that were truncated, and of tokens left out
    """

    content: bytes
    bad_lines: tuple[int, ...] = ()
    error: str = ""
    truncated: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class ModelJob:
    """What an engine runs: a model on a chunk, in any process.

    Parameters
    ----------
    settings : of the model
    convert : ``convert(estimator, chunk, **options)`` makes a part of the output; a function of a module
    options : of ``convert``
    """

    settings: ModelSettings
    convert: Callable[..., Part]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, task: tuple[str, Chunk]) -> tuple[str, Part]:
        """Make the part of a named chunk."""
        from graphattn.models.prediction import count_truncation

        name, chunk = task
        estimator = load_once(self.settings)
        with count_truncation() as counts:
            part = self.convert(estimator, chunk, **self.options)
        return name, replace(part, truncated=(counts[0], counts[1]))

    def digest(self, chunk: Chunk) -> str:
        """Digest of all that determines the part."""
        content = repr((self.settings.decisive, self.convert.__name__, self.options, chunk))
        return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def stream_parts(job: ModelJob, chunks: Iterable[Chunk], engine: Engine) -> Iterator[Part]:
    """Yield the parts in order, each as soon as it is ready."""
    try:
        for _, part in engine.run(job, (("", chunk) for chunk in chunks), in_order=True):
            yield part
    finally:
        engine.close()


class KeptParts:
    """The finished parts of an output, as files in a folder that this process alone uses.

    Parameters
    ----------
    folder : may have parts of an earlier run
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._names: list[str] = []

    def compute(self, job: ModelJob, chunks: Iterable[Chunk], engine: Engine, description: str) -> None:
        """Compute the parts that are missing, and show how many are done."""
        from graphattn.builders.files import write_sealed

        try:
            for name, part in show_progress(engine.run(job, self._find_missing(job, chunks)), description):
                header = json.dumps([name, part.truncated, part.error, *part.bad_lines])
                write_sealed(self._path(name), b"%b\n%b" % (header.encode(), part.content))
        finally:
            engine.close()

    def _find_missing(self, job: ModelJob, chunks: Iterable[Chunk]) -> Iterator[tuple[str, Chunk]]:
        for chunk in chunks:
            name = job.digest(chunk)
            self._names.append(name)
            if self._read(name) is None:
                yield name, chunk

    def __iter__(self) -> Iterator[Part]:
        """Read the parts in the order of the chunks."""
        for name in self._names:
            part = self._read(name)
            if part is None:
                raise DataError("was damaged", path=self._path(name), hint="Run the same command again to repair it.")
            yield part

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.part"

    def _read(self, name: str) -> Part | None:
        """A finished part; None if it is missing or damaged."""
        from graphattn.builders.files import read_sealed

        sealed = read_sealed(self._path(name))
        if sealed is None:
            return None
        header, _, content = sealed.partition(b"\n")
        written_as, truncated, error, *bad_lines = json.loads(header)
        return Part(content, tuple(bad_lines), error, truncated) if written_as == name else None


@contextmanager
def keep_parts(out: Path) -> Iterator[KeptParts]:
    """Keep the parts of an output beside it until the block ends without an error.

    Parameters
    ----------
    out : the file to write; the parts of a pipe or device are in a temporary folder
    """
    from graphattn.builders.files import folder_lock, is_stream, remove_leftovers, write_error

    if is_stream(out):
        with tempfile.TemporaryDirectory(prefix="graphattn-") as name:
            yield KeptParts(Path(name))
        return
    target = Path(os.path.realpath(out))
    folder = target.with_name(f".{target.name}.parts")
    try:
        folder.mkdir(exist_ok=True)
        with folder_lock(folder):
            yield KeptParts(folder)
            for part in folder.glob("*.part*"):  # also those that a killed process was writing
                part.unlink()
            remove_leftovers(target, seconds=0)  # the lock keeps other writers out
    except OSError as error:
        raise write_error(out, error) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(RESUME) from None
    finally:
        with suppress(OSError):  # it has parts
            folder.rmdir()


@dataclass
class Tally:
    """Counts texts that were truncated, and collects the lines of those that could not be processed."""

    bad_lines: list[int] = field(default_factory=list)
    error: str = ""
    truncated: int = 0
    tokens: int = 0

    def count(self, parts: Iterable[Part]) -> Iterator[bytes]:
        """Yield the contents of parts and count their texts."""
        for part in parts:
            self.bad_lines += part.bad_lines
            self.error = self.error or part.error
            texts, tokens = part.truncated
            self.truncated, self.tokens = self.truncated + texts, self.tokens + tokens
            yield part.content

    def report(self, estimator: Estimator, place: str) -> None:
        """Warn of truncated texts, and raise an error if some texts could not be processed.

        Parameters
        ----------
        estimator : the model, which knows its limit of tokens
        place : where the output has the errors, a sentence
        """
        if self.truncated:
            warnings.warn(estimator.describe_truncation(self.truncated, self.tokens), stacklevel=2)
        lines = self.bad_lines
        if not lines:
            return
        shown = ", ".join(map(str, lines[:_SHOWN])) + (", ..." if len(lines) > _SHOWN else "")
        texts = "1 text" if len(lines) == 1 else f"{len(lines):,} texts"
        raise DataError(f"{texts} could not be processed (line {shown}). {place} The first error: {self.error}")

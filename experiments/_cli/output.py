"""Output of commands: files that appear when they are complete, lines of JSON, tables of metrics, progress bars."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from graphattn.exceptions import DataError, printable

Item = TypeVar("Item")
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@contextmanager
def open_output(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """Open a temporary file, which replaces ``path`` at the end (see :func:`atomic_file`)."""
    from graphattn.builders._atomic import atomic_file  # loads PyTorch
    from graphattn.builders._paths import write_error  # loads PyTorch

    try:
        with (
            atomic_file(path) as temporary,
            open(temporary, "wb")
            if binary
            else open(temporary, "w", encoding="utf-8", errors="backslashreplace") as stream,
        ):
            yield stream
    except BrokenPipeError:  # the reader of a pipe ended
        raise
    except OSError as error:
        raise write_error(path, error) from error


def has_output() -> bool:
    """Whether there is a standard output; ``>&-`` closes it."""
    return sys.stdout is not None and getattr(sys.stdout, "name", None) != os.devnull


def check_output(path: Path, *read: str | Path) -> None:
    """Reject a file that cannot be written or is one of the inputs, before work is done for it.

    ``read`` are the inputs: files, ``-``, or texts.
    """
    from graphattn.builders._paths import is_stream, write_error  # loads PyTorch

    if is_stream(path):
        return
    if any(_same_file(path, other) for other in read):
        raise DataError("would be written over what is read", path=path, hint="Choose another file.")
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        code = errno.EISDIR
    elif not folder.is_dir():
        code = errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EROFS if _is_read_only(folder) else errno.EACCES
    else:
        return
    raise write_error(path, OSError(code, os.strerror(code)))


def _is_read_only(folder: Path) -> bool:
    """Whether a folder is on a disk that is mounted to be read only, on which nobody can write."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _same_file(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one does not exist, or is no path
        return False


def model_files(model: Path) -> list[Path]:
    """The files of a model directory."""
    from graphattn.models._files.saving import CHECKPOINT, CONFIG, LABELS, TOKENIZER, WEIGHTS

    return [model / name for name in (CHECKPOINT, CONFIG, LABELS, TOKENIZER, WEIGHTS)]


def name_files(paths: Iterable[str | Path]) -> str:
    """The files of a corpus, SOURCE,TARGET included, without their folders."""
    return " ".join(printable(Path(file).name) for path in paths for file in str(path).split(","))


def encode_line(row: Mapping[str, Any]) -> str:
    """A row as a line of JSON, which has no NaN."""
    try:
        return _ENCODE(row) + "\n"
    except ValueError as error:
        raise DataError("the model gives numbers that are not finite", hint="Train it again.") from error


def unpack_single(named: Mapping[str, Item]) -> Item | Mapping[str, Item]:
    """The value of a mapping with one name; a mapping with several unchanged."""
    return next(iter(named.values())) if len(named) == 1 else named


def print_metrics(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Print metrics in percent: a table on a terminal, one line per value on a pipe.

    Examples
    --------
    >>> print_metrics({"dev": {"accuracy": 81.25}})
    dev accuracy: 81.25
    """
    from graphattn.models._results.reports import format_metric

    if sys.stdout is None or not sys.stdout.isatty():
        for column, values in columns.items():
            for metric, value in values.items():
                print(f"{column} {_title(metric)}: {format_metric(metric, value)}")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("", *map(escape, columns))
    for metric in dict.fromkeys(metric for values in columns.values() for metric in values):
        row = [format_metric(metric, values[metric]) if metric in values else "" for values in columns.values()]
        table.add_row(_title(metric), *row)
    Console().print(table)


def _title(metric: str) -> str:
    return metric.replace("_", " ")


def show_progress(items: Iterable[Item], description: str | None, total: int | None = None) -> Iterator[Item]:
    """Pass items on; on a terminal, count them with a bar on standard error, unless it has no description."""
    if description is None or sys.stderr is None or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description, total, console=Console(stderr=True))

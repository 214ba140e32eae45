"""The folder of a training run: options and last checkpoint, written atomically."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from graphattn.builders._atomic import read_sealed, write_with_checksum
from graphattn.builders._locks import folder_lock
from graphattn.builders._paths import resolve_path
from graphattn.exceptions import (
    ConfigError,
    DataError,
    GraphAttnWarning,
    RunFolderError,
    TrainingError,
    verbatim,
    warn_caller,
)
from graphattn.models._files.saving import CHECKPOINT
from graphattn.models._files.saving import RUN_SETTINGS as SETTINGS
from graphattn.models._options import TrainingOptions
from graphattn.models.training._processes import is_first_process

HISTORY, BEST = "history.json", "best.safetensors"

_CHANGEABLE = ("resume", "checkpoint_minutes", "progress", "logs", "run_dir")
"""Options that may differ when a run resumes."""
_DATA = ("training set", "dev set", "references", "vectors", "initial weights")
"""Settings that are digests of data; all others are options."""


@contextmanager
def run_folder(options: TrainingOptions) -> Iterator[Path]:
    """The folder ``run_dir``, locked, or a temporary one."""
    if options.run_dir is None:
        with _name_errors("set TMPDIR to another folder"), tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    with ExitStack() as lock:
        try:
            folder_path = resolve_path(options.run_dir)
            folder_path.mkdir(parents=True, exist_ok=True)
            if is_first_process(options):
                lock.enter_context(folder_lock(folder_path))
                for stale in folder_path.glob(f".{CHECKPOINT}.*.new"):
                    stale.unlink()
        except OSError as error:
            problem = f"{{run_dir}} {verbatim(options.run_dir)} is not writable ({error.strerror})"
            raise RunFolderError(problem, "; give another folder", options=("run_dir",)) from error
        except DataError as error:
            problem, advice = f"{verbatim(folder_path)} {error.message}", "; wait for it, or give another {run_dir}"
            raise RunFolderError(problem, advice, options=("run_dir",), is_busy=True) from error
        with _name_errors("train again to resume from the last checkpoint", folder_path):
            yield folder_path


@contextmanager
def _name_errors(advice: str, folder: Path | None = None) -> Iterator[None]:
    """Raise TrainingError for an OSError, most of which name no file."""
    try:
        yield
    except OSError as error:
        target = error.filename or folder or tempfile.gettempdir()
        raise TrainingError(
            f"{target} cannot be written ({error.strerror or error}); make room and {advice}"
        ) from error


def checkpoint_to_resume(folder: Path, options: TrainingOptions, about: Mapping[str, Any]) -> Path | None:
    """The checkpoint of an earlier run with the same options and data; other runs are not overwritten.

    A damaged checkpoint is removed with a warning, so that the run starts again. Options and ``about`` (name -> plain
    value) must be equal, or a ConfigError names the first difference.
    """
    values = {name: value for name, value in options.to_dict().items() if name not in _CHANGEABLE}
    settings = json.loads(json.dumps({**values, **about}, default=str))
    checkpoint = folder / CHECKPOINT
    if not options.resume:
        checkpoint.unlink(missing_ok=True)
    if checkpoint.exists():
        _check_settings(folder, settings)
        if read_sealed(checkpoint) is None:
            message = f"{verbatim(checkpoint)} is damaged, so the training starts again"
            warn_caller(GraphAttnWarning(message))
            checkpoint.unlink(missing_ok=True)
    if not checkpoint.exists():
        (folder / HISTORY).unlink(missing_ok=True)
        (folder / BEST).unlink(missing_ok=True)
    write_with_checksum(folder / SETTINGS, json.dumps(settings, indent=1).encode())
    return checkpoint if checkpoint.exists() else None


def write_checkpoint(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write a checkpoint atomically, with a checksum."""
    content = io.BytesIO()
    torch.save(checkpoint, content)  # torch.save to a file hides the disk's error
    # no view of the buffer: Python 3.12.1 crashes when it collects one that an error keeps
    write_with_checksum(path, content.getvalue())


def read_checkpoint(path: Path, device: Any = None) -> dict[str, Any]:
    """The content of a checkpoint, on a device; a ConfigError if it cannot be read without executing anything."""
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a callback's state that only unpickling restores
        raise error_for_damage(path) from error
    return checkpoint


def error_for_damage(path: Path) -> ConfigError:
    """An error for a file of a run that is missing or damaged."""
    return ConfigError(
        f"{verbatim(path)} is missing or damaged, so the run cannot resume; give {{resume=False}} to start again",
        options=("resume",),
    )


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Reject the folder of a run with other settings."""
    sealed = read_sealed(folder / SETTINGS)
    if sealed is None:
        raise error_for_damage(folder / SETTINGS)
    earlier = json.loads(sealed)
    changed = next((name for name in {**settings, **earlier} if earlier.get(name) != settings.get(name)), None)
    if changed is not None:
        name = changed.rpartition(".")[2]  # without its group of options
        values = verbatim(f"{earlier.get(changed)!r}, now {settings.get(changed)!r}")
        difference = f"data ({name})" if name in _DATA else f"options ({{{name}}}: {values})"
        has_ended = earlier["epochs"] is not None and _count_epochs(folder) >= earlier["epochs"]
        run = "a run" if has_ended else "an unfinished run"
        raise RunFolderError(
            f"{run} with other {difference} is in {verbatim(folder)}",
            "; {resume=False} discards it, another {run_dir} keeps it",
            options=(name, "run_dir", "resume"),
            is_other=True,
        )


def _count_epochs(folder: Path) -> int:
    """The number of epochs that a run finished."""
    try:
        return len(json.loads((folder / HISTORY).read_bytes())["epochs"])
    except (OSError, ValueError):
        return 0

"""The folder of a training run: its options and its last checkpoint, written atomically."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.utilities import rank_zero_only

from graphattn.builders.files import atomic_file, folder_lock
from graphattn.exceptions import ConfigError, DataError
from graphattn.models.options import TrainingOptions

CHECKPOINT, HISTORY, BEST, RUN_SETTINGS = "last.ckpt", "history.json", "best.safetensors", "training.json"

_IRRELEVANT = ("resume", "checkpoint_minutes", "progress", "logs", "run_dir")
_REQUIRED = ("state_dict", "optimizer_states", "pytorch-lightning_version")


@contextmanager
def run_folder(options: TrainingOptions) -> Iterator[Path]:
    """The folder ``run_dir``, locked, or a temporary one.

    Raises
    ------
    ConfigError
        when the folder cannot be written to, or another run is using it
    """
    if options.run_dir is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    folder_path = Path(options.run_dir)
    with ExitStack() as lock:
        try:
            folder_path.mkdir(parents=True, exist_ok=True)
            if is_first_process():
                lock.enter_context(folder_lock(folder_path))
                for stale in folder_path.glob(f".{CHECKPOINT}.*.new"):
                    stale.unlink()
        except OSError as error:
            raise ConfigError(
                f"{{run_dir}} {folder_path} cannot be written to ({error.strerror}); give a folder that can be written",
                options=("run_dir",),
            ) from error
        except DataError as error:
            raise ConfigError(
                f"{folder_path} {error.message}; wait for it, or give another {{run_dir}}", options=("run_dir",)
            ) from error
        yield folder_path


def checkpoint_to_resume(folder: Path, options: TrainingOptions, about: Mapping[str, Any]) -> Path | None:
    """The checkpoint of an earlier run with the same options and data; other runs are not overwritten.

    Parameters
    ----------
    folder : the run's folder
    options : of the training
    about : other values that must be equal, name -> plain value

    Raises
    ------
    ConfigError
        naming the first difference
    """
    values = {name: value for name, value in options.to_dict().items() if name not in _IRRELEVANT}
    own = json.loads(json.dumps({**values, **about}, default=str))
    checkpoint, started_with = folder / CHECKPOINT, folder / RUN_SETTINGS
    if not options.resume:
        checkpoint.unlink(missing_ok=True)
    if checkpoint.exists():
        earlier = _started_with(started_with)
        changed = [name for name in {**own, **earlier} if earlier.get(name) != own.get(name)]
        if changed:
            name = changed[0]
            shown = f"{{{name}}}" if name in values else name
            raise ConfigError(
                f"{folder} holds a run with another {shown} ({earlier.get(name)!r}, now {own.get(name)!r}). "
                "Give another {run_dir}, the same options and data to resume, or {resume=False} to start again",
                options=(name, "run_dir", "resume"),
            )
    if not checkpoint.exists():
        (folder / HISTORY).unlink(missing_ok=True)
        (folder / BEST).unlink(missing_ok=True)
    with atomic_file(started_with, sync=True) as temporary:
        temporary.write_text(json.dumps(own, indent=1), encoding="utf-8")
    return checkpoint if checkpoint.exists() else None


def _started_with(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values, dict):
            return values
    except (OSError, ValueError):
        pass
    raise _damaged(path)


def _damaged(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is missing or damaged, so that the run cannot go on; give {{resume=False}} to start again",
        options=("resume",),
    )


def is_first_process() -> bool:
    """Whether this process writes files; of several processes only the first does."""
    return rank_zero_only.rank == 0  # type: ignore[attr-defined]


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write checkpoints atomically, and load them without unpickling.

    Lightning writes to the system's temporary folder and moves the file, which is not atomic across file systems.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write beside, then rename."""
        content = io.BytesIO()
        torch.save(checkpoint, content)  # torch.save to a file hides the disk's error
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, sync=True) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        """Tensors and plain values only.

        Raises
        ------
        ConfigError
            when the file is damaged
        """
        try:
            checkpoint = torch.load(path, map_location=map_location or "cpu", weights_only=True)
            # files of other names, between Lightning's processes, hold only weights
            if Path(path).name == CHECKPOINT and not all(key in checkpoint for key in _REQUIRED):
                raise ValueError("it is no checkpoint")
            return checkpoint
        except OSError:
            raise
        except Exception as error:  # each kind of damage has its own
            raise _damaged(Path(path)) from error

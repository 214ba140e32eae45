"""Model directories: written atomically, verified when read; reading one executes no code."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from graphattn.builders.files import atomic_folder, file_sha256, replaced_folder, resolve_path, unseal
from graphattn.builders.json_types import check_fields, check_json, json_checksum, require_keys
from graphattn.exceptions import ConfigError, GraphAttnWarning, ModelDirectoryError, UnregisteredError
from graphattn.models.encoders import options_class
from graphattn.models.options import resolve_precision

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator

EstimatorT = TypeVar("EstimatorT", bound="Estimator")

FORMAT = 1
"""Version of the directory's layout; increased when an older GraphAttn cannot read it."""

CONFIG, WEIGHTS, TOKENIZER, LABELS = "config.json", "model.safetensors", "tokenizer.json", "labels.json"
SOURCE_TOKENIZER = "source_tokenizer.json"
_READ = frozenset({WEIGHTS, TOKENIZER, LABELS, SOURCE_TOKENIZER})
CHECKPOINT, RUN_SETTINGS = "last.ckpt", "training.json"
"""Files in the folder of a training run, see :mod:`graphattn.models.training.checkpoints`."""
PACKED, KEEP_BEST = "model_files", "KeepBest"
"""Keys in a checkpoint: the files of the model without its weights, and (in ``callbacks``) the best epoch."""
CHECKSUM = "checksum"
"""Key in the config of the checksum of all others; models of earlier versions have none."""

TASKS: dict[str, type[Estimator]] = {}
"""Name of a task -> its estimator."""


def register_task(estimator: type[EstimatorT]) -> type[EstimatorT]:
    """Add a task to ``graphattn train``, :func:`load`, ``predict`` and ``evaluate``; usable as a decorator.

    Parameters
    ----------
    estimator : a subclass of :class:`~graphattn.models.Estimator` with a ``task`` of its own

    Raises
    ------
    ConfigError
        when another estimator has the same task
    """
    other = TASKS.setdefault(estimator.task, estimator)
    if (other.__module__, other.__qualname__) != (estimator.__module__, estimator.__qualname__):
        raise ConfigError(f"the task {estimator.task!r} is registered already; give {estimator.__name__} another one")
    TASKS[estimator.task] = estimator
    return estimator


@dataclass
class ModelFiles:
    """The contents of a model directory.

    Parameters
    ----------
    config : options, and what else the task needs; plain values
    labels : class names in the order of their ids
    tokenizer : text of ``tokenizer.json``
    weights : name -> tensor
    notes : other text files, name -> content; not read with a model
    source_tokenizer : text of a second tokenizer, for a translator's sources; None for one tokenizer
    digest : of a model that was read, as :func:`read_digest` gives it
    """

    config: dict[str, Any]
    labels: list[Any]
    tokenizer: str
    weights: dict[str, Tensor]
    notes: Mapping[str, str] = field(default_factory=dict)
    source_tokenizer: str | None = None
    digest: str = ""


def write_model(path: Path, files: ModelFiles) -> Path:
    """Write a model directory; an old one is replaced when the new one is complete.

    Raises
    ------
    ModelDirectoryError
        when ``path`` is a file or another folder, or the disk is full
    """
    try:
        path = resolve_path(path)  # keeps a link; "." has no name for the temporary folder
        if path.exists() and not (path.is_dir() and (is_model_directory(path) or not any(path.iterdir()))):
            raise ModelDirectoryError(f"{path} exists and is no model directory; choose another place to save to")
        with atomic_folder(path, sync=True) as temporary:
            _write_files(temporary, files)
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelDirectoryError(
            f"{path} could not be written ({reason}); what was there before is unchanged"
        ) from error
    return path


def is_model_directory(path: Path) -> bool:
    """Whether :func:`write_model` wrote a folder, in any version and also if its config is damaged.

    Other programs have a ``config.json`` too, and saving must not replace their folders.
    """
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        return False
    except ValueError:
        return all((path / name).is_file() for name in (WEIGHTS, TOKENIZER, LABELS))
    return isinstance(config, dict) and {"format", "sha256"} <= config.keys()


def _write_files(folder: Path, files: ModelFiles) -> None:
    save_file({name: tensor.contiguous() for name, tensor in files.weights.items()}, folder / WEIGHTS)
    (folder / TOKENIZER).write_text(files.tokenizer, encoding="utf-8")
    (folder / LABELS).write_text(json.dumps(files.labels, ensure_ascii=False, indent=1), encoding="utf-8")
    shutil.copymode(folder / LABELS, folder / WEIGHTS)  # safetensors writes files that only their owner can read
    names = [WEIGHTS, TOKENIZER, LABELS]
    if files.source_tokenizer is not None:
        (folder / SOURCE_TOKENIZER).write_text(files.source_tokenizer, encoding="utf-8")
        names.append(SOURCE_TOKENIZER)
    for name, text in files.notes.items():
        (folder / name).write_text(text, encoding="utf-8")
    sums = {name: file_sha256(folder / name) for name in [*names, *files.notes]}
    config = {"format": FORMAT, **files.config, "sha256": sums}
    checksum = json_checksum(json.loads(json.dumps(config)))
    config = {"format": FORMAT, CHECKSUM: checksum, **config}  # not last: its line can be deleted
    (folder / CONFIG).write_text(json.dumps(config, ensure_ascii=False, indent=1), encoding="utf-8")


def read_model(path: Path) -> ModelFiles:
    """Read and verify a model directory; one that is replaced meanwhile is read again.

    Raises
    ------
    ModelDirectoryError
        when it is missing, incomplete, corrupted, or of another version
    """
    if is_run(run := _resolve_interrupted_save(path)):
        return _read_run(run)
    config = read_config(path)
    while True:
        problem = None
        try:
            files = _read_files(_resolve_interrupted_save(path), config)
        except (ModelDirectoryError, OSError) as error:
            problem = error
        before, config = config, read_config(path)
        if json_checksum(config) != json_checksum(before):  # a NaN is not equal to itself
            continue
        if isinstance(problem, OSError):
            raise ModelDirectoryError(f"{path} cannot be read ({problem.strerror or problem})") from problem
        if problem is not None:
            raise problem
        return files


def _read_files(path: Path, config: dict[str, Any]) -> ModelFiles:
    _check_files(path, config, [name for name in config["sha256"] if name in _READ])
    has_source_tokenizer = SOURCE_TOKENIZER in config["sha256"]
    weights = load_file(path / WEIGHTS)
    check_finite(path, weights)
    return ModelFiles(
        config,
        json.loads((path / LABELS).read_text(encoding="utf-8")),
        (path / TOKENIZER).read_text(encoding="utf-8"),
        {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()},
        source_tokenizer=(path / SOURCE_TOKENIZER).read_text(encoding="utf-8") if has_source_tokenizer else None,
        digest=json_checksum(config),
    )


def _check_files(path: Path, config: Mapping[str, Any], names: Iterable[str]) -> None:
    """Compare files with their checksums in the config."""
    for name in names:
        if not (path / name).is_file():
            raise ModelDirectoryError(f"{path} is incomplete: {name} is missing. Copy the whole directory again")
        if file_sha256(path / name) != config["sha256"][name]:
            raise ModelDirectoryError(
                f"{path / name} is damaged: its checksum is not the one in {CONFIG}. Copy the directory again"
            )


def check_notes(path: Path) -> None:
    """Compare the notes of a model, which :func:`read_model` does not read, with their checksums.

    Raises
    ------
    ModelDirectoryError
        when one is missing or has changed
    """
    path = _resolve_interrupted_save(path)
    if is_run(path):  # its checkpoint has no notes
        return
    config = _read_config(path)
    _check_files(path, config, config["sha256"].keys() - _READ)


def check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Raise ModelDirectoryError when the weights of a directory have NaN or infinity, from which all results follow."""
    for name, tensor in weights.items():
        if tensor.is_floating_point() and tensor.numel() and not all(map(math.isfinite, tensor.aminmax())):
            raise ModelDirectoryError(f"{path}: {name} has NaN or infinity. Train the model again, or get another copy")


def read_config(path: Path) -> dict[str, Any]:
    """The config of a model directory, without the weights.

    Raises
    ------
    ModelDirectoryError
        when it is missing, cannot be read, or is of another version
    """
    path = _resolve_interrupted_save(path)
    return _read_run(path).config if is_run(path) else _read_config(path)


def read_digest(path: Path) -> str:
    """The digest that :func:`read_model` will give, without reading the weights.

    Raises
    ------
    ModelDirectoryError
        as :func:`read_config`
    """
    path = _resolve_interrupted_save(path)
    if is_run(path):
        return file_sha256(path / CHECKPOINT)
    return json_checksum(_read_config(path))


def is_run(path: Path) -> bool:
    """Whether this is the folder of a training run that has not ended, of which the best epoch can be loaded."""
    return os.path.isfile(path / CHECKPOINT) and not os.path.isfile(path / CONFIG)


def pack_model(files: ModelFiles, trained: Collection[str]) -> dict[str, Any]:
    """What a checkpoint keeps of the files of a model, so that its best epoch can be loaded.

    Parameters
    ----------
    files : when training starts
    trained : names of the weights that the best epoch has
    """
    return {
        "config": json.dumps(files.config),
        "labels": json.dumps(files.labels),
        "tokenizer": files.tokenizer,
        "source_tokenizer": files.source_tokenizer,
        "weights": {name: tensor for name, tensor in files.weights.items() if name not in trained},
    }


def _read_run(path: Path) -> ModelFiles:
    """The files of the best epoch of a run that has not ended; nothing in its checkpoint is executed."""
    try:
        sealed = (path / CHECKPOINT).read_bytes()
        content = unseal(sealed)
        if content is None:
            raise ValueError("its checksum does not fit")
        checkpoint = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        model, best = checkpoint[PACKED], checkpoint["callbacks"][KEEP_BEST]
        config = {**json.loads(model["config"]), "history": best["rows"]}
        labels, weights = json.loads(model["labels"]), {**model["weights"], **best["weights"]}
        files = ModelFiles(
            config,
            labels,
            model["tokenizer"],
            weights,
            source_tokenizer=model["source_tokenizer"],
            digest=hashlib.sha256(sealed).hexdigest(),
        )
    except OSError as error:  # such as the end of training, which removes it
        raise ModelDirectoryError(f"{path / CHECKPOINT} cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damaged files raise many types
        raise ModelDirectoryError(
            f"{path / CHECKPOINT} is damaged. Run the same `train` command again, which starts from the beginning"
        ) from error
    if not config["history"]:
        raise ModelDirectoryError(
            f"{path} has no model yet: no epoch has ended. Run the same `train` command again to resume"
        )
    return files


def _resolve_interrupted_save(path: Path) -> Path:
    """The directory; the old one if a save was killed between its two renames."""
    old = replaced_folder(Path(os.path.realpath(path)))
    return old if not os.path.exists(path) and os.path.exists(old) else path


def _read_config(path: Path) -> dict[str, Any]:
    if not os.path.isfile(path / CONFIG):  # False also for a text that cannot be a path
        run, missing = f"{path}.run", f"{path} is no model directory: it has no {CONFIG}"
        if is_run(Path(run)):
            raise ModelDirectoryError(
                f"{missing}, since its training has not ended. Run the same `train` command again to resume, or use "
                f"the best epoch so far: give {run}"
            )
        if os.path.isfile(path / RUN_SETTINGS):
            raise ModelDirectoryError(
                f"{missing}; it is the folder of a training run of which no epoch has ended, or whose model is saved. "
                "Run the same `train` command again to resume, or give the model directory"
            )
        raise ModelDirectoryError(f"{missing}. Give one that `save` or `train` wrote")
    try:
        config: dict[str, Any] = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        if config and isinstance(config, dict) and not config.keys() & {"format", "task", "sha256"}:
            known = (
                "; a Hugging Face model is for `train --pretrained` and `graphattn encode`"
                if "model_type" in config
                else ""
            )
            raise ModelDirectoryError(
                f"{path} is no model directory: another program wrote its {CONFIG}. "
                f"Give one that `save` or `train` wrote{known}"
            )
        if not isinstance(config, dict):
            raise ValueError("it is not an object")
        version, sums = config["format"], config["sha256"]
        if not isinstance(sums, dict) or not {WEIGHTS, TOKENIZER, LABELS} <= sums.keys():
            raise ValueError("its checksums are missing")
    except OSError as error:
        raise ModelDirectoryError(f"{path / CONFIG} cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelDirectoryError(f"{path / CONFIG} is damaged ({problem}). Save the model again") from None
    if version != FORMAT:
        raise ModelDirectoryError(
            f"{path} has format {version}, this GraphAttn reads format {FORMAT}. "
            f"Install the GraphAttn that wrote it, or train again"
        )
    expected = config.pop(CHECKSUM, None)
    if expected is not None and json_checksum(config) != expected:
        raise ModelDirectoryError(
            f"{path / CONFIG} was changed after it was saved: its checksum does not match. Copy the directory again; "
            f"or, if you edited the file, delete its line {CHECKSUM!r}"
        )
    return config


def number_epochs(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """A history whose epochs count from 1; earlier versions counted from 0.

    Examples
    --------
    >>> number_epochs([{"epoch": 0}, {"epoch": 1}])
    [{'epoch': 1}, {'epoch': 2}]
    """
    return [{**row, "epoch": number} for number, row in enumerate(history, 1)]


def load(path: str | Path, *, precision: str = "32") -> Estimator:
    """Read a model directory that ``save`` or ``graphattn train`` wrote; predictions are equal bit for bit.

    Parameters
    ----------
    path : the directory; or the folder of a training run that has not ended, for the best epoch so far
    precision : number format of matrix products in predictions: ``"32"``; ``"bf16"``, which is faster on hardware with
        bfloat16 units; or ``"auto"``, bf16 on such hardware and else 32

    Raises
    ------
    ModelDirectoryError
        when the directory is missing, incomplete, corrupted, of another version, or its task, its encoder or one of
        its relations is not registered
    """
    return load_files(path, read_model(Path(path)), precision=precision)


def load_files(path: str | Path, files: ModelFiles, *, precision: str) -> Estimator:
    """The second half of :func:`load`, after the files were read."""
    task = _find_task(path, files.config)
    _check_config(path, files.config, task)
    try:
        estimator = task._from_files(files)
    except ModelDirectoryError as error:
        raise ModelDirectoryError(f"{path}: {error}") from None
    except (ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
        relation = _find_unregistered_name(error)
        if relation is not None:
            raise _error_for_unregistered(path, "relation", relation) from error
        raise ModelDirectoryError(
            f"{path} is damaged: {CONFIG} does not fit the other files ({error}). Save the model again"
        ) from error
    estimator.model_.precision = resolve_precision(precision)
    if is_run(Path(path)) and parent_process() is None:
        epoch, epochs = estimator.best_epoch()["epoch"], len(estimator.history_)
        message = f"{path}: training has not ended; epoch {epoch}, the best of {epochs}, is used"
        warnings.warn(GraphAttnWarning(message), stacklevel=3)
    return estimator


def _check_config(path: str | Path, config: Mapping[str, Any], task: type[Estimator]) -> None:
    """Check the values of a config against the types that its task and its encoder declare.

    Raises
    ------
    ModelDirectoryError
        when a value has another type or is missing, or the encoder is not registered
    """
    types = task.config_types()
    try:
        require_keys(config, [name for name, kind in types.items() if type(None) not in get_args(kind)])
        for name in types.keys() & config.keys():
            check_json(config[name], types[name], name)
        require_keys(config["encoder"], ["name"], "encoder")
        encoder = config["encoder"]["name"]
        check_json(encoder, str, "encoder.name")
        try:
            kind = options_class(encoder)
        except ConfigError:
            raise _error_for_unregistered(path, "encoder", encoder) from None
        check_fields(config["encoder"], kind, "encoder")
    except (ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{Path(path) / CONFIG} is damaged ({error}). Save the model again") from None


def read_task(path: str | Path) -> type[Estimator]:
    """The estimator class of a saved model, without loading the model.

    Raises
    ------
    ModelDirectoryError
        when the directory is missing, its config cannot be read, or its task is not registered
    """
    return _find_task(path, read_config(Path(path)))


def _find_task(path: str | Path, config: Mapping[str, Any]) -> type[Estimator]:
    name = config.get("task")
    if not isinstance(name, str) or name not in TASKS:
        raise _error_for_unregistered(path, "task", name, known=TASKS)
    return TASKS[name]


def _error_for_unregistered(
    path: str | Path, kind: str, name: object, *, known: Iterable[str] = ()
) -> ModelDirectoryError:
    problem = f"; known {kind}s are {', '.join(known)}" if known else ", which is not registered"
    return ModelDirectoryError(
        f"{path} is a model with the {kind} {name!r}{problem}. Call register_{kind} before you load it; on the command "
        "line, name the module that does so: graphattn --import MODULE ..."
    )


def _find_unregistered_name(error: BaseException | None) -> str | None:
    """The name of the :class:`UnregisteredError` that caused an error, if any."""
    while error is not None and not isinstance(error, UnregisteredError):
        error = error.__cause__
    return None if error is None else error.name

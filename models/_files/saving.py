"""Model directories: written atomically, verified when read; reading one executes no code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from graphattn._json_types import json_checksum
from graphattn.builders._atomic import atomic_folder, is_vacant, locate_replaced_folder, read_sealed, write_text
from graphattn.builders._paths import resolve_path
from graphattn.builders._regular_files import NAMES, SETTINGS, file_sha256, read_bytes, read_text
from graphattn.builders._tensor_files import TensorFile
from graphattn.exceptions import ModelDirectoryError, printable
from graphattn.models._text_model import check_finite
from graphattn.models.training._plain_torch import plain_torch

FORMAT = 1
"""Version of the directory's layout; increased when an older GraphAttn cannot read it."""
FORMAT_VERSION = "format_version"
"""Key in the config of its version."""

CONFIG, WEIGHTS, TOKENIZER, LABELS = "config.json", "model.safetensors", "tokenizer.json", "labels.json"
SOURCE_TOKENIZER, CARD = "source_tokenizer.json", "README.md"
_READ = frozenset({WEIGHTS, TOKENIZER, LABELS, SOURCE_TOKENIZER})
METRICS = "metrics.json"
NOTES = frozenset({"train.yaml", METRICS})
"""Other files that are kept when a model is loaded and saved again."""
CHECKPOINT, LINEAR, RUN_SETTINGS = "last.ckpt", "linear.ckpt", "training.json"
"""Files in the folder of a training run, see :mod:`graphattn.models.training._checkpoints`; before the first checkpoint
there is one of the linear model."""
PACKED, KEEP_BEST = "model_files", "KeepBest"
"""Keys in a checkpoint: the files of the model without its weights, and (in ``callbacks``) the best epoch."""
CHECKSUM = "checksum"
"""Key in the config of the checksum of all others."""


@dataclass
class ModelFiles:
    """The contents of a model directory.

    ``labels`` are in the order of their ids, ``notes`` other text files, of which those in ``NOTES`` are read, and
    ``source_tokenizer`` is a translator's second one. ``card`` has no checksum, so that it can be edited. ``digest`` is
    that of :func:`read_digest` for a model that was read.
    """

    config: dict[str, Any]
    labels: list[Any]
    tokenizer: str
    weights: dict[str, Tensor]
    notes: Mapping[str, str] = field(default_factory=dict)
    source_tokenizer: str | None = None
    digest: str = ""
    card: str = ""


def write_model(path: Path, files: ModelFiles) -> Path:
    """Write a model directory; an old one is replaced when the new one is complete."""
    try:
        path = resolve_path(path)  # keeps a link; "." has no name for the temporary folder
        if path.exists() and not (path.is_dir() and (is_model_directory(path) or is_vacant(path))):
            raise ModelDirectoryError(f"{path} exists and is no model directory; choose another place to save to")
        with atomic_folder(path, sync=True) as temporary:
            _write_files(temporary, files)
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelDirectoryError(
            f"{path} could not be written ({reason}); what was there before is unchanged"
        ) from error
    return path


def share_weights(model: nn.Module, path: Path) -> None:
    """Use the weights in a file, of which all processes share one copy in memory; the first process writes it."""
    tensors = dict(chain(model.named_parameters(), model.named_buffers()))
    if not path.exists():
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    mapped = load_file(path)
    for name, tensor in tensors.items():
        tensor.data = mapped[name]


def is_model_directory(path: Path) -> bool:
    """Whether :func:`write_model` wrote a folder, in any version and also if its config is damaged.

    Other programs have a ``config.json`` too, and saving must not replace their folders.
    """
    try:
        config = json.loads(read_text(path / CONFIG, SETTINGS))
    except OSError:
        return False
    except ValueError:
        return all((path / name).is_file() for name in (WEIGHTS, TOKENIZER, LABELS))
    return isinstance(config, dict) and {FORMAT_VERSION, "sha256"} <= config.keys()


def _write_files(folder: Path, files: ModelFiles) -> None:
    save_file({name: tensor.contiguous() for name, tensor in files.weights.items()}, folder / WEIGHTS)
    write_text(folder / TOKENIZER, files.tokenizer)
    write_text(folder / LABELS, json.dumps(files.labels, ensure_ascii=False, indent=1))
    shutil.copymode(folder / LABELS, folder / WEIGHTS)  # safetensors writes files that only their owner can read
    names = [WEIGHTS, TOKENIZER, LABELS]
    if files.source_tokenizer is not None:
        write_text(folder / SOURCE_TOKENIZER, files.source_tokenizer)
        names.append(SOURCE_TOKENIZER)
    for name, text in files.notes.items():
        write_text(folder / name, text)
    if files.card:
        write_text(folder / CARD, printable(files.card))
    sums = {name: file_sha256(folder / name) for name in [*names, *files.notes]}
    config = {FORMAT_VERSION: FORMAT, **files.config, "sha256": sums}
    checksum = json_checksum(json.loads(json.dumps(config)))
    config = {FORMAT_VERSION: FORMAT, CHECKSUM: checksum, **config}  # not last: its line can be deleted
    write_text(folder / CONFIG, json.dumps(config, ensure_ascii=False, indent=1))


@plain_torch()
def read_model(path: Path) -> ModelFiles:
    """Read and verify a model directory; one that is replaced meanwhile is read again."""
    folder = _resolve_interrupted_save(path)
    if is_run(folder):
        return _read_run(folder)
    while True:
        before, problem = _read_config_text(folder), None
        config = _parse_config(folder, before)
        try:
            files = _read_files(folder, config)
        except (ModelDirectoryError, OSError) as error:
            problem = error
        folder = _resolve_interrupted_save(path)
        if _read_config_text(folder) != before:
            continue
        if isinstance(problem, OSError):
            raise ModelDirectoryError(
                f"{problem.filename or path} cannot be read ({problem.strerror or problem})"
            ) from problem
        if problem is not None:
            raise problem
        return files


def _read_files(path: Path, config: dict[str, Any]) -> ModelFiles:
    """The files; each is read once, and the checksum is that of the bytes that were read.

    Tensors are copies, so that the peak of memory is that of the weights, and of one tensor that is converted.
    """
    sums = config["sha256"]
    weights = _read_weights(path, sums[WEIGHTS])
    check_finite(path, weights)
    return ModelFiles(
        config,
        json.loads(_read_part(path, LABELS, sums)),
        _read_part(path, TOKENIZER, sums),
        weights,
        {name: text for name in sums.keys() & NOTES if (text := _read_note(path, name, sums)) is not None},
        source_tokenizer=_read_part(path, SOURCE_TOKENIZER, sums) if SOURCE_TOKENIZER in sums else None,
        digest=json_checksum(config),
        card=read_text(path / CARD, NAMES, errors="replace") if (path / CARD).is_file() else "",
    )


def _read_weights(path: Path, expected: str) -> dict[str, Tensor]:
    _require_file(path, WEIGHTS)
    try:
        with TensorFile(path / WEIGHTS) as file:
            weights, digest = file.read_all()
    except ValueError:
        digest = ""
    if digest != expected:
        raise _make_damage_error(path, WEIGHTS)
    for name, tensor in weights.items():
        if tensor.is_floating_point():
            weights[name] = tensor.float()
    return weights


def _read_part(path: Path, name: str, sums: Mapping[str, str]) -> str:
    _require_file(path, name)
    content = read_bytes(path / name, NAMES)
    if hashlib.sha256(content).hexdigest() != sums[name]:
        raise _make_damage_error(path, name)
    return content.decode("utf-8")


def _read_note(path: Path, name: str, sums: Mapping[str, str]) -> str | None:
    """The text of a note, or None if it was edited or removed."""
    if not (path / name).is_file():
        return None
    content = read_bytes(path / name, NAMES)
    return content.decode("utf-8", "replace") if hashlib.sha256(content).hexdigest() == sums[name] else None


def _require_file(path: Path, name: str) -> None:
    if not (path / name).exists():
        raise ModelDirectoryError(f"{path} is incomplete: {name} is missing. Copy the whole directory again")


def _make_damage_error(path: Path, name: str) -> ModelDirectoryError:
    return ModelDirectoryError(
        f"{path / name} is damaged: its checksum is not the one in {CONFIG}. Copy the directory again"
    )


def check_notes(path: Path) -> None:
    """Compare the notes of a model, which :func:`read_model` does not check, with their checksums."""
    path = _resolve_interrupted_save(path)
    if is_run(path):  # its checkpoint has no notes
        return
    sums = _read_config(path)["sha256"]
    for name in sums.keys() - _READ:
        _require_file(path, name)
        if file_sha256(path / name) != sums[name]:
            raise _make_damage_error(path, name)


def read_config(path: Path) -> dict[str, Any]:
    """The config of a model directory, without the weights."""
    path = _resolve_interrupted_save(path)
    return _read_run(path).config if is_run(path) else _read_config(path)


def read_digest(path: Path) -> str:
    """The digest that :func:`read_model` will give, without reading the weights."""
    path = _resolve_interrupted_save(path)
    if is_run(path):
        return file_sha256(_find_checkpoint(path))
    return json_checksum(_parse_config(path, _read_config_text(path)))


def is_run(path: Path) -> bool:
    """Whether this is the folder of a training run that has not ended, of which the best epoch can be loaded."""
    return os.path.isfile(_find_checkpoint(path)) and not os.path.isfile(path / CONFIG)


def _find_checkpoint(path: Path) -> Path:
    """The last checkpoint of a run, or that of the linear model before the first epoch."""
    return path / CHECKPOINT if os.path.isfile(path / CHECKPOINT) else path / LINEAR


def pack_model(files: ModelFiles, trained: Collection[str]) -> dict[str, Any]:
    """What a checkpoint keeps of a model's files, so that its best epoch, which has ``trained``, can be loaded."""
    return {
        "config": json.dumps(files.config),
        "labels": json.dumps(files.labels),
        "tokenizer": files.tokenizer,
        "source_tokenizer": files.source_tokenizer,
        "weights": {name: tensor for name, tensor in files.weights.items() if name not in trained},
    }


def _read_run(path: Path) -> ModelFiles:
    """The files of the best epoch of a run that has not ended; nothing in its checkpoint is executed."""
    file = _find_checkpoint(path)
    try:
        content = read_sealed(file)
        if content is None:
            raise ValueError("its checksum does not fit")
        digest = hashlib.sha256(content)
        digest.update(digest.digest())  # that of the file, in which the checksum follows the content
        checkpoint = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        model, best = checkpoint[PACKED], checkpoint["callbacks"][KEEP_BEST]
        config = {**json.loads(model["config"]), "history": best["rows"]}
        of_model = {name.removeprefix("model."): tensor for name, tensor in checkpoint["state_dict"].items()}
        weights = {**model["weights"], **(best["weights"] or of_model)}
        if model.get("linear") is not None:
            weights, config["mixture"] = _add_linear_model(weights, model["linear"], best["kept"] or {})
        files = ModelFiles(
            config,
            json.loads(model["labels"]),
            model["tokenizer"],
            weights,
            source_tokenizer=model["source_tokenizer"],
            digest=digest.hexdigest(),
        )
    except OSError as error:  # such as the end of training, which removes it
        raise ModelDirectoryError(f"{file} cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damaged files raise many types
        raise ModelDirectoryError(
            f"{file} is damaged. Run the same `train` command again, which starts from the beginning"
        ) from error
    if not config["history"]:
        raise ModelDirectoryError(
            f"{path} has no model yet: no epoch has ended. Run the same `train` command again to resume"
        )
    return files


def _add_linear_model(
    weights: Mapping[str, Tensor], linear: Mapping[str, Any], kept: Mapping[str, float]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Weights of a run, with those of its linear model, and the factors of both, which the kept epoch has."""
    deep, factor = (kept.get(name, typical) for name, typical in linear["factors"].items())
    scaled = {name: deep * weights[name] for name in linear["outputs"]}
    scaled |= {name: deep * weights[name] + factor * tensor for name, tensor in linear["transitions"].items()}
    if factor:
        scaled |= linear["branch"]
        scaled |= {name: factor * linear["branch"][name] for name in ("linear_branch.weights", "linear_branch.bias")}
    return {**weights, **scaled}, {"deep": deep, "linear": factor}


def _resolve_interrupted_save(path: Path) -> Path:
    """The directory; the old one if a save was killed between its two renames."""
    old = locate_replaced_folder(Path(os.path.realpath(path)))
    return old if not os.path.exists(path) and os.path.exists(old) else path


def _read_config(path: Path) -> dict[str, Any]:
    return _parse_config(path, _read_config_text(path))


def _read_config_text(path: Path) -> bytes:
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
        return read_bytes(path / CONFIG, SETTINGS)
    except OSError as error:
        raise ModelDirectoryError(f"{path / CONFIG} cannot be read ({error.strerror or error})") from error


def _parse_config(path: Path, text: bytes) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(text.decode())
        if config and isinstance(config, dict) and not config.keys() & {FORMAT_VERSION, "task", "sha256"}:
            known = (
                "; a Hugging Face model is for `graphattn train --pretrained` and `graphattn encode`"
                if "model_type" in config
                else ""
            )
            raise ModelDirectoryError(
                f"{path} is no model directory: another program wrote its {CONFIG}. "
                f"Give one that `save` or `train` wrote{known}"
            )
        if not isinstance(config, dict):
            raise ValueError("it is not an object")
        if FORMAT_VERSION not in config and "format" in config:
            raise ModelDirectoryError(
                f"{path} was saved before the first release of GraphAttn, whose models have other files. Train it again"
            )
        version, sums = config[FORMAT_VERSION], config["sha256"]
        if not isinstance(sums, dict) or not {WEIGHTS, TOKENIZER, LABELS} <= sums.keys():
            raise ValueError("its checksums are missing")
        if any(Path(name).name != name for name in sums):
            raise ValueError("it lists files of other folders")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelDirectoryError(f"{path / CONFIG} is damaged ({problem}). Save the model again") from None
    if version != FORMAT:
        raise ModelDirectoryError(
            f"{path} has format {version}, this GraphAttn reads format {FORMAT}. "
            f"Install the GraphAttn that wrote it, or train again"
        )
    expected = config.pop(CHECKSUM, None)
    if expected is not None and json_checksum(config) != expected:  # who edits the file deletes the line
        raise ModelDirectoryError(
            f"{path / CONFIG} was changed after it was saved: its checksum does not match. Copy the directory again; "
            f"or, if you edited the file, delete its line {CHECKSUM!r}"
        )
    return config

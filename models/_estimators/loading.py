"""The tasks, and loading an estimator that was saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, TypeVar, get_args

from graphattn._devices import find_device
from graphattn._json_types import check_fields, check_json, require_keys
from graphattn.exceptions import ConfigError, GraphAttnWarning, ModelDirectoryError, UnregisteredError, warn_caller
from graphattn.models._encoders import options_class
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.model_files import list_config_types, restore_estimator
from graphattn.models._files.hub import find_model
from graphattn.models._files.saving import CONFIG, ModelFiles, is_run, read_model
from graphattn.models._options import INPUTS, resolve_precision
from graphattn.models.training._plain_torch import plain_torch

EstimatorT = TypeVar("EstimatorT", bound=Estimator)

TASKS: dict[str, type[Estimator]] = {}
"""Name of a task -> its estimator."""


def register_task(estimator: type[EstimatorT]) -> type[EstimatorT]:
    """Add a task to ``graphattn train``, :func:`load`, ``predict`` and ``evaluate``; usable as a decorator.

    Parameters
    ----------
    estimator : a subclass of :class:`~graphattn.models.Estimator` with a ``task`` whose name is new

    Raises
    ------
    ConfigError
        when another estimator has the same task
    """
    name = estimator.task.name
    other = TASKS.setdefault(name, estimator)
    if (other.__module__, other.__qualname__) != (estimator.__module__, estimator.__qualname__):
        raise ConfigError(f"the task {name!r} is registered already; give {estimator.__name__} another one")
    TASKS[name] = estimator
    return estimator


def load(
    path: str | Path,
    *,
    precision: str | None = None,
    device: str = "auto",
    revision: str | None = None,
    packed: bool = False,
) -> Estimator:
    """Read a model directory that ``save`` or ``graphattn train`` wrote; predictions are equal bit for bit.

    Weights are read into memory of their own, one tensor at a time, and their checksum is compared: files that change
    later have no effect. The peak of memory is that of the weights in float32.

    Parameters
    ----------
    path : the directory; the folder of a training run that has not ended, for the best epoch so far; or OWNER/NAME on
        the Hugging Face hub, unless there is a folder OWNER
    precision : number format of matrix products in predictions: ``"32"``, the default on a CPU; ``"bf16"``, which is
        faster on hardware with bfloat16 units; ``"auto"``, bf16 on such hardware and else 32, the default on a GPU; or
        ``"int8"``, on a CPU, with rounded weights that can be neither saved nor trained
    device : of predictions: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; or ``"auto"``, a GPU of CUDA if there is
        one, else the CPU
    revision : branch, tag or commit on the hub; its main branch when None
    packed : store the weights of linear layers in the order in which they are multiplied, on a CPU, as ``graphattn
        predict`` does: predictions are faster, above all of single texts, and equal up to rounding. Such a model is
        for predictions: it can be saved, but its layers can be neither trained nor changed

    Raises
    ------
    MissingPackageError
        for a name on the hub without ``huggingface_hub``
    ModelDirectoryError
        when the model cannot be downloaded; or the directory is missing, incomplete, corrupted, of another version, or
        its task, its encoder or one of its relations is not registered
    ConfigError
        for an unknown ``precision``, int8 on a GPU, or a device that is not there
    """
    folder = find_model(path, revision)
    return load_files(folder, read_model(folder), precision=precision, device=device, packed=packed)


@plain_torch()
def load_files(
    path: str | Path, files: ModelFiles, *, precision: str | None, device: str, packed: bool = False
) -> Estimator:
    """The second half of :func:`load`, after the files were read."""
    name, target = files.config.get("task"), find_device(device)
    if not isinstance(name, str) or name not in TASKS:
        raise _error_for_unregistered(path, "task", name, known=TASKS)
    task = TASKS[name]
    _check_config(path, files.config, task)
    try:
        estimator = restore_estimator(task, files)
    except ModelDirectoryError as error:
        raise ModelDirectoryError(f"{path}: {error}") from None
    except (ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
        relation = _find_unregistered_name(error)
        if relation is not None:
            raise _error_for_unregistered(path, "relation", relation) from error
        raise ModelDirectoryError(
            f"{path} is damaged: {CONFIG} does not fit the other files ({error}). Save the model again"
        ) from error
    estimator.model_.to(target)
    estimator.model_.set_precision(resolve_precision(precision, target))
    if packed:
        estimator.model_.pack()
    if is_run(Path(path)) and parent_process() is None:
        epoch, epochs = estimator.best_epoch()["epoch"], estimator.history_[-1]["epoch"]
        used = f"epoch {epoch}, the best of {epochs}," if epoch else "the linear model"
        message = f"{path}: training has not ended, or its model was not saved here; {used} is used"
        warn_caller(GraphAttnWarning(message))
    return estimator


def _check_config(path: str | Path, config: Mapping[str, Any], task: type[Estimator]) -> None:
    """Check the values of a config against the types that its task and its encoder declare."""
    types = list_config_types(task)
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
        level = config["inputs"].get("level")
        if isinstance(level, str) and level not in INPUTS:
            raise _error_for_unregistered(path, "inputs", level)
    except (ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{Path(path) / CONFIG} is damaged ({error}). Save the model again") from None


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

"""From a model directory to the estimator that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphattn.exceptions import ConfigError, ModelDirectoryError, UnregisteredError
from graphattn.models.encoders import ENCODERS
from graphattn.models.estimators import PairClassifier, SequenceTagger, TextClassifier, TextEstimator, Translator
from graphattn.models.saving import CONFIG, directory_of, read_config, read_model

TASKS: dict[str, type[TextEstimator] | type[Translator]] = {
    estimator.task: estimator for estimator in (TextClassifier, PairClassifier, SequenceTagger, Translator)
}


def load(path: str | Path) -> Any:
    """Read a model directory that ``save`` or ``graphattn train`` wrote; its predictions are the same, bit for bit.

    Raises
    ------
    ModelDirectoryError
        when the directory is missing, incomplete, corrupted, of another version, or its encoder or one of its
        relations is not registered
    """
    files = read_model(directory_of(path))
    task = _known_task(path, files.config)
    encoder = files.config.get("encoder", {}).get("name", next(iter(ENCODERS)))
    if encoder not in ENCODERS:
        raise ModelDirectoryError(
            f"{path} is a model with the encoder {encoder!r}, which is not registered. Call register_encoder "
            "before you load it; on the command line, name the module that does so: graphattn --import MODULE ..."
        )
    try:
        return TASKS[task]._from_files(files)
    except (ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
        unknown = _unregistered(error)
        if unknown is not None:
            raise ModelDirectoryError(
                f"{path} is a model with heads on the relation {unknown!r}, which is not registered. Call "
                "register_relation before you load it; on the command line, name the module that does so: "
                "graphattn --import MODULE ..."
            ) from error
        raise ModelDirectoryError(
            f"{path} is damaged: {CONFIG} does not fit the other files ({error}). Save the model again"
        ) from error


def task_of(path: str | Path) -> str:
    """The task of a model directory, one of :data:`TASKS`, without loading the model.

    Raises
    ------
    ModelDirectoryError
        when the directory is missing, its config cannot be read, or it is of another version
    """
    return _known_task(path, read_config(Path(path)))


def _known_task(path: str | Path, config: Mapping[str, Any]) -> str:
    task = config.get("task")
    if task not in TASKS:
        raise ModelDirectoryError(f"{path} is a model for the task {task!r}; this GraphAttn knows {', '.join(TASKS)}")
    return task


def _unregistered(error: BaseException | None) -> str | None:
    """The name that an error says nobody registered; None when it says something else."""
    while error is not None and not isinstance(error, UnregisteredError):
        error = error.__cause__
    return None if error is None else error.name

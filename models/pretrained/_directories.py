"""Directories of pretrained models, each read by our own code for its family, or else by ``transformers``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.exceptions import ModelDirectoryError
from graphattn.models.pretrained._architecture import FAMILIES, Architecture
from graphattn.models.pretrained._checkpoint import read_architecture, read_config, read_vocabulary
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._model import OPEN_DIRECTORY, PretrainedDirectory, PretrainedModel
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture, TransformersArchitecture

ARCHITECTURE_TYPES: Mapping[str, Any] = {
    "architecture": Architecture | None,
    "transformers": TransformersArchitecture | None,
}
"""Key in the ``config.json`` of a model of ours -> type of an architecture; one of them is there."""


class _OwnDirectory(PretrainedDirectory):
    """A directory of a family that our own code computes."""

    architecture: Architecture

    def __init__(self, folder: Path):
        self.folder, self.architecture = folder, read_architecture(folder)

    @override
    def read_vocabulary(self) -> PretrainedVocabulary:
        return read_vocabulary(self.folder, self.architecture)

    @override
    def read_encoder(self, **options: Any) -> PretrainedModel:
        return PretrainedEncoder.from_weights(self.folder, self.architecture, **options)


def open_directory(folder: Path) -> PretrainedDirectory:
    """A directory with a ``config.json`` of Hugging Face.

    Raises
    ------
    ModelDirectoryError
        when the model is incomplete or damaged, or of a family that cannot be read
    MissingPackageError
        for a family that needs ``transformers`` without this package
    """
    config = read_config(folder)
    family = config.get("model_type")
    if not isinstance(family, str):
        raise ModelDirectoryError(
            f"{folder}: its model_type is {family!r}; GraphAttn reads {', '.join(FAMILIES)}, and the families of "
            "transformers. Choose such a model"
        )
    if family in FAMILIES:
        return _OwnDirectory(folder)
    from graphattn.models.pretrained._transformers_directory import TransformersDirectory  # imports pandas

    return TransformersDirectory(folder, config)


OPEN_DIRECTORY.append(open_directory)


def make_model(architecture: AnyArchitecture, *, heads: str | None, max_length: int | None) -> PretrainedModel:
    """A model whose weights are loaded later."""
    if isinstance(architecture, Architecture):
        return PretrainedEncoder(architecture, heads=heads, max_length=max_length)
    from graphattn.models.pretrained._transformers_encoder import TransformersEncoder  # imports pandas

    return TransformersEncoder(architecture, heads=heads, max_length=max_length)


def save_architecture(architecture: AnyArchitecture) -> dict[str, Any]:
    """Values for the ``config.json`` of a model of ours; the inverse of :func:`restore_architecture`."""
    return {"architecture" if isinstance(architecture, Architecture) else "transformers": architecture.to_dict()}


def restore_architecture(config: Mapping[str, Any]) -> AnyArchitecture:
    """The architecture in the ``config.json`` of a model of ours."""
    if config.get("transformers") is not None:
        return TransformersArchitecture.from_dict(config["transformers"])
    return Architecture.from_dict(config["architecture"])

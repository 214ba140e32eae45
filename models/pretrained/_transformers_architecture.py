"""Sizes and settings of a model of ``transformers``, and models with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import torch
from torch import nn

from graphattn._optional_packages import import_optional
from graphattn.exceptions import ModelDirectoryError
from graphattn.models.pretrained._architecture import FAMILIES, Architecture
from graphattn.models.pretrained._interface import NAME, register
from graphattn.models.pretrained._json_schema import Layers, OptionalSize, Size

_OUTSIDE = ("auto_map", "implementation", "quantization_config", "kernels", "name_or_path", "commit_hash")
"""Parts of the names of settings that name code, kernels and files elsewhere."""
POSITIONS = "max_position_embeddings"
"""The setting with the number of positions, which some families call otherwise."""


def import_transformers(purpose: str) -> Any:
    """The package ``transformers``, with our attention."""
    transformers = import_optional("transformers", purpose, "transformers")
    register()
    return transformers


@dataclass(frozen=True)
class TransformersArchitecture:
    """A model of ``transformers`` that reads packed texts.

    Parameters
    ----------
    family : Hugging Face's ``model_type``
    config : the settings of ``config.json`` that change states
    vocabulary, embedding : number and width of word vectors
    hidden, layers, heads : width of states, depth, heads per layer
    max_length : tokens of the longest text in pretraining
    types : number of segment vectors; 0 for none
    relations : relation of the heads of each layer
    first_position : number of a text's first position
    has_positions : whether position vectors are learned, so that longer texts need more of them
    side_files : settings of sentence vectors in its directory: name -> contents
    """

    family: str
    config: Mapping[str, Any]
    vocabulary: Size
    embedding: Size
    hidden: Size
    layers: Layers
    heads: Size
    max_length: Size
    types: OptionalSize
    relations: tuple[str, ...]
    first_position: OptionalSize
    has_positions: bool
    side_files: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The architecture with these values."""
        arguments: dict[str, Any] = dict(values)
        return cls(**{**arguments, "relations": tuple(arguments["relations"])})

    def make_model(self, max_length: int) -> nn.Module:
        """A model whose weights are loaded later, with vectors for ``max_length`` positions if it learned some."""
        return make_model(self.family, self.set_length(max_length))

    def set_length(self, max_length: int) -> dict[str, Any]:
        """The settings of a model for texts of ``max_length``."""
        values = dict(self.config)
        if self.has_positions and max_length != self.max_length:
            values[find_length_key(self.family)] = max_length + self.first_position
        return values


AnyArchitecture = Architecture | TransformersArchitecture
"""What is known of a model without its weights."""


def clean_config(values: Any) -> Any:
    """Settings without those that name code or files elsewhere, however deep."""
    if isinstance(values, list):
        return [clean_config(value) for value in values]
    if not isinstance(values, dict):
        return values
    return {
        name: clean_config(value) for name, value in values.items() if not any(part in str(name) for part in _OUTSIDE)
    }


def make_config(family: str, values: Mapping[str, Any]) -> Any:
    """A configuration of ``transformers``; a ModelDirectoryError for values that it rejects."""
    transformers = import_transformers(f"models of type {family!r} need")
    if family not in transformers.CONFIG_MAPPING:
        raise ModelDirectoryError(
            f"its model_type is {family!r}; GraphAttn reads {', '.join(FAMILIES)}, and the families of transformers, "
            f"whose version {transformers.__version__} does not know it. Choose such a model"
        )
    try:
        return transformers.CONFIG_MAPPING[family].from_dict(clean_config(dict(values)))
    except Exception as error:  # each family checks in its own way
        raise ModelDirectoryError(f"its config.json is damaged ({first_line(error)}). Download it again") from error


def find_length_key(family: str) -> str:
    """The setting with the number of positions."""
    transformers = import_transformers(f"models of type {family!r} need")
    return str(transformers.CONFIG_MAPPING[family].attribute_map.get(POSITIONS, POSITIONS))


def choose_class(family: str) -> Any:
    """The class of ``transformers`` that makes the encoder, or the decoder, of a family."""
    transformers = import_transformers(f"models of type {family!r} need")
    encoders = transformers.models.auto.modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
    return transformers.AutoModelForTextEncoding if family in encoders else transformers.AutoModel


def take_encoder(model: nn.Module) -> nn.Module:
    """The encoder of a model with both."""
    whole: Any = model
    return whole.get_encoder() if whole.config.is_encoder_decoder and hasattr(model, "decoder") else model


def make_model(family: str, values: Mapping[str, Any]) -> nn.Module:
    """A model whose weights are loaded later."""
    config = make_config(family, values)
    from transformers.initialization import no_init_weights

    with no_init_weights():
        model = choose_class(family).from_config(
            config, attn_implementation=NAME, dtype=torch.float32, trust_remote_code=False
        )
    model.tie_weights()  # without initial weights, it is left out
    return take_encoder(model)


def make_headed_model(
    architecture: TransformersArchitecture, task: str, settings: Mapping[str, Any], max_length: int
) -> nn.Module:
    """A random model with a head for a task, such as ``TokenClassification``; ``settings`` change its configuration."""
    transformers = import_transformers(f"models of type {architecture.family!r} need")
    config = make_config(architecture.family, {**architecture.set_length(max_length), **settings})
    factory = getattr(transformers, f"AutoModelFor{task}")
    model: nn.Module = factory.from_config(
        config, attn_implementation="eager", dtype=torch.float32, trust_remote_code=False
    )
    return model.eval()


@contextmanager
def without_bars() -> Iterator[None]:
    """Let ``transformers`` show no progress bars."""
    logging = import_transformers("pretrained models need").utils.logging
    had_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if had_bars:
            logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    """What an error of another library says, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

"""What a directory of sentence-transformers says about sentence vectors, and the layers after pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.builders._tensor_files import TensorFile
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models._text_model import check_finite
from graphattn.models.heads._pooling import UNIT
from graphattn.models.pretrained._checkpoint import (
    explain_errors,
    find_directory,
    find_file,
    find_inside,
    find_transformer,
    read_json,
    read_modules,
)
from graphattn.models.pretrained._directory_settings import (
    CONFIG,
    DENSE,
    NORMALIZE,
    OTHER_SENTENCES,
    POOLING,
    POOLINGS,
    SENTENCES,
    TOKENIZER_CONFIG,
    WEIGHTS,
    check_settings,
)

FIX = "Use sentence-transformers for this model"
_ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    each.__name__: each for each in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid)
}
"""Name of a class of PyTorch -> an activation of dense layers; a directory's names are looked up here only."""


@dataclass(frozen=True)
class LayerSettings:
    """A layer after pooling: ``kind`` is ``"Dense"`` or ``"Normalize"``, ``folder`` has its settings and weights."""

    kind: str
    folder: Path
    options: Mapping[str, Any]


class Dense(nn.Module):
    """A linear layer with an activation, to whose output its input, or a projection of it, may be added."""

    def __init__(self, options: Mapping[str, Any], activation: nn.Module):
        super().__init__()
        sizes = options["in_features"], options["out_features"]
        self.linear, self.activation = nn.Linear(*sizes, bias=options.get("bias") is not False), activation
        self.adds_input = bool(options.get("use_residual"))
        self.residual = nn.Linear(*sizes, bias=False) if self.adds_input and sizes[0] != sizes[1] else nn.Identity()

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, in) -> (B, out)."""
        out: Tensor = self.activation(self.linear(vectors))
        return out + self.residual(vectors) if self.adds_input else out


class Normalize(nn.Module):
    """Scales vectors to length 1."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, D) -> (B, D)."""
        return F.normalize(vectors, dim=1)


@dataclass(frozen=True)
class SentenceSettings:
    """What a directory says about sentence vectors.

    ``limit`` is of tokens, None for that of the model. ``prompt`` is put before each text, unless another one of the
    ``prompts`` is chosen by its name; its states are pooled if ``include_prompt``. Pooled vectors go through
    ``layers``, and are then truncated to ``truncate_dim`` numbers.
    """

    pooling: str = "mean"
    layers: Sequence[LayerSettings] = ()
    limit: int | None = None
    prompt: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    include_prompt: bool = True
    truncate_dim: int | None = None

    @property
    def normalize(self) -> bool:
        """Whether pooled states are scaled to length 1 at once."""
        return bool(self.layers) and self.layers[0].kind == "Normalize"

    @property
    def has_dense_layers(self) -> bool:
        """Whether linear layers follow."""
        return any(layer.kind == "Dense" for layer in self.layers)


def find_pooling(model: str) -> str | None:
    """The pooling of a sentence-transformers model, by its directory or its name on the hub; None if it has others."""
    try:
        settings = read_settings(find_directory(model))
    except ModelDirectoryError:
        return None
    pooling = settings.pooling
    return f"{UNIT}{pooling}" if settings.normalize and pooling in ("cls", "last", "mean") else pooling


def read_settings(folder: Path) -> SentenceSettings:
    """The settings of sentence vectors in a directory; one that is not supported is an error."""
    model = find_transformer(folder)
    tokenizer = _read_options(model, TOKENIZER_CONFIG)
    limit = tokenizer.get("model_max_length", tokenizer.get("max_len"))
    modules = read_modules(folder)
    if not modules:
        return SentenceSettings(limit=limit)
    types = [module["type"] for module in modules]
    kinds = [name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name for name in types]
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        raise ModelDirectoryError(
            f"{folder} has the modules {', '.join(kinds)}; GraphAttn reads Transformer, Pooling, Dense and Normalize. "
            f"{FIX}"
        )
    paths = [find_inside(folder, module["path"]) for module in modules]
    layers = [_read_layer(*pair) for pair in list(zip(kinds, paths, strict=True))[2:]]
    early = sorted(path.name for path in model.glob("sentence_*_config.json"))  # sentence_roberta_config
    options = _read_options(model, SENTENCES, SENTENCES if SENTENCES in early else next(iter(early), SENTENCES))
    pooling = _read_options(find_inside(folder, modules[1]["path"]), POOLING, CONFIG, must_exist=True)
    others = _read_options(folder, OTHER_SENTENCES)
    return SentenceSettings(
        _read_mode(folder / modules[1]["path"] / CONFIG, pooling),
        layers,
        options.get("max_seq_length") or limit,
        _find_default_prompt(folder / OTHER_SENTENCES, others),
        _read_prompts(others),
        pooling.get("include_prompt") is not False,
        others.get("truncate_dim"),
    )


def _read_layer(kind: str, folder: Path) -> LayerSettings:
    if kind == "Normalize":
        return LayerSettings(kind, folder, _read_options(folder, NORMALIZE, CONFIG))
    options = _read_options(folder, DENSE, CONFIG, must_exist=True)
    name = str(options.get("activation_function") or "torch.nn.modules.activation.Tanh").rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise ModelDirectoryError(
            f"{folder / CONFIG}: activation_function is {name}; GraphAttn has {', '.join(_ACTIVATIONS)}. {FIX}"
        )
    return LayerSettings(kind, folder, {**options, "activation_function": name})


def read_layers(settings: SentenceSettings, width: int) -> tuple[nn.Sequential, int]:
    """The layers after pooling with their weights, and the width of their output; ``width`` is that of states."""
    modules = list[nn.Module]()
    for layer in settings.layers:
        if layer.kind == "Normalize":
            modules.append(Normalize())
            continue
        dense = Dense(layer.options, _ACTIVATIONS[layer.options["activation_function"]]())
        file = find_file(layer.folder, WEIGHTS)
        try:
            with explain_errors(file), TensorFile(file) as tensors:
                weights = {name: tensors.read(name).float() for name in tensors}
            dense.load_state_dict(weights)
        except (ValueError, RuntimeError) as error:
            raise ModelDirectoryError(f"{file} does not fit {CONFIG} ({error}). Download the model again") from None
        check_finite(file, weights)
        if dense.linear.in_features != width:
            raise ModelDirectoryError(
                f"{layer.folder / CONFIG}: in_features is {dense.linear.in_features}, its input has {width} numbers. "
                "Download the model again"
            )
        modules.append(dense)
        width = dense.linear.out_features
    return nn.Sequential(*modules).requires_grad_(False).eval(), width


def find_prompt(prompts: Mapping[str, str], name: str) -> str:
    """The prompt of a name that the user gave."""
    if name not in prompts:
        known = f"it has {', '.join(prompts)}" if prompts else "it has none"
        raise ConfigError(f"the model has no prompt {{prompt={name}}}; {known}", options=("prompt",))
    return prompts[name]


def _read_options(folder: Path, name: str, file: str | None = None, *, must_exist: bool = False) -> dict[str, Any]:
    """The options in a file, under this or another name, if it exists; a value that is not supported is rejected."""
    path = folder / (file or name)
    options: dict[str, Any] = read_json(folder, path.name, name) if must_exist or path.exists() else {}
    check_settings(name, options, f"{path}:", of_sentences=True)
    return options


def _read_prompts(options: Mapping[str, Any]) -> dict[str, str]:
    """Name -> prompt; one that is null is empty."""
    return {name: prompt or "" for name, prompt in (options.get("prompts") or {}).items()}


def _find_default_prompt(path: Path, options: Mapping[str, Any]) -> str:
    """The prompt before each text; those of queries and documents are for :meth:`SentenceEncoder.search`."""
    name, prompts = options.get("default_prompt_name"), {"query": "", "document": "", **_read_prompts(options)}
    if name is None:
        return ""
    if name not in prompts:
        raise ModelDirectoryError(f"{path}: there is no prompt {name!r}. Download the model again")
    return prompts[name]


def _read_mode(path: Path, config: Mapping[str, Any]) -> str:
    """The pooling in the config of a module; earlier versions have a switch for each kind."""
    switches = [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, value in config.items()
        if name.startswith("pooling_mode_") and value
    ]
    modes = config.get("pooling_mode") or switches or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ModelDirectoryError(
            f"{path} pools by {', '.join(map(str, modes))}; GraphAttn has one of {', '.join(POOLINGS)}. {FIX}"
        )
    return POOLINGS[modes[0]]

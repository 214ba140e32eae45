"""Read directories of models that ``transformers`` computes, and find out the relation of each layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from typing_extensions import override

from graphattn._schema import ALL, CAUSAL, WINDOW
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.exceptions import ConfigError, Hint, ModelDirectoryError, warn_caller
from graphattn.models.pretrained._architecture import FAMILIES
from graphattn.models.pretrained._checkpoint import find_weight_files, read_side_files
from graphattn.models.pretrained._contexts import LayerWatcher, watching
from graphattn.models.pretrained._interface import NAME, Heads, MaskEdges
from graphattn.models.pretrained._model import PretrainedDirectory, PretrainedModel
from graphattn.models.pretrained._packing import PackedModel, find_first_position, list_parameters
from graphattn.models.pretrained._tokenizer_config import check_templates, check_tokenizer, clear_segments
from graphattn.models.pretrained._transformers_architecture import (
    POSITIONS,
    TransformersArchitecture,
    choose_class,
    clean_config,
    find_length_key,
    first_line,
    import_transformers,
    make_config,
    make_model,
    take_encoder,
    without_bars,
)
from graphattn.models.pretrained._transformers_encoder import TransformersEncoder

_CONTEXT = "GraphAttn"
_FAR = 1 << 17
"""A position that no window of a family reaches from both ends of a text."""
_CHANGING_ROPES = ("dynamic", "longrope")
"""Rotary positions that depend on the longest text of a batch."""


class TransformersDirectory(PretrainedDirectory):
    """A directory of a family that ``transformers`` computes.

    The model is read at once, since only its states show whether texts can be packed.
    """

    architecture: TransformersArchitecture

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        family = str(config["model_type"])
        _check_config(folder, config)
        find_weight_files(folder)
        self.folder, self._model = folder, read_model(folder, family, config)
        self.architecture = describe_model(folder, family, config, self._model, read_side_files(folder))
        warn_caller(
            Hint(
                f"{folder}: a model of type {family!r} runs in transformers, which takes some seconds to start, and "
                f"computes at its speed, without padding. GraphAttn's own code, which needs neither, is for "
                f"{', '.join(FAMILIES)}"
            )
        )

    @override
    def read_vocabulary(self) -> PretrainedVocabulary:
        return read_tokenizer(self.folder, self.architecture, self._model)

    @override
    def read_encoder(
        self, *, heads: str | Mapping[str, int] | None, max_length: int | None, extend_positions: str
    ) -> PretrainedModel:
        return TransformersEncoder.from_model(
            self.architecture, self._model, heads=heads, max_length=max_length, extend_positions=extend_positions
        )


def _check_config(folder: Path, config: Mapping[str, Any]) -> None:
    if config.get("quantization_config") is not None:
        raise ModelDirectoryError(f"{folder}: its weights are rounded (quantization_config). Choose another model")
    for settings in (config, config.get("text_config") or {}):
        for name in ("rope_scaling", "rope_parameters"):
            kinds = settings.get(name) or {}
            kind = kinds.get("rope_type", kinds.get("type")) if isinstance(kinds, dict) else None
            if kind in _CHANGING_ROPES:
                raise ModelDirectoryError(
                    f"{folder}: its rotary positions are {kind!r}, so that states depend on the other texts of a "
                    "batch. Choose another model"
                )


def read_tokenizer(folder: Path, architecture: TransformersArchitecture, model: nn.Module) -> PretrainedVocabulary:
    """The tokenizer that ``transformers`` makes of a directory, as one of the library ``tokenizers``."""
    transformers = import_transformers(f"models of type {architecture.family!r} need")
    try:
        made = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each tokenizer fails in its own way
        raise ModelDirectoryError(f"{folder}: transformers has no tokenizer for it ({first_line(error)})") from error
    if getattr(made, "backend_tokenizer", None) is None:
        raise ModelDirectoryError(
            f"{folder}: its tokenizer, {type(made).__name__}, is none of the library tokenizers, which GraphAttn reads"
        )
    tokenizer = Tokenizer.from_str(made.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        check_tokenizer(tokenizer, architecture.vocabulary)
        if "token_type_ids" not in made.model_input_names or "token_type_ids" not in list_parameters(model):
            clear_segments(tokenizer)
        vocabulary = PretrainedVocabulary(tokenizer)
        vocabulary.truncates_left = made.truncation_side == "left"
        check_templates(vocabulary.special_tokens, architecture.vocabulary, architecture.types, architecture.max_length)
    except ValueError as error:
        raise ModelDirectoryError(f"{folder}: its tokenizer is damaged, or of another model ({error})") from error
    return vocabulary


class _RuleReader(LayerWatcher):
    """Names the relation of each layer's mask."""

    def __init__(self, model: nn.Module):
        super().__init__(model, _CONTEXT)
        self.relations: dict[int, str] = {}

    @override
    def choose(self, module: nn.Module, mask: MaskEdges) -> Heads | None:
        self.relations[self.number(module)] = name_rule(mask)
        return None


def name_rule(mask: MaskEdges) -> str:
    """The relation between the tokens of a text that a mask of packed texts allows."""
    if mask.draw is None:
        raise ConfigError("the edges of its layers are its own")
    positions = _FAR, _FAR + 1, _FAR + 7
    reaches = {_find_reach(mask.draw(1, 1, 2 * _FAR, q_offset=place)[0, 0, 0], place) for place in positions}
    (before, after), *others = reaches
    if not others and before is not None:
        if after == before:
            return ALL if before == _FAR else f"{WINDOW}:{2 * before + 1}"
        if after == 0:
            return CAUSAL if before == _FAR else f"{CAUSAL}:{before + 1}"
    raise ConfigError("the edges of its layers are neither all, nor windows, nor those to earlier tokens")


def _find_reach(visible: Tensor, position: int) -> tuple[int | None, int]:
    """How many tokens before and after a token it sees, ``_FAR`` for all; None if it does not see all in between."""
    seen = visible.nonzero().flatten()
    first, last = int(seen[0]), int(seen[-1])
    if len(seen) != last + 1 - first:
        return None, 0
    return _FAR if first == 0 else position - first, _FAR if last == len(visible) - 1 else last - position


def read_model(folder: Path, family: str, values: Mapping[str, Any]) -> nn.Module:
    """The model in a directory of ``transformers``, without code, pickles or downloads.

    Raises
    ------
    ModelDirectoryError
        when it cannot be read, or lacks weights
    """
    try:
        config = make_config(family, values)
    except ModelDirectoryError as error:
        raise ModelDirectoryError(f"{folder}: {error}") from error
    try:
        with without_bars():
            model, report = choose_class(family).from_pretrained(
                folder,
                config=config,
                attn_implementation=NAME,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:  # each family fails in its own way
        if isinstance(error, KeyError) and error.args == (NAME,):
            raise ModelDirectoryError(
                f"{folder}: models of type {family!r} cannot be read: transformers gives them one of its own classes "
                "of attention, none of which attends along edges. Choose a model of another family"
            ) from error
        raise ModelDirectoryError(f"{folder}: transformers cannot read it ({first_line(error)})") from error
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing or report["mismatched_keys"]:
        names = [*missing, *(str(key[0]) for key in report["mismatched_keys"])]
        raise ModelDirectoryError(f"{folder} lacks weights, or has others: {', '.join(names[:3])}. Download it again")
    return take_encoder(model).eval()


def describe_model(
    folder: Path, family: str, values: Mapping[str, Any], model: nn.Module, side_files: Mapping[str, Any]
) -> TransformersArchitecture:
    """The architecture of a model that was read.

    Raises
    ------
    ModelDirectoryError
        when the states of packed texts are not those of single texts, with the reason
    """
    whole: Any = model
    config = whole.config.get_text_config()
    try:
        first, rules = find_first_position(model, context=_CONTEXT), _RuleReader(model)
        word = config.vocab_size // 2
        with torch.no_grad(), watching(model, rules):
            states = PackedModel(model, first)([[word, word], [word]])
    except ConfigError as error:
        raise ModelDirectoryError(
            f"{folder}: models of type {family!r} cannot be read: {error}. Choose a model of another family"
        ) from error
    table = whole.get_input_embeddings()
    types = getattr(config, "type_vocab_size", 0) if "token_type_ids" in list_parameters(model) else 0
    positions = getattr(config, POSITIONS, None) or _FAR
    has_positions = _learns_positions(family, values, model, positions)
    return TransformersArchitecture(
        family=family,
        config=clean_config(dict(values)),
        vocabulary=table.weight.shape[0],
        embedding=table.weight.shape[1],
        hidden=states[0].shape[1],
        layers=rules.layers,
        heads=rules.heads,
        max_length=positions - first if has_positions else positions,
        types=types or 0,
        relations=tuple(rules.relations[layer] for layer in range(rules.layers)),
        first_position=first,
        has_positions=has_positions,
        side_files=side_files,
    )


def _learns_positions(family: str, values: Mapping[str, Any], model: nn.Module, positions: int) -> bool:
    """Whether a model for one more position has one more row in a tensor; tables of distances get two."""
    if positions == _FAR:
        return False
    with torch.device("meta"):
        longer = make_model(family, {**values, find_length_key(family): positions + 1})
    shapes = {name: weights.shape for name, weights in model.state_dict().items()}
    return any(
        weights.shape != shapes[name] and len(weights) == shapes[name][0] + 1
        for name, weights in longer.state_dict().items()
    )
